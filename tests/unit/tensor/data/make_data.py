"""Writes the reference files of this folder with NumPy, PyTorch and the safetensors library.

Run it in this folder with Python that has torch, numpy and safetensors; the files are committed.
"""

import math

import numpy as np
import torch
from safetensors.torch import save_file

F8 = {
    "e5m2": torch.float8_e5m2,
    "e4m3": torch.float8_e4m3fn,
    "e5m2fnuz": torch.float8_e5m2fnuz,
    "e4m3fnuz": torch.float8_e4m3fnuz,
    "e8m0": torch.float8_e8m0fnu,
}


def write_dtypes():
    """One small tensor of every dtype, a 0-d and an empty one, and metadata."""
    tensors = {
        "bool": torch.tensor([True, False, True]),
        "u8": torch.tensor([0, 255], dtype=torch.uint8),
        "i8": torch.tensor([-128, 127], dtype=torch.int8),
        "i16": torch.tensor([-32768, 32767], dtype=torch.int16),
        "u16": torch.tensor([0, 65535], dtype=torch.uint16),
        "i32": torch.tensor([-(2**31), 2**31 - 1], dtype=torch.int32),
        "u32": torch.tensor([0, 2**32 - 1], dtype=torch.uint32),
        "i64": torch.tensor([-(2**63), 2**63 - 1]),
        "u64": torch.tensor([0, 2**64 - 1], dtype=torch.uint64),
        "f16": torch.tensor([1.5, -0.25], dtype=torch.float16),
        "bf16": torch.tensor([1.5, -3.0], dtype=torch.bfloat16),
        "f32": torch.arange(6, dtype=torch.float32).reshape(2, 3) - 2.5,
        "f64": torch.tensor([math.pi]),
        "c64": torch.tensor([3 - 4j, 1j], dtype=torch.complex64),
        "scalar": torch.tensor(7.0),
        "empty": torch.zeros(0, 4),
    }
    tensors["f64"] = tensors["f64"].double()
    for name, dtype in F8.items():
        tensors["f8_" + name] = torch.tensor([0x38, 0x81], dtype=torch.uint8).view(dtype)
    save_file(tensors, "dtypes.safetensors", metadata={"format": "pt", "note": "quote \" and ümlaut"})


def write_decoded():
    """Codes of narrow floats beside their values as f32."""
    codes = torch.arange(256, dtype=torch.uint8)
    tensors = {}
    for name, dtype in F8.items():
        tensors[name] = codes.view(dtype).clone()
        tensors[name + ".f32"] = codes.view(dtype).float()
    edges = [0x0001, 0x03FF, 0x0400, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x8000]
    bits = torch.cat([torch.arange(0, 65536, 61), torch.tensor(edges)])
    half = bits.to(torch.uint16).view(torch.float16)
    tensors["f16"] = half
    tensors["f16.f32"] = half.float()
    brain = bits.to(torch.uint16).view(torch.bfloat16)
    tensors["bf16"] = brain.clone()
    tensors["bf16.f32"] = brain.float()
    save_file(tensors, "decoded.safetensors")


def expected_stats(tensor):
    """numel, nan, +inf, -inf, zeros; of the finite: min, max, sum, abs sum, sum of squares, std, argmin, argmax."""
    array = tensor.abs() if tensor.is_complex() else tensor
    flat = array.double().contiguous().reshape(-1).numpy()
    finite = flat[np.isfinite(flat)]
    counts = [flat.size, np.isnan(flat).sum(), np.isposinf(flat).sum(), np.isneginf(flat).sum(), (flat == 0).sum()]
    if finite.size == 0:
        return torch.tensor(counts + [0, 0, 0, 0, 0, math.nan, -1, -1], dtype=torch.float64)
    total = math.fsum(finite)
    mean = total / finite.size
    values = [
        finite.min(),
        finite.max(),
        total,
        math.fsum(np.abs(finite)),
        math.fsum(finite**2),
        math.sqrt(math.fsum((finite - mean) ** 2) / finite.size),
        np.flatnonzero(flat == finite.min())[0],
        np.flatnonzero(flat == finite.max())[0],
    ]
    return torch.tensor(counts + values, dtype=torch.float64)


def write_stats():
    """Tensors beside their statistics, by NumPy in double precision with exact summation."""
    torch.manual_seed(0)
    normal = torch.randn(3, 5, 211)
    holed = torch.randn(1500)
    holed[[3, 700, 1400]] = math.nan
    holed[[5, 6]] = math.inf
    holed[1030] = -math.inf
    cases = {
        "f32": normal,
        "f16": torch.randn(1100).half(),
        "bf16": torch.randn(1100).bfloat16(),
        "f64": torch.randn(1030).double() * 1e100,
        "f32_holes": holed,
        "f64_holes": holed.double(),
        "f16_holes": holed.half(),
        "f32_none_finite": torch.tensor([math.nan, math.inf, -math.inf, math.nan]),
        "f32_constant": torch.full((3000,), 0.1),
        "f32_offset": torch.randn(2050) * 1e-2 + 1e4,
        "f32_zeros": torch.tensor([0.0, -0.0, 1.0, -0.0]),
        "f16_large": torch.full((1025,), 60000.0).half(),
        "i8": torch.randint(-128, 128, (1200,)).to(torch.int8),
        "u8": torch.randint(0, 256, (1200,)).to(torch.uint8),
        "i16": torch.randint(-30000, 30000, (1025,)).to(torch.int16),
        "i32": torch.randint(-(2**31), 2**31, (100,)).to(torch.int32),
        "i64": torch.randint(-(2**50), 2**50, (100,)),
        "bool": torch.rand(1500) > 0.3,
        "c64": torch.randn(50, dtype=torch.complex64).to(torch.complex64),
        "scalar": torch.tensor(-2.5),
        "empty": torch.zeros(0, 3),
    }
    tensors = {}
    for name, tensor in cases.items():
        tensors[name] = tensor
        tensors[name + ".expected"] = expected_stats(tensor.to(torch.complex128) if tensor.is_complex() else tensor)
    tensors["f32.permuted.expected"] = expected_stats(normal.permute(2, 0, 1))
    top = torch.topk(normal.reshape(-1), 5)
    tensors["f32.top_values"] = top.values
    tensors["f32.top_indices"] = top.indices
    save_file(tensors, "stats.safetensors")


def write_npy():
    grid = np.arange(6, dtype=np.float32).reshape(2, 3) - 2.5
    np.save("c_order.npy", grid)
    np.save("fortran_order.npy", np.asfortranarray(grid))
    np.save("big_endian_i4.npy", np.array([1, -2, 70000], dtype=">i4"))
    np.save("big_endian_c16.npy", np.array([1.5 - 2j], dtype=">c16"))
    np.save("bool.npy", np.array([True, False]))
    np.save("scalar_f8.npy", np.array(2.75))
    np.save("empty_f2.npy", np.zeros((0, 3), dtype=np.float16))
    with open("version2_i8.npy", "wb") as file:
        np.lib.format.write_array(file, np.array([2**40, -1]), version=(2, 0))
    with open("version3_u2.npy", "wb") as file:
        np.lib.format.write_array(file, np.array([7, 65535], dtype=np.uint16), version=(3, 0))
    np.save("structured.npy", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i4")]))
    np.save("object.npy", np.array([None, 1], dtype=object), allow_pickle=True)
    np.save("unicode.npy", np.array(["a", "bc"]))
    np.save("void2.npy", np.zeros(3, dtype="V2"))


if __name__ == "__main__":
    write_dtypes()
    write_decoded()
    write_stats()
    write_npy()
