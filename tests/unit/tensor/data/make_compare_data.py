"""Writes compare.safetensors: tensors of every dtype for both sides of a comparison, and what each pair must give.

Elements are exact fractions and sums have 4000 bits, so the expected values owe nothing to rounding.
Run it in this folder with Python that has torch, numpy, mpmath and safetensors; the file is committed.
"""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import torch
from safetensors.torch import save_file

mpmath.mp.prec = 4000  # squares of the largest and the smallest doubles in one sum

RTOL, ATOL = Fraction(1, 64), Fraction(1, 16)

INTEGERS = {"u8": torch.uint8, "i8": torch.int8, "i16": torch.int16, "u16": torch.uint16, "i32": torch.int32,
            "u32": torch.uint32, "i64": torch.int64, "u64": torch.uint64}
FLOATS = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "e5m2": torch.float8_e5m2, "e4m3": torch.float8_e4m3fn, "e5m2fnuz": torch.float8_e5m2fnuz,
          "e4m3fnuz": torch.float8_e4m3fnuz}
BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def integers(dtype, generator, count):
    info = torch.iinfo(dtype)
    special = [0, 1, info.max, info.min, info.max - 1, info.max // 3, 2**53 + 1 if info.bits == 64 else 7]
    drawn = [int(v) for v in generator.integers(-99 if info.min else 0, 100, count)]
    return special, drawn, lambda values: torch.tensor(values, dtype=dtype)


def floats(dtype, generator, count):
    info = torch.finfo(dtype)
    special = [0.0, -0.0, 1.0, -1.0, info.max, info.min, info.smallest_normal, math.nan, math.inf, -math.inf]
    drawn = list(generator.standard_normal(count))
    return special, drawn, lambda values: torch.tensor(values, dtype=torch.float64).to(dtype)


def sides(dtype, make, seed, count=200):
    """Reference and subject: each special value against each, then a noisy copy of random values."""
    generator = np.random.default_rng(seed)
    special, drawn, build = make(dtype, generator, count)
    pairs = list(itertools.product(special, special))
    if make is integers:
        noisy = [v + int(d) if 0 <= v + d else v for v, d in zip(drawn, generator.integers(-2, 3, count))]
    else:
        noisy = [v * (1 + 0.03 * d) for v, d in zip(drawn, generator.standard_normal(count))]
    reference = build([r for r, _ in pairs] + drawn)[:200]
    subject = build([s for _, s in pairs] + noisy)[:200]
    return reference, subject


def element(value):
    """(real, imaginary) as fractions, or 'nan', or a tuple with infinities as floats."""
    parts = (value.real, value.imag) if isinstance(value, complex) else (value, 0)
    if any(isinstance(p, float) and math.isnan(p) for p in parts):
        return "nan"
    return tuple(p if isinstance(p, float) and math.isinf(p) else Fraction(p) for p in parts)


def elements(tensor):
    return [element(v) for v in (tensor.double() if tensor.is_floating_point() else tensor).reshape(-1).tolist()]


def finite(e):
    return e != "nan" and all(isinstance(p, Fraction) for p in e)


def exact(fraction):
    return mpmath.mpf(fraction.numerator) / fraction.denominator


def size(e):
    return exact(abs(e[0])) if e[1] == 0 else mpmath.sqrt(exact(e[0] ** 2 + e[1] ** 2))


def rounded(number):
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def ulp(reference, subject, kept):
    if reference.dtype != subject.dtype or reference.dtype not in FLOATS.values():
        return -1
    bits, most = 8 * reference.element_size(), 0
    top = 1 << (bits - 1)
    for r, s, keep in zip(*(t.contiguous().reshape(-1).view(BITS[bits // 8]).tolist() for t in (reference, subject)), kept):
        order = [-(v & (top - 1)) if v & top else v & (top - 1) for v in (r % (2 * top), s % (2 * top))]
        most = max(most, abs(order[0] - order[1])) if keep else most
    return most


def expected(reference, subject):
    rs, ss = elements(reference), elements(subject)
    kept = [finite(r) and finite(s) for r, s in zip(rs, ss)]
    count = dict.fromkeys(["nan_r", "nan_s", "nan_both", "inf_bad", "inf_both", "signs", "differing", "mismatched"], 0)
    d, a, b, rel, dot, needed_atol, needed_rtol = [], [], [], [], mpmath.mpf(0), mpmath.mpf(0), mpmath.mpf(0)
    is_complex = reference.is_complex() or subject.is_complex()
    bad, worst, worst_index = -1, 0.0, -1
    for i, (r, s, keep) in enumerate(zip(rs, ss, kept)):
        if not keep:
            kind = ("nan_both" if r == s == "nan" else "nan_r" if r == "nan" else "nan_s" if s == "nan" else
                    "inf_both" if r == s else "inf_bad")
            count[kind] += 1
            if kind not in ("nan_both", "inf_both"):
                count["differing"] += 1
                count["mismatched"] += 1
                bad = i if bad < 0 else bad
            continue
        abs_d, abs_r, abs_s = size((s[0] - r[0], s[1] - r[1])), size(r), size(s)
        d.append(abs_d), a.append(abs_r), b.append(abs_s)
        rel.append(abs_d / max(abs_r, abs_s) if abs_d else mpmath.mpf(0))
        dot += exact(r[0] * s[0] + r[1] * s[1])
        count["differing"] += abs_d > 0
        count["mismatched"] += abs_d > exact(ATOL) + exact(RTOL) * abs_r
        count["signs"] += not is_complex and r[0] * s[0] < 0
        needed_atol = max(needed_atol, abs_d - exact(RTOL) * abs_r)
        if abs_d > exact(ATOL):
            needed_rtol = max(needed_rtol, (abs_d - exact(ATOL)) / abs_r if abs_r else mpmath.inf)
        if rounded(abs_d) > worst:
            worst, worst_index = rounded(abs_d), i
    n = max(len(d), 1)
    norm = {k: mpmath.sqrt(sum(v * v for v in values)) for k, values in (("d", d), ("a", a), ("b", b))}
    if not norm["d"]:
        rel_l2, sqnr = 0.0, math.inf
    elif not norm["a"]:
        rel_l2, sqnr = math.inf, -math.inf
    else:
        rel_l2, sqnr = norm["d"] / norm["a"], 20 * mpmath.log10(norm["a"] / norm["d"])
    if norm["a"] and norm["b"]:
        cosine = dot / norm["a"] / norm["b"]
    else:
        cosine = 1 if norm["a"] == norm["b"] else 0
    top = [max(values, default=0) for values in (d, rel, a)]
    row = [len(rs), len(d), count["differing"], count["mismatched"], count["nan_r"], count["nan_s"], count["nan_both"],
           count["inf_bad"], count["inf_both"], count["signs"], bad if bad >= 0 else worst_index,
           ulp(reference, subject, kept), top[0], sum(d) / n, sum(v * v for v in d) / n, top[1], sum(rel) / n,
           norm["a"], norm["b"], top[2], rel_l2, sqnr, cosine, needed_atol, needed_rtol]
    return torch.tensor([rounded(v) for v in row], dtype=torch.float64)


def all_dtypes():
    tensors = {}
    for seed, (name, dtype) in enumerate({**INTEGERS, **FLOATS}.items()):
        tensors[name] = sides(dtype, integers if name in INTEGERS else floats, seed)
    generator = np.random.default_rng(99)
    tensors["bool"] = tuple(torch.tensor(generator.random(200) < 0.5) for _ in range(2))
    codes = generator.integers(100, 150, 200).astype(np.uint8)
    codes[[3, 8]] = 255
    other = np.where(generator.random(200) < 0.2, codes - 1, codes)
    tensors["e8m0"] = tuple(torch.tensor(c).view(torch.float8_e8m0fnu) for c in (codes, other))
    reference = torch.randn(200, dtype=torch.complex64, generator=torch.Generator().manual_seed(5))
    subject = reference * (1 + 0.1j)
    reference[:6] = torch.tensor([complex(math.nan, 1), complex(math.inf, 1), complex(math.inf, 1), 0, 0, 3e38 + 3e38j])
    subject[:6] = torch.tensor([complex(1, math.nan), complex(math.inf, 1), complex(math.inf, 2), 0, 1j, -3e38 - 3e38j])
    tensors["c64"] = (reference, subject)
    return tensors


def whole_cases():
    """Same-dtype cases of several blocks."""
    generator = torch.Generator().manual_seed(7)
    base = torch.randn(2600, generator=generator)
    noise = torch.randn(2600, generator=generator)
    holed = base.clone()
    holed[[0, 1500, 2599]] = math.nan
    holed[[10, 1100]] = -math.inf
    late = base.clone()
    late[2598] += 1
    mask = torch.where(torch.rand(2600, generator=generator) < 0.4, -math.inf, base)
    big = base.double() * 1e300
    return {
        "noise_f32": (base, base + 1e-3 * noise),
        "noise_bf16": (base.bfloat16(), (base + 1e-2 * noise).bfloat16()),
        "noise_f16": (base.half(), (base + 1e-2 * noise).half()),
        "noise_f64": (base.double(), base.double() * (1 + 1e-12 * noise.double())),
        "holed_f32": (base, holed),
        "both_holed_f32": (holed, (holed * 1.01)),
        "last_element": (base, late),
        "masked_f16": (mask.half(), (mask * 1.001).half()),
        "big_f64": (big, big * (1 + 1e-3 * noise.double())),
        "tiny_f64": (big * 1e-300 * 1e-250, big * 1e-300 * 1e-250 * 1.25),
        "zero_reference": (torch.zeros(1500), noise[:1500]),
        "zero_subject": (noise[:1500], torch.zeros(1500)),
        "zeros": (torch.zeros(5), -torch.zeros(5)),
        "tiny_difference_f64": (torch.tensor([1.0, 0.0]).double(), torch.tensor([1.0, 1e-200], dtype=torch.float64)),
        "scalar": (torch.tensor(2.0), torch.tensor(2.5)),
        "empty": (torch.zeros(0, 3), torch.zeros(0, 3)),
        "subnormal_f32": (torch.tensor([1e-45, 3e-45, 0]), torch.tensor([3e-45, -1e-45, 1e-45])),
        "wide_i64": (torch.tensor([2**62 + 1, -(2**63), 5]), torch.tensor([2**62 + 2, 2**63 - 1, 5])),
        "permuted": (base, base[torch.randperm(2600, generator=generator)]),
    }


if __name__ == "__main__":
    torch.manual_seed(0)
    data, dtypes = {}, all_dtypes()
    for name, (reference, subject) in dtypes.items():
        data["r." + name], data["s." + name] = reference, subject
    for a, b in itertools.product(dtypes, dtypes):
        data[f"e.{a}.{b}"] = expected(dtypes[a][0], dtypes[b][1])
    for name, (reference, subject) in whole_cases().items():
        data[f"case.{name}.r"], data[f"case.{name}.s"] = reference, subject.contiguous()
        data[f"case.{name}.e"] = expected(reference, subject)
    integers8 = torch.randint(-128, 128, (3, 4, 5), generator=torch.Generator().manual_seed(1)).to(torch.int8)
    scales = torch.tensor([0.5, 0.01, 3.0, 0.125], dtype=torch.float64)
    zeros = torch.tensor([0.0, 5.0, -7.0, 1.0], dtype=torch.float64)
    values = (integers8.double() - zeros[None, :, None]) * scales[None, :, None]
    other = values.float() * 1.03
    data |= {"q.r": integers8, "q.scales": scales, "q.zero_points": zeros, "q.s": other, "q.e": expected(values, other)}
    save_file({k: v.contiguous().clone() for k, v in data.items()}, "compare.safetensors")
