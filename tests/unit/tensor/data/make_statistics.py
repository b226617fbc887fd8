"""Writes statistics.safetensors: adversarial tensors of every dtype beside what NumPy says of them in float64.

Run it in this folder with Python that has torch, numpy and safetensors; the file is committed. Beside each tensor NAME
stand NAME.numbers (f64: see numbers_of), NAME.histogram (i64 pairs: code, count) and, for i64 and u64, NAME.exact (the
bits of the extremes as i64).
"""

import math

import numpy as np
import torch
from safetensors.torch import save_file

F8 = {
    "f8_e5m2": torch.float8_e5m2,
    "f8_e4m3": torch.float8_e4m3fn,
    "f8_e5m2fnuz": torch.float8_e5m2fnuz,
    "f8_e4m3fnuz": torch.float8_e4m3fnuz,
    "f8_e8m0": torch.float8_e8m0fnu,
}
# Smallest normal numbers where torch.finfo has none of them: e8m0 has neither zero nor subnormals.
PART = {torch.complex64: torch.float32, torch.complex128: torch.float64}


def smallest_normal(dtype):
    dtype = PART.get(dtype, dtype)
    if not dtype.is_floating_point or dtype == torch.float8_e8m0fnu:
        return 0.0
    return torch.finfo(dtype).smallest_normal


def as_doubles(tensor):
    """Row-major float64; complex numbers by absolute value."""
    flat = tensor.contiguous().reshape(-1)
    if tensor.is_complex():
        return np.abs(flat.numpy().astype(np.complex128))
    if tensor.dtype == torch.uint64:
        return flat.numpy().astype(np.float64)
    return flat.float().double().numpy() if tensor.dtype.itemsize == 1 else flat.double().numpy()


def numbers_of(tensor):
    """numel, nan, +inf, -inf, zeros, denormals; of the finite: min, max, sum, abs sum, sum of squares, std, argmin,
    argmax."""
    flat = as_doubles(tensor)
    finite = flat[np.isfinite(flat)]
    small = np.abs(finite)
    counts = [flat.size, np.isnan(flat).sum(), np.isposinf(flat).sum(), np.isneginf(flat).sum(), (flat == 0).sum()]
    counts.append(((small > 0) & (small < smallest_normal(tensor.dtype))).sum())
    if finite.size == 0:
        return torch.tensor(counts + [0, 0, 0, 0, 0, math.nan, -1, -1], dtype=torch.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        huge = not np.isfinite(np.sum(np.longdouble(finite) ** 2).astype(np.float64))
        total = np.sum(finite) if huge else math.fsum(finite)
        absolute = np.sum(small) if huge else math.fsum(small)
        squares = np.sum(finite**2) if huge else math.fsum(finite**2)
        mean = total / finite.size
        deviations = np.sum((finite - mean) ** 2) if huge else math.fsum((finite - mean) ** 2)
        std = math.sqrt(deviations / finite.size) if np.isfinite(deviations) else math.inf
    if tensor.dtype in (torch.int64, torch.uint64):
        exact = tensor.contiguous().reshape(-1).numpy()
        where = [np.flatnonzero(exact == exact.min())[0], np.flatnonzero(exact == exact.max())[0]]
    else:
        where = [np.flatnonzero(flat == finite.min())[0], np.flatnonzero(flat == finite.max())[0]]
    return torch.tensor(counts + [finite.min(), finite.max(), total, absolute, squares, std] + where).double()


def histogram_of(tensor):
    """Pairs of code and count: 0 for zeros, ±(k + 128) for 2^k <= |x| < 2^(k+1), k kept within -127 .. 128."""
    flat = as_doubles(tensor)
    finite = flat[np.isfinite(flat)]
    exponent = np.clip(np.frexp(finite)[1] - 1, -127, 128)
    codes = np.where(finite == 0, 0, np.sign(finite) * (exponent + 128)).astype(np.int64)
    return torch.from_numpy(np.stack(np.unique(codes, return_counts=True), axis=1).reshape(-1, 2))


def cases():
    torch.manual_seed(3)
    nan, inf = math.nan, math.inf
    mixed = torch.randn(2500) * torch.exp2(torch.randint(-140, 120, (2500,)).float())
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, nan, inf, -inf, 0.5, 2.0])
    yield "f32", torch.cat([mixed, edges])
    yield "f32_denormals", torch.tensor([1e-45, -1e-45, 1.17549421e-38, 1.17549435e-38, 0.0, -0.0]).repeat(300)
    yield "f32_odd_length", torch.randn(1024 * 3 + 5)
    yield "f32_mask", torch.where(torch.rand(64, 64) < 0.5, -inf, 0.0)
    yield "f32_nan_only", torch.full((1100,), nan)
    yield "f32_last_is_least", torch.arange(5000, 0, -1).float()
    yield "f16_overflow", torch.full((5000,), 65504.0).half()
    yield "f16_denormals", torch.tensor([6e-8, -6e-8, 6.097e-5, 6.104e-5, 0.0, -0.0, nan, inf, -inf]).half().repeat(200)
    yield "bf16", torch.cat([mixed, edges]).bfloat16()
    yield "f64", torch.cat([mixed.double() * torch.exp2(torch.randint(-900, 900, (2500,)).double()), edges.double()])
    yield "f64_denormals", torch.tensor([5e-324, -5e-324, 2.2250738585072009e-308, 2.2250738585072014e-308, 0.0]).double()
    yield "f64_huge", torch.tensor([1.7e308, 1.7e308, -1e200, 3.0]).double().repeat(3)
    for name, dtype in F8.items():
        yield name, torch.arange(256, dtype=torch.uint8).repeat(5).view(dtype)
    yield "bool", torch.rand(2000) > 0.25
    yield "bool_false", torch.zeros(9, dtype=torch.bool)
    yield "i8", torch.arange(-128, 128).to(torch.int8).repeat(5)
    yield "u8", torch.arange(256).to(torch.uint8).repeat(5)
    yield "i16", torch.tensor([-32768, 32767, 0, -1], dtype=torch.int16).repeat(400)
    yield "u16", torch.tensor([0, 65535, 1], dtype=torch.uint16)
    yield "i32", torch.tensor([-(2**31), 2**31 - 1, 0, 7], dtype=torch.int32).repeat(400)
    yield "u32", torch.tensor([2**32 - 1, 0, 5], dtype=torch.uint32)
    yield "i64", torch.cat([torch.tensor([0, 2**53 + 1, 2**53, -(2**63) + 1, -(2**63), 2**63 - 2, 2**63 - 1, 5])] * 300)
    yield "u64", torch.from_numpy(np.array([2**63, 2**64 - 2, 2**64 - 1, 1, 2], dtype=np.uint64))
    yield "c64", torch.complex(torch.cat([mixed, edges]), torch.cat([mixed.flip(0), edges.flip(0)]))
    yield "c128", torch.complex(torch.randn(70).double(), torch.randn(70).double()) * 1e-300
    yield "scalar", torch.tensor(-2.5)
    yield "scalar_nan", torch.tensor(nan)
    yield "empty", torch.zeros(0, 3)
    yield "empty_i64", torch.zeros(3, 0, dtype=torch.int64)


def main():
    tensors = {}
    for name, tensor in cases():
        # The format has no complex128: pairs, which the test relabels.
        tensors[name] = torch.view_as_real(tensor).contiguous() if tensor.dtype == torch.complex128 else tensor
        tensors[name + ".numbers"] = numbers_of(tensor)
        tensors[name + ".histogram"] = histogram_of(tensor)
        if tensor.dtype in (torch.int64, torch.uint64) and tensor.numel() > 0:
            exact = tensor.reshape(-1).numpy()
            tensors[name + ".exact"] = torch.from_numpy(np.array([exact.min(), exact.max()]).view(np.int64))
    # The first elements of f32 transposed, and a row of it repeated without storage of its own.
    grid = tensors["f32_odd_length"][: 64 * 48].reshape(64, 48)
    tensors["transposed.numbers"] = numbers_of(grid.t())
    tensors["transposed.histogram"] = histogram_of(grid.t())
    tensors["expanded.numbers"] = numbers_of(grid[0].expand(40, 48))
    tensors["expanded.histogram"] = histogram_of(grid[0].expand(40, 48))
    save_file(tensors, "statistics.safetensors")


if __name__ == "__main__":
    main()
