#!/usr/bin/env python3
"""Writes docs/errors.md from lib/core/error_codes.def.

Usage: generate_errors.py [--check] [ROOT]. With --check nothing is written; exit 1 says that the page is stale.
"""
import pathlib
import re
import sys

ROW = re.compile(r'^TL_ERROR\((k\w+),\s*"(\w+)",\s*(\w+),\s*"((?:[^"\\]|\\.)*)"\)$')
EXIT_CODE = re.compile(r"^\s*k(\w+) = (\d+),$")
HEAD = """# Errors

Generated from `lib/core/error_codes.def` by `scripts/generate_errors.py`.

Every error is printed as `error[code]: what`, with `note:` and `hint:` lines where there is more to say; with `--json` the same
stands under `error`. Codes are stable: a code never changes its meaning.

| code | exit | meaning |
|---|---|---|
"""


def rows(text):
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith("//"):
            continue
        row = ROW.match(line)
        if not row:
            sys.exit(f"error_codes.def:{number}: not understood: {line}")
        yield row.groups()


def page(root):
    header = (root / "lib" / "core" / "error.h").read_text()
    exits = dict(match.groups() for match in map(EXIT_CODE.match, header.splitlines()) if match)
    text = HEAD
    for _, code, exit_class, meaning in rows((root / "lib" / "core" / "error_codes.def").read_text()):
        text += f"| `{code}` | {exits[exit_class]} | {meaning.replace('|', chr(92) + '|')} |\n"
    return text


def main():
    check = "--check" in sys.argv[1:]
    roots = [argument for argument in sys.argv[1:] if argument != "--check"]
    root = pathlib.Path(roots[0]) if roots else pathlib.Path(__file__).resolve().parent.parent
    path = root / "docs" / "errors.md"
    new = page(root)
    if not check:
        path.write_text(new)
    elif not path.exists() or path.read_text() != new:
        sys.exit(f"{path} is stale: run scripts/generate_errors.py")


if __name__ == "__main__":
    main()
