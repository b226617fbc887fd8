#!/usr/bin/env python3
"""Eager models under the Python recorder, then `torchlens diff` against their files: the same, with nearly all compared.

Usage: diff_test.py --torchlens FILE --recorders DIR --reference DIR [NAME…]      exit 77: without torch

The models are those of reference/*.py, whose files lie in reference/artifacts (same weights, same seeded inputs), and those of
tests/bench, which are written here as script, trace and exported program. Every one is also compared with a weight changed, which has
to be found.
"""
import argparse
import importlib.util
import itertools
import json
import pathlib
import subprocess
import sys
import tempfile
import warnings

try:
    import torch
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)

HERE = pathlib.Path(__file__).resolve().parent
LEAST_SHARE = 0.95
# Tracing ran the model once, which counts its calls in a buffer: the output of the file is larger by one.
COUNTED = {("buffers_bn", "trace.pt")}
PATIENCE = 300


def load(path):
    spec = importlib.util.spec_from_file_location("model_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def reference_models(directory):
    """(name, model, inputs, {format: file}) of those that are modules."""
    for source in sorted(directory.glob("*.py")):
        module = load(source)
        files = {suffix: directory / "artifacts" / f"{source.stem}.{suffix}" for suffix in ("script.pt", "trace.pt", "export.pt2")}
        files = {suffix: file for suffix, file in files.items() if file.exists()}
        if files and isinstance(model := module.build(), torch.nn.Module):
            yield source.stem, model, module.inputs(), files


def bench_models(directory, wanted):
    bench = load(HERE.parent / "bench" / "make_models.py")
    torch.manual_seed(0)
    models = {"cnn": (bench.SmallCnn(), torch.randn(4, 3, 32, 32)), "encoder": (bench.Encoder(), torch.randint(0, 1000, (2, 64))),
              "mlp100": (bench.TinyMlp(), torch.randn(4, 32)), "resnet": (bench.ResNet18(), torch.randn(1, 3, 64, 64))}
    for name, (model, given) in models.items():
        if wanted and name not in wanted:
            continue
        model.eval()
        files = {suffix: directory / f"{name}.{suffix}" for suffix in ("script.pt", "trace.pt", "export.pt2")}
        torch.jit.script(model).save(str(files["script.pt"]))
        torch.jit.trace(model, (given,)).save(str(files["trace.pt"]))
        torch.export.save(torch.export.export(model, (given,)), str(files["export.pt2"]))
        yield name, model, (given,), files


class Comparison:
    def __init__(self, torchlens, record, directory):
        self.torchlens, self.record, self.directory = torchlens, record, directory

    def run(self, name, model, given):
        with self.record(model, self.directory / f"{name}.tlspec", force=True, inputs=self.directory / f"{name}.safetensors", seed=0):
            model(*given)

    def diff(self, name, file):
        """(exit code, report, faults)"""
        done = subprocess.run([self.torchlens, "diff", f"{name}.tlspec", str(file), "--input", f"{name}.safetensors", "--json"],
                              cwd=self.directory, capture_output=True, text=True, errors="replace", timeout=PATIENCE)
        if done.returncode not in (0, 1):
            return done.returncode, None, [f"exit {done.returncode}: {done.stderr.strip()[-300:] or done.stdout[-300:]}"]
        report = json.loads(done.stdout)
        coverage = report["coverage"]
        faults = []
        if coverage["share"] < LEAST_SHARE:
            faults.append(f"{coverage['compared']} of {coverage['total']} {coverage['unit']} compared")
        inputs = {entry["name"]: entry for entry in report["preconditions"]}.get("inputs", {})
        if inputs.get("agreement") != "same":
            faults.append(f"the inputs are {inputs}")
        return done.returncode, report, faults

    def clean(self, name, file, counted):
        code, report, faults = self.diff(name, file)
        arguments = [f"{site['name']}: {argument['name']} {argument['reference']} against {argument['subject']}"
                     for site in (report or {"sites": ()})["sites"] for argument in site["arguments"]]
        if arguments and not counted:
            faults.append("differing arguments: " + "; ".join(arguments[:5]))
        if report and counted:
            source = report["sites"][report["sources"][0]] if report["sources"] else None
            if code != 1 or not source or not source["name"].endswith("self") or abs(source["metrics"]["max_abs"] - 1) > 1e-5:
                faults.append(f"exit {code}, {report['verdict']}")
        elif report and (code != 0 or report["sources"] or not report["verdict"].startswith("SAME ")):
            faults.append(f"exit {code}, {report['verdict']}")
        return faults

    def changed(self, name, model, given, file):
        """With one weight of the eager model changed by 1 %, the same file is another model."""
        weights = [weight for weight in model.parameters() if weight.dtype.is_floating_point]
        if not weights:
            return []
        with torch.no_grad():
            weights[0].mul_(1.01).add_(0.01)
        self.run(name, model, given)
        code, report, faults = self.diff(name, file)
        if report and (code != 1 or not report["verdict"].startswith("DIFFERENT ")):
            faults.append(f"exit {code}, {report['verdict']} with a weight changed")
        return faults


def named_constants(comparison, directory):
    """A port whose norm and activation were built with other constants than the eager model: they are named, in all formats."""
    def build(eps, approximate):
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.LayerNorm(8, eps=eps), torch.nn.GELU(approximate=approximate)).eval()

    given, port = torch.randn(2, 8), build(1e-3, "tanh")
    files = {suffix: directory / f"constants.{suffix}" for suffix in ("script.pt", "trace.pt", "export.pt2")}
    torch.jit.script(port).save(str(files["script.pt"]))
    torch.jit.trace(port, (given,)).save(str(files["trace.pt"]))
    torch.export.save(torch.export.export(port, (given,)), str(files["export.pt2"]))
    comparison.run("constants", build(1e-6, "none"), (given,))
    expected = [("1", "eps", "1e-06", "0.001"), ("2", "approximate", '"none"', '"tanh"')]
    faults = []
    for suffix, file in files.items():
        report = comparison.diff("constants", file)[1] or {"sites": []}
        found = [(site["subject"]["module"], argument["name"], argument["reference"], argument["subject"])
                 for site in report["sites"] for argument in site["arguments"]]
        if sorted(set(found)) != expected:
            faults.append(f"{suffix}: {found}")
    return faults


def main():
    parser = argparse.ArgumentParser()
    for option in ("--torchlens", "--recorders", "--reference"):
        parser.add_argument(option, required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    sys.path.insert(0, str(arguments.recorders.resolve()))
    from torchlens_recorder import record
    count = failed = 0
    with tempfile.TemporaryDirectory(prefix="torchlens-recorded-") as directory:
        comparison = Comparison(str(arguments.torchlens.resolve()), record, pathlib.Path(directory))
        models = itertools.chain(reference_models(arguments.reference.resolve()),
                                 bench_models(pathlib.Path(directory), arguments.names))
        for name, model, given, files in models:
            if arguments.names and name not in arguments.names:
                continue
            comparison.run(name, model, given)
            faults = [f"{suffix}: {text}" for suffix, file in files.items()
                      for text in comparison.clean(name, file, (name, suffix) in COUNTED)]
            faults += comparison.changed(name, model, given, files["script.pt"])
            count, failed = count + 1, failed + bool(faults)
            print(f"{name}: {'the same in ' + ', '.join(files) if not faults else ''}", *faults, sep="\n  " if faults else "", flush=True)
        faults = named_constants(comparison, pathlib.Path(directory)) if not arguments.names else []
        failed += bool(faults)
        print("constants:", *faults or ["named in script.pt, trace.pt, export.pt2"], sep="\n  " if faults else " ")
    print(f"{count} models, {failed} failed")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
