#!/usr/bin/env python3
"""Runs models with branches on inputs for every arm and holds conditionals, arms, stacks and answers to what the source says.

Usage: run.py --torchlens FILE --shared DIR [NAME…]      NAME: part of "MODEL: VARIANT"; exit 77: skipped

What must come of each is in variants.py, or in reference/MODEL.json, which Python TorchLens wrote of the eager model. Beside that
every recording is held to what follows from its own tables: outcomes from fired arms, entry edges from edges and stacks.
"""
import argparse
import json
import pathlib
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import bounded  # noqa: E402
import safetensors  # noqa: E402
import variants  # noqa: E402

SKIPPED = 77
EDGES_SHOWN = 20  # of an arm, by `show`


class Check:
    def __init__(self, variant, torchlens, shared, directory):
        self.variant, self.torchlens, self.shared, self.directory = variant, torchlens, shared, directory
        self.faults = []

    def same(self, what, got, expected):
        if got != expected:
            self.faults.append(f"{what}: {got!r} where {expected!r} was expected")

    def words(self):
        words = []
        for name, value in self.variant.inputs.items():
            if isinstance(value, str):
                words += ["-i", f"{name}={self.shared / value}"]
            elif isinstance(value, tuple):
                sizes, element = value
                count = 1
                for size in sizes:
                    count *= size
                path = self.directory / f"{name}.safetensors"
                safetensors.write(path, {name: ("F32", sizes, struct.pack(f"<{count}f", *[element] * count))})
                words += ["-i", path.name]
            else:
                words += ["-i", f"{name}={json.dumps(value)}"]
        return words

    def run(self):
        words = ["trace", str(self.shared / self.variant.file), *self.words(), "-o", "run.tlspec", "-q"]
        done = bounded.run([self.torchlens, *words], self.directory, 120)
        if done.code != self.variant.code:
            self.faults.append(f"exit {done.code} where {self.variant.code} was expected: {done.stderr.strip()[:400]}")
            return self.faults
        self.ops = {row["label"]: row for row in self.rows("ops")}
        self.conditionals = {row["label"]: row for row in self.rows("conditionals")}
        self.arms = {}
        for row in self.rows("conditional_arms"):
            self.arms.setdefault(row["conditional"], {})[row["arm"]] = row
        self.bools, self.edges, self.branches = self.rows("bools"), self.rows("edges"), self.rows("branches")
        if self.variant.reference:
            self.against_reference()
        else:
            self.against_source()
        self.against_itself()
        return self.faults

    def rows(self, table):
        done = bounded.run([self.torchlens, "query", "run.tlspec", "--table", table, "--columns", "all", "--format", "json", "-q"],
                           self.directory)
        if done.code != 0:
            self.faults.append(f"query --table {table}: exit {done.code}: {done.stderr.strip()[:300]}")
            return []
        return json.loads(done.stdout)["rows"]

    def against_source(self):
        expected = self.variant.conditionals
        self.same("conditionals", sorted(self.conditionals), sorted(expected))
        for label, wanted in expected.items():
            row = self.conditionals.get(label)
            if not row:
                continue
            got = variants.Conditional(row["kind"], (row["line"], row["line_end"]), row["module"], row["outcome"], {
                name: (arm["test"], arm["evaluated"], arm["fired"]) for name, arm in self.arms.get(label, {}).items()},
                row["parent_arm"])
            self.same(label, got, wanted)
        for label, op in self.ops.items():
            self.same(f"stack of {label}", op["conditional_branch_stack"] or [], self.variant.stacks.get(label, []))
        self.same("Ops that stand in arms and are not there", sorted(set(self.variant.stacks) - set(self.ops)), [])
        self.same("bools", [(row["op"], row["context"], row["value"]) for row in self.bools], self.variant.bools)

    def against_reference(self):
        """Where the design document goes beyond that version (fall-through arms), it is followed."""
        model, name = self.variant.reference
        recorded = json.loads((self.shared / "reference" / f"{model}.json").read_text())["variants"][name]
        numbered = lambda label: label if label in self.ops else label.rsplit(":", 1)[0]  # noqa: E731
        for wanted in recorded["ops"]:
            label = numbered(wanted["label"])
            op = self.ops.get(label)
            if not op:
                self.faults.append(f"no Op {label}")
                continue
            stack = [arm for _, arm in wanted["conditional_branch_stack"]]
            stack += ["fallthrough"] if label == self.variant.falls_through else []
            self.same(f"stack of {label}", [entry.split(":")[1] for entry in op["conditional_branch_stack"] or []], stack)
            self.same(f"context of {label}", op["conditional_context_kind"], wanted["conditional_context_kind"])
            self.same(f"answer of {label}", op["bool_value"], wanted["bool_value"] if wanted["is_terminal_bool"] else None)
        self.same("number of Ops", len(self.ops), len(recorded["ops"]))
        self.same("conditionals", list(self.conditionals), [wanted["id"] for wanted in recorded["conditionals"]])
        for wanted, source in zip(recorded["conditionals"], recorded["conditional_records"]):
            row, arms = self.conditionals.get(wanted["id"]), self.arms.get(wanted["id"], {})
            if not row:
                continue
            self.same("kind", row["kind"], source["kind"])
            self.same("lines", [row["line"], row["line_end"]], source["if_stmt_span"])
            self.same("has_else", row["has_else"], wanted["has_else"])
            self.same("num_elifs", row["num_elifs"], wanted["num_elifs"])
            ranges = {name: [arm["line"], arm["line_end"]] for name, arm in arms.items() if name != "fallthrough"}
            self.same("arms", ranges, {name: [span[0], span[2]] for name, span in source["branch_ranges"].items()})
            kind = "fallthrough" if self.variant.falls_through else wanted["fired_arm_kind"]
            self.same("outcome", row["outcome"].split("_")[0], kind)
            if not self.variant.falls_through:
                self.same("fired_arm_index", row["fired_arm_index"], wanted["fired_arm_index"])

    def against_itself(self):
        for label, row in self.conditionals.items():
            fired = [name for name, arm in self.arms[label].items() if arm["fired"] > 0]
            self.same(f"outcome of {label}", row["outcome"], fired[0] if len(fired) == 1 else "several" if fired else "none")
            self.same(f"arms of {label}", row["arms"], list(self.arms[label]))
            self.entry_edges(label)
        for label, op in self.ops.items():
            stack = op["conditional_branch_stack"] or []
            self.same(f"depth of {label}", op["conditional_depth"], len(stack))
            for entry in stack:
                conditional, arm = entry.rsplit(":", 1)
                if self.arms.get(conditional, {}).get(arm, {"fired": 0})["fired"] < 1:
                    self.faults.append(f"{label} stands in {entry}, which did not run")
        answers = {}
        for row in self.bools:
            answers.setdefault(row["op"], (row["context"], row["value"]))
        self.same("first answers", {label: (op["conditional_context_kind"], op["bool_value"]) for label, op in self.ops.items()
                                    if op["bool_value"] is not None}, answers)

    def executions(self, op):
        """{execution of an arm that `op` ran in: "conditional:arm"}"""
        found, row = {}, self.ops[op]["branch"]
        while row is not None and row >= 0:
            found[row] = f"{self.branches[row]['conditional']}:{self.branches[row]['conditional_arm']}"
            row = self.branches[row]["parent"]
        return found

    def entry_edges(self, label):
        """`show` names the edges that lead into each arm: their child ran in it, and their parent did not run in that same turn of it."""
        shown = bounded.run([self.torchlens, "show", "run.tlspec", label, "--json"], self.directory)
        if shown.code != 0:
            self.faults.append(f"show {label}: exit {shown.code}: {shown.stderr.strip()[:300]}")
            return
        for arm in json.loads(shown.stdout)["record"]["arms"]:
            key = f"{label}:{arm['kind']}"
            entering = []
            for edge in self.edges:
                inside = self.executions(edge["parent"])
                if any(name == key and row not in inside for row, name in self.executions(edge["child"]).items()):
                    entering.append(f"{edge['parent']} -> {edge['child']}")
            listed = arm.get("entry_edges", [])
            self.same(f"entry edges of {key}", listed, entering[:len(listed)])
            self.same(f"number of entry edges of {key}", len(listed), min(len(entering), EDGES_SHOWN))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("--shared", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    shared = arguments.shared.resolve()
    if not (shared / "zoo").is_dir() or not (shared / "reference").is_dir():
        print(f"skipped: the reference files {shared} are not there")
        sys.exit(SKIPPED)
    count = failed = 0
    for variant in variants.VARIANTS:
        name = f"{pathlib.Path(variant.file).name.split('.')[0]}: {variant.name}"
        if arguments.names and not any(part in name for part in arguments.names):
            continue
        with tempfile.TemporaryDirectory(prefix="torchlens-branches-") as directory:
            faults = Check(variant, str(arguments.torchlens.resolve()), shared, pathlib.Path(directory)).run()
        count, failed = count + 1, failed + bool(faults)
        print(f"{name}: {'as the source says' if not faults else 'NOT as the source says'}", *faults, sep="\n  ", flush=True)
    print(f"{count} variants, {failed} failed")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
