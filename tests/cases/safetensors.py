"""Reads .safetensors files with the standard library alone, as far as tests compare values."""
import json
import math
import struct

FORMATS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U64": "Q", "U32": "I",
           "U16": "H", "U8": "B", "BOOL": "?"}


def read(path):
    """{name: (dtype, shape, flat list of numbers)}; numbers of dtypes without a Python form stay bytes."""
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = data[8 + size + begin:8 + size + end]
        tensors[name] = (entry["dtype"], entry["shape"], decode(entry["dtype"], raw))
    return tensors


def decode(dtype, raw):
    if dtype == "BF16":
        return [struct.unpack("<f", b"\0\0" + raw[i:i + 2])[0] for i in range(0, len(raw), 2)]
    if dtype not in FORMATS:
        return list(raw)
    code = FORMATS[dtype]
    return list(struct.unpack(f"<{len(raw) // struct.calcsize(code)}{code}", raw))


def difference(got, expected, relative=1e-5, absolute=1e-6):
    """None if two tensors of read() agree: integers exactly, floats within the tolerance, NaN with NaN; else what differs."""
    if got[0] != expected[0] or got[1] != expected[1]:
        return f"{got[0]}{got[1]} where {expected[0]}{expected[1]} was expected"
    for index, (a, b) in enumerate(zip(got[2], expected[2])):
        if a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b)):
            continue
        close = isinstance(a, float) and abs(a - b) <= absolute + relative * abs(b)
        if not close:
            return f"element {index} is {a!r} where {b!r} was expected"
    return None


def write(path, tensors, metadata=None):
    """`tensors`: {name: (dtype, shape, bytes)}."""
    header, offset = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(raw)]}
        offset += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, _, raw in tensors.values():
            file.write(raw)
