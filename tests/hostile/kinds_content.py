"""Hostile sources, versions, exported programs, inputs and recordings."""
import json
import struct
import sys

import archives
import bounded
import safetensors
from answers import EXPORTED, FILE, INPUTS, KINDS, MODELS, RAISED, REFUSED, SCRIPT, USAGE, Answer, edited, kind, payload, show, swapped, trace


# --- code -----------------------------------------------------------------------------------------------------------------


def with_code(path, text):
    path.write_bytes(edited(SCRIPT, {"linear.py": lambda old: old + text}))


@kind
def deep_brackets(path):
    with_code(path, b"def f(x: Tensor) -> Tensor:\n  return " + b"(" * 50_000 + b"x" + b")" * 50_000 + b"\n")
    return [trace(FILE, "file_limits", "linear.py", "open brackets", "256")]


@kind
def deep_indentation(path):
    with_code(path, b"def f(x: Tensor) -> Tensor:\n" + b"".join(b" " * (i + 1) + b"if True:\n" for i in range(3_000)) + b" " * 3_001 + b"pass\n")
    return [trace(FILE, "file_limits", "linear.py", "indentation levels", "256")]


@kind
def long_chain(path):
    with_code(path, b"def f(x: Tensor) -> Tensor:\n  return x" + b" + x" * 100_000 + b"\n")
    return [trace(FILE, "file_limits", "linear.py", "operators in a row", "1000")]


@kind
def many_elifs(path):
    with_code(path, b"def f(x: int) -> int:\n  if x == 0:\n    return 0\n" +
              b"".join(b"  elif x == %d:\n    return %d\n" % (i, i) for i in range(1, 3_000)) + b"  return 1\n")
    return [trace(FILE, "file_limits", "linear.py", "elif arms", "256")]


@kind
def unclosed_bracket(path):
    with_code(path, b"def f(x: Tensor) -> Tensor:\n  return (((\n")
    return [trace(FILE, "file_damaged", "FILE", "linear.py", "bracket is not closed")]


@kind
def bytes_outside_ascii(path):
    with_code(path, "def f(x: Tensor) -> Tensor:\n  return \u202ex\n".encode())
    return [trace(FILE, "file_damaged", "linear.py", absent=["\u202e"])]


@kind
def unsafe_operator(path):
    with_code(path, b"def f(x: Tensor) -> None:\n  torch.save(x, \"PWNED\")\n")
    return [trace(REFUSED, "unsafe_operator", "aten::save", "linear.py", "--allow-op aten::save")]


@kind
def hidden_operator(path):
    with_code(path, b"def f(x: Tensor) -> None:\n  getattr(torch, \"sa\" \"ve\")(x, \"PWNED\")\n")
    return [trace(FILE, "file_hostile", "linear.py")]


@kind
def python_operator(path):
    with_code(path, b"def f(x: Tensor) -> Tensor:\n  return ^Evil()(x)\n")
    return [trace(REFUSED, "unsafe_operator", "^Evil")]


# --- versions and kinds ---------------------------------------------------------------------------------------------------


@kind
def future_version(path):
    path.write_bytes(edited(SCRIPT, {"/version": b"9999\n"}))
    return [show(0, None, "9999"), trace(REFUSED, "unsupported_version", "9999")]


@kind
def version_that_is_none(path):
    path.write_bytes(edited(SCRIPT, {"/version": b"one\n"}))
    return [trace(FILE, "file_damaged", "version")]


@kind
def future_schema(path):
    def later(data):
        program = json.loads(data)
        program["schema_version"] = {"major": 99, "minor": 7}
        return json.dumps(program).encode()
    path.write_bytes(edited(EXPORTED, {"models/model.json": later}))
    return [trace(REFUSED, "unsupported_version", "99.7")]


@kind
def lfs_pointer(path):
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 12345\n")
    return [trace(FILE, "not_a_model", "Git LFS", "git lfs pull")]


@kind
def html_page(path):
    path.write_text("\n <!DOCTYPE html><html><head><title>Sign in</title></head></html>")
    return [trace(FILE, "not_a_model", "HTML")]


@kind
def truncated_everywhere(path):
    """Cut at each of 64 places: always refused."""
    data, answers = SCRIPT.read_bytes(), []
    for number in range(64):
        file = path.with_name(f"cut{number}.pt")
        file.write_bytes(data[:len(data) * number // 64])
        answers.append(Answer(["show", file.name], FILE if number else 0, "file_damaged" if number else None))
    return answers


# --- exported programs ----------------------------------------------------------------------------------------------------


@kind
def deep_json(path):
    path.write_bytes(edited(EXPORTED, {"models/model.json": b"[" * 10_000_000}))
    return [trace(FILE, None, "model.json")]


@kind
def endless_json(path):
    path.write_bytes(edited(EXPORTED, {"models/model.json": b'{"a":' + b"[0," * 10_000 + b"0" + b"]" * 10_000 + b"}"}))
    return [trace(FILE, None, "model.json")]


@kind
def duplicate_json_key(path):
    path.write_bytes(edited(EXPORTED, {"models/model.json": swapped(b"{", b'{"graph_module": {}, ')}))
    return [trace(FILE, None, "graph_module")]


# --- inputs ---------------------------------------------------------------------------------------------------------------


def header_file(path, header):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 24)


def input_answer(code, error, *texts, **rest):
    return [Answer(["trace", str(SCRIPT), "--input", "FILE", "-o", "out.tlspec"], code, error, ["FILE", *texts], **rest)]


@kind
def input_duplicate_keys(path):
    header_file(path, b'{"input":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"input":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}}')
    return input_answer(FILE, None, "input")


@kind
def input_duplicate_field(path):
    header_file(path, b'{"input":{"dtype":"F32","dtype":"F64","shape":[2,3],"data_offsets":[0,24]}}')
    return input_answer(FILE, None, "dtype")


@kind
def input_deep_header(path):
    header_file(path, b'{"input":' + b"[" * 4_000_000 + b"}")
    return input_answer(FILE, None)


@kind
def input_wide_header(path):
    """A header larger than its data by far: two hundred thousand empty tensors are a fault of their number alone."""
    header_file(path, b"{" + b",".join(b'"%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}' % i for i in range(400_000)) + b"}")
    return input_answer(FILE, None)


@kind
def input_evil_names(path):
    names = ["\x1b[2J", "\n::error::evil", "\u202eevil", "=cmd|' /C calc'!A0"]
    safetensors.write(path, {name: ("F32", [2, 3], b"\0" * 24) for name in names})
    return input_answer(USAGE, "input_mismatch", absent=["\x1b", "\n::error", "\u202e"])


@kind
def a_program_without_methods(path):
    """What a screen says next must not look for what exported programs lack. Not always seen: memory decides."""
    path.write_bytes(EXPORTED.read_bytes())
    return [Answer(["show", "FILE"], 0, "", ["next        torchlens trace"]) for _ in range(5)]


@kind
def words_of_a_program(path):
    """What a program prints, raises and names its outputs, by `trace` and by all that looks at the recording."""
    path.write_bytes((MODELS / "talking.ts.pt").read_bytes())
    absent = ["\x1b", "\n::error", "\u202e", "\n##["]
    run = ["trace", "FILE", "--random", "x:f32[2]", "--force", "-o", "out.tlspec"]
    return [
        Answer([*run, "--input", "fails=true"], RAISED, "model_raised", ["printed", "raised"], absent),
        Answer(["show", "out.tlspec"], 0, "", ["raised"], absent),
        Answer(["show", "out.tlspec", "--json"], 0, "", ["raised"], absent),
        Answer([*run, "--save-outputs", "o.safetensors"], 0, "", ["printed", "key"], absent),
        Answer([*run, "--json"], 0, "", ["key"], absent),
        Answer(["show", "out.tlspec"], 0, "", ["key"], absent),
        Answer(["show", "out.tlspec", "--layers"], 0, "", [], absent),
        Answer(["show", "out.tlspec", "output_1"], 0, "", ["key"], absent),
        Answer(["show", "out.tlspec", "output_1", "--json"], 0, "", ["key"], absent),
    ]


@kind
def input_of_wrong_dtype(path):
    safetensors.write(path, {"input": ("I64", [2, 3], b"\0" * 48)})
    return input_answer(RAISED, "model_raised")


@kind
def input_pickle_payload(path):
    path.write_bytes(archives.pack([("x/data.pkl", payload(path.with_name("PWNED"))), ("x/version", b"3\n")]))
    return input_answer(REFUSED, "unsafe_pickle", "posix.mkdir")


@kind
def input_object_array(path):
    header = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    file = path.with_suffix(".npy")
    file.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header + payload(path.with_name("PWNED")))
    return [Answer(["trace", str(SCRIPT), "--input", file.name], REFUSED, "unsupported_kind", [file.name, "would run code"])]


@kind
def input_npy_of_code(path):
    header = b"{'descr': __import__('os').mkdir('PWNED'), 'fortran_order': False, 'shape': (1,), }\n"
    file = path.with_suffix(".npy")
    file.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header)
    return [Answer(["trace", str(SCRIPT), "--input", file.name], FILE, None, [file.name])]


@kind
def input_deep_scalars(path):
    file = path.with_suffix(".json")
    file.write_bytes(b'{"input":' + b"[" * 3_000_000 + b"]" * 3_000_000 + b"}")
    return [Answer(["trace", str(SCRIPT), "--input", file.name], FILE, None, [file.name])]


@kind
def input_npz_bomb(path):
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (250000000,), }"
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    data = archives.Zeros(1_000_000_000, b"\x93NUMPY\x01\0" + struct.pack("<H", len(header)) + header)
    file = path.with_suffix(".npz")
    file.write_bytes(archives.pack([("input.npy", data)], deflate=["input.npy"]))
    return [Answer(["trace", str(SCRIPT), "--input", file.name], FILE, "file_limits", [file.name, "inflate to"])]


# --- recordings -----------------------------------------------------------------------------------------------------------


class Recording:
    """A recording of the small model, to be damaged."""

    def __init__(self, path, torchlens):
        self.path = path.with_suffix(".tlspec")
        done = bounded.run([torchlens, "trace", str(SCRIPT), "--input", str(INPUTS), "-o", self.path.name, "-q"], path.parent)
        if done.code != 0:
            sys.exit(f"the small model is not recorded: {done.stderr}")

    def answer(self, code, error, *texts, **rest):
        return [Answer(["show", self.path.name, *key], code, error, list(texts), **rest) for key in ([], ["--layers"], ["linear_1_1"])]


def recording_kind(function):
    def make(path, torchlens):
        return function(Recording(path, torchlens))
    KINDS[function.__name__] = make
    make.needs_binary = True
    return function


@recording_kind
def recording_with_link(recording):
    secret = recording.path.with_name("secret")
    secret.write_bytes((recording.path / "columns.safetensors").read_bytes())
    (recording.path / "columns.safetensors").unlink()
    (recording.path / "columns.safetensors").symlink_to(secret)
    return recording.answer(FILE, None, "columns.safetensors", "no regular file")


@recording_kind
def recording_manifest_link(recording):
    moved = recording.path.with_name("manifest")
    (recording.path / "manifest.json").rename(moved)
    (recording.path / "manifest.json").symlink_to(moved)
    return recording.answer(FILE, None, "manifest.json")


@recording_kind
def recording_deep_manifest(recording):
    (recording.path / "manifest.json").write_bytes(b'{"format":' + b"[" * 10_000_000)
    return recording.answer(FILE, None, "manifest.json")


@recording_kind
def recording_of_the_future(recording):
    manifest = recording.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 99', 1))
    return recording.answer(REFUSED, "unsupported_version", "99")


@recording_kind
def recording_with_a_path(recording):
    manifest = recording.path / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"columns.safetensors"', '"../secret"'))
    return recording.answer(FILE, None, "../secret")
