#!/usr/bin/env python3
"""Writes the seeds of the fuzz targets to tests/fuzz/corpus/<target>/seed-*: small valid inputs, taken from the test data
of the project, and hostile ones made here. Deterministic; other files there (what fuzzing found) are left alone.

  make_corpus.py [TORCHLENS]     TORCHLENS: an executable with its engine, to record the seeds of columns and manifest;
                                 without it, these two keep the seeds they have
"""

import io
import json
import pathlib
import pickle
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

HERE = pathlib.Path(__file__).resolve().parent
TESTS = HERE.parent
CORPUS = HERE / "corpus"
FOREIGN_TENSORS_BYTES = 437


def put(target, name, data):
    if isinstance(data, str):
        data = data.encode()
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(data)


def clear(target):
    for old in (CORPUS / target).glob("seed-*"):
        old.unlink()


def foreign_seeds():
    clear("foreign")
    references = TESTS / "unit/tlspec/references"

    def entry(key, encoding, dtype, shape):
        return {"kind": "module", "name": key, "call": 1, "path": "", "dtype": dtype, "shape": shape, "encoding": encoding,
                "shard": 0, "key": key + ":1"}

    # The sizes are those of the files that the target writes beside the manifest.
    dump = {"format": "torchlens.tlspec", "version": 1, "kind": "dump", "producer": {"name": "p", "version": "1"},
            "source": {"runtime": "r", "language": "l"}, "outcome": {"status": "complete", "reason": ""},
            "parameters": [{"address": "w", "kind": "parameter", "dtype": "f32", "shape": [1], "digest": "0" * 32}],
            "entries": [entry("a", "dense", "f32", [2, 3]), entry("q", "quantised", "qi8", [2]),
                        entry("s", "sparse", "f32", [4]), {"kind": "input", "name": "n", "call": 1, "path": "", "scalar": "3"}],
            "files": [{"name": "tensors-00000.safetensors", "bytes": FOREIGN_TENSORS_BYTES}]}
    put("foreign", "dump", b"\0" + json.dumps(dump).encode())
    dump["entries"][0]["key"] = "q:1"
    put("foreign", "dump-misfit", b"\0" + json.dumps(dump).encode())
    tensor = {"kind": "out", "label": "relu_1_1:1", "relative_path": "blobs/0000000001.safetensors", "shape": [2, 3],
              "dtype": "float32", "layout": "strided"}
    site = {"function_path": "relu", "module_path": "act:1", "layer_label": "relu_1_1"}
    put("foreign", "python", b"\1" + json.dumps({"tlspec_version": 9, "kind": "trace", "tensors": [tensor], "sites": [site],
                                                 "model_signature": "m.Net"}).encode())
    summary = {"metadata": {"engine_name": "e"}, "tensors": [
        {"name": "a", "shape": [2, 3], "type": "FP32", "statistics": {"min": "nan", "max": 1, "avg": 0.5},
         "files": {"numpy": "a.npy"}}]}
    put("foreign", "summary", b"\2" + json.dumps(summary).encode())
    lines = ('{"module": "a", "tensor": "out[0].k", "step": 0, "abs_mean": 1.5, "shape": [1, 2], "dtype": "torch.float32"}\n'
             '{"module": "a", "tensor": "out", "step": 1, "sum": NaN, "std": "<error: x>"}\n')
    put("foreign", "lines", b"\3" + lines.encode())
    put("foreign", "trtexec", b'\3[{"name": "a", "dimensions": "1x2", "values": [1, 0.5]}]')
    for name in ("polygraphy.json", "feeds.json", "sparse.pt", "tensors/more.npz", "tensors/tensor_1.npy"):
        put("foreign", name.split("/")[-1].replace(".", "-"), b"\3" + (references / name).read_bytes())


def json_seeds():
    clear("json")
    valid = {
        "scalars": '[0,-1,1.5e-3,18446744073709551615,true,false,null,"x"]',
        "escapes": '["\\u00e4\\ud83d\\ude00\\n\\"\\\\\\/", "ä😀"]',
        "objects": '{"a":{"b":[{},[]],"c":{"d":null}},"e":""}',
        "graph": '{"graph_module":{"graph":{"nodes":[{"target":"torch.ops.aten.relu.default","inputs":[{"name":"self",'
                 '"arg":{"as_tensor":{"name":"x"}},"kind":1}],"outputs":[{"as_tensor":{"name":"relu"}}],"metadata":{}}]}},'
                 '"schema_version":{"major":8,"minor":20}}',
    }
    hostile = {
        "deep": "[" * 60, "mixed": '[{"k":' * 30, "wide": "[" + "[]," * 100 + "[]]", "twice": '{"a":1,"\\u0061":2}',
        "nan": "[NaN,Infinity,-Infinity]", "huge-number": "1e999", "long-number": "[" + "9" * 200 + "]",
        "surrogate": '"\\ud800"', "utf8": b'"\xf0\x9f\x98"', "bom": b"\xef\xbb\xbf{}", "cut": '{"a":[1,2',
        "control": b'"\x00"', "comma": "[1,]",
    }
    for name, text in {**valid, **hostile}.items():
        data = text.encode() if isinstance(text, str) else text
        put("json", name, b"\0" + data)
        if name in ("nan", "twice"):
            put("json", name + "-allowed", b"\3" + data)


def literal_seeds():
    clear("literal")
    for i, text in enumerate([
        "none", "true", "3", "-0.5", "nan", "-inf", '"text"', "[1, 2, [3.5, none]]", "(1,)", '(1, "a", true)',
        '{"k": 3, "l": [1e5]}', '"\\u00e4\\ud83d\\ude00\\n"', "[" * 70, "((((", '{"a":1,"a":2}', "9223372036854775808",
        "1e999", "None", "{1: 2}", b'"\xff"', "-9223372036854775808", '{"a": {"b": (1, [2, {"c": None}])}}',
    ]):
        put("literal", f"{i:02}", text)


def selector_seeds():
    clear("selector")
    for i, text in enumerate([
        'func("relu*") & in_module("enc")', "enc.0 | relu_1_2:last - -1", "~(a & b) - ops[1:3]", 'label("relu_1_2")',
        'where(numel > 1e6 and dtype == "bfloat16")', "where(1 <= ndim < 4 or shape in [[2]])", 'regex("^(a|b)*$")',
        "followed_by(preceded_by(input) & output)", 'where("x" in parents and shape == [2, 4])', 'grad("x")',
        "buffer('*.count') | layers.recurrent", 'contains("\\"\\\\")', "(" * 70, "~" * 70, 'where(not a == (b < "c"))',
        "where(dtype in ['f32', \"i64\"] and module == none)", '"', "where(-.5e-3 < num_params)", b"\xff | \xc3\xa4",
        "module(alias:1)", "params[enc.weight]", "where(a < (b < c) < d)", 'regex("(?P<n>x{1000})")', "relu_1_4_raw",
    ]):
        put("selector", f"{i:02}", text)


def npy_seeds():
    clear("npy")

    def header(descr, fortran, shape):
        return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}"

    cases = [
        ("'<f4'", "False", "(2, 3)", 24), ("'>i8'", "True", "(2, 2)", 32), ("'|b1'", "False", "()", 1),
        ("'|u1'", "False", "(0, 5)", 0), ("'<c16'", "False", "(3,)", 48), ("'<f2'", "True", "(2, 3, 4)", 48),
        ("'|V2'", "False", "(1,)", 2), ("'|O'", "False", "(1,)", 8), ("'<U4'", "False", "(1,)", 16),
        ("[('a', '<f4')]", "False", "(1,)", 4), ("'<f8'", "False", "(9223372036854775807, 2)", 8),
        ("'<f4'", "False", "(4611686018427387904, 4)", 0), ("'<i2'", "False", "(-1,)", 2), ("'<f16'", "False", "(1,)", 16),
    ]
    for i, (descr, fortran, shape, size) in enumerate(cases):
        text = header(descr, fortran, shape).encode() + b"\n"
        put("npy", f"{i:02}-framed", struct.pack("<HB", size, 1 + i % 3) + text)
        if i < 4:
            put("npy", f"{i:02}-file", b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(size))
    put("npy", "header-size", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'")


def pickles():
    """(name, bytes) of pickles as torch writes them, and of hostile ones."""
    for path in sorted((TESTS / "unit/archive/data").glob("*.pt")) + sorted((TESTS / "models").glob("*.ts.pt")):
        data = path.read_bytes()
        if not zipfile.is_zipfile(path):
            if len(data) < 4096:
                yield path.stem, data
            continue
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith((".pkl",)) and archive.getinfo(name).file_size < 4096:
                    yield f"{path.stem}-{pathlib.PurePath(name).stem}", archive.read(name)
    for protocol in range(6):
        value = {"a": [1, -2, 3.5, None, True, 1 << 70, "é"], "b": (1, (2,), ()), "c": [{}, []]}
        yield f"python{protocol}", pickle.dumps(value, protocol)
    tensor = (b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x02\0\0\0%d"
              b"X\x03\0\0\0cpuK\x04tQK\x00(K\x02K\x02t(K\x02K\x01t\x89ccollections\nOrderedDict\n)RtR.")
    yield "tensor64", b"\x80\x02" + tensor % 64
    yield "tensor16", b"\x80\x02" + tensor % 16
    yield "tensor64-expanded", b"\x80\x02" + (tensor % 64).replace(b"(K\x02K\x02t(", b"(J\xff\xff\xff\x7fK\x02t(K\x00K\x00t\x89" b"0(", 1)
    yield "system", b"cposix\nsystem\n(X\x04\0\0\0echotR."
    yield "reduce-import", b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R."
    yield "memo-bomb", b"\x80\x02]q\x00" + b"(h\x00h\x00ltq\x00" * 60 + b"."
    yield "deep", b"\x80\x02" + b"]" * 400 + b"a" * 399 + b"."
    yield "long", b"\x80\x02\x8b\xff\xff\xff\x7f."
    yield "frame", b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f."
    yield "unicode8", b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."
    yield "marks", b"(" * 300 + b"t" * 300 + b"."
    yield "cycle", b"\x80\x02]q\x00h\x00a."
    yield "long-binput", b"\x80\x02Nr\xff\xff\xff\x7f."
    yield "script-class", b"\x80\x02c__torch__.m.Net\nNet\n)\x81}(X\x08\0\0\0training\x89X\x01\0\0\0w%sub."
    yield "int-list", b"\x80\x02ctorch.jit._pickle\nbuild_intlist\n](K\x01K\x02e\x85R."
    yield "ext", b"\x80\x02\x82\x01."


def pickle_seeds():
    clear("pickle_scanner")
    clear("unpickler")
    for name, data in pickles():
        put("pickle_scanner", name, data)
        put("unpickler", name, bytes([1 if "ts" in name or "script" in name else 0]) + data)
        if len(data) < 600:
            put("unpickler", name + "-looking", b"\x07" + data)


def safetensors_seeds():
    clear("safetensors")
    headers = {
        "one": '{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}',
        "many": '{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[3],"data_offsets":[0,6]},'
                '"c.d":{"dtype":"I64","shape":[],"data_offsets":[6,14]},"e":{"dtype":"BOOL","shape":[0,4],"data_offsets":[14,14]}}',
        "empty": "{}",
        "twice": '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
        "overlap": '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}',
        "overflow": '{"a":{"dtype":"F64","shape":[4294967296,4294967296],"data_offsets":[0,8]}}',
        "f4": '{"a":{"dtype":"F4","shape":[2],"data_offsets":[0,1]}}',
        "metadata": '{"__metadata__":{"a":"b","a":"c"}}',
        "nested": '{"a":{"dtype":"U8","shape":[[1]],"data_offsets":[0,1]}}',
    }
    for name, text in headers.items():
        put("safetensors", name + "-framed", text)
        data = bytes(32)[: 16 if name == "one" else 14 if name == "many" else 3]
        put("safetensors", name, struct.pack("<Q", len(text)) + text.encode() + data)
    put("safetensors", "length", struct.pack("<Q", 1 << 62) + b"{}")
    put("safetensors", "model", (TESTS / "models/linear.inputs.safetensors").read_bytes())


def script_sources():
    for path in sorted((TESTS / "models").glob("*.ts.pt")):
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if name.endswith(".py") and archive.getinfo(name).file_size < 6000:
                    yield f"{path.name.split('.')[0]}-{pathlib.PurePath(name).stem}", archive.read(name).decode()
    yield "operators", """class Net(Module):
  __parameters__ = ["weight", ]
  __buffers__ = ["mean", ]
  weight : Tensor
  sub : __torch__.m.___torch_mangle_1.Sub
  def forward(self: __torch__.m.Net,
    x: Tensor,
    times: Optional[int]=None) -> Tuple[Tensor, List[int]]:
    a = torch.relu(torch.add(x, x, alpha=1))
    b = ops.torchvision.nms(a, x, 0.5)  # type: ignore
    if bool(torch.gt(b, CONSTANTS.c0)):
      c = (self.sub).forward(b, )
    elif True:
      c = annotate(List[Tensor], [])[0]
    else:
      ops.prim.RaiseException("no", "builtins.Exception")
      c = uninitialized(Tensor)
    return (c, [1, -2, 0x10, 1.5e3, 2j, inf])
  def __setstate__(self: __torch__.m.Net, state: Tuple[str, bool]) -> NoneType:
    _0 = aten.save(state, "x")
    getattr(self, "save")
"""
    yield "hostile-brackets", "f" + "(" * 300
    yield "hostile-chain", "a" + " + a" * 1100 + "\n"
    yield "hostile-string", 'x = """abc\n'
    yield "hostile-alias", "t = torch\nt.save(x)\n"
    yield "hostile-type", "x = 1  # type: (Tensor) -> torch.save(x)\n"
    yield "hostile-bytes", "x = \u00e9\n"
    yield "python-op", "def f(x):\n  return ^Op(1, (2,))(x)\n"


def script_seeds():
    clear("script")
    for name, text in script_sources():
        put("script", name, text)


def python_outline_seeds():
    """The functions of the snippets that are hard to outline, and texts that are no Python."""
    clear("python_outline")
    text = (TESTS / "unit" / "postprocess" / "snippets.py").read_text(encoding="utf-8")
    for snippet in text.split("\n\n\n")[1:]:
        name = next(line for line in snippet.splitlines() if line.startswith("def ")).split("(")[0][4:]
        put("python_outline", name if name.isascii() else "unicode", snippet.rstrip("\n") + "\n")
    put("python_outline", "deep", "".join(" " * level + "if a:\n" for level in range(120)) + " " * 120 + "pass\n")
    put("python_outline", "chained", "x = " + "a if b else " * 150 + "c\n")
    put("python_outline", "half", "if x:\n    y = (a if b\nelse:\n    '''\n")



def zipped(entries, **options):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", options.get("method", zipfile.ZIP_STORED)) as archive:
        for name, data in entries:
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.compress_type = options.get("method", zipfile.ZIP_STORED)
            archive.writestr(info, data)
    return out.getvalue()


def zip64():
    name, data = b"a/b", b"hello"
    crc = zlib.crc32(data)
    extra = struct.pack("<HHQQ", 1, 16, len(data), len(data))
    local = struct.pack("<IHHHHHIIIHH", 0x04034B50, 45, 0, 0, 0, 0, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name), len(extra))
    body = local + name + extra + data
    extra = struct.pack("<HHQQQ", 1, 24, len(data), len(data), 0)
    central = struct.pack("<IHHHHHHIIIHHHHHII", 0x02014B50, 45, 45, 0, 0, 0, 0, crc, 0xFFFFFFFF, 0xFFFFFFFF, len(name),
                          len(extra), 0, 0, 0, 0, 0xFFFFFFFF) + name + extra
    end64 = struct.pack("<IQHHIIQQQQ", 0x06064B50, 44, 45, 45, 0, 0, 1, 1, len(central), len(body))
    locator = struct.pack("<IIQI", 0x07064B50, 0, len(body) + len(central), 1)
    end = struct.pack("<IHHHHIIH", 0x06054B50, 0, 0, 0xFFFF, 0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF, 0)
    return body + central + end64 + locator + end


def zip_seeds():
    clear("zip")
    put("zip", "stored", zipped([("m/version", "3\n"), ("m/data.pkl", pickle.dumps([1], 2)), ("m/data/0", bytes(16))]))
    put("zip", "deflated", zipped([("m/data.pkl", b"abc" * 60), ("m/e", b"")], method=zipfile.ZIP_DEFLATED))
    put("zip", "bomb", zipped([("m/zeros", bytes(40_000))], method=zipfile.ZIP_DEFLATED))
    put("zip", "zip64", zip64())
    put("zip", "empty", zipped([]))
    put("zip", "folder", zipped([("m/", ""), ("m/a", "b")]))
    for i, name in enumerate(["../x", "/etc/x", "a/./b", "a\\b", "a\x01b", "c:x", "a//b"]):
        put("zip", f"name{i}", zipped([(name, "x")]))
    two = zipped([("a", "1"), ("b", "2")])
    put("zip", "duplicate", two.replace(b"b", b"a"))
    put("zip", "cut", two[:-9])
    put("zip", "comment", two[:-2] + b"\x05\x00hello")
    put("zip", "crc", two.replace(b"1PK", b"3PK", 1))
    put("zip", "overlap", two.replace(struct.pack("<I", 32), struct.pack("<I", 0)))
    put("zip", "plain", (TESTS / "unit/archive/data/plain.pt").read_bytes())


# In the order of kNames in archive_fuzz.cpp.
ARCHIVE_NAMES = ["data.pkl", "constants.pkl", "code/__torch__/m.py", "code/__torch__/n.py", "version", ".data/version",
                 "byteorder", "data/0", "constants/0", "archive_format", "archive_version", "models/model.json",
                 "bytecode.pkl", "producerVersion", "data/aotinductor/model/a.so", "serialized_exported_program.json",
                 "@version", "traced_inputs.pkl", "attributes.pkl", "CODE/__torch__/m.py"]


def archive_seeds():
    clear("archive")

    def entries(*pairs):
        return b"".join(bytes([ARCHIVE_NAMES.index(name)]) + struct.pack("<H", len(data)) + data for name, data in pairs)

    sources = dict(script_sources())
    scripts = sorted(name for name in sources if not name.startswith("hostile"))
    found = dict(pickles())
    net = b"\x80\x02c__torch__.m.Net\nNet\n)\x81}(X\x08\0\0\0training\x89ub."
    for name in scripts[:12]:
        put("archive", f"script-{name}", entries(("data.pkl", net), ("code/__torch__/m.py", sources[name].encode()),
                                                 ("constants.pkl", b"\x80\x02)."), ("version", b"3\n")))
    put("archive", "state-dict", entries(("data.pkl", found["plain-data"]), ("byteorder", b"little"), ("version", b"3\n"),
                                         ("data/0", bytes(64))))
    put("archive", "exported", entries(("archive_format", b"pt2"), ("archive_version", b"0"), ("byteorder", b"little"),
                                       ("models/model.json", b'{"schema_version":{"major":8,"minor":20}}')))
    put("archive", "aotinductor", entries(("archive_format", b"pt2"), ("data/aotinductor/model/a.so", b"\x7fELF")))
    put("archive", "lite", entries(("bytecode.pkl", b"\x80\x02K\x04."), ("data.pkl", net), ("version", b"5")))
    put("archive", "old-exported", entries(("serialized_exported_program.json", b"{}"), ("@version", b"8.7")))
    put("archive", "case", entries(("code/__torch__/m.py", b"x = 1\n"), ("CODE/__torch__/m.py", b"torch.save(x)\n"),
                                   ("constants.pkl", b"N."), ("data.pkl", net)))
    put("archive", "eager", entries(("data.pkl", b"\x80\x02cmymodel\nNet\n)\x81}b."), ("version", b"3")))
    for name, data in {
        "lfs": b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "html": b"<!DOCTYPE html><html>",
        "onnx": b"\x08\x07\x12\x07pytorch\x1a\x051.9.0:\x00", "legacy": found.get("legacy", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."),
        "gzip": b"\x1f\x8b\x08\x00", "gguf": b"GGUF\x03\0\0\0", "hdf5": b"\x89HDF\r\n\x1a\n", "json": b'{"a":1}',
        "safetensors": struct.pack("<Q", 2) + b"{}", "zip-cut": b"PK\x03\x04", "empty": b"",
    }.items():
        put("archive", f"file-{name}", b"\xff" + data[:3000])


# Programs above the usual size that have what small ones do not: subgraphs, dynamic shapes, the layouts of old versions.
LARGE_PROGRAMS = ("asserts", "auto_functionalized_v2", "torch26_cond", "torch213_cond", "torch29_conv_core")


# Every kind of argument that the schema has, and the forms that stacks of modules come in.
ARGUMENT_KINDS = [
    ("as_none", True), ("as_tensor", {"name": "relu"}), ("as_tensors", [{"name": "relu"}, {"name": "input"}]),
    ("as_int", -3), ("as_ints", [1, 2]), ("as_int_lists", [[1], []]), ("as_float", 0.5), ("as_floats", ["Infinity", 1.0]),
    ("as_float_lists", [[0.5]]), ("as_bool", True), ("as_bools", [True, False]), ("as_string", "x"), ("as_strings", ["a", "b"]),
    ("as_sym_int", {"as_int": 2}), ("as_sym_ints", [{"as_int": 2}, {"as_int": 3}]), ("as_sym_float", {"as_float": 0.5}),
    ("as_sym_floats", [{"as_float": 1.5}]), ("as_sym_bool", {"as_bool": True}), ("as_sym_bools", [{"as_bool": False}]),
    ("as_scalar_type", 7), ("as_memory_format", 1), ("as_layout", 7), ("as_device", {"type": "cuda", "index": 1}),
    ("as_operator", "torch.ops.aten.add.Tensor"), ("as_complex", {"real": 1.0, "imag": -2.0}),
    ("as_optional_tensor", {"as_tensor": {"name": "relu"}}), ("as_optional_tensor", {"as_none": True}),
    ("as_optional_tensors", [{"as_none": True}, {"as_tensor": {"name": "relu"}}]),
    ("as_nested_tensors", [[{"name": "relu"}], []]), ("as_custom_obj", {"name": "_custom_obj_0", "class_fqn": "__torch__.C"}),
    ("as_string_to_argument", {"a": {"as_int": 1}, "b": {"as_string_to_argument": {"c": {"as_none": True}}}}),
    ("as_graph", {"name": "sub", "graph": {"inputs": [{"as_tensor": {"name": "y"}}], "outputs": [{"as_tensor": {"name": "y"}}],
                                           "nodes": [], "tensor_values": {}, "sym_int_values": {}, "sym_bool_values": {},
                                           "is_single_tensor_return": False, "custom_obj_values": {}, "sym_float_values": {}}}),
]
MODULE_STACKS = [
    "L__self__,,m.Net;L__self___layers_0,layers.0,m.Block", "L__self__layers.0@1,layers.0,m.Block",
    "L['self'],L['self'],m.Net;L['self'].layers[0]['a'],L['self']._modules['x.y'].b,m.Block[int, str]",
    "140234567890,,m.Net;140234567891@2,layers.slice(1, None, None).0,m.Block", "_export_root,_export_root.sub,m.Net",
    "_empty_nn_module_stack_from_metadata_hook,,", "a;b,c;;d,e,f,g", "L['self']._modules['a\\'b'].c['d'][12],x,y",
]


def exported_seeds():
    clear("exported_program")

    def shortened(value):
        """Without the texts that only say where a node comes from: they make up most of a program."""
        if isinstance(value, dict):
            return {key: "" if key == "stack_trace" else shortened(item) for key, item in value.items()}
        return [shortened(item) for item in value] if isinstance(value, list) else value

    for path in [TESTS / "models/linear.pt2", *sorted((TESTS / "models/exported").glob("*.pt2"))]:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            program = next((name for name in names if "/models/" in name or name == "serialized_exported_program.json"), None)
            if program is None:
                continue
            text = json.dumps(shortened(json.loads(archive.read(program))), separators=(",", ":")).encode()
            if len(text) > (12_000 if path.stem in LARGE_PROGRAMS else 4_500):
                continue
            parts = [text]
            for ending in ("_weights_config.json", "_constants_config.json"):
                parts += [next((archive.read(name) for name in names if name.endswith(ending)), b"")]
            sample = next((archive.read(name) for name in names if "/sample_inputs/" in name), b"")
            put("exported_program", path.name.removesuffix(".pt2"), b"\0".join(parts + ([sample] if len(sample) < 2000 else [])))
    with zipfile.ZipFile(TESTS / "models/linear.pt2") as archive:
        program = json.loads(archive.read("linear/models/model.json"))
    nodes = program["graph_module"]["graph"]["nodes"]
    for i, (kind, value) in enumerate(ARGUMENT_KINDS):
        stack = MODULE_STACKS[i % len(MODULE_STACKS)]
        nodes.append({"target": "torch.ops.aten.relu.default", "inputs": [{"name": "self", "arg": {kind: value}, "kind": 1}],
                      "outputs": [{"as_tensor": {"name": f"added_{i}"}}], "metadata": {"nn_module_stack": stack},
                      "is_hop_single_tensor_return": None, "name": f"added_{i}"})
    put("exported_program", "kinds", json.dumps(shortened(program), separators=(",", ":")))
    for i, spec in enumerate([
        '[1, {"type": "builtins.tuple", "context": "null", "children_spec": []}]',
        '[1, {"type": null, "context": null, "children_spec": []}]',
        '[1, {"type": "builtins.dict", "context": "[\\"a\\", \\"b\\"]", "children_spec": '
        '[{"type": null, "context": null, "children_spec": []}, {"type": null, "context": null, "children_spec": []}]}]',
        '[1, ' + '{"type": "builtins.list", "context": "null", "children_spec": [' * 40,
    ]):
        put("exported_program", f"tree{i}", spec)


def recorded_seeds(torchlens):
    clear("columns")
    clear("manifest")
    with tempfile.TemporaryDirectory() as folder:
        for model, inputs in (("linear.ts.pt", "linear.inputs.safetensors"), ("small_resnet.ts.pt", "small_resnet.inputs.safetensors")):
            out = pathlib.Path(folder) / "run.tlspec"
            command = [torchlens, "trace", TESTS / "models" / model, "--input", TESTS / "models" / inputs, "-o", out, "--force"]
            subprocess.run([*command, "--threads", "1"], check=True, capture_output=True, timeout=120)
            put("columns", model.split(".")[0], (out / "columns.safetensors").read_bytes())
            put("manifest", model.split(".")[0], (out / "manifest.json").read_bytes())
    text = next((CORPUS / "manifest").glob("seed-*")).read_text()
    put("manifest", "other", '{"format":"x"}')
    put("manifest", "python", '{"tlspec_version":1}')
    put("manifest", "version", text.replace('"version": 1', '"version": 99', 1))
    put("manifest", "name", text.replace("columns.safetensors", "../columns.safetensors"))
    put("manifest", "cut", text[: len(text) // 2])
    put("manifest", "level", text.replace('"portable"', '"runnable"'))
    put("manifest", "count", text.replace('"ops": ', '"ops": -'))


def main():
    foreign_seeds()
    json_seeds()
    literal_seeds()
    npy_seeds()
    pickle_seeds()
    safetensors_seeds()
    python_outline_seeds()
    script_seeds()
    selector_seeds()
    zip_seeds()
    archive_seeds()
    exported_seeds()
    if len(sys.argv) > 1:
        recorded_seeds(pathlib.Path(sys.argv[1]).resolve())
    for folder in sorted(CORPUS.iterdir()):
        files = list(folder.iterdir())
        print(f"{folder.name:16}{len(files):5} files{sum(file.stat().st_size for file in files):9} bytes")


if __name__ == "__main__":
    main()
