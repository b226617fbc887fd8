"""What a kind of hostile file is made of, and what the answer to it must be: shared by kinds_*.py."""
import dataclasses
import os
import pathlib
import pickle
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import archives  # noqa: E402

MODELS = HERE.parent / "models"
SCRIPT, EXPORTED, INPUTS = MODELS / "linear.ts.pt", MODELS / "linear.pt2", MODELS / "linear.inputs.safetensors"
FILE, REFUSED, USAGE, RAISED = 3, 4, 2, 5
SECONDS = 10  # of processor time, which tells a slow answer from a busy machine


@dataclasses.dataclass
class Answer:
    """What must come of one command line; `words` begin with the command, FILE stands for the file under test."""
    words: list
    code: int
    error: str
    texts: list = dataclasses.field(default_factory=list)
    absent: list = dataclasses.field(default_factory=list)
    seconds: float = SECONDS


KINDS = {}


def kind(function):
    KINDS[function.__name__] = function
    return function


def trace(code, error, *texts, more=(), **rest):
    return Answer(["trace", "FILE", "--input", str(INPUTS), "-o", "out.tlspec", *more], code, error, list(texts), **rest)


def show(code, error, *texts, **rest):
    return Answer(["show", "FILE"], code, error, list(texts), **rest)


def both(code, error, *texts, **rest):
    return [show(code, error, *texts, **rest), trace(code, error, *texts, **rest)]


def edited(base, changes, add=(), drop=(), **pack):
    """The archive of `base` with entries replaced: {end of name: bytes or function of the old bytes}."""
    entries = []
    for name, data in archives.read(base):
        if any(name.endswith(end) for end in drop):
            continue
        for end, change in changes.items():
            if name.endswith(end):
                data = change(data) if callable(change) else change
        entries.append((name, data))
    return archives.pack(entries + list(add), **pack)


def swapped(old, new):
    """A change for edited(): the first `old`, which must be there, becomes `new`."""
    def change(data):
        assert old in data, old
        return data.replace(old, new, 1)
    return change


class Payload:
    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return self.call, self.arguments


def payload(marker):
    return pickle.dumps(Payload(os.mkdir, str(marker)), protocol=2)
