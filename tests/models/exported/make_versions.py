"""Writes torchNN_*.pt2, the same four models as each torch release from 2.6 on serialises them: run it once under each
release (`python make_versions.py`; torch, numpy and safetensors installed). Seeded, the values are always the same."""

import torch
from torch import nn

from fixture import write

VERSION = "torch" + "".join(torch.__version__.split("+")[0].split(".")[:2])


class Conv(nn.Module):
    """Convolution, batch norm, in-place relu, linear; counts its calls in a buffer."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.relu = nn.ReLU(inplace=True)
        self.fc = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("scale", torch.tensor([0.5, 1.0, 2.0]), persistent=False)

    def forward(self, x):
        self.calls.add_(1)
        y = self.relu(self.bn(self.conv(x)))
        return self.fc(y.mean((2, 3))) * self.scale + self.calls


class Dict(nn.Module):
    """A dict in, a dict out, keys not in alphabetical order, a keyword, a dynamic batch."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 5)

    def forward(self, batch, *, shift):
        hidden = self.fc(batch["x"]).tanh()
        kept = hidden.masked_fill(batch["mask"], float("-inf"))
        return {"probs": kept.softmax(-1), "hidden": [hidden + shift, None], "count": hidden.reshape(-1, 1).shape[0]}


class Cond(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda a: self.fc(a).relu(), lambda a: a - 1, (x,)) + 1


class Tied(nn.Module):
    """One weight under two names; a transposed, an offset, an expanded and an empty one."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(7, 4)
        self.out = nn.Linear(4, 7, bias=False)
        self.out.weight = self.emb.weight
        self.transposed = nn.Parameter(torch.randn(3, 4).t())
        base = torch.randn(12)
        self.register_buffer("first", base[:4])
        self.register_buffer("last", base[8:])
        self.register_buffer("wide", torch.randn(1, 3).expand(2, 3))
        self.empty = nn.Parameter(torch.zeros(0, 4))

    def forward(self, ids):
        hidden = self.emb(ids) + self.first * self.last
        return self.out(hidden), torch.cat([hidden, self.empty]) @ self.transposed + self.wide.sum(0)


def main():
    def make(cls):
        torch.manual_seed(0)
        return cls().eval()

    image = (torch.linspace(-1, 1, 2 * 2 * 4 * 4).reshape(2, 2, 4, 4),)
    conv = torch.export.export(make(Conv), image)
    write(f"{VERSION}_conv", conv, image)
    write(f"{VERSION}_conv_core", torch.export.export(make(Conv), image).run_decompositions(), image)

    batch = ({"x": torch.linspace(-2, 2, 15).reshape(3, 5), "mask": torch.eye(3, 5).bool()},)
    keywords = {"shift": torch.tensor(0.25)}
    rows = torch.export.Dim("rows", min=2, max=16)
    shapes = {"batch": {"x": {0: rows}, "mask": {0: rows}}, "shift": None}
    write(f"{VERSION}_dict", torch.export.export(make(Dict), batch, keywords, dynamic_shapes=shapes), batch, keywords)

    x = (torch.linspace(-1, 2, 12).reshape(3, 4),)
    write(f"{VERSION}_cond", torch.export.export(make(Cond), x), x)

    ids = (torch.tensor([0, 3, 6, 3]),)
    write(f"{VERSION}_tied", torch.export.export(make(Tied), ids), ids)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
