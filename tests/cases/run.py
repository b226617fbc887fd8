#!/usr/bin/env python3
"""Runs one of the cases in cases.json on the binary and says what is not as it must be.

Usage: run.py --torchlens FILE --shared DIR CASE…        exit 77: skipped, the reference files are not there

A case is a fault that was reported in public; its files and what must come of them (caseNN.expect.json) lie in DIR/cases/out.
cases.json holds the command lines and what a program can check of each: exit class (of expect.json, or `class` with a reason
in `because`), code, words on stderr, outputs against caseNN.expected.safetensors, layers and their passes, saved activations,
statistics, the first non-finite value. A run of `diff` is held to what its JSON must say (comparisons.py).
"""
import argparse
import json
import pathlib
import re
import shutil
import sys
import tempfile

import bounded
import comparisons
import safetensors

HERE = pathlib.Path(__file__).resolve().parent
SKIPPED = 77
NOT_BUILT = "which this version does not run yet"
CLASSES = {"ok": 0, "difference": 1, "usage": 2, "artifact": 3, "refusal": 4, "execution": 5, "timeout": 124}
TIME_LIMIT = 20  # seconds of processor time, which tells a slow answer from a busy machine
PATIENCE = 120
MEMORY_LIMIT = 600  # megabytes; an engine that has loaded nothing takes about 120
OUTCOMES = {"difference": "aborted_nonfinite", "execution": "failed", "timeout": "interrupted"}


class Case:
    def __init__(self, name, description, torchlens, shared):
        self.name, self.description, self.torchlens = name, description, torchlens
        self.files = shared / "cases" / "out"
        self.expect = json.loads((self.files / f"case{name[:2]}.expect.json").read_text())
        self.faults = []

    def check(self):
        for number, run in enumerate(self.description["runs"]):
            with tempfile.TemporaryDirectory(prefix="torchlens-case-") as directory:
                self.directory = pathlib.Path(directory)
                self.where = " ".join(run["arguments"])
                before = len(self.faults)
                self.check_run(run, number == 0 and "variant" not in run)
                print(f"case {self.name}: {self.where}: {'as expected' if len(self.faults) == before else 'NOT as expected'}")
        return self.faults

    def fault(self, text):
        self.faults.append(f"{self.where}: {text}")

    def command(self, *words):
        return bounded.run([str(self.torchlens), *words], self.directory, 2 * PATIENCE)

    def path(self, word):
        """A word that names a file of the case means that file."""
        head, equals, tail = word.rpartition("=")
        file, colon, key = tail.partition(":")
        if not file.startswith("case") or not (self.files / file).exists():
            return word
        return head + equals + str(self.files / file) + colon + key

    def check_run(self, run, main):
        for name in run.get("directories", []):
            (self.directory / name).mkdir()
        words = [self.path(word) for word in run["arguments"]]
        if run.get("command") == "diff":
            comparisons.check(self, run, words, CLASSES[self.exit_class(run, main)], main)
            return
        done = self.command("trace", *words, "-o", "out.tlspec", "--save-outputs", "out.safetensors")
        self.stderr = done.stderr
        if NOT_BUILT in done.stderr:
            print(f"skipped: this build does not run exported programs: {done.stderr.splitlines()[0]}")
            sys.exit(SKIPPED)
        exit_class = self.exit_class(run, main)
        if done.code != CLASSES[exit_class]:
            self.fault(f"exit {done.code} where {CLASSES[exit_class]} ({exit_class}) was expected; stderr: {done.stderr.strip()[:600]}")
            return
        self.check_bounds(run, done)
        self.check_streams(run, main, exit_class)
        self.check_files(exit_class)
        if exit_class == "ok":
            self.check_outputs(run)
        if exit_class == "ok" or exit_class in OUTCOMES:
            self.check_trace(run, exit_class)

    def exit_class(self, run, main):
        """What expect.json says of this command line; `class` overrules it and needs a reason."""
        said = self.expect["exit_class"] if main else self.expect.get("variants", {}).get(run.get("variant", ""), "")
        allowed = {said.split()[0].rstrip(",:;")} if said else set()
        if main and "alternative_exit_class" in self.expect:
            allowed.add(self.expect["alternative_exit_class"].split()[0])
        if said.startswith("the same"):
            allowed = {self.expect["exit_class"], self.expect.get("alternative_exit_class", self.expect["exit_class"]).split()[0]}
        chosen = run.get("class") or self.expect["exit_class"]
        if allowed and chosen not in allowed and "because" not in run:
            sys.exit(f"cases.json: {self.name}: {run['arguments']}: class {chosen}, expect.json says {said}: give a reason")
        return chosen

    def check_bounds(self, run, done):
        seconds = run.get("seconds", self.expect.get("time_limit_s", TIME_LIMIT))
        megabytes = run.get("megabytes", MEMORY_LIMIT)
        if "bytes_per_operation" in run:  # an endless program records as fast as the machine runs it
            counted = re.search(r"after ([0-9]+) operations", done.stderr)
            megabytes = 200 + int(counted[1] if counted else 0) * run["bytes_per_operation"] / 2**20
        megabytes = min(megabytes, self.expect.get("memory_limit_mb", megabytes))
        if done.processor_seconds > seconds or done.seconds > PATIENCE:
            self.fault(f"took {done.processor_seconds:.1f} s of processor time in {done.seconds:.1f} s, the limit is {seconds}")
        if done.megabytes > megabytes:
            self.fault(f"took {done.megabytes:.0f} MB, the limit is {megabytes}")
        if "growth" in run:
            self.check_growth(run["growth"], done)

    def check_growth(self, growth, done):
        """Against the same model on an input of next to nothing: what the engine and the model take by themselves."""
        words = [self.path(word) for word in growth["against"]]
        small = self.command("trace", *words, "-o", "small.tlspec")
        if small.code != 0:
            self.fault(f"{' '.join(growth['against'])}: exit {small.code}: {small.stderr.strip()[:300]}")
            return
        shutil.rmtree(self.directory / "small.tlspec")
        if done.megabytes > small.megabytes + growth["megabytes"]:
            self.fault(f"took {done.megabytes:.0f} MB where {small.megabytes:.0f} + {growth['megabytes']} were allowed")

    def check_streams(self, run, main, exit_class):
        code = run.get("code")
        if exit_class != "ok" and not code:
            sys.exit(f"cases.json: {self.name}: {run['arguments']}: name the code")
        if code and f"error[{code}]: " not in self.stderr:
            self.fault(f"no error[{code}] in: {self.stderr.strip()[:600]}")
        wanted = run.get("stderr", []) + (self.expect.get("stderr_all", []) if main else [])
        for text in wanted:
            if text not in self.stderr:
                self.fault(f"{text!r} is not in: {self.stderr.strip()[:600]}")
        some = self.expect.get("stderr_any", []) if main else []
        if some and exit_class != "ok" and not any(text in self.stderr for text in some):
            self.fault(f"none of {some} in: {self.stderr.strip()[:600]}")
        for text in self.expect.get("stderr_not", []) + ["frame #", "terminate called", "Traceback"]:
            if text in self.stderr:
                self.fault(f"{text!r} is in: {self.stderr.strip()[:600]}")

    def check_files(self, exit_class):
        recorded = exit_class == "ok" or exit_class in OUTCOMES
        left = sorted(path.name for path in self.directory.iterdir() if not path.name.startswith("case"))
        expected = (["out.safetensors"] if exit_class == "ok" else []) + (["out.tlspec"] if recorded else [])
        if left != expected:
            self.fault(f"left {left} behind where {expected} was expected")
        must_not = self.expect.get("must_not_exist", [])
        for name in [must_not] if isinstance(must_not, str) else must_not:
            for path in (pathlib.Path(name), self.directory / name, self.files / name):
                if path.is_absolute() and path.exists():
                    self.fault(f"{path} was written")

    def check_outputs(self, run):
        saved = safetensors.read(self.directory / "out.safetensors")
        file = self.files / run.get("expected", f"case{self.name[:2]}.expected.safetensors")
        expected = safetensors.read(file) if file.exists() else {}
        keys = run.get("outputs", {key: key for key in expected if key.startswith("output")})
        if run.get("outputs") is None and expected and sorted(saved) != sorted(keys):
            self.fault(f"the outputs are {sorted(saved)}, {sorted(keys)} were expected")
        for key, reference in keys.items():
            if key not in saved:
                self.fault(f"no output {key}, there are {sorted(saved)}")
            elif found := safetensors.difference(saved[key], expected[reference]):
                self.fault(f"{key}: {found}")

    def show(self, *words):
        done = self.command("show", "out.tlspec", *words, "--json")
        if done.code != 0:
            self.fault(f"show {' '.join(words)}: exit {done.code}: {done.stderr.strip()[:300]}")
            return {}
        return json.loads(done.stdout)

    def check_trace(self, run, exit_class):
        screen = self.show()
        status = screen.get("outcome", {}).get("status")
        if status != OUTCOMES.get(exit_class, "complete"):
            self.fault(f"the outcome is {status}")
        if exit_class in OUTCOMES:
            self.check_marks(run)
        scalars = {output["role"]: output.get("value") for output in screen.get("outputs", [])}
        for role, value in run.get("scalars", {}).items():
            if scalars.get(role) != value:
                self.fault(f"{role} is {scalars.get(role)!r} where {value!r} was expected")
        self.check_layers(run)
        for key, fields in run.get("show", {}).items():
            record = self.show(key).get("record", {})
            for field, value in fields.items():
                if field == "values":
                    missing = [text for text in value if text not in record.get(field, "")]
                    if missing:
                        self.fault(f"{key}: {missing} not in its values: {record.get(field)}")
                elif record.get(field) != value:
                    self.fault(f"{key}: {field} is {record.get(field)!r} where {value!r} was expected")
        self.check_activations(run)
        self.check_statistics(run)
        if exit_class == "difference":
            self.check_first_nonfinite(screen)
        if "nonfinite" in run and screen.get("health", {}).get("nonfinite") != run["nonfinite"]:
            self.fault(f"health names {screen.get('health', {}).get('nonfinite')} where {run['nonfinite']} was expected")

    def check_marks(self, run):
        """A partial recording says so in whatever part of it is shown."""
        layer = run["holds"][0]
        for words in ((), ("--layers",), (layer,)):
            done = self.command("show", "out.tlspec", *words)
            if "PARTIAL" not in done.stdout:
                self.fault(f"show {' '.join(words)} does not mark the recording as partial")
            if words and self.show(*words).get("outcome", {}).get("status", "complete") == "complete":
                self.fault(f"show {' '.join(words)} --json does not mark the recording as partial")
        for layer in run["holds"]:
            self.show(layer)
        if "the recording up to there is kept in out.tlspec" not in self.stderr:
            self.fault(f"stderr does not say where the partial recording is: {self.stderr.strip()[:600]}")

    def check_layers(self, run):
        if "layers" not in run:
            return
        passes = {}
        for layer in self.show("--layers").get("layers", []):
            passes.setdefault(layer["func_name"], []).append(layer["num_passes"])
        for name, expected in run["layers"].items():
            if passes.get(name, []) != expected:
                self.fault(f"layers of {name} have {passes.get(name, [])} passes where {expected} were expected")

    def check_activations(self, run):
        if "activations" not in run:
            return
        saved = safetensors.read(self.directory / "out.tlspec" / "tensors-00000.safetensors")
        expected = safetensors.read(self.files / f"case{self.name[:2]}.expected.safetensors")
        for key, reference in run["activations"].items():
            if key not in saved:
                self.fault(f"no activation {key}, there are {sorted(saved)}")
            elif found := safetensors.difference(saved[key], expected[reference]):
                self.fault(f"activation {key}: {found}")

    def check_statistics(self, run):
        """The lines of stats.jsonl by label; `stats` of expect.json are by function or by the role of an output."""
        if "stats" not in run:
            return
        lines = [json.loads(line) for line in (self.directory / "out.tlspec" / "stats.jsonl").read_text().splitlines()]
        of_label = {line["label"]: line for line in lines}
        wanted = dict(run["stats"])
        for name, fields in self.expect.get("stats", {}).items():
            line = next((line for line in lines if name in (line.get("func_name"), line["tensor"])), {})
            wanted.setdefault(line.get("label", name), {}).update(fields)
        for label, fields in wanted.items():
            for field, value in fields.items():
                got = of_label.get(label, {}).get(field)
                got = got.removeprefix("torch.") if field == "dtype" and got else got
                if got != value:
                    self.fault(f"{label}: {field} is {got!r} where {value!r} was expected")

    def check_first_nonfinite(self, screen):
        """expect.json names the operation, its module, how many NaN and the index of the first."""
        outcome = screen.get("outcome", {})
        label = outcome.get("boundary_label", "")
        function = self.show(label).get("record", {}).get("func_name")
        if function != self.expect["first_nan_op"]:
            self.fault(f"the first non-finite value is that of {label} ({function}), not of {self.expect['first_nan_op']}")
        if outcome.get("module") != self.expect.get("first_nan_module", ""):
            self.fault(f"its module is {outcome.get('module')!r}")
        if not outcome.get("reason", "").startswith(f"{self.expect.get('nan_count', 1)} NaN of "):
            self.fault(f"the reason is {outcome.get('reason')!r}")
        index = json.dumps(self.expect.get("first_nan_index"), separators=(",", ":"))
        if index != "null" and not outcome.get("reason", "").endswith(f"first at {index}"):
            self.fault(f"the reason is {outcome.get('reason')!r}, {index} was expected")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("--shared", required=True, type=pathlib.Path)
    parser.add_argument("cases", nargs="+")
    arguments = parser.parse_args()
    if not (arguments.shared / "cases" / "out").is_dir():
        print(f"skipped: the reference files {arguments.shared / 'cases' / 'out'} are not there")
        sys.exit(SKIPPED)
    descriptions = json.loads((HERE / "cases.json").read_text())
    faults = []
    for name in arguments.cases:
        faults += Case(name, descriptions[name], arguments.torchlens.resolve(), arguments.shared.resolve()).check()
    for fault in faults:
        print(f"  {fault}")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
