#!/usr/bin/env python3
"""Plants faults in model files and holds `torchlens diff` to naming them; and to calling the same what is the same.

Usage: run.py --torchlens FILE --zoo DIR [--all] [--keep DIR] [NAME…]      exit 77: skipped

NAME is that of a plant (wrong-eps:bert_tiny.pt2), or clean, renamed, changes, weights for all pairs of that kind.

Of each plant: exit 1; the first source is the operation that was changed; at most three sources, and each of them is it or lies
beside it, never downstream; an argument that was changed is named; the last line repeats the command. The fault must be large
enough to be one: the operation's own output differs by 100 times what rounding explains (relative L2 over
1.2e-7 * sqrt(elements summed)), measured here from the two recordings.

Of each clean pair (one model exported in two ways): exit 0, no difference, 95 % of the sites compared. Of renamed modules: exit 0,
95 % of the sites matched, every pair the right one. Of changes that keep the values: exit 0, and the change is named. Of
weights whose elements are the reference's in another order or nearly: how, at the weights and at the first source.
"""
import argparse
import array
import json
import math
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import model_file
import pairs
import plants

SKIPPED = 77
EPSILON = 2.0 ** -23


def run(torchlens, words, directory):
    return subprocess.run([torchlens, *words], cwd=directory, capture_output=True, text=True, errors="replace", timeout=300)


def record(torchlens, model, inputs, output, directory):
    answer = run(torchlens, ["trace", str(model), "--input", str(inputs), "-o", output, "--force", "-q"], directory)
    if answer.returncode:
        raise RuntimeError(f"{model}: trace ended with {answer.returncode}: {answer.stderr.strip()[:300]}")


def payloads(recording):
    """{label: (dtype, values)} of the float32 activations, in the order of the operations."""
    found = {}
    for path in sorted(recording.glob("tensors-*.safetensors")):
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__", None)
        for label, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
            begin, end = entry["data_offsets"]
            if entry["dtype"] == "F32":
                values = array.array("f")
                values.frombytes(data[8 + length + begin:8 + length + end])
                found[label] = (entry["shape"], values)
    return found


def relative_l2(reference, subject):
    if reference[0] != subject[0]:
        return math.inf
    difference = sum((b - a) ** 2 for a, b in zip(reference[1], subject[1]))
    return math.sqrt(difference / max(sum(a * a for a in reference[1]), 1e-300))


def magnitude(reference, subject):
    """(label, relative L2) of the first activation that differs."""
    wrong = payloads(subject)
    for label, value in payloads(reference).items():
        if label in wrong and value[1].tobytes() != wrong[label][1].tobytes():
            return label, relative_l2(value, wrong[label])
    return None, 0.0


def inputs_of(zoo, model):
    return zoo / (model.split(".")[0] + ".inputs.safetensors")


def check(torchlens, zoo, planted, directory):
    original, inputs = zoo / planted.model, inputs_of(zoo, planted.model)
    file = model_file.ModelFile(original)
    planted.change(file)
    changed = directory / ("planted_" + planted.model)
    file.write(changed)
    record(torchlens, original, inputs, "reference.tlspec", directory)
    record(torchlens, changed, inputs, "subject.tlspec", directory)
    label, size = magnitude(directory / "reference.tlspec", directory / "subject.tlspec")
    floor = EPSILON * math.sqrt(planted.reduced)
    faults = []
    if size < 100 * floor:
        return [f"the fault is too small to be one: {size:.2e} at {label}, rounding explains {floor:.2e}"]
    answer = run(torchlens, ["diff", "reference.tlspec", "subject.tlspec", "--json"], directory)
    if answer.returncode != 1:
        return [f"exit {answer.returncode}, not 1: {(answer.stdout + answer.stderr).strip()[-300:]}"]
    report = json.loads(answer.stdout)
    sources = [report["sites"][row] for row in report["sources"]]
    shown = ", ".join(f"{site['subject']['module']} {site['subject']['label']}" for site in sources) or "none"
    if not sources:
        faults.append("no source is named")
    else:
        first = sources[0]["subject"]
        if first["module"] != planted.module or first["func_name"] not in planted.func:
            faults.append(f"the first source is {first['module']} {first['func_name']} ({first['label']}), planted was "
                          f"{planted.module} {'/'.join(planted.func)} (first to differ: {label})")
        if planted.argument and planted.argument not in [item["name"] for item in sources[0]["arguments"]]:
            faults.append(f"the argument {planted.argument} is not named: {sources[0]['arguments']}")
    if len(sources) > 3 or any(site["subject"]["module"] != planted.module for site in sources):
        faults.append(f"{len(sources)} sources: {shown}")
    text = run(torchlens, ["diff", "reference.tlspec", "subject.tlspec"], directory)
    lines = text.stdout.rstrip().splitlines()
    if text.returncode != 1 or not lines or "torchlens diff reference.tlspec subject.tlspec" not in lines[-1]:
        faults.append(f"the last line does not repeat the command: {lines[-1:]}")
    if not any(line.startswith("DIFFERENT") for line in lines[-2:]):
        faults.append(f"the verdict is not at the end: {lines[-2:]}")
    if not any("FIRST SOURCE" in line and planted.module in line for line in lines):
        faults.append("the screen names another first source")
    return faults


def diff(torchlens, reference, subject, directory, expected):
    """(faults, report)"""
    answer = run(torchlens, ["diff", reference, subject, "--json"], directory)
    if answer.returncode not in (0, 1):
        return [f"exit {answer.returncode}: {(answer.stdout + answer.stderr).strip()[-300:]}"], None
    report = json.loads(answer.stdout)
    faults = []
    if answer.returncode != expected:
        faults.append(f"exit {answer.returncode}, not {expected}: {report['verdict']}")
    return faults, report


def check_clean(torchlens, zoo, pair, directory):
    for side, model in zip(("reference", "subject"), pair):
        record(torchlens, zoo / model, inputs_of(zoo, model), side + ".tlspec", directory)
    faults, report = diff(torchlens, "reference.tlspec", "subject.tlspec", directory, 0)
    if report:
        coverage = report["coverage"]
        if coverage["compared"] < 0.95 * coverage["total"]:
            faults.append(f"{coverage['compared']} of {coverage['total']} {coverage['unit']} compared")
        if report["sources"]:
            site = report["sites"][report["sources"][0]]
            faults.append(f"source {site['subject']['module']} {site['subject']['label']}, error {site['error']}")
    return faults


def check_renamed(torchlens, zoo, model, directory):
    file = model_file.ModelFile(zoo / model)
    names = pairs.rename_modules(file, 1)
    file.write(directory / model)
    record(torchlens, zoo / model, inputs_of(zoo, model), "reference.tlspec", directory)
    record(torchlens, directory / model, inputs_of(zoo, model), "subject.tlspec", directory)
    faults, report = diff(torchlens, "reference.tlspec", "subject.tlspec", directory, 0)
    if report:
        coverage = report["coverage"]
        if coverage["matched"] < 0.95 * coverage["total"]:
            faults.append(f"{coverage['matched']} of {coverage['total']} {coverage['unit']} matched")
        for site in report["sites"]:
            reference, subject = site["reference"], site["subject"]
            if reference["func_name"] in ("input", "output", "buffer"):
                continue  # their place is a role or an address
            right = pairs.renamed(reference["module"], names) == subject["module"] and reference["label"] == subject["label"]
            if not right:
                faults.append(f"wrong pair: {reference['module']} {reference['label']} with {subject['module']} {subject['label']}")
                break
    return faults


def check_second_relu(torchlens, zoo, directory):
    file = model_file.ModelFile(zoo / "smallconv.pt2")
    pairs.insert_second_relu(file)
    file.write(directory / "smallconv.pt2")
    inputs = inputs_of(zoo, "smallconv")
    record(torchlens, zoo / "smallconv.pt2", inputs, "reference.tlspec", directory)
    record(torchlens, directory / "smallconv.pt2", inputs, "subject.tlspec", directory)
    faults, report = diff(torchlens, "reference.tlspec", "subject.tlspec", directory, 0)
    if report:
        inserted = [site["func_name"] for change in report["changes"] if change["kind"] == "inserted" for site in change["subject"]]
        if inserted != ["relu"]:
            faults.append(f"one relu was inserted, the report says {report['changes']}")
    return faults


def check_exchanged(torchlens, zoo, directory):
    key = "model.encoder.layer.0.attention.self."
    file = model_file.ModelFile(zoo / "bert_tiny.pt2")
    pairs.exchange(file, key + "query.weight", key + "value.weight")
    file.write(directory / "bert_tiny.pt2")
    inputs = inputs_of(zoo, "bert_tiny")
    record(torchlens, zoo / "bert_tiny.pt2", inputs, "reference.tlspec", directory)
    record(torchlens, directory / "bert_tiny.pt2", inputs, "subject.tlspec", directory)
    faults, report = diff(torchlens, "reference.tlspec", "subject.tlspec", directory, 1)
    if report:
        exchanged = {site["module"] for change in report["changes"] if change["kind"] == "exchanged" for site in change["subject"]}
        if exchanged != {key + "query", key + "value"}:
            faults.append(f"query and value have each other's weights, the report says {report['changes']}")
        blamed = {report["sites"][row]["subject"]["module"] for row in report["sources"]}
        if not blamed or not blamed <= {key + "query", key + "value"}:
            faults.append(f"sources {sorted(blamed)}")
    return faults


def check_folded(torchlens, zoo, directory):
    """A frozen script has its batch norms folded into the convolutions."""
    inputs = inputs_of(zoo, "resnet_narrow")
    record(torchlens, zoo / "resnet_narrow.ts.pt", inputs, "reference.tlspec", directory)
    record(torchlens, zoo / "resnet_narrow.frozen.ts.pt", inputs, "subject.tlspec", directory)
    faults, report = diff(torchlens, "reference.tlspec", "subject.tlspec", directory, 0)
    if report:
        fused = [change for change in report["changes"] if change["kind"] == "fused"]
        if not any([site["func_name"] for site in change["reference"]] == ["conv2d", "batch_norm"] for change in fused):
            faults.append(f"no pair of convolution and batch norm is called fused: {[c['kind'] for c in report['changes']]}")
    return faults


def record_beside(torchlens, file, name, inputs, directory):
    """Writes the model and its recording into a directory of their own: values of weights are looked for beside a recording."""
    directory.mkdir()
    file.write(directory / name)
    record(torchlens, directory / name, inputs, "run.tlspec", directory)


def check_weights(torchlens, zoo, plant, directory):
    model, address, change, text = plant
    file = model_file.ModelFile(zoo / model)
    inputs = inputs_of(zoo, model)
    record_beside(torchlens, file, model, inputs, directory / "reference")
    change(file, address)
    record_beside(torchlens, file, model, inputs, directory / "subject")
    faults, report = diff(torchlens, "reference/run.tlspec", "subject/run.tlspec", directory, 1)
    if report:
        said = [(weight["reference"], weight["text"]) for weight in report["weights"]]
        if len(said) != 1 or said[0][0] != address or not said[0][1].startswith(text):
            faults.append(f"{address}: {text!r} is to be said, and was {said}")
        details = [detail for each in report["preconditions"] if each["name"] == "weights" for detail in each["details"]]
        if not any(text in detail for detail in details):
            faults.append(f"the weights do not tell: {details}")
        first = report["sites"][report["sources"][0]] if report["sources"] else {"arguments": []}
        if not any(text in argument["subject"] for argument in first["arguments"]):
            faults.append(f"the first source does not tell: {first['arguments']}")
    return faults


def check_quantised(torchlens, zoo, directory):
    """int8 by symmetric steps: SQNR as torch computes it from the two weights."""
    models = pathlib.Path(__file__).resolve().parent.parent / "models"
    for side, name in (("reference", "linear.ts.pt"), ("subject", "linear.quantised.ts.pt")):
        record_beside(torchlens, model_file.ModelFile(models / name), name, models / "linear.inputs.safetensors", directory / side)
    faults, report = diff(torchlens, "reference/run.tlspec", "subject/run.tlspec", directory, 1)
    if report:
        said = [(weight["relation"], round(weight["sqnr_db"], 2)) for weight in report["weights"]]
        if said != [("quantised", 48.33)]:
            faults.append(f"one quantised weight of 48.33 dB is to be said, and was {said}")
    return faults


def pair_checks(everything, names):
    """(name, check) of the pairs that were asked for."""
    wanted = [kind for kind in ("clean", "renamed", "changes", "weights") if not names or kind in names]
    checks = []
    if "clean" in wanted:
        chosen = pairs.CLEAN if everything or names else pairs.CLEAN[:pairs.SMALL_CLEAN]
        checks += [("clean:" + "+".join(pair), lambda *where, pair=pair: check_clean(*where[:2], pair, where[2])) for pair in chosen]
    if "renamed" in wanted:
        chosen = pairs.RENAMED if everything or names else pairs.RENAMED[:pairs.SMALL_RENAMED]
        checks += [("renamed:" + model, lambda *where, model=model: check_renamed(*where[:2], model, where[2])) for model in chosen]
    if "changes" in wanted:
        checks += [("inserted:smallconv.pt2", check_second_relu), ("exchanged:bert_tiny.pt2", check_exchanged),
                   ("folded:resnet_narrow", check_folded)]
    if "weights" in wanted:
        chosen = pairs.WEIGHTS if everything or names else pairs.WEIGHTS[:pairs.SMALL_WEIGHTS]
        checks += [(f"weights:{plant[0]}:{plant[3]}", lambda *where, plant=plant: check_weights(*where[:2], plant, where[2]))
                   for plant in chosen]
        checks.append(("quantised:linear", check_quantised))
    return checks


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("--zoo", required=True, type=pathlib.Path)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if not arguments.zoo.is_dir():
        print(f"skipped: {arguments.zoo} is not there")
        return SKIPPED
    torchlens, zoo = str(arguments.torchlens.resolve()), arguments.zoo.resolve()
    checks = [(name, lambda *where, item=item: check(*where[:2], item, where[2])) for name, item in plants.PLANTS.items()
              if (name in arguments.names if arguments.names else item.small or arguments.all)]
    checks += pair_checks(arguments.all, arguments.names)
    failed = 0
    for name, checked in checks:
        with tempfile.TemporaryDirectory(prefix="torchlens-plant-") as folder:
            directory = pathlib.Path(folder)
            if arguments.keep:
                directory = arguments.keep / re.sub(r"[^\w.+-]+", "-", name)
                directory.mkdir(parents=True, exist_ok=True)
            try:
                faults = checked(torchlens, zoo, directory)
            except (RuntimeError, AssertionError, KeyError, ValueError) as error:
                faults = [f"{type(error).__name__}: {error}"]
        failed += bool(faults)
        print(f"{'FAIL' if faults else 'ok  '} {name}", flush=True)
        for fault in faults:
            print(f"       {fault}")
    print(f"{len(checks)} checks, {failed} failed")
    return 1 if failed or not checks else 0


if __name__ == "__main__":
    sys.exit(main())
