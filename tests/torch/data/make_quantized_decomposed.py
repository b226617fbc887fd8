"""Writes quantized_decomposed.safetensors, what Python's quantized_decomposed::* operators return: `python
make_quantized_decomposed.py`, in this folder. torch 2.13.

The metadata `expected` is JSON: `schemas`, all schemas of the namespace, and `cases`, a list of {operator, arguments,
results}. An argument is null, {"int": 3}, {"float": "0x1.8p+0"}, {"dtype": "int8"} or {"tensor": name in the file,
"order": a permutation to apply}; results are [{"tensor": name, "strides": [...]}], or "raises" holds Python's message.
`undefined` marks cases where a NaN meets an integer dtype: C++ leaves the number to the machine."""

import json
import math

import torch
from safetensors.torch import save_file
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers the operators)

DTYPES = {
    torch.uint8: (0, 255),
    torch.int8: (-128, 127),
    torch.uint16: (0, 65535),
    torch.int16: (-32768, 32767),
    torch.int32: (-(2**31), 2**31 - 1),
    torch.float8_e5m2: (-57344, 57344),
    torch.float8_e4m3fn: (-448, 448),
}
FLOATS = (torch.float32, torch.float16, torch.bfloat16)
NAN, INF = math.nan, math.inf

tensors: dict[str, torch.Tensor] = {}
names: dict[tuple, str] = {}
cases: list[dict] = []


class Permuted:
    """An argument that is not contiguous: `tensor` in another order of dimensions."""

    def __init__(self, tensor, order):
        self.tensor, self.order = tensor, order


def store(tensor):
    """The name in the file; equal tensors are stored once."""
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    key = (tensor.dtype, tensor.shape, tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    name = names.setdefault(key, f"t{len(names)}")
    tensors[name] = tensor
    return name


def encode(value):
    if value is None:
        return None
    if isinstance(value, Permuted):
        return {"tensor": store(value.tensor), "order": value.order}
    if isinstance(value, torch.Tensor):
        return {"tensor": store(value)}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).removeprefix("torch.")}
    if isinstance(value, float):
        return {"float": value.hex()}
    return {"int": value}


def has_nan(values):
    return any(isinstance(v, torch.Tensor) and v.is_floating_point() and bool(v.float().isnan().any()) for v in values)


def case(operator, *arguments, out_dtype="absent"):
    """Runs an operator; out_dtype is the keyword that some have."""
    name, _, overload = operator.partition(".")
    call = getattr(getattr(torch.ops.quantized_decomposed, name), overload or "default")
    values = [v.tensor.permute(v.order) if isinstance(v, Permuted) else v for v in arguments]
    values = [v.contiguous() if isinstance(a, torch.Tensor) else v for a, v in zip(arguments, values)]  # as stored
    row = {"operator": operator, "arguments": [encode(v) for v in arguments]}
    keywords = {}
    if out_dtype != "absent":
        keywords = {"out_dtype": out_dtype}
        row["arguments"].append(encode(out_dtype))
    try:
        results = call(*values, **keywords)
    except Exception as error:
        row["raises"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        cases.append(row)
        return None
    results = results if isinstance(results, tuple) else (results,)
    row["results"] = [{"tensor": store(r), "strides": list(r.stride())} for r in results]
    if has_nan([*values, *results]) or getattr(case, "undefined", False):
        row["undefined"] = True
    cases.append(row)
    return results if len(results) > 1 else results[0]


def edge_values(dtype=torch.float32):
    """Ties, both zeros, subnormal, huge and infinite numbers among ordinary ones."""
    values = [0.0, -0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 0.05, -0.05, 0.15, 1e-40, 127.4, 127.5, 254.5, -128.5]
    values += [3e4, -3e4, 1e38, -1e38, INF, -INF]
    return torch.cat([torch.tensor(values), torch.randn(43) * 3]).to(dtype).reshape(8, 8)


def per_tensor():
    for dtype, (low, high) in DTYPES.items():
        for x_dtype in FLOATS:
            x = edge_values(x_dtype)
            q = case("quantize_per_tensor", x, 0.1, 3, low, high, dtype)
            case("dequantize_per_tensor", q, 0.1, 3, low, high, dtype)
            for out in FLOATS:
                case("dequantize_per_tensor", q, 0.037, -2, low, high, dtype, out_dtype=out)
        case("quantize_per_tensor", torch.tensor([NAN, 1.0, -NAN, INF]), 0.1, 0, low, high, dtype)
        scale, zero = torch.tensor(0.0123), torch.tensor(7)
        q = case("quantize_per_tensor.tensor", edge_values(), scale, zero, low, high, dtype)
        case("dequantize_per_tensor.tensor", q, scale, zero, low, high, dtype, out_dtype=torch.bfloat16)
        bounds = torch.tensor(low), torch.tensor(high)
        q = case("quantize_per_tensor.tensor2", edge_values(), scale, zero, *bounds, dtype)
        case("dequantize_per_tensor.tensor2", q, scale, zero, *bounds, dtype)
    x = edge_values()
    for low, high in ((-127, 127), (0, 127), (-8, 7), (5, -5), (-128, -128)):
        case("quantize_per_tensor", x, 0.25, -1, low, high, torch.int8)
    for scale in (1.0, 1e-30, 1e300, 5e-324, INF, -0.5, NAN):
        case.undefined = scale != scale or scale in (INF, 5e-324)
        q = case("quantize_per_tensor", x, scale, 0, -128, 127, torch.int8)
        case.undefined = False
        case("dequantize_per_tensor", q, scale, 0, -128, 127, torch.int8)
    for shape in ((), (0,), (3, 0, 2)):
        q = case("quantize_per_tensor", torch.ones(shape), 0.1, 0, 0, 255, torch.uint8)
        case("dequantize_per_tensor", q, 0.1, 0, 0, 255, torch.uint8)
    case("quantize_per_tensor", Permuted(torch.randn(2, 5, 4, 3), [0, 3, 1, 2]), 0.1, 0, -128, 127, torch.int8)
    # Parameters in other dtypes keep their kind of number.
    for scale, zero in (
        (torch.tensor([0.1], dtype=torch.float64), torch.tensor([3], dtype=torch.int32)),
        (torch.tensor([[0.1]], dtype=torch.bfloat16), torch.tensor([2.5])),
        (torch.tensor([2]), torch.tensor(1, dtype=torch.uint8)),
        (torch.tensor(True), torch.tensor(-0.5, dtype=torch.float64)),
    ):
        q = case("quantize_per_tensor.tensor", x, scale, zero, -128, 127, torch.int8)
        for out in (None, torch.float32, torch.float64, torch.float16, torch.int32):
            case("dequantize_per_tensor.tensor", q, scale, zero, -128, 127, torch.int8, out_dtype=out)
            case("dequantize_per_tensor.tensor2", q, scale, zero, zero, zero, torch.int8, out_dtype=out)
        case("quantize_per_tensor.tensor2", x, scale, zero, torch.tensor(-7.5), torch.tensor([[7.25]]), torch.int8)
    per_tensor_misfits(x)


def per_tensor_misfits(x):
    one, zero, two = torch.tensor(0.1), torch.tensor(0), torch.tensor([1, 2])
    q = torch.tensor([1, 2, 3], dtype=torch.int8)
    case("quantize_per_tensor", x.double(), 0.1, 0, -128, 127, torch.int8)
    case("quantize_per_tensor", q, 0.1, 0, -128, 127, torch.int8)
    case("quantize_per_tensor", x, 0.0, 0, -128, 127, torch.int8)
    case("quantize_per_tensor", x, 0.1, 0, -129, 127, torch.int8)
    case("quantize_per_tensor", x, 0.1, 0, -128, 128, torch.int8)
    case("quantize_per_tensor", x, 0.1, 0, -1, 65535, torch.uint16)
    case("quantize_per_tensor", x, 0.1, 0, 0, 2**31, torch.int32)
    case("quantize_per_tensor", x, 0.1, 0, -128, 127, torch.int64)
    case("quantize_per_tensor", x, 0.1, 0, -449, 127, torch.float8_e4m3fn)
    case("quantize_per_tensor.tensor", x, torch.tensor([0.1, 0.2]), zero, -128, 127, torch.int8)
    case("quantize_per_tensor.tensor", x, one, two, -128, 127, torch.int8)
    case("quantize_per_tensor.tensor", x, zero, zero, -128, 127, torch.int8)
    case("quantize_per_tensor.tensor2", x, one, two, zero, zero, torch.int8)
    case("quantize_per_tensor.tensor2", x, one, zero, two, zero, torch.int8)
    case("quantize_per_tensor.tensor2", x, one, zero, torch.tensor(-128.5), zero, torch.int8)
    case("dequantize_per_tensor", q, 0.1, 0, -128, 127, torch.uint8)
    case("dequantize_per_tensor", x, 0.1, 0, -128, 127, torch.float32)
    case("dequantize_per_tensor.tensor", q, one, two, -128, 127, torch.int8)
    case("dequantize_per_tensor.tensor", q, one, torch.tensor(True), -128, 127, torch.int8)
    case("dequantize_per_tensor.tensor2", q, one, zero, two, zero, torch.int8)
    case("dequantize_per_tensor.tensor2", q, two, zero, zero, zero, torch.int8)


def choose():
    inputs = {
        "ordinary": torch.randn(5, 7),
        "positive": torch.rand(9) + 2,
        "negative": -torch.rand(9) - 2,
        "zero range": torch.zeros(4),
        "one value": torch.full((3,), 0.7),
        "scalar": torch.tensor(-3.0),
        "tiny": torch.tensor([1e-40, -1e-42]),
        "huge": torch.tensor([3e38, -3e38]),
        "infinite": torch.tensor([1.0, INF]),
        "minus infinite": torch.tensor([1.0, -INF]),
        "nan": torch.tensor([1.0, NAN, -2.0]),
    }
    for operator in ("choose_qparams.tensor", "choose_qparams_symmetric.tensor"):
        for name, x in inputs.items():
            case.undefined = name in ("infinite", "minus infinite", "huge")
            for x_dtype in FLOATS:
                case(operator, x.to(x_dtype), -128, 127, 2**-23, torch.int8)
            case.undefined = False
        x = inputs["ordinary"]
        for dtype, (low, high) in DTYPES.items():
            case(operator, x, low, high, 1e-7, dtype)
        for low, high in ((-127, 127), (0, 127), (0, 1), (-(2**40), 2**40)):
            case(operator, x, low, high, 1e-5, torch.int8)
        for eps in (0.0, 10.0, 1e300, 1e-300):
            case(operator, x, 0, 255, eps, torch.uint8)
        case(operator, Permuted(torch.randn(3, 4), [1, 0]), 0, 255, 1e-7, torch.uint8)
        case(operator, x, 1, 255, 1e-7, torch.uint8)
        case(operator, x, 0, 0, 1e-7, torch.uint8)
        case(operator, x.double(), 0, 255, 1e-7, torch.uint8)
        case(operator, x, 0, 255, 1e-7, torch.int64)
        case(operator, torch.zeros(0), 0, 255, 1e-7, torch.uint8)


def per_channel():
    x = torch.randn(3, 4, 2) * 5
    for dtype, (low, high) in DTYPES.items():
        for axis, scale_dtype, zero_dtype in (
            (0, torch.float32, torch.int32),
            (1, torch.float64, torch.int64),
            (-1, torch.float32, torch.int8),
            (2, torch.bfloat16, torch.float32),
        ):
            n = x.shape[axis]
            scales = (torch.rand(n) * 0.1 + 0.01).to(scale_dtype)
            zeros = torch.arange(n).to(zero_dtype)
            q = case("quantize_per_channel", x, scales, zeros, axis, low, high, dtype)
            case("dequantize_per_channel", q, scales, zeros, axis, low, high, dtype)
            case("dequantize_per_channel", q, scales, None, axis, low, high, dtype, out_dtype=torch.float16)
            case("dequantize_per_channel", q, scales, zeros.float(), axis, low, high, dtype, out_dtype=torch.bfloat16)
    scales, zeros = torch.tensor([0.1, 1e-20, -0.5, INF]), torch.tensor([0, 100, -100, 5])
    case.undefined = True
    for x_dtype in FLOATS:
        q = case("quantize_per_channel", edge_values(x_dtype)[:4], scales, zeros, 0, -128, 127, torch.int8)
        case("dequantize_per_channel", q, scales, zeros, 0, -128, 127, torch.int8)
    case("quantize_per_channel", x, torch.tensor([0.0, NAN, 1.0]), torch.zeros(3), 0, 0, 255, torch.uint8)
    case.undefined = False
    weight = Permuted(torch.randn(3, 3, 2, 4), [3, 2, 0, 1])
    q = case("quantize_per_channel", weight, scales[:1].expand(4).clone(), zeros, 0, -127, 127, torch.int8)
    case("dequantize_per_channel", q, torch.rand(2), torch.tensor([1, 2]), 1, -127, 127, torch.int8)
    case("quantize_per_channel", x, torch.tensor([2, 3]), torch.tensor([0, 1]), 2, 0, 255, torch.uint8)
    case("quantize_per_channel", torch.zeros(0, 3), torch.ones(3), torch.zeros(3), 1, 0, 255, torch.uint8)
    ones = torch.ones(3), torch.zeros(3, dtype=torch.int64)
    q = torch.ones(3, 2, dtype=torch.int8)
    case("quantize_per_channel", x, *ones, 3, -128, 127, torch.int8)
    case("quantize_per_channel", x, *ones, -4, -128, 127, torch.int8)
    case("quantize_per_channel", x, *ones, 1, -128, 127, torch.int8)
    case("quantize_per_channel", x, torch.tensor(1.0), ones[1], 0, -128, 127, torch.int8)
    case("quantize_per_channel", x.double(), *ones, 0, -128, 127, torch.int8)
    case("quantize_per_channel", x, *ones, 0, -129, 127, torch.int8)
    case("quantize_per_channel", torch.tensor(1.0), *ones, 0, -128, 127, torch.int8)
    case("quantize_per_channel", torch.tensor(1.0), *ones, -1, -128, 127, torch.int8)
    case("dequantize_per_channel", q, *ones, 2, -128, 127, torch.int8)
    case("dequantize_per_channel", q, *ones, 0, -128, 128, torch.int8)
    case("dequantize_per_channel", q, *ones, 0, -128, 127, torch.uint8)
    case("dequantize_per_channel", q.long(), *ones, 0, -128, 127, torch.int64)


def per_token():
    inputs = [torch.randn(2, 3, 5), torch.zeros(2, 4), torch.rand(3, 4) + 1, -torch.rand(3, 4) - 1]
    inputs += [torch.tensor([[1e-9, -1e-9]]), torch.tensor(2.0), torch.tensor([1.0, -2.0]), torch.full((1, 3), 6e4)]
    choosers = ("choose_qparams_per_token_asymmetric", "_choose_qparams_per_token_asymmetric_impl")
    for x in inputs:
        for x_dtype in (*FLOATS, torch.float64):
            case("choose_qparams_per_token", x.to(x_dtype), torch.int8)
            for operator in choosers:
                case(operator, x.to(x_dtype), torch.int8)
    for x in (torch.tensor([[INF, 1.0]]), torch.tensor([[-INF, 1.0]]), torch.tensor([[NAN, 1.0]])):
        case.undefined = True
        for operator in (*choosers, "choose_qparams_per_token"):
            case(operator, x, torch.int8)
        case.undefined = False
    case("choose_qparams_per_token", inputs[0], torch.uint8)
    case(choosers[0], inputs[0], torch.uint8)
    case(choosers[0], torch.zeros(2, 0), torch.int8)
    case(choosers[0], torch.tensor([[3, -4]]), torch.int8)
    x = torch.randn(2, 3, 6) * 4
    for dtype, (low, high) in DTYPES.items():
        for x_dtype in FLOATS:
            scales, zeros = case(choosers[0], x.to(x_dtype), torch.int8)
            q = case("quantize_per_token", x.to(x_dtype), scales, zeros, low, high, dtype)
            case("dequantize_per_token", q, scales, zeros, low, high, dtype, torch.float32)
            case("dequantize_per_token", q, scales.float(), zeros.float(), low, high, dtype, x_dtype)
            case("dequantize_per_token", q, scales.to(x_dtype), zeros.int(), low, high, dtype, torch.float64)
    edges = edge_values()
    scales, zeros = torch.rand(8, 1) + 0.01, torch.arange(-4, 4).reshape(8, 1)
    case("quantize_per_token", edges, scales, zeros, -128, 127, torch.int8)
    case("quantize_per_token", edges.double(), scales, zeros.double() + 0.5, -127, 127, torch.int8)
    case("quantize_per_token", torch.tensor([[NAN, 1.0]]), scales[:1], zeros[:1], -128, 127, torch.int8)
    case("quantize_per_token", torch.tensor(3.0), torch.tensor(0.5), torch.tensor(1), -128, 127, torch.int8)
    case("quantize_per_token", edges, scales[:7], zeros, -128, 127, torch.int8)
    case("quantize_per_token", edges, scales, zeros[:7], -128, 127, torch.int8)
    case("quantize_per_token", edges, scales, zeros, -129, 127, torch.int8)
    case("quantize_per_token", edges, scales, zeros, -128, 127, torch.int64)


def per_group():
    x = torch.randn(4, 12) * 3
    for dtype, (low, high) in DTYPES.items():
        for group, scale_dtype in ((4, torch.float32), (6, torch.bfloat16), (12, torch.float64)):
            scales = (torch.rand(4, 12 // group) * 0.1 + 0.01).to(scale_dtype)
            zeros = torch.arange(scales.numel()).reshape(scales.shape)
            q = case("quantize_per_channel_group", x, scales, zeros.int(), low, high, dtype, group)
            case("dequantize_per_channel_group", q, scales, zeros.int(), low, high, dtype, group, torch.float32)
            case("dequantize_per_channel_group", q, scales, None, low, high, dtype, group, torch.bfloat16)
            case("dequantize_per_channel_group", q, scales, zeros.float(), low, high, dtype, group, torch.float16)
    scales, zeros = torch.rand(4, 1) + 0.1, torch.zeros(4, 1)
    q = case("quantize_per_channel_group", x.half(), scales, zeros, -8, 7, torch.int8, 128)
    case("dequantize_per_channel_group", q, scales, zeros, -8, 7, torch.int8, 128, torch.float32)
    case("quantize_per_channel_group", Permuted(torch.randn(12, 4), [1, 0]), scales, zeros, -8, 7, torch.int8, 12)
    case("quantize_per_channel_group", edge_values(), torch.rand(16) + 0.1, torch.zeros(16), -128, 127, torch.int8, 4)
    with_nan = x.clone()
    with_nan[0, 0] = NAN
    empty = torch.zeros(4, 0)
    case("quantize_per_channel_group", with_nan, scales, zeros, -8, 7, torch.int8, 12)
    for group in (1, 0, -3, 5, 24):
        case("quantize_per_channel_group", x, torch.ones(4, 3), torch.zeros(4, 3), -8, 7, torch.int8, group)
        case("dequantize_per_channel_group", q, torch.ones(4, 3), None, -8, 7, torch.int8, group, torch.float32)
    case("quantize_per_channel_group", empty, scales, zeros, -8, 7, torch.int8, 128)
    case("dequantize_per_channel_group", empty.char(), scales, None, -8, 7, torch.int8, 128, torch.float32)
    case("quantize_per_channel_group", x[None], scales, zeros, -8, 7, torch.int8, 4)
    case("dequantize_per_channel_group", q[0], scales, zeros, -8, 7, torch.int8, 4, torch.float32)


def others():
    x = torch.randn(3, 4, 2) * 5
    for axis in (0, 1, 2):
        scales, zeros = torch.rand(x.shape[axis]) * 0.1 + 0.01, torch.arange(x.shape[axis])
        for low, high in ((-128, 127), (0, 255), (-8, 7)):
            case("fake_quant_per_channel", x, scales, zeros, axis, low, high)
            case("fake_quant_per_channel", x, scales.double(), zeros.double() + 0.5, axis, low, high)
    case("fake_quant_per_channel", edge_values(), torch.rand(8) + 0.01, torch.zeros(8), 1, -128, 127)
    case("fake_quant_per_channel", torch.tensor([[NAN, 1.0]]), torch.ones(1), torch.zeros(1), 0, -128, 127)
    ones = torch.ones(2), torch.zeros(2)
    case("fake_quant_per_channel", x, *ones, -1, -128, 127)
    case("fake_quant_per_channel", x, *ones, -2, -128, 127)
    case("fake_quant_per_channel", x, *ones, 3, -128, 127)
    case("fake_quant_per_channel", x.double(), *ones, 2, -128, 127)
    values = torch.tensor([0.0, -0.0, 1.5, 2.5, -3.7, 100.0, 1e-3, 65504.0])
    for source in (*FLOATS, torch.float64, torch.float8_e5m2, torch.int32):
        for target in (*FLOATS, torch.float64, torch.float8_e4m3fn, torch.int32, torch.int64, torch.bool):
            case("convert_element_type.no_fuse", values.to(source), target)
    case("convert_element_type.no_fuse", Permuted(torch.randn(2, 5, 4, 3), [0, 3, 1, 2]), torch.bfloat16)
    case("convert_element_type.no_fuse", torch.tensor([NAN, INF, -INF]), torch.float16)
    case("convert_element_type.no_fuse", torch.zeros(0, 2), torch.int8)


def schemas():
    prefix = "quantized_decomposed::"
    operators = sorted(n for n in torch._C._dispatch_get_all_op_names() if n.startswith(prefix))
    found = []
    for name in operators:
        base, _, overload = name.removeprefix(prefix).partition(".")
        found.append(str(getattr(getattr(torch.ops.quantized_decomposed, base), overload or "default")._schema))
    return found


def main():
    torch.manual_seed(0)
    for part in (per_tensor, choose, per_channel, per_token, per_group, others):
        part()
    raising = sum("raises" in row for row in cases)
    used = {row["operator"] for row in cases}
    print(len(cases), "cases,", raising, "of them raise,", len(tensors), "tensors,", len(used), "operators")
    assert len(used) == len(schemas())
    expected = json.dumps({"schemas": schemas(), "cases": cases}, separators=(",", ":"))
    save_file(tensors, "quantized_decomposed.safetensors", {"expected": expected})


if __name__ == "__main__":
    main()
