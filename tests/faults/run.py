#!/usr/bin/env python3
"""Plants faults into models, records both versions and checks that `torchlens diff` names the planted place.

Usage: run.py --torchlens FILE [--recorder FILE] [--work DIR] [--formats script,trace,export] [NAME …]

--recorder is the executable that records (one with its LibTorch engine beside it); default: the one of --torchlens. Needs torch
and safetensors. For every plant: exit 1, the first source is the planted place, at most three sources. Clean pairs (the same
model in two formats, and under other names): exit 0.
"""
import argparse
import itertools
import pathlib
import re
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file

import models
import zoo


def save(model, example, path, form):
    if form == "script":
        torch.jit.script(model).save(str(path))
    elif form == "trace":
        torch.jit.trace(model, example, check_trace=False).save(str(path))
    else:
        torch.export.save(torch.export.export(model, (example,)), str(path))


class Bench:
    def __init__(self, arguments, work):
        self.arguments = arguments
        self.work = work
        self.failures = []
        self.checked = 0

    def recording(self, model, name, inputs, form):
        suffix = "pt2" if form == "export" else "pt"
        path = self.work / f"{name}.{form}.{suffix}"
        target = self.work / f"{name}.{form}.tlspec"
        if not target.exists():
            example = models.INPUTS[inputs.stem]()
            save(model, example, path, form)
            subprocess.run([self.arguments.recorder, "trace", path, "--input", inputs, "-o", target, "-q", "--threads", "1"],
                           check=True, stdout=subprocess.DEVNULL)
        return target

    def inputs(self, name):
        path = self.work / f"{name}.safetensors"
        if not path.exists():
            torch.manual_seed(11)
            save_file({"x": models.INPUTS[name]()}, path)
        return path

    def diff(self, reference, subject, *options):
        done = subprocess.run([self.arguments.torchlens, "diff", reference, subject, *options], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def note(self, name, good, text):
        self.checked += 1
        if not good:
            self.failures.append(name)
            print(f"--- {name}\n{text}")

    def plants(self):
        for (name, fault, plant, expected), form in itertools.product(models.PLANTS, self.arguments.formats):
            case = f"{name}.{fault}.{form}"
            if self.arguments.names and not any(part in case for part in self.arguments.names):
                continue
            inputs = self.inputs(name)
            reference = self.recording(models.build(name), name, inputs, form)
            faulty = models.build(name)
            plant(faulty)
            subject = self.recording(faulty.eval(), f"{name}.{fault}", inputs, form)
            code, text = self.diff(reference, subject)
            found = re.search(r"^FIRST SOURCE  (\S+)", text, re.M)
            sources = re.search(r"^\S+ +(\d+) sources?:", text, re.M)
            place = found.group(1) if found else ""
            good = code == 1 and any(place == path or place.startswith(path + ".") for path in expected)
            good = good and sources is not None and int(sources.group(1)) <= 3
            self.note(case, good, text)

    def wanted(self, case):
        return not self.arguments.names or any(part in case for part in self.arguments.names)

    def trace_file(self, path, inputs):
        target = self.work / (path.name + ".tlspec")
        if not target.exists():
            done = subprocess.run([self.arguments.recorder, "trace", path, "--input", inputs, "-o", target, "-q", "--threads",
                                   "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            if done.returncode != 0:
                return None
        return target

    def judge_plant(self, case, reference, subject, expected):
        code, text = self.diff(reference, subject)
        found = re.search(r"^FIRST SOURCE  (\S+)", text, re.M)
        sources = re.search(r"^\S+ +(\d+) sources?:", text, re.M)
        place = found.group(1) if found else ""
        # The weights of a module that is never called are read by an operation of the module around it.
        good = code == 1 and (place == expected or place.startswith(expected + ".") or expected.startswith(place + "."))
        self.note(case, good and sources is not None and int(sources.group(1)) <= 3, f"planted in {expected}\n{text}")

    def zoo(self):
        """Files of a folder of models and inputs, if one was given."""
        if not self.arguments.zoo:
            return
        folder = pathlib.Path(self.arguments.zoo)
        for name, fault in itertools.product(zoo.WEIGHT_MODELS, zoo.WEIGHT_FAULTS):
            for form in ("ts", "trace"):
                case = f"{name}.{form}.{fault}"
                source = folder / f"{name}.{form}.pt"
                inputs = folder / f"{name}.inputs.safetensors"
                if not source.exists() or not self.wanted(case):
                    continue
                target = self.work / f"{case}.pt"
                expected = zoo.plant_weight(source, target, fault)
                pair = expected is not None and [self.trace_file(path, inputs) for path in (source, target)]
                if pair and all(pair):
                    self.judge_plant(case, *pair, expected)
        for file, operator, argument, value in zoo.ARGUMENT_FAULTS:
            case = f"{file}.{operator}.{argument}"
            source = folder / file
            if not source.exists() or not self.wanted(case):
                continue
            target = self.work / f"{case}.pt2"
            expected = zoo.plant_argument(source, target, operator, argument, value)
            inputs = folder / f"{file.split('.')[0]}.inputs.safetensors"
            pair = expected is not None and [self.trace_file(path, inputs) for path in (source, target)]
            if pair and all(pair):
                self.judge_plant(case, *pair, expected)

    def clean_pairs(self):
        for name in models.CLASSES:
            for first, second in itertools.combinations(self.arguments.formats, 2):
                case = f"{name}.clean.{first}.{second}"
                if self.arguments.names and not any(part in case for part in self.arguments.names):
                    continue
                inputs = self.inputs(name)
                pair = [self.recording(models.build(name), name, inputs, form) for form in (first, second)]
                code, text = self.diff(*pair, "--min-coverage", "0.95")
                self.note(case, code == 0, text)

    def renamed(self):
        for form in self.arguments.formats:
            case = f"vit.renamed.{form}"
            if self.arguments.names and not any(part in case for part in self.arguments.names):
                continue
            inputs = self.inputs("vit")
            reference = self.recording(models.build("vit"), "vit", inputs, form)
            subject = self.recording(models.Renamed(models.build("vit")).eval(), "vit.renamed", inputs, form)
            code, text = self.diff(reference, subject, "--min-coverage", "0.95")
            self.note(case, code == 0, text)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True)
    parser.add_argument("--recorder")
    parser.add_argument("--work")
    parser.add_argument("--zoo", help="folder of NAME.ts.pt, NAME.trace.pt, NAME.pt2 and NAME.inputs.safetensors")
    parser.add_argument("--formats", type=lambda text: text.split(","), default=["script", "trace", "export"])
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    arguments.recorder = arguments.recorder or arguments.torchlens
    with tempfile.TemporaryDirectory(prefix="torchlens-faults-") as scratch:
        work = pathlib.Path(arguments.work or scratch)
        work.mkdir(parents=True, exist_ok=True)
        bench = Bench(arguments, work)
        bench.plants()
        bench.clean_pairs()
        bench.renamed()
        bench.zoo()
    print(f"{bench.checked} comparisons, {len(bench.failures)} wrong")
    for name in bench.failures:
        print("  " + name)
    sys.exit(1 if bench.failures else 0)


if __name__ == "__main__":
    main()
