#!/usr/bin/env python3
"""Compares the outlines of functions of Python's standard library, and of snippets made to be hard, with Python's ast.

  check_outlines.py PRINT_OUTLINE [FILE.py ...]     without files: the standard library of this Python

What ast says is computed here by the rule of the design document; spans are in bytes. ast leaves out brackets around
an expression, the outline keeps them, so that spans are compared without leading and trailing brackets and blanks.
"""

import ast
import pathlib
import re
import subprocess
import sys
import sysconfig

SNIPPETS = pathlib.Path(__file__).resolve().parent / "snippets.py"
THEN, ELIF, ELSE, FALLTHROUGH = range(4)
IF_TEST, ELIF_TEST, IFEXP, WHILE, ASSERT, BOOL_CAST, FILTER, GUARD = range(1, 9)


def functions(source):
    """The text of every function and method, whole lines, as inspect.getsource gives it."""
    lines = source.splitlines(keepends=True)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno] + [decorator.lineno for decorator in node.decorator_list])
            yield "".join(lines[first - 1 : node.end_lineno])


class Expected:
    """What ast says of a text."""

    def __init__(self, text):
        # The indented text parses under an `if`, which shifts lines by one and nothing else.
        indented = text[:1] in " \t"
        tree = ast.parse("if 1:\n" + text if indented else text)
        self.shift = 1 if indented else 0
        self.raw = text.encode()
        self.begins = [0]
        for line in self.raw.splitlines(keepends=True):
            self.begins.append(self.begins[-1] + len(line))
        self.chains, self.ternaries, self.tests, self.asserts = [], [], [], []
        self.block(tree.body[0].body if indented else tree.body)
        self.expressions(tree.body[0].body if indented else tree.body)

    def at(self, line, column):
        return self.begins[line - 1 - self.shift] + column

    def span(self, node, last=None):
        last = last or node
        begin = self.at(node.lineno, node.col_offset)
        for decorator in getattr(node, "decorator_list", []):
            begin = min(begin, self.raw.rfind(b"@", 0, self.at(decorator.lineno, decorator.col_offset)))
        return begin, self.at(last.end_lineno, last.end_col_offset)

    @staticmethod
    def exits(node):
        return isinstance(node, (ast.Return, ast.Raise, ast.Break, ast.Continue))

    def ends(self, body):
        last = body[-1]
        if self.exits(last):
            return True
        return isinstance(last, ast.If) and bool(last.orelse) and self.ends(last.body) and self.ends(last.orelse)

    def has_exit(self, body):
        nested = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        open_ = list(body)
        while open_:
            node = open_.pop()
            if self.exits(node):
                return True
            if not isinstance(node, nested):
                open_.extend(ast.iter_child_nodes(node))
        return False

    def is_elif(self, node):
        return self.raw[self.at(node.lineno, node.col_offset) :].startswith(b"elif")

    def chain(self, node, rest):
        """The arms of an if statement: (kind, test, body, ends); `rest` is what follows it in its block."""
        arms, kind, whole = [], THEN, node
        while True:
            arms.append((kind, self.span(node.test), self.span(node.body[0], node.body[-1]), self.ends(node.body)))
            self.tests.append((IF_TEST if kind == THEN else ELIF_TEST, self.span(node.test)))
            self.block(node.body)
            if len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If) and self.is_elif(node.orelse[0]):
                node, kind = node.orelse[0], ELIF
                continue
            break
        if node.orelse:
            arms.append((ELSE, None, self.span(node.orelse[0], node.orelse[-1]), self.ends(node.orelse)))
            self.block(node.orelse)
        elif rest and all(arm[3] for arm in arms):
            arms.append((FALLTHROUGH, None, self.span(rest[0], rest[-1]), self.ends(rest)))
        exits = self.has_exit([whole])
        self.chains.append((self.at(whole.lineno, whole.col_offset), exits, arms))

    def block(self, body):
        for number, node in enumerate(body):
            if isinstance(node, ast.If):
                self.chain(node, body[number + 1 :])
                continue
            if isinstance(node, ast.While):
                self.tests.append((WHILE, self.span(node.test)))
            if isinstance(node, ast.Assert):
                self.tests.append((ASSERT, self.span(node.test)))
                self.asserts.append(self.at(node.lineno, node.col_offset))
            for field in ("body", "orelse", "finalbody"):
                if isinstance(getattr(node, field, None), list) and getattr(node, field):
                    self.block(getattr(node, field))
            for handler in getattr(node, "handlers", []):
                self.block(handler.body)
            for case in getattr(node, "cases", []):
                if case.guard:
                    self.tests.append((GUARD, self.span(case.guard)))
                self.block(case.body)

    def expressions(self, body):
        open_ = list(body)
        while open_:
            node = open_.pop()
            if isinstance(node, ast.JoinedStr):
                continue  # a string to the outline
            open_.extend(ast.iter_child_nodes(node))
            if isinstance(node, ast.IfExp):
                self.ternaries.append((self.span(node.body), self.span(node.test), self.span(node.orelse)))
                self.tests.append((IFEXP, self.span(node.test)))
            if isinstance(node, ast.comprehension):
                self.tests += [(FILTER, self.span(test)) for test in node.ifs]


# What ast leaves out at the beginning and at the end of a span.
BEFORE = re.compile(rb"(?:[( \t\r\n\\*]|#[^\n]*\n)*")
AFTER = re.compile(rb"(?:[) \t\r\n\\,;]|#[^\n]*\n)*\Z")


def bare(raw, span):
    """The span without brackets, blanks and comments at its ends."""
    begin, end = span
    return begin + BEFORE.match(raw[begin:end]).end(), begin + AFTER.search(raw[begin:end]).start()


def parse(output):
    """The texts that print_outline printed, None for unknown ones."""
    texts = []
    for line in output.splitlines():
        words = line.split()
        if words[0] == "unknown":
            texts.append(None)
        elif words[0] == "text":
            texts.append({"chains": [], "ternaries": [], "tests": [], "asserts": []})
        elif words[0] in ("chain", "ifexp"):
            arms = []
            key = "chains" if words[0] == "chain" else "ternaries"
            texts[-1][key].append((int(words[2]), words[5] == "1", arms))
        elif words[0] == "arm":
            test, body = (int(words[5]), int(words[6])), (int(words[8]), int(words[9]))
            arms.append((int(words[1]), test if test[0] < test[1] else None, body, words[11] == "1"))
        elif words[0] == "test":
            texts[-1]["tests"].append((int(words[1]), (int(words[3]), int(words[4]))))
        else:
            texts[-1]["asserts"].append(int(words[1]))
    return texts


def normal(raw, chains, ternaries, tests, asserts):
    def arm(kind, test, body, ends):
        return kind, test and bare(raw, test), bare(raw, body), ends

    return {
        "chains": sorted((begin, exits, [arm(*a) for a in arms]) for begin, exits, arms in chains),
        "ternaries": sorted((bare(raw, x), bare(raw, test), bare(raw, y)) for x, test, y in ternaries),
        "tests": sorted((kind, bare(raw, span)) for kind, span in tests),
        "asserts": sorted(asserts),
    }


def differences(text, got):
    expected = Expected(text)
    raw = expected.raw
    want = normal(raw, expected.chains, expected.ternaries, expected.tests, expected.asserts)
    ternaries = [(arms[0][2], arms[0][1], arms[1][2]) for _, _, arms in got["ternaries"]]
    have = normal(raw, got["chains"], ternaries, got["tests"], got["asserts"])
    return [f"{key}:\n  ast     {want[key]}\n  outline {have[key]}" for key in want if want[key] != have[key]]


def main():
    program, *files = sys.argv[1:]
    if not files:
        library = pathlib.Path(sysconfig.get_paths()["stdlib"])
        files = [str(SNIPPETS)] + sorted(str(path) for path in library.glob("*.py"))
    texts = []
    for file in files:
        try:
            texts += [(file, text) for text in functions(pathlib.Path(file).read_text(encoding="utf-8"))]
        except (SyntaxError, UnicodeDecodeError):
            if file == str(SNIPPETS):
                raise
    data = b"".join(b"%d\n%s" % (len(text.encode()), text.encode()) for _, text in texts)
    output = subprocess.run([program], input=data, stdout=subprocess.PIPE, check=True).stdout.decode()
    outlines = parse(output)
    assert len(outlines) == len(texts), f"{len(outlines)} outlines of {len(texts)} texts"
    unknown = failed = 0
    for (file, text), got in zip(texts, outlines):
        if got is None:
            unknown += 1
            found = ["not understood"] if file == str(SNIPPETS) else []
        else:
            found = differences(text, got)
        if found:
            failed += 1
            if failed <= 5:
                print(f"--- {file}\n{text}\n" + "\n".join(found))
    print(f"{len(texts)} functions, {unknown} not understood, {failed} differ")
    return 1 if failed or unknown * 100 > len(texts) or not texts else 0


if __name__ == "__main__":
    sys.exit(main())
