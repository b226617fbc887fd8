#!/usr/bin/env python3
"""Runs the golden cases: CASE/cmd is a command line, CASE/expected.{stdout,stderr,exit} what must come of it.

Usage: run.py --torchlens FILE --text-to-tlspec FILE [--update] [CASE …]

A case is a directory below this one that holds `cmd`. It runs in an empty directory with the files of inputs/, each NAME.trace
of which is also there as the recording NAME.tlspec. With --update the expected files are rewritten: review the diff.
"""
import argparse
import difflib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def prepare(directory, text_to_tlspec):
    for path in sorted((HERE / "inputs").iterdir()):
        if path.is_dir():
            shutil.copytree(path, directory / path.name)
            continue
        shutil.copy(path, directory)
        if path.suffix == ".trace":
            subprocess.run([text_to_tlspec, path, directory / (path.stem + ".tlspec")], check=True)


def contents(directory):
    return sorted((path, path.stat().st_mtime_ns) for path in directory.rglob("*"))


def outcome(case, torchlens, directory):
    words = shlex.split((case / "cmd").read_text())
    assert words[0] == "torchlens", f"{case}/cmd must begin with torchlens"
    environment = {key: value for key, value in os.environ.items()
                   if key not in ("NO_COLOR", "CLICOLOR_FORCE", "LC_ALL", "LANG")}
    environment["TERM"] = "dumb"
    done = subprocess.run([torchlens] + words[1:], cwd=directory, env=environment, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=60)
    return {"stdout": done.stdout, "stderr": done.stderr, "exit": f"{done.returncode}\n".encode()}


def compare(case, got, update):
    """Prints what differs; returns whether the case is as expected."""
    good = True
    for name, content in got.items():
        path = case / f"expected.{name}"
        expected = path.read_bytes() if path.exists() else b"0\n" if name == "exit" else b""
        if content == expected:
            continue
        good = False
        if update:
            if content or path.exists():
                path.write_bytes(content)
            continue
        lines = [text.decode(errors="backslashreplace").splitlines(keepends=True) for text in (expected, content)]
        sys.stdout.writelines(difflib.unified_diff(*lines, f"{path.relative_to(HERE)}", "got"))
    return good


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True)
    parser.add_argument("--text-to-tlspec", required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    cases = [HERE / name for name in arguments.cases] or sorted(path.parent for path in HERE.rglob("cmd"))
    different = []
    with tempfile.TemporaryDirectory(prefix="torchlens-golden-") as name:
        directory = pathlib.Path(name)
        prepare(directory, arguments.text_to_tlspec)
        before, state = sorted(directory.iterdir()), contents(directory)
        for case in cases:
            got = outcome(case, arguments.torchlens, directory)
            if not compare(case, got, arguments.update):
                different.append(str(case.relative_to(HERE)))
            if sorted(directory.iterdir()) != before:
                sys.exit(f"{case.relative_to(HERE)} left files behind")
            if contents(directory) != state:  # a recording was finished in place: the next case gets the inputs as they were
                for path in before:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
                prepare(directory, arguments.text_to_tlspec)
                state = contents(directory)
    print(f"{len(cases)} cases, {len(different)} {'rewritten' if arguments.update else 'different'}")
    for case in different:
        print("  " + case)
    sys.exit(1 if different and not arguments.update else 0)


if __name__ == "__main__":
    main()
