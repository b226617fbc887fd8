#!/usr/bin/env python3
"""Writes the generated part of docs/tlspec.md: the tables of lib/trace/columns.def.

Usage: generate_docs.py [--check] [ROOT]. With --check nothing is written; exit 1 says that the page is stale.
"""
import pathlib
import re
import sys

BEGIN = "<!-- generated from lib/trace/columns.def by scripts/generate_docs.py -->"
END = "<!-- end of the generated part -->"
TYPES = {
    "uint8_t": "U8", "uint16_t": "U16", "uint32_t": "U32", "int16_t": "I16", "int32_t": "I32", "int64_t": "I64",
    "float": "F32", "double": "F64",
}
TABLE = re.compile(r"^TL_TABLE_BEGIN\((\w+)\)\s*(?://\s*(.*))?$")
COLUMN = re.compile(r'^TL_COLUMN\((\w+),\s*(\w+),\s*(\w+),\s*"([^"]*)",\s*"([^"]*)"\)$')


def tables(text):
    """Yields (table, description, [(field, type, unit, meaning)]); stops at a line it does not understand."""
    table = None
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("//"):
            continue
        if begin := TABLE.match(line):
            table = (begin[1], begin[2] or "", [])
        elif (column := COLUMN.match(line)) and table and column[1] == table[0]:
            table[2].append((column[2], TYPES[column[3]], column[4], column[5]))
        elif table and line == f"TL_TABLE_END({table[0]})":
            yield table
            table = None
        else:
            sys.exit(f"columns.def:{number}: not understood: {line}")


def cell(text):
    return text.replace("|", "\\|")


def generated(text):
    lines = [BEGIN]
    for table, description, columns in tables(text):
        lines += ["", f"### {table}", ""]
        if description:
            lines += [description[0].upper() + description[1:] + ".", ""]
        lines += ["| column | type | unit | meaning |", "|---|---|---|---|"]
        lines += [f"| `{table}.{field}` | {kind} | {cell(unit)} | {cell(meaning)} |" for field, kind, unit, meaning in columns]
    return "\n".join(lines + ["", END])


def main():
    arguments = sys.argv[1:]
    check = "--check" in arguments
    roots = [argument for argument in arguments if argument != "--check"]
    root = pathlib.Path(roots[0]) if roots else pathlib.Path(__file__).resolve().parent.parent
    page = root / "docs" / "tlspec.md"
    old = page.read_text()
    if old.count(BEGIN) != 1 or old.count(END) != 1:
        sys.exit(f"{page}: the markers of the generated part are not there once each")
    head, tail = old[:old.index(BEGIN)], old[old.index(END) + len(END):]
    new = head + generated((root / "lib" / "trace" / "columns.def").read_text()) + tail
    if check and new != old:
        sys.exit(f"{page} is stale: run scripts/generate_docs.py")
    if not check:
        page.write_text(new)


if __name__ == "__main__":
    main()
