#!/usr/bin/env python3
"""What the parent of a run must do: end it in time, bound its memory, pass signals on, say how a child died, leave nothing behind.

Usage: supervision.py --torchlens FILE [NAME …]

The models are tests/models/{misbehaving,reaching,restoring,writing,reading}.ts.pt (make_misbehaving.py).
"""
import argparse
import json
import os
import pathlib
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

MODELS = HERE.parent / "models"
MISBEHAVING = str(MODELS / "misbehaving.ts.pt")
ENGINE_SECONDS = 60  # what opening the engine may take on a machine that does much else

PATIENCE = 240

CHECKS = {}


def check(function):
    CHECKS[function.__name__] = function
    return function


class Bench:
    """One directory, the binary, and faults."""

    def __init__(self, torchlens, directory):
        self.torchlens, self.directory, self.faults = torchlens, directory, []
        safetensors.write(directory / "x.safetensors", {"x": ("F32", [3], struct.pack("<3f", 1, 2, 3))})
        self.processes = []
        self.usual = self.run(MISBEHAVING, "-o", "usual.tlspec")
        for path in (directory / "usual.tlspec").iterdir():
            path.unlink()
        (directory / "usual.tlspec").rmdir()

    def limit(self):
        """A time limit that passes well after the model began to run, also on a machine that does much else."""
        return f"{max(2.0, 4 * self.usual.seconds):.1f}"

    def words(self, model, *more, method=None):
        chosen = ["--method", method] if method else []
        output = [] if "-o" in more else ["-o", "out.tlspec"]
        return [self.torchlens, "trace", model, "-i", "x.safetensors", *output, *chosen, *more]

    def run(self, model, *more, method=None, seconds=PATIENCE):
        return bounded.run(self.words(model, *more, method=method), self.directory, seconds)

    def start(self, *more, method, **popen):
        return self.popen(self.words(MISBEHAVING, *more, method=method), **popen)

    def popen(self, words, **more):
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **more}
        process = subprocess.Popen(words, cwd=self.directory, env=bounded.environment(), **streams)
        self.processes.append(process)
        return process

    def end(self):
        """A run that did not end as it should ends here."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.wait()

    def expect(self, good, text):
        if not good:
            self.faults.append(text)

    def expect_code(self, code, expected, stderr):
        self.expect(code == expected, f"exit {code} where {expected} was expected; stderr: {stderr.strip()[-400:]}")

    def expect_texts(self, stderr, *texts):
        for text in texts:
            self.expect(text in stderr, f"{text!r} is not in: {stderr.strip()[-600:]}")

    def expect_nothing_left(self, recording):
        left = sorted(path.name for path in self.directory.iterdir() if path.name not in ("x.safetensors", "log"))
        self.expect(left == (["out.tlspec"] if recording else []), f"left {left}")

    def expect_partial(self, status="interrupted"):
        self.expect_nothing_left(True)
        shown = bounded.run([self.torchlens, "show", "out.tlspec", "--json"], self.directory)
        self.expect(shown.code == 0, f"show: exit {shown.code}: {shown.stderr.strip()[:300]}")
        if shown.code == 0:
            got = json.loads(shown.stdout)["outcome"]["status"]
            self.expect(got == status, f"the outcome is {got} where {status} was expected")
        text = bounded.run([self.torchlens, "show", "out.tlspec"], self.directory)
        self.expect("PARTIAL" in text.stdout, "the recording is not marked as partial")


def child_of(process, seconds=ENGINE_SECONDS):
    """The process id of the run below the supervisor."""
    path = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if pids := path.read_text().split():
                return int(pids[0])
        except OSError:
            pass
        time.sleep(0.01)
    raise TimeoutError("no child appeared")


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for_run(bench, process):
    """Until the child has used more processor time than a whole short run takes: its model runs."""
    child = child_of(process)
    until = time.monotonic() + ENGINE_SECONDS
    while time.monotonic() < until:
        if processor_seconds(child) > bench.usual.processor_seconds + 0.5:
            return child
        time.sleep(0.05)
    raise TimeoutError("the model did not come to run")


def is_gone(pid, seconds=5):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except OSError:
            return True
        time.sleep(0.02)
    return False


# --- the time limit -------------------------------------------------------------------------------------------------------


@check
def time_limit_while_running(bench):
    run = bench.run(MISBEHAVING, "--timeout", bench.limit(), method="endless")
    bench.expect_code(run.code, 124, run.stderr)
    bench.expect_texts(run.stderr, "error[time_limit]: misbehaving.ts.pt: the time limit of ", " passed at aten::",
                       "the recording up to there is kept in out.tlspec")
    bench.expect_partial()


@check
def time_limit_in_a_loop_of_numbers(bench):
    """No operator that yields a tensor runs in it."""
    run = bench.run(MISBEHAVING, "--timeout", bench.limit(), method="endless_numbers")
    bench.expect_code(run.code, 124, run.stderr)
    bench.expect_texts(run.stderr, "error[time_limit]: ", " passed")
    bench.expect(run.seconds < float(bench.limit()) + 15, f"took {run.seconds:.1f} s")


@check
def time_limit_in_a_slow_operator(bench):
    run = bench.run(MISBEHAVING, "--timeout", bench.limit(), "--threads", "1", method="slow_operator")
    bench.expect_code(run.code, 124, run.stderr)
    bench.expect_texts(run.stderr, "error[time_limit]: ", "was killed")
    bench.expect(run.seconds < float(bench.limit()) + 15, f"took {run.seconds:.1f} s")
    bench.expect_nothing_left(False)


@check
def time_limit_with_large_operators(bench):
    """Few operators a second: the wish to stop is heard between them."""
    run = bench.run(MISBEHAVING, "-i", "count=100000", "--timeout", bench.limit(), "--save", "none", method="produce")
    bench.expect_code(run.code, 124, run.stderr)
    bench.expect_texts(run.stderr, "the recording up to there is kept in out.tlspec")
    bench.expect_partial()


@check
def time_limit_while_loading(bench):
    run = bench.run(str(MODELS / "restoring.ts.pt"), "--timeout", bench.limit())
    bench.expect_code(run.code, 124, run.stderr)
    bench.expect_texts(run.stderr, "error[time_limit]: the time limit of ", " passed while loading the model")
    bench.expect(run.seconds < float(bench.limit()) + 15, f"took {run.seconds:.1f} s")
    bench.expect_nothing_left(False)


@check
def time_limit_while_opening(bench):
    run = bench.run(MISBEHAVING, "--timeout", "0.001", method="endless")
    bench.expect_code(run.code, 124, run.stderr)
    bench.expect_nothing_left(False)


@check
def time_limit_wherever_it_passes(bench):
    """Also in postprocessing and while the recording is written: it is then finished, or not there at all."""
    for tenths in range(5, 60, 6):
        run = bench.run(MISBEHAVING, "-i", "count=60", "--timeout", str(tenths / 10), method="produce")
        bench.expect(run.code in (0, 124), f"after {tenths / 10} s: exit {run.code}: {run.stderr.strip()[-300:]}")
        recording = bench.directory / "out.tlspec"
        bench.expect_nothing_left(recording.exists())
        bench.expect(recording.exists() == ("wrote   out.tlspec" in run.stderr), f"after {tenths / 10} s: kept is not what was said")
        if not recording.exists():
            continue
        shown = bounded.run([bench.torchlens, "show", "out.tlspec"], bench.directory)
        bench.expect(shown.code == 0, f"after {tenths / 10} s: what was kept cannot be read: {shown.stderr.strip()[:300]}")
        for path in recording.iterdir():
            path.unlink()
        recording.rmdir()


# --- memory ---------------------------------------------------------------------------------------------------------------


@check
def memory_of_one_operator(bench):
    run = bench.run(MISBEHAVING, "--max-memory", "1GB", method="one_allocation")
    bench.expect_code(run.code, 4, run.stderr)
    bench.expect_texts(run.stderr, "error[memory_limit]: the run took ", "more than the 1.0 GB of --max-memory", "while running the model")
    bench.expect(run.megabytes < 2048, f"took {run.megabytes:.0f} MB")
    bench.expect_nothing_left(False)


@check
def memory_of_a_leak(bench):
    run = bench.run(MISBEHAVING, "--max-memory", "1GB", "--save", "none", method="hoard")
    bench.expect_code(run.code, 4, run.stderr)
    bench.expect_texts(run.stderr, "error[memory_limit]: ", "while running the model, after ")
    bench.expect(run.megabytes < 2048, f"took {run.megabytes:.0f} MB")
    bench.expect_nothing_left(False)


# --- signals --------------------------------------------------------------------------------------------------------------


def stop(bench, send, code, error, to_child=False, method="endless"):
    process = bench.start(method=method)
    child = wait_for_run(bench, process)
    send(process, child)
    out, err = process.communicate(timeout=PATIENCE)
    bench.expect_code(process.returncode, code, err)
    if error:
        bench.expect_texts(err, f"error[{error}]: ")
    bench.expect(is_gone(child), "the child outlives its parent")
    return err


@check
def interrupt(bench):
    err = stop(bench, lambda process, child: process.send_signal(signal.SIGINT), 130, "interrupted")
    bench.expect_texts(err, "the recording up to there is kept in out.tlspec")
    bench.expect_partial()


@check
def interrupt_from_a_terminal(bench):
    """Ctrl-C reaches both processes; so does what signals a process group."""
    process = bench.start(method="endless", start_new_session=True)
    child = wait_for_run(bench, process)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    bench.expect_code(process.returncode, 130, err)
    bench.expect(is_gone(child), "the child outlives its parent")
    bench.expect_partial()


@check
def interrupt_twice(bench):
    """Whoever does not want to wait for the recording asks again."""
    process = bench.start("-i", "count=400", method="produce")
    child = wait_for_run(bench, process)
    process.send_signal(signal.SIGINT)
    time.sleep(0.8)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    bench.expect_code(process.returncode, 130, err)
    bench.expect(is_gone(child), "the child outlives its parent")
    bench.expect_nothing_left((bench.directory / "out.tlspec").exists())


@check
def interrupt_while_loading(bench):
    process = bench.popen(bench.words(str(MODELS / "restoring.ts.pt")))
    child = wait_for_run(bench, process)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE)
    bench.expect_code(process.returncode, 130, err)
    bench.expect(is_gone(child), "the child outlives its parent")
    bench.expect_nothing_left(False)


@check
def terminate(bench):
    err = stop(bench, lambda process, child: process.send_signal(signal.SIGTERM), 143, "terminated")
    bench.expect_texts(err, "the recording up to there is kept in out.tlspec")
    bench.expect_partial()


@check
def kill_the_parent(bench):
    process = bench.start(method="endless", stdout=subprocess.DEVNULL)
    child = wait_for_run(bench, process)
    process.kill()
    process.wait()
    bench.expect(is_gone(child), "the child outlives its parent")


@check
def crash_of_the_engine(bench):
    for number, name in ((signal.SIGSEGV, "SIGSEGV"), (signal.SIGABRT, "SIGABRT"), (signal.SIGBUS, "SIGBUS"), (signal.SIGFPE, "SIGFPE")):
        err = stop(bench, lambda process, child: os.kill(child, number), 70, "engine_crashed")
        bench.expect_texts(err, f"the engine died by signal {int(number)} ({name}) while running the model, after ", " events, at aten::",
                           "make_misbehaving.py:")
        bench.expect_nothing_left(False)


@check
def crash_while_loading(bench):
    process = bench.popen(bench.words(str(MODELS / "restoring.ts.pt")))
    os.kill(wait_for_run(bench, process), signal.SIGSEGV)
    _, err = process.communicate(timeout=PATIENCE)
    bench.expect_code(process.returncode, 70, err)
    bench.expect_texts(err, "error[engine_crashed]: the engine died by signal 11 (SIGSEGV) while loading the model")


@check
def killed_by_the_system(bench):
    err = stop(bench, lambda process, child: os.kill(child, signal.SIGKILL), 70, "engine_crashed")
    bench.expect_texts(err, "probably out of memory", "--max-memory")
    bench.expect_nothing_left(False)


@check
def closed_pipe(bench):
    """Nobody reads what it prints, in both ways that a caller can treat SIGPIPE."""
    for treatment in (signal.SIG_DFL, signal.SIG_IGN):
        read, write = os.pipe()
        os.close(read)
        process = bench.popen(bench.words(MISBEHAVING, "--force"), stdout=write, restore_signals=False,
                              preexec_fn=lambda: signal.signal(signal.SIGPIPE, treatment))
        os.close(write)
        _, err = process.communicate(timeout=PATIENCE)
        bench.expect_code(process.returncode if process.returncode >= 0 else 128 - process.returncode, 141, err)
        bench.expect_nothing_left(True)
        for words in (["show", "out.tlspec"], ["show", "out.tlspec", "--layers", "--json"], ["--help"]):
            read, write = os.pipe()
            os.close(read)
            shown = bench.popen([bench.torchlens, *words], stdout=write, restore_signals=False,
                                preexec_fn=lambda: signal.signal(signal.SIGPIPE, treatment))
            os.close(write)
            _, err = shown.communicate(timeout=PATIENCE)
            bench.expect_code(shown.returncode if shown.returncode >= 0 else 128 - shown.returncode, 141, " ".join(words) + ": " + err)


# --- what a model may do --------------------------------------------------------------------------------------------------


@check
def reaching_outside(bench):
    (bench.directory / "read_by_the_model.bin").write_bytes(struct.pack("<3f", 10, 20, 30))
    written = bench.directory / "written_by_the_model.pt"
    trials = [("reaching.ts.pt", "write", "aten::save", None), ("reaching.ts.pt", "read", "aten::from_file", [11, 22, 33]),
              ("writing.ts.pt", None, "aten::save", None), ("reading.ts.pt", None, "aten::from_file", [11, 22, 33])]
    for model, method, operator, values in trials:
        run = bench.run(str(MODELS / model), method=method)
        bench.expect_code(run.code, 4, run.stderr)
        bench.expect_texts(run.stderr, "error[unsafe_operator]: ", operator, "--allow-op " + operator)
        bench.expect(not written.exists(), f"{model}: wrote a file although it was refused")
        bench.expect(not (bench.directory / "out.tlspec").exists(), f"{model}: left a recording although it was refused")
        allowed = ["--allow-op", operator, "--force"] + (["--allow-op", "aten::from_file", "--allow-op", "aten::save"] if method else [])
        run = bench.run(str(MODELS / model), *allowed, "--save-outputs", "out.safetensors", method=method)
        bench.expect_code(run.code, 0, run.stderr)
        bench.expect(written.exists() == (operator == "aten::save"), f"{model} --allow-op {operator}: written is {written.exists()}")
        if values and run.code == 0:
            got = safetensors.read(bench.directory / "out.safetensors")["output"][2]
            bench.expect(got == values, f"{model}: the output is {got} where {values} was expected")
        written.unlink(missing_ok=True)
        for path in (bench.directory / "out.tlspec").glob("*"):
            path.unlink()
        if (bench.directory / "out.tlspec").exists():
            (bench.directory / "out.tlspec").rmdir()


@check
def printing(bench):
    """What a model prints goes to stderr, escaped."""
    run = bench.run(MISBEHAVING, method="shout")
    bench.expect_code(run.code, 0, run.stderr)
    bench.expect("from the model" not in run.stdout, "the model's printing is on stdout")
    bench.expect("from the model" in run.stderr, "the model's printing is not on stderr")
    bench.expect("\x1b" not in run.stderr and "\n::error" not in "\n" + run.stderr, "the model's printing is not escaped")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    failed = 0
    chosen = arguments.names or list(CHECKS)
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="torchlens-supervision-") as directory:
            bench = Bench(str(arguments.torchlens.resolve()), pathlib.Path(directory))
            try:
                CHECKS[name](bench)
            except (TimeoutError, subprocess.TimeoutExpired) as error:
                bench.faults.append(str(error))
            finally:
                bench.end()
            failed += bool(bench.faults)
            print(f"{name}: {'as expected' if not bench.faults else ''}", *bench.faults, sep="\n  " if bench.faults else "", flush=True)
    print(f"{len(chosen)} checks, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
