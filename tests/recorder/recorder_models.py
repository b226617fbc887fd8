"""Modules with what recorders stumble over: nests, keyword arguments, ties, loops, narrow and odd element types."""
import collections
import dataclasses

import torch
from torch import nn


@dataclasses.dataclass
class BlockOutput:
    hidden: torch.Tensor
    weights: object = None


Pair = collections.namedtuple("Pair", "left right")


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.proj = nn.Linear(width, width)

    def forward(self, x, *, scale=1.0, extra=None):
        y = self.proj(self.norm(x)) * scale
        return x + y if extra is None else x + y + extra["bias"]


class Nested(nn.Module):
    """Outputs of every nested form, keyword arguments, a loop over one module, tied weights."""

    def __init__(self, width=8):
        super().__init__()
        self.blocks = nn.ModuleList([Block(width) for _ in range(3)])
        self.shared = Block(width)
        self.alias = self.shared
        self.embed = nn.Linear(width, width, bias=False)
        self.head = nn.Linear(width, width, bias=False)
        self.head.weight = self.embed.weight
        self.pack = Packer()
        self.register_buffer("steps", torch.tensor([3]))

    def forward(self, x, mask=None, batch=None, flag=True, *, scale=0.5):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x, scale=scale, extra=batch)
        for _ in range(3):
            x = self.shared(x)
        x = self.alias(x)
        if mask is not None and flag:
            x = x.masked_fill(mask, 0)
        return self.pack(self.head(x))


class Packer(nn.Module):
    def forward(self, x):
        return {"out": x, "parts": [x[:1], (x[1:], None)], "pair": Pair(x.sum(), 3), "block": BlockOutput(x * 2, [x])}


class InPlace(nn.Module):
    """The output of `lin` is overwritten later: the record must keep what it was."""

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.lin(x)
        z = self.act(y)
        y.add_(100)
        return z


class Give(nn.Module):
    """Returns what it is told to."""

    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def odd_tensors():
    """(name, function) of outputs in every element type and layout."""
    makers = {name: (lambda x, d=getattr(torch, name): x.to(d)) for name in (
        "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "float8_e4m3fn",
        "float8_e5m2", "float8_e8m0fnu", "float8_e4m3fnuz", "uint16", "uint32", "uint64", "complex64", "complex128")
        if hasattr(torch, name)}
    makers.update(
        complex_conj=lambda x: x.to(torch.complex64).conj(),
        complex32=lambda x: x.to(torch.complex64).to(torch.complex32),
        negative=lambda x: torch.complex(x, x).conj().imag,
        scalar=lambda x: x.sum(),
        empty=lambda x: x[:0],
        transposed=lambda x: x.t(),
        expanded=lambda x: x[:1].expand(5, -1),
        strided=lambda x: x[:, ::2],
        quantised=lambda x: torch.quantize_per_tensor(x, 0.1, 3, torch.qint8),
        per_channel=lambda x: torch.quantize_per_channel(
            x, torch.tensor([0.1, 0.2, 0.3]), torch.tensor([0, 1, 2]), 0, torch.quint8),
        sparse=lambda x: (x * (x > 0)).to_sparse(),
        csr=lambda x: (x * (x > 0)).to_sparse_csr(),
        requires_grad=lambda x: x.clone().requires_grad_(),
    )
    return makers.items()


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = Give(self.fail)

    @staticmethod
    def fail(x):
        raise ValueError("no luck with %d elements" % x.numel())

    def forward(self, x):
        return self.second(self.first(x))


class Catches(nn.Module):
    """Catches what a submodule raises and goes on."""

    def __init__(self):
        super().__init__()
        self.inner = Raises()
        self.last = nn.Linear(4, 4)

    def forward(self, x):
        try:
            self.inner(x)
        except ValueError:
            pass
        return self.last(x)
