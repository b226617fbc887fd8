"""Hostile zip archives and pickles."""
import struct

import archives
from answers import EXPORTED, FILE, INPUTS, REFUSED, SCRIPT, Answer, both, edited, kind, payload, show, swapped, trace


# --- zip ------------------------------------------------------------------------------------------------------------------


@kind
def duplicate_entry(path):
    path.write_bytes(edited(SCRIPT, {}, add=[("linear.ts/data.pkl", b"\x80\x02}.")]))
    return both(FILE, "file_hostile", "two entries named", "linear.ts/data.pkl")


@kind
def same_name_in_other_case(path):
    path.write_bytes(edited(SCRIPT, {}, add=[("linear.ts/DATA.pkl", b"\x80\x02}.")]))
    return [trace(FILE, "file_hostile", "DATA.pkl", "case only")]


@kind
def other_local_name(path):
    entries = archives.read(SCRIPT)
    path.write_bytes(archives.pack(entries, lies={2: {"local_name": b"linear.ts/evil.pkl"}}))
    return both(FILE, "file_hostile", "another name in its local header")


@kind
def overlapping_entries(path):
    """Many directory records that point to one compressed entry: a megabyte each from one kilobyte."""
    entries = [("root/data.pkl", b"\0" * 1_000_000)] + [(f"root/{i}", b"") for i in range(200)]
    first = {index: {"offset": 0} for index in range(1, len(entries))}
    path.write_bytes(archives.pack(entries, deflate=["root/data.pkl"], lies=first))
    return both(FILE, "file_hostile")


@kind
def bomb_that_lies(path):
    """A claim of four gigabytes that a few bytes of deflate cannot make."""
    entries = [(name, data) for name, data in archives.read(SCRIPT)]
    name = next(i for i, (n, _) in enumerate(entries) if n.endswith("container.py"))
    path.write_bytes(archives.pack(entries, deflate=[entries[name][0]], lies={name: {"size": 0xFFFFFFF0}}))
    return both(FILE, "file_hostile", "claims to inflate from", "4294967280")


@kind
def bomb_that_tells(path):
    """Honest about its gigabyte of zeros in one megabyte."""
    zeros = archives.Zeros(1 << 29)
    path.write_bytes(edited(SCRIPT, {}, add=[("linear.ts/extra/a", zeros), ("linear.ts/extra/b", zeros)],
                            deflate=["linear.ts/extra/a", "linear.ts/extra/b"]))
    return both(FILE, "file_limits", "inflate to")


@kind
def bomb_of_entries(path):
    path.write_bytes(archives.pack([(f"r/{i}", b"") for i in range(60_000)] + [("r/data.pkl", b"\x80\x02}.")]))
    return [show(0, None, absent=["error"]), trace(FILE, "not_a_model")]


@kind
def more_entries_than_bytes(path):
    data = bytearray(SCRIPT.read_bytes())
    end = data.rfind(b"PK\x05\x06")
    data[end + 8:end + 12] = b"\xfe\xff\xfe\xff"
    path.write_bytes(data)
    return both(FILE, None)


@kind
def junk_before_and_after(path):
    path.write_bytes(SCRIPT.read_bytes() + b"junk" * 10)
    return both(FILE, "file_damaged")


@kind
def second_directory(path):
    """Two archives in one file: readers that search from either end see different ones."""
    path.write_bytes(SCRIPT.read_bytes() + edited(SCRIPT, {"data.pkl": b"\x80\x02}."}))
    return both(FILE, "file_damaged")


@kind
def encrypted_entry(path):
    path.write_bytes(archives.pack(archives.read(SCRIPT), lies={2: {"flags": 1}}))
    return both(FILE, "file_damaged", "encrypted")


@kind
def wrong_checksum(path):
    path.write_bytes(archives.pack(archives.read(SCRIPT), lies={0: {"crc": 1}}))
    return [trace(FILE, "file_damaged", "linear.ts/data/0", "checksum")]


@kind
def names(path):
    """Each of these names must be refused, shown without doing anything to a terminal or a CI runner."""
    answers = []
    for number, (name, reason) in enumerate([
            (b"linear.ts/../../evil", "`..`"), (b"/etc/passwd", "absolute"), (b"C:\\evil", "drive letter"),
            (b"linear.ts/a\\b", "backslash"), (b"linear.ts/a\0b", "control character"),
            (b"linear.ts/\n::error::evil", "control character"), (b"linear.ts/\x1b[2J", "control character"),
            (b"linear.ts//b", "empty"), (b"", "empty"), (b"linear.ts/" + b"x" * 5000, "5010")]):
        file = path.with_name(f"name{number}.pt")
        file.write_bytes(edited(SCRIPT, {}, add=[(name, b"")]))
        for words in (["show", file.name], ["trace", file.name, "--input", str(INPUTS)]):
            answers.append(Answer(words, FILE, "file_limits" if reason == "5010" else "file_hostile", [reason],
                                  ["\x1b", "\n::error", "\0"]))
    return answers


@kind
def shown_names(path):
    """Names that are no fault of the archive, but must not reach a terminal as they are."""
    answers = []
    for number, name in enumerate(["linear.ts/\u202etxt.exe", "linear.ts/\x9b2J", "linear.ts/=cmd|' /C calc'!A0"]):
        file = path.with_name(f"shown{number}.pt")
        file.write_bytes(archives.pack(archives.read(SCRIPT) + [(name, b"\0")], lies={len(archives.read(SCRIPT)): {"crc": 1}}))
        answers.append(Answer(["trace", file.name, "--input", str(INPUTS)], FILE, "file_damaged", ["checksum"], ["\u202e", "\x9b"]))
    return answers


@kind
def file_name_of_the_model(path):
    """The name of the file itself comes from outside too."""
    answers = []
    for name in ("\n::error::evil.pt", "\x1b[31mred.pt", "\u202etp.live", "=cmd|calc.pt"):
        file = path.with_name(name)
        file.write_bytes(b"nothing")
        answers.append(Answer(["trace", name], FILE, "not_a_model", [], ["\x1b", "\n::error", "\u202e"]))
    return answers


# --- pickles --------------------------------------------------------------------------------------------------------------


@kind
def payload_in_module(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": payload(path.with_name("PWNED"))}))
    return [trace(FILE, "file_hostile", "data.pkl", "posix.mkdir", "nothing was executed")]


@kind
def payload_in_constants(path):
    path.write_bytes(edited(SCRIPT, {"/constants.pkl": payload(path.with_name("PWNED"))}))
    return [trace(FILE, "file_hostile", "constants.pkl", "posix.mkdir")]


@kind
def payload_in_positions(path):
    path.write_bytes(edited(SCRIPT, {"linear.py.debug_pkl": payload(path.with_name("PWNED"))}))
    return [trace(FILE, "file_hostile", "linear.py.debug_pkl", "posix.mkdir")]


@kind
def payload_in_extension_registry(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": b"\x80\x02\x82\x01)R."}))
    return [trace(FILE, "file_hostile", "data.pkl")]


@kind
def payload_in_samples(path):
    """The sample inputs of an exported program are a torch.save file within the file; they are taken where none are given."""
    samples = archives.pack([("model/data.pkl", payload(path.with_name("PWNED"))), ("model/version", b"3\n"),
                             ("model/byteorder", b"little")])
    path.write_bytes(edited(EXPORTED, {"sample_inputs/model.pt": samples}))
    return [Answer(["trace", "FILE", "-o", "out.tlspec"], REFUSED, "unsafe_pickle", ["posix.mkdir"])]


@kind
def memo_bomb(path):
    """LibTorch touches gigabytes for a memo number."""
    path.write_bytes(edited(SCRIPT, {"/data.pkl": b"\x80\x02]r" + struct.pack("<I", 0x0FFFFFFF) + b"."}))
    return [trace(FILE, "file_hostile", "memo entry 268435455")]


@kind
def doubling_pickle(path):
    """Sixty lines that make a list of 2^60 values."""
    doubled = b"\x80\x02]q\x00" + b"".join(b"](h" + bytes([i]) + b"h" + bytes([i]) + b"eq" + bytes([i + 1]) for i in range(60)) + b"."
    path.write_bytes(edited(SCRIPT, {"/data.pkl": doubled}))
    return [trace(FILE, None, "data.pkl")]


@kind
def deep_pickle(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": b"\x80\x02" + b"](" * 200_000 + b"e" * 200_000 + b"."}))
    return [trace(FILE, None, "data.pkl")]


@kind
def cyclic_pickle(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": b"\x80\x02]q\x00h\x00a."}))
    return [trace(FILE, "file_damaged", "data.pkl", "holds itself")]


@kind
def long_string_claim(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": b"\x80\x02\x8d" + struct.pack("<Q", 1 << 62) + b"abc."}))
    return [trace(FILE, "file_damaged", "data.pkl", "4611686018427387904")]


@kind
def tensor_beyond_its_storage(path):
    """The weight is 2 x 3; 2 x 60000 would read what lies behind it."""
    path.write_bytes(edited(SCRIPT, {"/data.pkl": swapped(b"(K\x02K\x03t", b"(K\x02M\x60\xeat")}))
    return [trace(FILE, "file_damaged", "0.weight", "120000 elements", "24 bytes")]


@kind
def stride_beyond_its_storage(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": swapped(b"(K\x03K\x01t", b"(J\xff\xff\xff\x7fK\x01t")}))
    return [trace(FILE, "file_damaged", "0.weight", "24 bytes")]


@kind
def short_storage(path):
    path.write_bytes(edited(SCRIPT, {"/data/0": lambda data: data[:-1]}))
    return [trace(FILE, "file_damaged", "0.weight", "linear.ts/data/0", "23 bytes", "24")]


@kind
def missing_storage(path):
    path.write_bytes(edited(SCRIPT, {}, drop=["/data/1"]))
    return [trace(FILE, "file_damaged", "0.bias", "linear.ts/data/1", "8 bytes")]


@kind
def storage_of_another_type(path):
    """The weight's bytes taken for twice as many as there are."""
    path.write_bytes(edited(SCRIPT, {"/data.pkl": swapped(b"FloatStorage", b"DoubleStorage")}))
    return [trace(FILE, "file_damaged", "0.weight", "24 bytes", "48")]


@kind
def no_module(path):
    path.write_bytes(edited(SCRIPT, {"/data.pkl": b"\x80\x02]."}))
    return [trace(FILE, "file_damaged", "data.pkl", "a list where a TorchScript file has an object")]


@kind
def big_endian(path):
    path.write_bytes(edited(SCRIPT, {"/byteorder": b"big"}))
    return [trace(REFUSED, "unsupported_kind", "byte order", "big")]
