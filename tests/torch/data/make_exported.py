"""Writes the small exported programs of exported_attribution_test.cpp: `python make_exported.py`, in this folder. torch 2.13."""

import torch
import torch.nn.functional as F
from torch import nn
from torch._higher_order_ops.while_loop import while_loop

torch.manual_seed(0)
X = torch.randn(4, 3)


class Lines(nn.Module):
    """Unrolled loops whose lines hold signs, comments, index arithmetic and unpacking besides the calls."""

    def forward(self, x, w):
        for _ in range(4):
            x = x - x.mean(dim=-1, keepdim=True)
        for i in range(3):
            x = torch.tanh(x * 0.5) + w[i + 1]  # a + b
        for _ in range(4):
            x = torch.relu(x)  # relu(x) here, tanh(x) there
        for _ in range(3):
            x = torch.cat([*torch.split(x, 2, -1)], -1) * 1e-1
        for _ in range(2):
            x = F.softplus(x) + F.softplus(-x)
        return x


class Arms(nn.Module):
    """Modules called inside subgraphs, whose stacks in strict exports name the root twice."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)
        self.pair = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.line(x) + 1, lambda x: self.pair(x) * 2, (x,))


class Body(nn.Module):
    """A body with two additions on one line, far apart in what they do."""

    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x, i):
        return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, self.line(x).tanh() + 0.1), (i, x))


class Two(nn.Module):
    def __init__(self):
        super().__init__()
        self.line = nn.Linear(3, 3)

    def forward(self, x):
        h = self.line(x)
        return h * 2, h.sum(), h


class Returns(nn.Module):
    """A call that returns three values, none of which is the newest or the first."""

    def __init__(self):
        super().__init__()
        self.two = Two()

    def forward(self, x):
        a, b, c = self.two(x)
        return a + c, b


class Writes(nn.Module):
    def forward(self, a, b):
        a.add_(1)
        return a + b


def save(name, model, args, core=False, **options):
    program = torch.export.export(model, args, **options)
    torch.export.save(program.run_decompositions() if core else program, f"small_{name}.pt2")


marked = X.clone()
marked.note = "an attribute of Python"
save("lines", Lines(), (X, torch.randn(4, 3)))
save("arms", Arms(), (X.abs(),), strict=True)
save("body", Body(), (X, torch.tensor(0)))
save("returns", Returns(), (X,), preserve_module_call_signature=("two",))
save("returns_unsigned", Returns(), (X,))
save("writes", Writes(), (X.clone(), X))
save("writes.core", Writes(), (X.clone(), X), core=True)
save("marked", nn.ReLU(), (marked,))
