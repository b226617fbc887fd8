#!/usr/bin/env python3
"""Runs damaged copies of model files and says where the answer is not a result or one clear line.

Usage: mutate.py --torchlens FILE --zoo DIR [--count N] [--seed N] [--jobs N] [--keep DIR] [--only K]    exit 77: skipped

Every mutant is given to `show`, to `diff --static` beside the file as it was, and to `trace`. Half of them are bytes changed anywhere in the file (flips, cuts, splices,
length fields); the others are changes inside one entry with the checksums set right again, so that they come past them.
What must hold of each: an exit code that is documented, never 70, never a signal; at most 10 s of work; at most 1 GB more than the file
as it was; an error with a code where it is refused; and, where no checksum was repaired, the outputs of the file as it was,
or a refusal. Mutant N of a seed is always the same: --only K reruns one, --keep stores those with findings.
"""
import argparse
import concurrent.futures
import dataclasses
import json
import pathlib
import random
import re
import struct
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cases"))
import archives  # noqa: E402
import bounded  # noqa: E402
import safetensors  # noqa: E402

SKIPPED = 77
BASES = ["constants.trace.pt", "containers.ts.pt", "smallconv.ts.pt", "quant_dynamic.ts.pt", "sparse_weight.ts.pt", "spectral_fft.ts.pt",
         "containers.pt2", "hop_cond.pt2", "nested_io.pt2", "smallconv.pt2"]
SECONDS = 10  # of processor time, which tells a slow answer from a busy machine
PATIENCE = 120
EXTRA_MEGABYTES = 1024
TIMEOUT = 8  # of a program that a change made endless; the tool's own limit
EXTREMES = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
NUMBERS = ["0", "-1", "1", "2", "255", "65536", "2147483647", "-2147483648", "4294967296", "9223372036854775807",
           "-9223372036854775808", "99999999999999999999999", "0.5", "1e308"]


@dataclasses.dataclass
class Base:
    name: str
    data: bytes
    inputs: pathlib.Path
    entries: list
    outputs: dict = dataclasses.field(default_factory=dict)
    megabytes: float = 0.0
    runs: bool = True


# --- changes ---------------------------------------------------------------------------------------------------------------


def flip(random_, data, others):
    data = bytearray(data)
    for _ in range(random_.choice([1, 1, 1, 2, 8])):
        if data:
            data[random_.randrange(len(data))] ^= 1 << random_.randrange(8)
    return bytes(data)


def set_bytes(random_, data, others):
    at = random_.randrange(len(data) + 1)
    count = random_.choice([1, 2, 4, 8, 64])
    filler = random_.choice([b"\0", b"\xff", b"\x80", b"(", b"A", bytes([random_.randrange(256)])])
    return data[:at] + filler * min(count, len(data) - at) + data[at + count:]


def cut(random_, data, others):
    begin = random_.randrange(len(data) + 1)
    end = random_.choice([len(data), min(len(data), begin + random_.choice([1, 2, 7, 64, 1000]))])
    return data[:begin] + data[end:]


def splice(random_, data, others):
    source = random_.choice([data, random_.choice(others)])
    begin = random_.randrange(len(source) + 1)
    piece = source[begin:begin + random_.choice([1, 4, 16, 100, 2000])]
    at = random_.randrange(len(data) + 1)
    return data[:at] + piece + data[at + random_.choice([0, len(piece)]):]


def number_field(random_, data, others):
    """Little-endian numbers anywhere set to what overflows, wraps or points elsewhere."""
    size = random_.choice([1, 2, 4, 8])
    if len(data) < size:
        return data
    at = random_.randrange(len(data) - size + 1)
    old = int.from_bytes(data[at:at + size], "little")
    value = random_.choice([random_.choice(EXTREMES), old + 1, old - 1, old * 2, len(data), (1 << (8 * size)) - 1,
                            1 << (8 * size - 1), random_.getrandbits(8 * size)])
    return data[:at] + (value % (1 << (8 * size))).to_bytes(size, "little") + data[at + size:]


def zip_field(random_, data, others):
    """A field of a local header, directory record or end record."""
    kind, fields = random_.choice([(b"PK\x03\x04", [(6, 2), (8, 2), (14, 4), (18, 4), (22, 4), (26, 2), (28, 2)]),
                                   (b"PK\x01\x02", [(8, 2), (10, 2), (16, 4), (20, 4), (24, 4), (28, 2), (30, 2), (42, 4)]),
                                   (b"PK\x05\x06", [(8, 2), (10, 2), (12, 4), (16, 4), (20, 2)]),
                                   (b"PK\x06\x06", [(4, 8), (24, 8), (32, 8), (40, 8), (48, 8)])])
    places = [match.start() for match in re.finditer(re.escape(kind), data)]
    if not places:
        return number_field(random_, data, others)
    offset, size = random_.choice(fields)
    at = random_.choice(places) + offset
    old = int.from_bytes(data[at:at + size], "little")
    value = random_.choice([random_.choice(EXTREMES), old + 1, old - 1, old * 2, len(data), random_.getrandbits(8 * size)])
    return data[:at] + (value % (1 << (8 * size))).to_bytes(size, "little") + data[at + size:]


def pickle_opcode(random_, data, others):
    opcodes = b"(.012FIJKLMNPQRSTUVXabcdeghijlopqrst}])uGBC\x80\x81\x85\x86\x87\x88\x89\x8a\x8b\x8c\x8d\x8e\x93\x94\x95"
    at = random_.randrange(len(data) + 1)
    code = bytes([random_.choice(opcodes)])
    return data[:at] + code + data[at + random_.choice([0, 1]):]


def pickle_length(random_, data, others):
    """The argument of a string, an integer, a memo slot or a count."""
    places = [match.start() for match in re.finditer(rb"[XJTjrKMqhUG\x8a\x8d\x8e]", data)]
    if not places:
        return number_field(random_, data, others)
    at = random_.choice(places) + 1
    size = {b"K": 1, b"q": 1, b"h": 1, b"U": 1, b"\x8a": 1, b"M": 2, b"\x8d": 8, b"\x8e": 8, b"G": 8}.get(data[at - 1:at], 4)
    return data[:at] + (random_.choice(EXTREMES) % (1 << 8 * size)).to_bytes(size, "little") + data[at + size:]


TOKEN = re.compile(rb"[A-Za-z_][A-Za-z0-9_]*|[0-9.eE+]+|\"[^\"\n]*\"|\n *|[^ ]")


def tokens(random_, data, others):
    """Tokens of a text left out, doubled, swapped, taken from elsewhere, wrapped in brackets."""
    found = TOKEN.findall(data)
    if len(found) < 4:
        return flip(random_, data, others)
    for _ in range(random_.choice([1, 1, 2, 4])):
        at, other = random_.randrange(len(found)), random_.randrange(len(found))
        change = random_.randrange(6)
        if change == 0:
            del found[at]
        elif change == 1:
            found.insert(at, found[other])
        elif change == 2:
            found[at], found[other] = found[other], found[at]
        elif change == 3:
            found[at] = found[other]
        elif change == 4:
            found[at] = random_.choice(NUMBERS).encode()
        else:
            depth = random_.choice([1, 3, 200, 3000])
            found[at] = random_.choice([b"(", b"["]) * depth + found[at] + random_.choice([b")", b"]", b""]) * depth
        if len(found) < 4:
            break
    glue = [b" " + token if re.match(rb"[A-Za-z0-9_\"]", token) else token for token in found]
    return b"".join(glue)


def lines(random_, data, others):
    found = data.split(b"\n")
    at, other = random_.randrange(len(found)), random_.randrange(len(found))
    change = random_.randrange(4)
    if change == 0:
        del found[at]
    elif change == 1:
        found.insert(at, found[other])
    elif change == 2:
        found[at], found[other] = found[other], found[at]
    else:
        found[at] = b" " * random_.choice([1, 2, 7, 400]) + found[at]
    return b"\n".join(found)


def json_value(random_, data, others):
    """One value of a JSON document left out, doubled, replaced; keys stay as they were."""
    try:
        document = json.loads(data)
    except ValueError:
        return tokens(random_, data, others)
    places = []

    def walk(node):
        for key in node if isinstance(node, dict) else range(len(node)):
            places.append((node, key))
            if isinstance(node[key], (dict, list)):
                walk(node[key])

    if isinstance(document, (dict, list)):
        walk(document)
    if not places:
        return flip(random_, data, others)
    for _ in range(random_.choice([1, 1, 2])):
        node, key = random_.choice(places)
        if (isinstance(node, list) and key >= len(node)) or (isinstance(node, dict) and key not in node):
            continue
        value = random_.choice([None, True, "", "x", [], {}, -1, 0, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63), 1e308, [[]],
                                random_.choice(places)[0]])
        change = random_.randrange(4)
        if change == 0:
            del node[key]
        elif change == 1 and isinstance(node, list):
            node.insert(key, node[random_.randrange(len(node))])
        elif isinstance(value, (dict, list)) and value:
            node[key] = json.loads(json.dumps(value))
        else:
            node[key] = value
        if not places:
            break
    return json.dumps(document).encode()


ANYWHERE = [flip, flip, set_bytes, cut, cut, splice, splice, number_field, zip_field, zip_field]


def changes_for(name):
    if name.endswith((".pkl", ".debug_pkl", ".pt")):
        return [flip, flip, cut, splice, number_field, pickle_opcode, pickle_opcode, pickle_length, pickle_length]
    if name.endswith(".py"):
        return [flip, tokens, tokens, tokens, lines, lines, cut, splice]
    if name.endswith(".json"):
        return [flip, json_value, json_value, json_value, json_value, tokens, cut, splice]
    return [flip, set_bytes, cut, splice, number_field]


def weight(name):
    """Structure breaks readers more than weights do."""
    return 8 if name.endswith((".pkl", ".py", ".json")) else 4 if name.endswith(".debug_pkl") else 1


def mutant(bases, seed, number):
    """(base, bytes, repaired, words)"""
    random_ = random.Random(f"{seed}/{number}")
    base = bases[number % len(bases)]
    others = [other.data for other in bases]
    if (number // len(bases)) % 2 == 0:
        change = random_.choice(ANYWHERE)
        return base, change(random_, base.data, others), False, change.__name__
    entries = list(base.entries)
    at = random_.choices(range(len(entries)), [weight(name) for name, _ in entries])[0]
    name, data = entries[at]
    change = random_.choice(changes_for(name))
    same_kind = [body for other in bases for entry, body in other.entries if entry.rsplit(".", 1)[-1] == name.rsplit(".", 1)[-1]]
    entries[at] = (name, change(random_, data, same_kind or others))
    return base, archives.pack(entries), True, f"{change.__name__} in {name}"


# --- what must hold of the answers -----------------------------------------------------------------------------------------


def check_answer(run, base, what, good=(0,)):
    faults = []
    if run.code not in bounded.EXIT_CODES:
        faults.append(f"{what}: exit {run.code}: {run.stderr.strip()[-300:]}")
    elif run.code not in good and not re.search(r"^error\[\w+\]: ", run.stderr, re.M):
        faults.append(f"{what}: exit {run.code} without an error line: {run.stderr.strip()[-300:]}")
    if "error[internal]" in run.stderr or "error[invariant]" in run.stderr or "error[engine_crashed]" in run.stderr:
        faults.append(f"{what}: {run.stderr.strip()[-300:]}")
    if run.processor_seconds > SECONDS or run.seconds > PATIENCE:
        faults.append(f"{what}: took {run.processor_seconds:.1f} s of processor time in {run.seconds:.1f} s")
    if run.megabytes > base.megabytes + EXTRA_MEGABYTES:
        faults.append(f"{what}: took {run.megabytes:.0f} MB, the file as it was {base.megabytes:.0f}")
    return faults


class Trial:
    def __init__(self, torchlens):
        self.torchlens = str(torchlens)

    def trace(self, model, base, directory, limits):
        return bounded.run([self.torchlens, "trace", model, "--input", str(base.inputs), "-o", "out.tlspec", "--save-outputs",
                            "out.safetensors", "-q", "--threads", "1", *limits], directory, 2 * PATIENCE)

    def compare(self, whole, mutant_, directory):
        return bounded.run([self.torchlens, "diff", whole, mutant_, "--static"], directory, 2 * PATIENCE)

    def measure(self, base):
        with tempfile.TemporaryDirectory(prefix="torchlens-mutate-") as name:
            directory = pathlib.Path(name)
            (directory / base.name).write_bytes(base.data)
            run = self.trace(base.name, base, directory, [])
            base.runs, base.megabytes = run.code == 0, run.megabytes
            if base.runs:
                base.outputs = safetensors.read(directory / "out.safetensors")
            return run

    def check(self, base, data, repaired):
        with tempfile.TemporaryDirectory(prefix="torchlens-mutate-") as name:
            directory = pathlib.Path(name)
            (directory / base.name).write_bytes(data)
            shown = bounded.run([self.torchlens, "show", base.name], directory, 2 * PATIENCE)
            faults = check_answer(shown, base, "show")
            whole = directory / f"whole.{base.name}"
            whole.write_bytes(base.data)
            faults += check_answer(self.compare(whole.name, base.name, directory), base, "diff --static", (0, 1))
            whole.unlink()
            limits = ["--timeout", str(TIMEOUT), "--max-memory", f"{int(base.megabytes + EXTRA_MEGABYTES * 0.8)}MB"] if repaired else []
            run = self.trace(base.name, base, directory, limits)
            faults += check_answer(run, base, "trace")
            if run.code == 0 and not repaired:
                faults += self.check_values(base, directory)
            left = {path.name for path in directory.iterdir()} - {base.name, "out.tlspec", "out.safetensors"}
            if left:
                faults.append(f"trace: left {sorted(left)} behind")
            return faults, run

    @staticmethod
    def check_values(base, directory):
        got = safetensors.read(directory / "out.safetensors")
        if sorted(got) != sorted(base.outputs):
            return [f"trace: outputs {sorted(got)} where {sorted(base.outputs)} were expected"]
        found = ((key, safetensors.difference(got[key], base.outputs[key])) for key in got)
        return [f"trace: {key}: {text}" for key, text in found if text]


def read_bases(zoo):
    bases = []
    for name in BASES:
        stem = name.split(".")[0]
        bases.append(Base(name, (zoo / name).read_bytes(), zoo / f"{stem}.inputs.safetensors", archives.read(zoo / name)))
    return bases


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--torchlens", required=True, type=pathlib.Path)
    parser.add_argument("--zoo", required=True, type=pathlib.Path)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first mutant, to go on where a run was ended")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--only", type=int, action="append", default=[])
    arguments = parser.parse_args()
    if not arguments.zoo.is_dir():
        print(f"skipped: the reference files {arguments.zoo} are not there")
        sys.exit(SKIPPED)
    bases = read_bases(arguments.zoo.resolve())
    trial = Trial(arguments.torchlens.resolve())
    for base in bases:
        run = trial.measure(base)
        if not base.runs and run.code != 4:
            sys.exit(f"{base.name} as it is: exit {run.code}: {run.stderr.strip()[-500:]}")
    if arguments.keep:
        arguments.keep.mkdir(parents=True, exist_ok=True)
    codes, findings = {}, 0

    def attempt(number):
        base, data, repaired, words = mutant(bases, arguments.seed, number)
        return number, base, data, words, *trial.check(base, data, repaired)

    numbers = arguments.only or range(arguments.first, arguments.first + arguments.count)
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for number, base, data, words, faults, run in pool.map(attempt, numbers):
            codes[run.code] = codes.get(run.code, 0) + 1
            if number % 1000 == 999 and not arguments.only:
                print(f"{number + 1} done, {findings} with findings", flush=True)
            if arguments.only:
                print(f"mutant {number} of {base.name}: {words}: exit {run.code} {run.seconds:.2f} s {run.megabytes:.0f} MB\n{run.stderr}")
            if not faults:
                continue
            findings += 1
            print(f"mutant {number} of {base.name} ({words}):", *faults, sep="\n  ", flush=True)
            if arguments.keep:
                (arguments.keep / f"{arguments.seed}-{number}-{base.name}").write_bytes(data)
    print(f"seed {arguments.seed}: {len(numbers)} mutants of {len(bases)} files, exit codes "
          + ", ".join(f"{code}: {count}" for code, count in sorted(codes.items())) + f"; {findings} with findings")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
