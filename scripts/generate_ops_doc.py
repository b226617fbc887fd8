#!/usr/bin/env python3
"""Writes the tables of docs/ops.md from the rows of lib/ops/op_table.cpp, and that of docs/cost.md from the groups of
lib/ops/flop_rules.cpp.

usage: generate_ops_doc.py [--check] [ROOT]

--check changes nothing and exits 1 when a document and its table differ. ROOT is the project's root (default: the
parent of this script's directory).
"""
import argparse
import difflib
import pathlib
import re
import sys

STRING = r'"(?:[^"\\]|\\.)*"'
CONSTANT = re.compile(rf"constexpr std::string_view (\w+) =\s*((?:{STRING}\s*)+);")
ROW = re.compile(rf"\{{(\.name = (?:{STRING}|[^{{}}\"])*)\}}")
FIELD = re.compile(rf"\.(\w+) =\s*((?:{STRING}\s*)+|bits\([\d, ]+\)|\w+)")
FIELDS = {"name", "func_name", "hidden_writes", "hidden_writes_if", "uninitialised", "top_level_calls", "why"}
GROUP = re.compile(
    rf"\{{\{{(k\w+), (\d+)\}},\s*(k\w+),\s*((?:{STRING}\s*)+)(?:,\s*((?:{STRING}\s*)+))?\}},")
# What an operation costs in words, by formula; {} is the number of the group.
FORMULAS = {
    "kZero": "0",
    "kGather": "0",
    "kOverwrite": "0",
    "kPerOutput": "{} × output elements",
    "kPerInput": "{} × input elements",
    "kPerArgument": "elements of argument {}",
    "kLinear": "2·out·(input features), + out with a bias, + {}·out",
    "kConvolution": "2·out·(Cin/groups)·∏k, + out with a bias",
    "kTransposedConvolution": "2·in·(Cout/groups)·∏k, + out with a bias",
    "kMatmul": "2·out·K",
    "kAddMatmul": "2·M·K·N a batch, + out",
    "kAttention": "2·S·D + 6·S + 2·S·Dv, S = scores",
    "kPool": "out·∏k, {} axes",
    "kSort": "out·log2(length of the axis)",
    "kEinsum": "2·∏ sizes of all letters",
    "kLstm": "2·N·weights, + N·biases, + 32·N·hidden",
    "kGru": "2·N·weights, + N·biases, + 21·N·hidden",
    "kRnnTanh": "2·N·weights, + N·biases, + 7·N·hidden",
    "kRnnRelu": "2·N·weights, + N·biases, + 2·N·hidden",
}
SOURCES = {"kTorchLens": "TorchLens", "kComposed": "composed"}
SECTION = re.compile(r"(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def join_literals(text):
    return "".join(literal[1:-1] for literal in re.findall(STRING, text))


def parse_rows(source):
    """The rows of kOps, each a dict of the fields it states; raises ValueError on anything not understood."""
    constants = {name: join_literals(text) for name, text in CONSTANT.findall(source)}
    table = source[source.index("kOps[] = {"):source.index("\n};", source.index("kOps[] = {"))]
    rows = []
    for body in ROW.findall(table):
        row = {}
        for field, value in FIELD.findall(body):
            value = value.strip()
            if field not in FIELDS:
                raise ValueError(f"unknown field {field} in row {body}")
            if value.startswith('"'):
                row[field] = join_literals(value)
            elif value.startswith("bits("):
                row[field] = [int(position) for position in value[5:-1].split(",")]
            elif value in constants:
                row[field] = constants[value]
            elif value == "true" or value.isdigit():
                row[field] = value
            else:
                raise ValueError(f"value {value} of {field} is not understood")
        rows.append(row)
    if len(rows) != table.count(".name ="):
        raise ValueError(f"{table.count('.name =')} rows in the table, {len(rows)} understood")
    return rows


def markdown_table(header, lines):
    rule = "|".join("---" for _ in header)
    return "".join(f"| {' | '.join(cells)} |\n" if cells else f"|{rule}|\n" for cells in [header, None, *lines])


def code_list(text):
    return ", ".join(f"`{call}`" for call in text.split(","))


def positions(row):
    written = ", ".join(str(position) for position in row["hidden_writes"])
    condition = f"argument {row['hidden_writes_if']} is true" if "hidden_writes_if" in row else "always"
    return written, condition


def why_by_name(rows):
    """One line for each (functional name, reason) with the operators that share it."""
    groups = {}
    for row in rows:
        if "func_name" in row:
            reason = row.get("why", "") if row.keys() <= {"name", "func_name", "why"} else ""
            groups.setdefault((row["func_name"], reason), []).append(row["name"])
    return [[f"`{name}`", ", ".join(f"`{op}`" for op in ops), why] for (name, why), ops in sorted(groups.items())]


def render_sections(rows):
    return {
        "func-names": markdown_table(["functional name", "operators", "why"], why_by_name(rows)),
        "hidden-writes": markdown_table(
            ["operator", "arguments written", "when", "why"],
            [[f"`{row['name']}`", *positions(row), row.get("why", "")] for row in rows if "hidden_writes" in row]),
        "uninitialised": markdown_table(
            ["operator", "why"],
            [[f"`{row['name']}`", row.get("why", "")] for row in rows if "uninitialised" in row]),
        "top-level-calls": markdown_table(
            ["operator", "calls", "why"],
            [[f"`{row['name']}`", code_list(row["top_level_calls"]), row.get("why", "")]
             for row in rows if "top_level_calls" in row]),
    }


def parse_groups(source):
    """The groups of kGroups as (formula, number, source, names, note)."""
    begin = source.index("kGroups[] = {")
    table = source[begin:source.index("\n};", begin)]
    groups = [(formula, number, origin, join_literals(names).split(), join_literals(note))
              for formula, number, origin, names, note in GROUP.findall(table)]
    if len(groups) != len(re.findall(r"\{\{k", table)):
        raise ValueError(f"{len(re.findall(r'{{k', table))} groups in the table, {len(groups)} understood")
    return groups


def flop_section(groups):
    lines = []
    for formula, number, origin, names, note in groups:
        cost = FORMULAS[formula].format(number).replace(", + 0·out", "").replace("1·out", "out")
        lines.append([cost, SOURCES[origin], note, " ".join(f"`{name}`" for name in names)])
    return {"flops": markdown_table(["FLOPs of a call", "source", "note", "operators (aten unless qualified)"], lines)}


def render(document, sections, page):
    named = [name for _, name, _ in SECTION.findall(document)]
    if sorted(named) != sorted(sections):
        raise ValueError(f"{page} has the generated sections {named}, expected {sorted(sections)}")
    return SECTION.sub(lambda match: match[1] + sections[match[2]] + match[3], document)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="exit 1 when a page is out of date")
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    arguments = parser.parse_args()
    tables = arguments.root / "lib" / "ops"
    pages = {
        "ops.md": render_sections(parse_rows((tables / "op_table.cpp").read_text(encoding="utf-8"))),
        "cost.md": flop_section(parse_groups((tables / "flop_rules.cpp").read_text(encoding="utf-8"))),
    }
    stale = False
    for page, sections in pages.items():
        path = arguments.root / "docs" / page
        document = path.read_text(encoding="utf-8")
        expected = render(document, sections, f"docs/{page}")
        if not arguments.check:
            path.write_text(expected, encoding="utf-8")
        elif expected != document:
            stale = True
            sys.stdout.writelines(difflib.unified_diff(document.splitlines(True), expected.splitlines(True),
                                                       f"docs/{page}", f"docs/{page} as the table has it"))
            print(f"docs/{page} is out of date: run scripts/generate_ops_doc.py")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
