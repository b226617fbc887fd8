#!/usr/bin/env python3
"""Files that harm readers, made on the spot from the small models of tests/models, and what the answer to each must be.

Usage: kinds.py --torchlens FILE [NAME …]

A kind is a function that writes a file and says what must come of `show` and `trace`: exit class, code, words. Time, memory and
what is left behind are bounded for all of them. With names, only those are run.
"""
import argparse
import pathlib
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import bounded  # noqa: E402
import kinds_archive  # noqa: E402, F401
import kinds_content  # noqa: E402, F401
from answers import KINDS  # noqa: E402

MEGABYTES = 400  # an engine that has loaded nothing takes about 120
PATIENCE = 120
NOT_BUILT = "which this version does not run yet"


def check(answer, file, torchlens, directory):
    words = [file.name if word == "FILE" else word for word in answer.words]
    run = bounded.run([torchlens, *words], directory, 2 * PATIENCE)
    faults = []
    where = " ".join(words)
    if NOT_BUILT in run.stderr:
        return [], True
    if run.code != answer.code:
        faults.append(f"{where}: exit {run.code} where {answer.code} was expected; stderr: {run.stderr.strip()[:400]}")
    if answer.code and not (f"error[{answer.error}]: " if answer.error else "error[") in run.stderr:
        faults.append(f"{where}: no error[{answer.error or '…'}] in: {run.stderr.strip()[:400]}")
    for text in answer.texts:
        text = file.name if text == "FILE" else text
        if text not in run.stderr + run.stdout:
            faults.append(f"{where}: {text!r} is not in: {(run.stderr + run.stdout).strip()[:400]}")
    for text in [*answer.absent, "frame #", "terminate called", "INTERNAL ASSERT"]:
        if text in run.stderr + run.stdout:
            faults.append(f"{where}: {text!r} is in: {(run.stderr + run.stdout).strip()[:400]!r}")
    if run.processor_seconds > answer.seconds or run.seconds > PATIENCE:
        faults.append(f"{where}: took {run.processor_seconds:.1f} s of processor time in {run.seconds:.1f} s")
    if run.megabytes > MEGABYTES + 2 * file_megabytes(directory, words):
        faults.append(f"{where}: took {run.megabytes:.0f} MB")
    for path in (directory / "PWNED", directory / "out.tlspec"):
        if path.exists() and not (path.name == "out.tlspec" and answer.code in (0, 5)):
            faults.append(f"{where}: {path.name} was written")
    left = [path.name for path in directory.iterdir() if ".tmp-" in path.name]
    if left:
        faults.append(f"{where}: left {left} behind")
    return faults, False


def file_megabytes(directory, words):
    return sum((directory / word).stat().st_size for word in words if (directory / word).is_file()) / 2 ** 20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    torchlens, faults, skipped = str(arguments.torchlens.resolve()), [], 0
    chosen = arguments.names or list(KINDS)
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="torchlens-hostile-") as folder:
            directory = pathlib.Path(folder)
            file = directory / f"{name}.pt"
            make = KINDS[name]
            answers = make(file, torchlens) if hasattr(make, "needs_binary") else make(file)
            found, not_built = [], False
            for answer in answers:
                more, unbuilt = check(answer, file, torchlens, directory)
                found, not_built = found + more, not_built or unbuilt
            skipped += not_built
            faults += [f"{name}: {text}" for text in found]
    for fault in faults:
        print(fault)
    print(f"{len(chosen)} kinds, {len(faults)} faults" + (f", {skipped} need exported programs, which this build does not run" if skipped else ""))
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
