#!/usr/bin/env python3
"""Keeps the pages true. Usage: check_pages.py commands [--torchlens FILE] [ROOT] | paths [ROOT] | --self-test

commands  Every `$ torchlens …` line in a console block of README.md and docs/*.md names a command that exists, options that its
          --help lists, values among the choices stated there, and no more positional arguments than it takes.
          Exit 77 (skipped) without --torchlens.
paths     Every relative link of these pages, and every path in backticks that begins with a directory of the project, exists
          (`frob` is the example of the pages on adding things). No {{figure}} is left to be filled in.
"""
import argparse
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

FENCE = re.compile(r"^```(\w*)\s*$")
OPTION = re.compile(r"^  (-\S+)(?: (\S+))?")
LINK = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
TICKS = re.compile(r"`((?:apps|lib|plugins|scripts|tests|docs|schemas|\.ci)/[\w./-]+)`")
BLANK = re.compile(r"\{\{\w*\}\}")
SEPARATORS = {"|", "||", "&&", ";", ">", ">>"}
LEAST_COMMANDS = 8  # fewer in the README means that this check no longer finds them


def pages(root):
    return [root / "README.md"] + sorted((root / "docs").rglob("*.md"))


def console_commands(text):
    """Yields (line number, command line) of the `$ …` lines in console blocks, continuation lines joined."""
    language = None
    pending = None
    for number, line in enumerate(text.splitlines(), 1):
        if fence := FENCE.match(line):
            language = None if language is not None else fence[1]
            pending = None
        elif language == "console":
            if line.startswith("$ "):
                pending = (number, line[2:])
            elif pending:
                pending = (pending[0], pending[1] + line.strip())
            if pending and pending[1].endswith("\\"):
                pending = (pending[0], pending[1][:-1] + " ")
            elif pending:
                yield pending
                pending = None


def torchlens_calls(line):
    """The words after `torchlens` of every call in a command line."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    call = []
    for word in list(lexer) + [";"]:
        if word not in SEPARATORS:
            call.append(word)
            continue
        if call and pathlib.PurePath(call[0]).name == "torchlens":
            yield call[1:]
        call = []


class Help:
    """What a --help text says a command takes."""

    def __init__(self, text):
        self.options = {}  # name → choices of its value, [] for any, None for a flag
        self.positionals = 0
        section = ""
        for line in text.splitlines():
            if line and not line.startswith(" "):
                section = line.strip()
            elif found := OPTION.match(line):
                choices = None
                if found[2]:
                    listed = re.search(r":\{([^}]*)\}", found[2])
                    choices = listed[1].split(",") if listed else []
                # `--stats{usual}`: a flag that may be given a value
                self.options.update((name.split("{")[0], choices) for name in found[1].split(","))
            elif section == "Positionals:" and re.match(r"^  \S", line):
                self.positionals += 1

    def problems(self, words):
        words = list(words)
        given = 0
        while words:
            word = words.pop(0)
            if not word.startswith("-") or word == "-":
                given += 1
                continue
            name, equals, value = word.partition("=")
            if name not in self.options:
                yield f"no option {name}"
                return  # whether the next word is its value cannot be told
            choices = self.options[name]
            if choices is None:
                continue
            if not equals:
                if not words:
                    yield f"{name} without a value"
                    return
                value = words.pop(0)
            if choices and value not in choices:
                yield f"{name} {value}: not one of {', '.join(choices)}"
        if given > self.positionals:
            yield f"{given} arguments, it takes {self.positionals}"


def command_problems(text, help_of):
    """Yields (line, problem or None) of every torchlens call; help_of(command) is its Help, None if there is no such command."""
    for number, line in console_commands(text):
        for words in torchlens_calls(line):
            known = help_of(words[0]) if words else None
            if known is None:
                yield number, f"no command {words[0] if words else ''}"
                continue
            found = list(known.problems(words[1:]))
            for problem in found:
                yield number, f"{words[0]}: {problem}"
            if not found:
                yield number, None


def check_commands(root, torchlens):
    helps = {}

    def help_of(command):
        if command not in helps:
            done = subprocess.run([torchlens, command, "--help"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                  timeout=60)
            helps[command] = Help(done.stdout) if done.returncode == 0 and not command.startswith("-") else None
        return helps[command]

    problems = []
    for page in pages(root):
        results = list(command_problems(page.read_text(), help_of))
        problems += [f"{page.relative_to(root)}:{number}: {problem}" for number, problem in results if problem]
        if page.name == "README.md" and len(results) < LEAST_COMMANDS:
            problems.append(f"README.md: {len(results)} commands found, expected at least {LEAST_COMMANDS}")
    return problems


def path_problems(root, page):
    for number, line in enumerate(page.read_text().splitlines(), 1):
        where = f"{page.relative_to(root)}:{number}"
        for target in LINK.findall(line):
            if not re.match(r"^[a-z]+:", target) and not (page.parent / target).exists():
                yield f"{where}: link to {target}, which is not there"
        for path in TICKS.findall(line):
            if "frob" not in path and not (root / path).exists():
                yield f"{where}: names {path}, which is not there"
        for blank in BLANK.findall(line):
            yield f"{where}: {blank} is not filled in"


def check_paths(root):
    return [problem for page in pages(root) for problem in path_problems(root, page)]


HELP = """Usage: torchlens trace [OPTIONS] [MODEL]

Positionals:
  MODEL                         a file

General:
  -q,--quiet                    less
  --save WHICH:{all,none}       which
  --stats{usual}                statistics
  -o,--output DIR               where
  --long-option-with-type NAME
                                what
"""


def self_test():
    good = ["trace m.pt", "trace --stats m.pt", "trace m.pt --stats=sum", "trace m.pt -q --save none -o d", "trace --save=all m.pt", "trace m.pt --output d --quiet > log",
            "trace 'm.pt' \\\n    --save none", "trace --long-option-with-type x m.pt | cat"]
    bad = {"trace m.pt --sav none": "no option --sav", "trace m.pt --save some": "not one of", "frob": "no command frob",
           "trace a.pt b.pt": "2 arguments", "trace m.pt -o": "without a value", "trace m.pt \\\n  -x": "no option -x"}
    failures = []

    def problems(command):
        text = f"```python\n$ torchlens nothing\n```\n```console\n$ cd x && ./bin/torchlens {command}\noutput --is not read\n```\n"
        results = list(command_problems(text, lambda name: Help(HELP) if name == "trace" else None))
        return [problem for _, problem in results if problem], len(results)

    for command in good:
        if problems(command) != ([], 1):
            failures.append(f"{command!r}: {problems(command)}")
    for command, expected in bad.items():
        found, count = problems(command)
        if count != 1 or len(found) != 1 or expected not in found[0]:
            failures.append(f"{command!r}: expected {expected!r}, got {found}")
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        page = root / "README.md"
        page.write_text("[a](README.md#x) [b](https://x.y) `lib/frob.h`\n[c](gone.md)\n`lib/gone.h`\nabout {{n}} ns\n")
        found = list(path_problems(root, page))
        expected = [":2: link to gone.md", ":3: names lib/gone.h", ":4: {{n}}"]
        if len(found) != len(expected) or any(e not in f for e, f in zip(expected, found)):
            failures.append(f"paths: {found}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("check", nargs="?", choices=["commands", "paths"])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parents[2])
    parser.add_argument("--torchlens")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_intermixed_args()
    if arguments.self_test:
        problems = self_test()
    elif arguments.check == "paths":
        problems = check_paths(arguments.root)
    elif arguments.check == "commands":
        if not arguments.torchlens:
            print("skipped: no torchlens to ask, give --torchlens FILE")
            sys.exit(77)
        problems = check_commands(arguments.root, arguments.torchlens)
    else:
        parser.error("say what to check")
    print("\n".join(problems) if problems else "pages: clean")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
