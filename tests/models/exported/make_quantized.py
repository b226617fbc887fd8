"""Writes programs quantised by the PT2E flow (torch 2.13, torchao 0.18): `python make_quantized.py [NAME...]`."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization.fx import _decomposed  # noqa: F401  (registers quantized_decomposed::*)
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e, prepare_qat_pt2e
from torchao.quantization.pt2e.quantizer.embedding_quantizer import EmbeddingQuantizer
from torchao.quantization.pt2e.quantizer.x86_inductor_quantizer import (
    X86InductorQuantizer,
    get_default_x86_inductor_quantization_config,
)
from torchao.testing.pt2e._xnnpack_quantizer import XNNPACKQuantizer, get_symmetric_quantization_config

from fixture import write

ops = torch.ops.quantized_decomposed


class Net(nn.Module):
    """Convolution, batch norm, relu, a residual add, pooling, a linear layer."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(6)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        x = torch.relu(self.bn1(self.conv1(x)))
        x = torch.relu(self.conv2(x) + x)
        return self.fc(torch.flatten(self.pool(x), 1))


class Linears(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8, bias=False)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(x)))


class Embedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(12, 8)
        self.out = nn.Linear(8, 3)

    def forward(self, ids):
        return self.out(self.words(ids).mean(1))


class TokensAndGroups(nn.Module):
    """8-bit activations by token, 4-bit weights by group of 4, as the quantisers for mobile write them."""

    def __init__(self):
        super().__init__()
        weight = torch.randn(6, 8)
        scales = weight.reshape(6, 2, 4).abs().amax(-1) / 7
        self.register_buffer("scales", scales)
        self.register_buffer("zeros", torch.zeros(6, 2, dtype=torch.int32))
        self.register_buffer("weight", ops.quantize_per_channel_group(weight, scales, self.zeros, -8, 7, torch.int8, 4))

    def forward(self, x):
        scale, zero = ops.choose_qparams_per_token_asymmetric(x, torch.int8)
        q = ops.quantize_per_token(x, scale, zero, -128, 127, torch.int8)
        x = ops.dequantize_per_token(q, scale, zero, -128, 127, torch.int8, torch.float32)
        w = ops.dequantize_per_channel_group(self.weight, self.scales, self.zeros, -8, 7, torch.int8, 4, torch.float32)
        y = F.linear(x, w)
        scale, zero = ops.choose_qparams_per_token(y, torch.int8)
        q = ops.quantize_per_token(y, scale, zero, -127, 127, torch.int8)
        z = ops.dequantize_per_channel_group(self.weight, self.scales, None, -8, 7, torch.int8, 4, torch.bfloat16)
        return ops.dequantize_per_token(q, scale, zero, -127, 127, torch.int8, torch.float32), z


class Others(nn.Module):
    """The operators that the flows above leave out."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scales", torch.tensor([0.1, 0.02, 0.5]))
        self.register_buffer("zeros", torch.tensor([3, 0, -2]))
        self.register_buffer("low", torch.tensor(-127))
        self.register_buffer("high", torch.tensor(127))

    def forward(self, x):
        fake = ops.fake_quant_per_channel(x, self.scales, self.zeros, 1, -128, 127)
        scale, zero = ops.choose_qparams_symmetric.tensor(x, -127, 127, 1e-7, torch.int8)
        q = ops.quantize_per_tensor.tensor2(x, scale, zero, self.low, self.high, torch.int8)
        y = ops.dequantize_per_tensor.tensor2(q, scale, zero, self.low, self.high, torch.int8, out_dtype=torch.float16)
        wide = ops.quantize_per_tensor(x, 0.001, 32768, 0, 65535, torch.uint16)
        z = ops.dequantize_per_tensor(wide, 0.001, 32768, 0, 65535, torch.uint16)
        return fake, ops.convert_element_type.no_fuse(y, torch.bfloat16), z


def xnnpack(**options):
    return XNNPACKQuantizer().set_global(get_symmetric_quantization_config(**options))


def x86():
    return X86InductorQuantizer().set_global(get_default_x86_inductor_quantization_config())


def quantise(model, quantizer, inputs, fold=True, qat=False, rows=None):
    """Captures, calibrates, converts and exports again. With `fold` weights are stored as int8."""
    shapes = None if rows is None else ({0: rows},)
    graph = torch.export.export(model, inputs, dynamic_shapes=shapes).module()
    prepared = prepare_qat_pt2e(graph, quantizer) if qat else prepare_pt2e(graph, quantizer)
    for _ in range(4):
        prepared(*[x if x.dtype == torch.int64 else torch.randn_like(x) for x in inputs])
    return torch.export.export(convert_pt2e(prepared, fold_quantize=fold), inputs, dynamic_shapes=shapes)


def build(name):
    torch.manual_seed(0)
    image = (torch.randn(2, 3, 6, 6),)
    batch = (torch.randn(5, 8),)
    ids = (torch.tensor([[1, 2, 3], [0, 11, 7]]),)
    if name == "quantized_static":
        return quantise(Net().eval(), xnnpack(), image), image
    if name == "quantized_static_rows":
        return quantise(Net().eval(), xnnpack(), image, rows=torch.export.Dim("rows", min=2, max=8)), image
    if name == "quantized_per_channel":
        return quantise(Net().eval(), xnnpack(is_per_channel=True), image), image
    if name == "quantized_per_channel_unfolded":
        return quantise(Net().eval(), xnnpack(is_per_channel=True), image, fold=False), image
    if name == "quantized_qat":
        return quantise(Net().train(), xnnpack(is_per_channel=True, is_qat=True), image, qat=True), image
    if name == "quantized_dynamic":
        return quantise(Linears().eval(), xnnpack(is_per_channel=True, is_dynamic=True), batch), batch
    if name == "quantized_x86":
        return quantise(Net().eval(), x86(), image), image
    if name == "quantized_embedding":
        return quantise(Embedding().eval(), EmbeddingQuantizer(), ids), ids
    model, inputs = (TokensAndGroups(), batch) if name == "quantized_tokens_and_groups" else (Others(), image)
    return torch.export.export(model.eval(), inputs), inputs


NAMES = ("static", "static_rows", "per_channel", "per_channel_unfolded", "qat", "dynamic", "x86", "embedding",
         "tokens_and_groups", "others")


def main():
    for name in sys.argv[1:] or [f"quantized_{name}" for name in NAMES]:
        program, inputs = build(name)
        write(name, program, inputs)
        targets = sorted({str(n.target) for n in program.graph.nodes if "quantized_decomposed" in str(n.target)})
        print(name, len(program.graph.nodes), "nodes,", ", ".join(t.split(".", 1)[1] for t in targets))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
