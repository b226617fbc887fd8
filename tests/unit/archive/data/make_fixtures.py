#!/usr/bin/env python3
"""Writes the .pt files beside it with torch.save (torch 2.13). unpickler_test.cpp states what they hold."""

import collections
import io
import os
import zipfile

import torch


def save(name, value, **options):
    torch.save(value, name, **options)


def rezip(source, target, compression, edit=lambda name, data: data):
    """The same entries written by zipfile: unaligned, and deflated where asked."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", compression) as new:
        for info in old.infolist():
            new.writestr(zipfile.ZipInfo(info.filename), edit(info.filename, old.read(info)), compression)


class Shell:
    def __reduce__(self):
        return (os.system, ("echo this must never run",))


values = {
    "none": None, "true": True, "false": False, "int": 3, "negative": -5, "big": 1 << 40, "huge": 1 << 70,
    "minus_huge": -(1 << 70), "float": 1.5, "inf": float("inf"), "complex": 3 + 4j, "str": "é", "bytes": b"ab\xff",
    "tuple": (1, (2,), ()), "list": [1, [2]], "ordered": collections.OrderedDict([("b", 1), ("a", 2)]),
    "dtype": torch.float16, "device": torch.device("cuda:1"), "size": torch.Size([1, 2]), 7: "seven",
}
save("values.pt", values)
save("values_protocol4.pt", values, pickle_protocol=4)
save("values_protocol5.pt", values, pickle_protocol=5)

base = torch.arange(12, dtype=torch.float32).reshape(3, 4)
save("views.pt", {
    "base": base, "row": base[1], "transposed": base.t(), "expanded": torch.tensor([7.0]).expand(2, 3),
    "scalar": torch.tensor(5), "empty": torch.zeros(0, 3), "parameter": torch.nn.Parameter(torch.ones(2)),
})
dtypes = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
          torch.complex64, torch.complex128, torch.bool, torch.bfloat16, torch.float8_e5m2, torch.float8_e4m3fn,
          torch.uint16, torch.uint32, torch.uint64]
save("dtypes.pt", [torch.tensor([0, 1, 1]).to(dtype) for dtype in dtypes])
save("sparse.pt", {"coo": torch.sparse_coo_tensor([[0, 2], [1, 0]], [1.0, 2.0], (3, 2)),
                   "csr": torch.tensor([[0.0, 3.0], [4.0, 0.0]]).to_sparse_csr()})
save("quantised.pt", {"tensor": torch.quantize_per_tensor(torch.tensor([0.0, 1.0]), 0.5, 3, torch.qint8),
                      "channel": torch.quantize_per_channel(torch.tensor([[1.0], [2.0]]), torch.tensor([0.5, 0.25]),
                                                            torch.tensor([0, 1]), 0, torch.quint8)})
save("conjugate.pt", torch.tensor([1 + 2j]).conj())
save("shell.pt", {"x": torch.ones(1), "y": Shell()})

loop = []
loop.append(loop)
save("cycle.pt", loop)
shared = []
for _ in range(40):
    shared = [shared, shared]
save("doubling.pt", shared)

save("plain.pt", (torch.arange(6, dtype=torch.float64), "x"))
rezip("plain.pt", "deflated.pt", zipfile.ZIP_DEFLATED)
rezip("plain.pt", "unaligned.pt", zipfile.ZIP_STORED)
rezip("plain.pt", "cuda.pt", zipfile.ZIP_STORED,
      lambda name, data: data.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:0"))
rezip("plain.pt", "big_endian.pt", zipfile.ZIP_STORED,
      lambda name, data: b"big" if name.endswith("byteorder") else data)
rezip("plain.pt", "short_storage.pt", zipfile.ZIP_STORED, lambda name, data: data[:40] if name.endswith("data/0") else data)

buffer = io.BytesIO()
torch.save({"w": torch.ones(1)}, buffer, _use_new_zipfile_serialization=False)
with open("legacy.pt", "wb") as file:
    file.write(buffer.getvalue())
