#!/usr/bin/env python3
"""SIGKILL at any instant of `trace --stream`: what stands under the name is the old recording, the new one, or nothing.

Usage: killed.py --torchlens FILE [--rounds N] [--seed N]

Recordings are told apart by the seed of their run. The run itself is killed, its supervisor, or both; some instants are drawn from
the whole run, some from the time in which the hidden sibling of the recording is being written. What is there afterwards must be
whole; `show` and `query` answer, or refuse with exit 3, of the recording as of what lies in hidden siblings; the next run that ends
sweeps these.
"""
import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import bounded  # noqa: E402
import safetensors  # noqa: E402
import supervision  # noqa: E402

COUNT = 40  # values of 4 MB; a few more in some rounds, so that files of two runs are not taken for those of one
TARGET = "out.tlspec"
PATIENCE = 240
SWEEPS = 4


def writer_of(name):
    """The number of the process in `.NAME.tmp-NUMBER-random`."""
    return name.rsplit(".tmp-", 1)[-1].split("-")[0]


class Killing:
    def __init__(self, torchlens, directory, generator):
        self.torchlens, self.directory, self.random = torchlens, directory, generator
        self.target, self.faults, self.seen = directory / TARGET, [], collections.Counter()
        safetensors.write(directory / "x.safetensors", {"x": ("F32", [3], struct.pack("<3f", 1, 2, 3))})
        start = time.monotonic()
        self.finish(0)
        self.whole = time.monotonic() - start
        self.writing = self.time_of_writing()

    def words(self, seed):
        words = [self.torchlens, "trace", str(supervision.MISBEHAVING), "--method", "produce", "-i", "x.safetensors", "-i",
                 f"count={COUNT + seed % 7}", "--stream", "--save", "all", "--seed", str(seed), "-o", TARGET, "-q"]
        return words + (["--force"] if self.target.exists() else [])

    def start(self, seed):
        return subprocess.Popen(self.words(seed), cwd=self.directory, env=bounded.environment(), stdin=subprocess.DEVNULL,
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, seed):
        process = self.start(seed)
        _, err = process.communicate(timeout=PATIENCE)
        if process.returncode != 0:
            sys.exit(f"a run that nobody kills ends with {process.returncode}: {err.strip()[-400:]}")

    def siblings(self):
        return sorted(path for path in self.directory.iterdir() if path.name.startswith("." + TARGET))

    def wait_for_sibling(self, process, before):
        """Whether a hidden sibling that was not there `before` has appeared while the run goes on."""
        until = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < until:
            if any(path not in before for path in self.siblings()):
                return True
            time.sleep(0.002)
        return False

    def time_of_writing(self):
        process = self.start(0)
        self.wait_for_sibling(process, [])
        start = time.monotonic()
        process.communicate(timeout=PATIENCE)
        return time.monotonic() - start

    def fault(self, number, text):
        self.faults.append(f"round {number}: {text}")

    def found(self):
        """The seed of the recording that stands under the name; None if nothing does."""
        if not self.target.exists():
            return None
        return int(json.loads((self.target / "manifest.json").read_text())["run"]["seed"])

    def round(self, number):
        old, before = self.found(), self.siblings()
        victim = self.random.choice(["run", "supervisor", "both"])
        in_writing = self.random.random() < 0.7
        delay = self.random.uniform(0, 1.1 * (self.writing if in_writing else self.whole))
        process = self.start(number)
        child = None
        try:
            child = supervision.child_of(process) if victim != "supervisor" or in_writing else None
            if in_writing:
                self.wait_for_sibling(process, before)
            time.sleep(delay)
            child = self.kill(process, child, victim)
            _, err = process.communicate(timeout=PATIENCE)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
        if child and not supervision.is_gone(child, 60):
            self.fault(number, f"the run outlives the kill of {victim}")
        self.check_end(number, victim, process.returncode, err)
        self.check(number, old, process.returncode == 0)

    def kill(self, process, child, victim):
        """The process id of the run, where there was one."""
        if process.poll() is not None:
            return child
        if child is None:
            try:
                child = supervision.child_of(process, 0.05)
            except TimeoutError:
                pass
        if victim != "run":
            process.send_signal(signal.SIGKILL)
        if victim != "supervisor" and child:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return child

    def check_end(self, number, victim, code, err):
        self.seen["done before" if code == 0 else "killed"] += 1
        allowed = {0, 70} if victim == "run" else {0, -signal.SIGKILL, 70}
        if code not in allowed:
            self.fault(number, f"exit {code} after the kill of {victim}: {err.strip()[-300:]}")
        if code == 70 and "error[engine_crashed]: " not in err:
            self.fault(number, f"exit 70 without engine_crashed: {err.strip()[-300:]}")

    def check(self, number, old, done):
        try:
            now = self.found()
        except (OSError, ValueError, KeyError) as error:
            self.fault(number, f"what stands under the name is no recording: {error!r}")
            return
        if now not in (old, number) or done and now != number:
            self.fault(number, f"the recording is that of round {now}; before it was that of {old}{', and the run ended' if done else ''}")
        self.seen["new" if now == number else "old" if now is not None else "none"] += 1
        self.seen["siblings left"] += bool(self.siblings())
        if now is not None:
            self.check_files(number)
        self.answers(number, TARGET, {0} if now is not None else {3})
        for sibling in self.siblings():
            self.answers(number, sibling.name, {0, 3})
        left = [path.name for path in self.directory.iterdir()
                if path.name not in (TARGET, "x.safetensors") and not path.name.startswith("." + TARGET)]
        if left:
            self.fault(number, f"left {left}")

    def check_files(self, number):
        """Every file of the manifest is there with its size, nothing else is, and the outcome is a complete one."""
        manifest = json.loads((self.target / "manifest.json").read_text())
        if manifest["outcome"]["status"] != "complete":
            self.fault(number, f"the outcome is {manifest['outcome']}")
        sizes = {path.name: path.stat().st_size for path in self.target.iterdir() if path.name != "manifest.json"}
        stated = {file["name"]: file["bytes"] for file in manifest["files"] + manifest["run"]["volatile"]["files"]}
        if sizes != stated:
            self.fault(number, f"the files are {sizes}, the manifest has {stated}")

    def answers(self, number, name, codes):
        for words in (["show", name], ["query", name, "--table", "payloads", "--format", "jsonl"], ["query", name, "--json"]):
            done = bounded.run([self.torchlens, *words], self.directory, 60)
            if done.code not in codes:
                self.fault(number, f"{' '.join(words)}: exit {done.code} where {sorted(codes)} was expected: {done.stderr.strip()[-300:]}")

    def check_sweep(self, rounds):
        """A whole run leaves its recording alone, with the bytes of one that was never disturbed."""
        self.finish(rounds + 1)
        first = {path.name: path.read_bytes() for path in self.target.iterdir() if path.name.startswith("tensors-")}
        # What a process may still be writing stays. On a busy machine another one may have the number of a killed one
        # just while the run looks: the next run sweeps what that one left.
        for _ in range(SWEEPS):
            left = [path.name for path in self.siblings() if not (pathlib.Path("/proc") / writer_of(path.name)).exists()]
            if not left:
                break
            self.finish(rounds + 1)
        else:
            self.fault("last", f"{left} were not swept by {SWEEPS} runs")
        shutil.rmtree(self.target)
        self.finish(rounds + 1)
        if first != {path.name: path.read_bytes() for path in self.target.iterdir() if path.name.startswith("tensors-")}:
            self.fault("last", "the values are not those of a run that replaced nothing")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--seed", type=int, default=50)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torchlens-killed-") as directory:
        killing = Killing(str(arguments.torchlens.resolve()), pathlib.Path(directory), random.Random(arguments.seed))
        for number in range(1, arguments.rounds + 1):
            killing.round(number)
            if number % 8 == 0 and killing.target.exists():
                shutil.rmtree(killing.target)
        killing.check_sweep(arguments.rounds)
    print(f"{arguments.rounds} rounds: {dict(sorted(killing.seen.items()))}; a run takes {killing.whole:.1f} s, "
          f"writing {killing.writing:.1f} s", *killing.faults, sep="\n  ")
    if killing.seen["killed"] < arguments.rounds // 4:
        sys.exit("too few runs were killed before they ended")
    sys.exit(1 if killing.faults else 0)


if __name__ == "__main__":
    main()
