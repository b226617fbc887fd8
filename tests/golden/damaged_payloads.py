#!/usr/bin/env python3
"""What `torchlens diff` says of recordings whose values are damaged, missing, or of another kind than the other side's.

Usage: damaged_payloads.py --torchlens FILE --text-to-tlspec FILE

Recordings are made of inputs/net.trace with values, samples or statistics put in (text_to_tlspec.cpp says which), and one
of them is then spoiled.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SHARD = "tensors-00000.safetensors"


def truncate(recording):
    path = recording / SHARD
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


def remove(recording):
    (recording / SHARD).unlink()


def link(recording):
    """A shard that is a link out of the recording."""
    path = recording / SHARD
    target = recording.parent / "elsewhere.safetensors"
    shutil.move(path, target)
    path.symlink_to(target)


def lie_about_columns(recording):
    """The manifest names another digest for the tables."""
    path = recording / "manifest.json"
    manifest = json.loads(path.read_text())
    for file in manifest["files"]:
        if file["name"] == "columns.safetensors":
            file["digest"] = "0" * 32
    path.write_text(json.dumps(manifest))


def spoil_header(recording):
    """The header of the shard promises more bytes than there are."""
    path = recording / SHARD
    data = bytearray(path.read_bytes())
    data[0:8] = (len(data) + 1).to_bytes(8, "little")
    path.write_bytes(bytes(data))


def spoil_a_value(recording):
    """A bit of the last element: found by the checksum of the file, before the value is blamed."""
    path = recording / SHARD
    data = bytearray(path.read_bytes())
    data[-2] ^= 0x40
    path.write_bytes(bytes(data))


def nothing(recording):
    del recording


# name, what is in the reference, in the subject, how the subject is spoiled, exit code, what stdout and stderr must say
CASES = [
    ("as recorded", "values", "values", nothing, 0, [r"SAME       \d+ of \d+ sites compared, all within tolerance  "]),
    ("truncated shard", "values", "values", truncate, 3, [r"error\[file_damaged\]: subject\.tlspec"]),
    ("shard missing", "values", "values", remove, 3, [r"error\[file_(damaged|missing)\]: subject\.tlspec", SHARD]),
    ("shard that is a link", "values", "values", link, 3, [r"error\[file_\w+\]: subject\.tlspec", SHARD]),
    ("lying digest", "values", "values", lie_about_columns, 3, [r"error\[file_damaged\]: subject\.tlspec", "digest"]),
    ("lying header", "values", "values", spoil_header, 3, [r"error\[file_damaged\]: subject\.tlspec", SHARD]),
    ("another value", "values", "values", spoil_a_value, 3, [r"error\[file_damaged\]: subject\.tlspec", SHARD]),
    ("sampled against full", "values", "samples", nothing, 0, [r"evidence   .*sampled \d+", "SAME"]),
    ("full against sampled", "samples", "values", nothing, 0, [r"evidence   .*sampled \d+", "SAME"]),
    ("statistics against full", "statistics", "values", nothing, 0,
     [r"evidence   statistics \d+", r"weaker evidence", r"SAME .* by statistics only"]),
    ("statistics against sampled", "statistics", "samples", nothing, 2, [r"error\[activation_not_saved\]"]),
    ("no values", "values", "none", nothing, 2, [r"error\[activation_not_saved\]", "subject.tlspec holds no values"]),
]


def record(directory, name, kind, text_to_tlspec):
    text = (HERE / "inputs" / "net.trace").read_text()
    source = directory / f"{name}.trace"
    source.write_text(text if kind == "none" else text.replace("\n", f"\n# {kind}\n", 1))
    target = directory / f"{name}.tlspec"
    subprocess.run([text_to_tlspec, source, target], check=True)
    return target


def check(case, arguments):
    name, reference, subject, spoil, code, wanted = case
    with tempfile.TemporaryDirectory(prefix="torchlens-damaged-") as folder:
        directory = pathlib.Path(folder)
        record(directory, "reference", reference, arguments.text_to_tlspec)
        spoil(record(directory, "subject", subject, arguments.text_to_tlspec))
        done = subprocess.run([arguments.torchlens, "diff", "reference.tlspec", "subject.tlspec"], cwd=directory,
                              capture_output=True, text=True, timeout=60)
    said = done.stdout + done.stderr
    problems = [f"says nothing like {pattern}" for pattern in wanted if not re.search(pattern, said)]
    if done.returncode != code:
        problems.append(f"exit {done.returncode}, not {code}")
    for problem in problems:
        print(f"{name}: {problem}")
    if problems:
        print(said)
    return not problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True)
    parser.add_argument("--text-to-tlspec", required=True)
    arguments = parser.parse_args()
    failed = sum(not check(case, arguments) for case in CASES)
    print(f"{len(CASES)} cases, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
