#!/usr/bin/env python3
"""`torchlens query` in every machine-readable format, over every table of recordings of many kinds.

Usage: run.py --torchlens FILE --text-to-tlspec FILE [--zoo DIR] [NAME…]      NAME: of a recording

The recordings are made of tests/golden/inputs/*.trace and, where DIR is there, by running models of it.

JSON: the schema, the columns of `--list-columns`, in every row every one of them in that order and of the type that it states;
references to rows of other tables lead to rows, labels to Ops. jsonl, csv and md hold the same rows.
"""
import argparse
import csv
import io
import json
import pathlib
import subprocess
import sys
import tempfile

import json_schema

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import bounded  # noqa: E402

SCHEMA = json.loads((HERE.parents[1] / "schemas" / "query.schema.json").read_text())
INPUTS = HERE.parent / "golden" / "inputs"
TEXTS = ["net", "deep", "numbers", "early_return", "chain", "partial"]
MODELS = {"branch_net": ("branch_net.ts.pt", ["-i", "x=branch_net.inputs.safetensors:in.000", "-i", "flag=true"]),
          "script_rnn": ("script_rnn.ts.pt", ["-i", "x=script_rnn.inputs.safetensors:in.000", "-i", "limit=0.6", "--save", "sample=3"]),
          "train_bn": ("train_bn.ts.pt", ["-i", "train_bn.inputs.safetensors", "--train"]),
          "hop_cond": ("hop_cond.pt2", ["-i", "hop_cond.inputs.safetensors"]),
          "quant_dynamic": ("quant_dynamic.ts.pt", ["-i", "quant_dynamic.inputs.safetensors", "--save", "none"]),
          "transformer_encoder": ("transformer_encoder.pt2", ["-i", "transformer_encoder.inputs.safetensors"])}
ENDS = {"end", None}  # of a range of Ops that reaches to the last one


def pairs_once(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError(f"a key twice in {keys}")
    return dict(pairs)


def no_constant(name):
    raise ValueError(f"{name} is no JSON")


def parse(text):
    return json.loads(text, object_pairs_hook=pairs_once, parse_constant=no_constant)


def fits(value, kind):
    """Whether a cell of JSON is of the type that --list-columns states."""
    if value is None:
        return True
    if kind == "bool":
        return isinstance(value, bool)
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool) or value in ("nan", "inf", "-inf")
    if kind in ("text", "dtype"):
        return isinstance(value, str)
    return isinstance(value, list) and all(fits(item, "integer" if kind == "integers" else "text") and item is not None
                                           for item in value)


class Recording:
    def __init__(self, torchlens, path):
        self.torchlens, self.path, self.faults, self.tables = torchlens, path, [], {}

    def fault(self, text):
        if len(self.faults) < 20:
            self.faults.append(text)

    def query(self, *words):
        done = bounded.run([self.torchlens, "query", *words, "-q"], self.path.parent, 60)
        if done.code != 0:
            self.fault(f"query {' '.join(words)}: exit {done.code}: {done.stderr.strip()[:300]}")
            return None
        return done.stdout

    def check(self, names):
        for name in names:
            self.check_table(name)
        if len(self.tables) != len(names):
            return self.faults
        for name, (columns, rows) in self.tables.items():
            for column in columns:
                self.check_references(name, column, rows)
        return self.faults

    def check_table(self, name):
        listed = self.query("--table", name, "--list-columns", "--format", "json")
        text = self.query(self.path.name, "--table", name, "--columns", "all", "--format", "json")
        if listed is None or text is None:
            return
        try:
            listed, document = parse(listed), parse(text)
        except ValueError as error:
            self.fault(f"{name}: {error}")
            return
        found = json_schema.faults(listed, SCHEMA, SCHEMA) + json_schema.faults(document, SCHEMA, SCHEMA)
        if found:
            self.faults += [f"{name}: {text}" for text in found[:5]]
            return
        columns, rows = document["columns"], document["rows"]
        if columns != listed["columns"]:
            self.fault(f"{name}: the columns are not those of --list-columns")
        if document["table"] != name or document["matched"] != len(rows):
            self.fault(f"{name}: table {document['table']!r}, matched {document['matched']}, {len(rows)} rows")
        if not self.check_rows(name, columns, rows):
            return
        self.check_formats(name, [column["name"] for column in columns], rows)
        self.tables[name] = (columns, rows)

    def check_rows(self, name, columns, rows):
        names = [column["name"] for column in columns]
        for number, row in enumerate(rows):
            if list(row) != names:
                self.fault(f"{name} row {number}: keys {list(row)} where {names} were expected")
                return False
            for column in columns:
                if not fits(row[column["name"]], column["type"]):
                    self.fault(f"{name} row {number}: {column['name']} is {row[column['name']]!r}, no {column['type']}")
        return True

    def check_formats(self, name, names, rows):
        words = [self.path.name, "--table", name, "--columns", "all", "--format"]
        lines = self.query(*words, "jsonl")
        try:
            if lines is not None and [parse(line) for line in lines.splitlines()] != rows:
                self.fault(f"{name}: jsonl has other rows than json")
        except ValueError as error:
            self.fault(f"{name}: jsonl: {error}")
        text = self.query(*words, "csv")
        if text is not None:
            cells = list(csv.reader(io.StringIO(text)))
            if not cells or cells[0] != names or len(cells) != len(rows) + 1 or any(len(line) != len(names) for line in cells):
                self.fault(f"{name}: csv has a head of {cells[:1]} and {len(cells) - 1} rows, {len(rows)} were expected")
            else:
                self.check_csv(name, names, cells[1:], rows)
        table = self.query(*words, "md")
        if table is not None and rows and len(table.splitlines()) != len(rows) + 2:
            self.fault(f"{name}: md has {len(table.splitlines())} lines for {len(rows)} rows")

    def check_csv(self, name, names, lines, rows):
        """Numbers to the last digit; none is an empty cell."""
        for number, (line, row) in enumerate(zip(lines, rows)):
            for key, cell in zip(names, line):
                value = row[key]
                if value is None and cell != "" or isinstance(value, int) and not isinstance(value, bool) and cell != str(value):
                    self.fault(f"{name} row {number}: {key} is {cell!r} in csv and {value!r} in json")
                if isinstance(value, float) and float(cell) != value:
                    self.fault(f"{name} row {number}: {key} is {cell!r} in csv and {value!r} in json")

    def check_references(self, name, column, rows):
        unit, key = column["unit"], column["name"]
        if unit.startswith("row of "):
            target = unit[len("row of "):]
            if target not in self.tables:
                self.fault(f"{name}.{key}: there is no table {target}")
                return
            size = len(self.tables[target][1])
            past = key.endswith("_begin")  # an empty range may begin at the end
            for row in rows:
                if row[key] is not None and not -1 <= row[key] < size + past:
                    self.fault(f"{name}.{key} is {row[key]}, {target} has {size} rows")
                    return
        elif unit == "label":
            known = {row[k] for t, k in (("ops", "label"), ("layers", "layer_label"), ("conditionals", "label")) for row in self.tables[t][1]}
            for row in rows:
                for label in row[key] if isinstance(row[key], list) else [row[key]]:
                    if label not in known and label not in ENDS:
                        self.fault(f"{name}.{key} is {label!r}, which is nothing in this recording")
                        return


def tables(torchlens, directory):
    """Their names, as the message about one that does not exist has them."""
    done = bounded.run([torchlens, "query", "--table", "no such table", "--list-columns"], directory)
    hint = next(line for line in done.stderr.splitlines() if line.startswith("hint: the tables are "))
    return [name.strip() for name in hint[len("hint: the tables are "):].split(",")]


def recordings(arguments, directory):
    for name in TEXTS:
        path = directory / f"{name}.tlspec"
        subprocess.run([arguments.text_to_tlspec, INPUTS / f"{name}.trace", path], check=True, cwd=INPUTS)
        yield path
    if not arguments.zoo or not arguments.zoo.is_dir():
        print("no models are run: " + (f"{arguments.zoo} is not there" if arguments.zoo else "--zoo was not given"))
        return
    zoo = arguments.zoo.resolve()
    for name, (file, words) in MODELS.items():
        path = directory / f"{name}.tlspec"
        placed = [word.replace(f"{name}.inputs", f"{zoo}/{name}.inputs") for word in words]
        done = bounded.run([arguments.torchlens, "trace", str(zoo / file), *placed, "-o", path.name, "-q"], directory, 120)
        if done.code != 0:
            sys.exit(f"{file}: exit {done.code}: {done.stderr.strip()[:400]}")
        yield path


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--text-to-tlspec", required=True, type=lambda text: str(pathlib.Path(text).resolve()))
    parser.add_argument("--zoo", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    failed = count = 0
    with tempfile.TemporaryDirectory(prefix="torchlens-tables-") as directory:
        names = tables(arguments.torchlens, directory)
        print(f"{len(names)} tables")
        for path in recordings(arguments, pathlib.Path(directory)):
            if arguments.names and path.stem not in arguments.names:
                continue
            recording = Recording(arguments.torchlens, path)
            faults = recording.check(names)
            rows = sum(len(rows) for _, rows in recording.tables.values())
            filled = sum(bool(rows) for _, rows in recording.tables.values())
            count, failed = count + 1, failed + bool(faults)
            print(f"{path.stem}: {rows} rows in {filled} tables{': as expected' if not faults else ''}", *faults, sep="\n  ", flush=True)
    print(f"{count} recordings, {failed} failed")
    sys.exit(1 if failed or not count else 0)


if __name__ == "__main__":
    main()
