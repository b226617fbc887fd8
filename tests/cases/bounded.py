"""Runs the binary and measures it: exit code, streams, wall time, the largest resident size of it or its child."""
import dataclasses
import os
import signal
import subprocess
import tempfile
import threading
import time

EXIT_CODES = {0, 1, 2, 3, 4, 5, 124, 130, 141, 143}  # 70 is a defect, everything else a signal


@dataclasses.dataclass
class Run:
    code: int
    stdout: str
    stderr: str
    seconds: float
    processor_seconds: float
    megabytes: float


def environment():
    kept = {key: value for key, value in os.environ.items()
            if key not in ("NO_COLOR", "CLICOLOR_FORCE", "LC_ALL", "LANG", "CI", "OMP_NUM_THREADS")}
    kept["TERM"] = "dumb"
    return kept


def run(words, cwd, seconds=60, stdin=None):
    """The child leads a process group of its own, so that one that outlives its time is ended with all it started."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        start = time.monotonic()
        process = subprocess.Popen(words, cwd=cwd, env=environment(), stdin=stdin or subprocess.DEVNULL, stdout=out,
                                   stderr=err, start_new_session=True)
        timer = threading.Timer(seconds, lambda: os.killpg(process.pid, signal.SIGKILL))
        timer.start()
        try:
            _, status, usage = os.wait4(process.pid, 0)
        finally:
            timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - start
        texts = []
        for stream in (out, err):
            stream.seek(0)
            texts.append(stream.read().decode(errors="backslashreplace"))
    return Run(process.returncode, texts[0], texts[1], took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)
