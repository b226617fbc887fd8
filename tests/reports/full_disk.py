#!/usr/bin/env python3
"""Reports and results for which there is no room: exit 3 and its code, and no half of a report that reads like a whole one.

Usage: full_disk.py --torchlens FILE --text-to-tlspec FILE

The room is taken away by a limit on the size of files (RLIMIT_FSIZE), for which nobody has to be root, and by /dev/full.
"""
import argparse
import pathlib
import resource
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import bounded  # noqa: E402

INPUTS = HERE.parent / "golden" / "inputs"
FORMATS = ("json", "jsonl", "csv", "html", "junit", "github")  # md appends to what is there
DIFF = ("diff", "net.tlspec", "net_other.tlspec", "--static")
STREAMS = (DIFF, (*DIFF, "--json"), (*DIFF, "--format", "html"), (*DIFF, "--format", "csv"), ("show", "net.tlspec"),
           ("show", "net.tlspec", "--json"), ("query", "net.tlspec"), ("query", "net.tlspec", "--json"),
           ("query", "net.tlspec", "--format", "csv"), ("query", "net.tlspec", "--format", "jsonl"), ("recorder", "python"), ("--help",))


class Disk:
    def __init__(self, torchlens, directory):
        self.torchlens, self.directory, self.faults, self.runs = torchlens, directory, [], 0

    def run(self, words, limit=None, stdout=subprocess.PIPE):
        def take_room():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writing then fails as it does on a full disk
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        self.runs += 1
        return subprocess.run([self.torchlens, *words], cwd=self.directory, env=bounded.environment(), stdin=subprocess.DEVNULL,
                              stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=60,
                              preexec_fn=take_room if limit is not None else None)

    def expect(self, good, text):
        if not good:
            self.faults.append(text)

    def expect_failure(self, done, what, *texts):
        self.expect(done.returncode == 3, f"{what}: exit {done.returncode}: {done.stderr.strip()[:200]}")
        for text in ("error[output_failed]: ", *texts):
            self.expect(text in done.stderr, f"{what}: {text!r} is not in {done.stderr.strip()[:200]}")

    def expect_only(self, what, *names):
        left = sorted(path.name for path in self.directory.iterdir() if path.suffix != ".tlspec" and path.name != "times.json")
        self.expect(left == sorted(names), f"{what}: left {left} where {sorted(names)} was expected")

    def check_format(self, name):
        report = self.directory / f"report.{name}"
        words = [*DIFF, "--report", f"{name}:{report.name}"]
        roomy = self.run(words)
        self.expect(roomy.returncode in (0, 1), f"{name}: exit {roomy.returncode} with all the room: {roomy.stderr.strip()[:200]}")
        if not report.exists():
            self.faults.append(f"{name}: no report")
            return
        whole = report.read_bytes()
        report.unlink()
        for limit in sorted({0, 1, len(whole) // 2, len(whole) - 1} if len(whole) > 1 else {0}):
            if limit >= len(whole):
                continue
            done = self.run(words, limit)
            self.expect_failure(done, f"{name} in {limit} of {len(whole)} bytes", report.name)
            self.expect_only(f"{name} in {limit} of {len(whole)} bytes")
            report.unlink(missing_ok=True)
        done = self.run(words, len(whole))
        self.expect(done.returncode == roomy.returncode, f"{name} in as many bytes as it takes: exit {done.returncode}")
        self.expect(report.exists() and report.read_bytes() == whole, f"{name} in as many bytes as it takes: another report")
        self.expect_only(name, report.name)
        report.unlink(missing_ok=True)

    def check_second(self):
        """The first of two reports fits: it stays, whole."""
        self.run([*DIFF, "--report", "one.csv"])
        whole = (self.directory / "one.csv").read_bytes()
        (self.directory / "one.csv").unlink()
        done = self.run([*DIFF, "--report", "one.csv", "--report", "two.html"], len(whole))
        self.expect_failure(done, "the second of two", "two.html")
        self.expect_only("the second of two", "one.csv")
        self.expect((self.directory / "one.csv").read_bytes() == whole, "the second of two: the first is not whole")

    def check_streams(self):
        if not pathlib.Path("/dev/full").exists():
            print("there is no /dev/full: results are not tried")
            return
        for words in STREAMS:
            with open("/dev/full", "wb") as full:
                self.expect_failure(self.run(words, stdout=full), " ".join(words) + " > /dev/full")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("--text-to-tlspec", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="torchlens-full-") as directory:
        disk = Disk(str(arguments.torchlens.resolve()), pathlib.Path(directory))
        for name in ("net", "net_other"):
            subprocess.run([arguments.text_to_tlspec.resolve(), INPUTS / f"{name}.trace", disk.directory / f"{name}.tlspec"], check=True)
        for name in FORMATS:
            disk.check_format(name)
        disk.check_second()
        disk.check_streams()
    print(f"{disk.runs} runs, {len(disk.faults)} faults", *disk.faults, sep="\n  ")
    sys.exit(1 if disk.faults else 0)


if __name__ == "__main__":
    main()
