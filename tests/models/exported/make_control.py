"""Writes the programs with control flow and wrapped subgraphs (torch 2.13): `python make_control.py [NAME...]`."""

import sys

import torch
from torch import nn
from torch._higher_order_ops.associative_scan import associative_scan
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.map import map as map_op
from torch._higher_order_ops.out_dtype import out_dtype
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

from fixture import write


class Scan(nn.Module):
    """Two carries (one an int64 counter), xs of two tensors, outputs in a dict, a weight closed over."""

    reverse = False

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3).requires_grad_(False)  # an int64 carry beside a gradient fails in torch itself

    def forward(self, h, xs, gates):
        def step(carry, x):
            hidden, count = carry
            value, gate = x
            hidden = torch.tanh(self.cell(hidden) + value) * gate
            return [hidden, count + 1], {"sum": hidden.sum(-1), "hidden": hidden.clone()}

        (hidden, count), ys = scan(step, [h, torch.zeros((), dtype=torch.int64)], [xs, gates], reverse=self.reverse)
        return hidden, count, ys


class ScanReverse(Scan):
    reverse = True


class ScanDim(nn.Module):
    """Over dimension 1, one carry, one output, no weight."""

    def forward(self, init, xs):
        return scan(lambda c, x: (c + x, c * 2), init, xs, dim=1)


class AssociativeScan(nn.Module):
    def forward(self, x, y):
        def combine(a, b):
            return {"x": a["x"] * b["x"], "y": a["y"] + b["y"]}

        return associative_scan(combine, {"x": x, "y": y}, dim=0, combine_mode="generic")


class WhileLoop(nn.Module):
    """A python int and a tensor are carried, a weight is closed over, the condition is a tensor compare."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, n, x):
        def running(i, y):
            return i < n

        def body(i, y):
            return i + 1, torch.relu(self.fc(y)) + y.sin()

        return while_loop(running, body, (torch.zeros((), dtype=torch.int64), x))


class WhileNever(nn.Module):
    """A loop whose condition is false at once: the carried values come out as they went in."""

    def forward(self, i, x):
        return while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y + 1), (i, x))


class Map(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, xs, scale):
        def body(x, s):
            return {"fc": self.fc(x["a"]) * s, "sum": [x["a"].sum(), x["b"] - s]}

        return map_op(body, {"a": xs, "b": xs[:, 0].clone()}, scale)


class CondNested(nn.Module):
    """Tuple outputs, a cond in a branch, modules in branches."""

    def __init__(self):
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Sequential(nn.Linear(4, 4), nn.ReLU())

    def forward(self, x, flag):
        def inner_true(a):
            return self.right(a)

        def inner_false(a):
            return a * 3

        def outer_true(a):
            b = torch.cond(a.mean() > 0, inner_true, inner_false, (a,))
            return b, b.sum()

        def outer_false(a):
            return self.left(a), a.sum()

        y, total = torch.cond(flag, outer_true, outer_false, (x,))
        return y + total


class CondShape(nn.Module):
    """The predicate is a size: a SymBool."""

    def forward(self, x):
        return torch.cond(x.shape[0] > 4, lambda a: a.cos(), lambda a: a.sin() + a.shape[0], (x,))


class GradAutocast(nn.Module):
    """no_grad, enable_grad and autocast blocks, nested, with module calls inside."""

    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.c = nn.Linear(4, 4)

    def forward(self, x):
        with torch.no_grad():
            y = self.a(x).relu()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = self.b(y) + 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            z = self.c(x)
            with torch.autocast("cpu", enabled=False):
                z = z.float() @ x.t()
        return y, z


class Hints(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, y):
        def body(a, b):
            return torch.relu(self.fc(a)) + b

        return hints_wrapper(body, (x, y), {}, hints={"level": 3, "name": "middle", "keep": True}) + 1


class OutDtype(nn.Module):
    """A higher-order operator that stays unsupported or is run; never silently dropped."""

    def forward(self, x, y):
        return out_dtype(torch.ops.aten.mm.default, torch.int32, x, y)


class Print(nn.Module):
    """aten::_print has a side effect: decomposed, it becomes with_effects with a token in and out."""

    def forward(self, x):
        torch.ops.aten._print("before")
        y = x.relu()
        torch.ops.aten._print("after")
        return y + 1


@torch.compiler.nested_compile_region
def region(x, y):
    z = x.sin() * y
    return z, z.sum()


class Region(nn.Module):
    """The same compiled region twice, two outputs each."""

    def forward(self, x, y):
        a, s = region(x, y)
        b, t = region(a, y)
        return b + s, t


class Vmap(nn.Module):
    """in_dims other than 0, an unbatched argument, a product with a weight."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3, 2))

    def forward(self, x, y):
        def f(a, b):
            return (a @ self.weight).relu() + b

        return torch.vmap(f, in_dims=(1, None))(x, y)


class VmapNested(nn.Module):
    """Two levels at once."""

    out_dims = 0

    def forward(self, x, y):
        inner = torch.vmap(lambda a, b: (a * 2).relu() + b, in_dims=(0, None))
        return torch.vmap(inner, in_dims=(1, 0), out_dims=self.out_dims)(x, y)


class VmapOut(VmapNested):
    out_dims = 2


class VmapRandom(nn.Module):
    """randomness different and same."""

    def forward(self, x):
        different = torch.vmap(lambda a: a + torch.rand(3), randomness="different")
        same = torch.vmap(lambda a: torch.dropout(a, 0.5, True), randomness="same")
        return different(x), same(x)


class VmapOutputs(nn.Module):
    """vmap whose function has several outputs, one of them unbatched, and writes in place."""

    def forward(self, x):
        def f(a):
            b = a.clone()
            b.mul_(2)
            return b.cumsum(0), torch.ones(2)

        return torch.vmap(f)(x)


def ramp(*shape, low=-1.0, high=1.0):
    count = torch.Size(shape).numel()
    return torch.linspace(low, high, count).reshape(shape)


def one(cls, *args, **options):
    """options: core (run_decompositions), strict, dynamic_shapes."""
    return cls, args, options


def programs():
    rows = torch.export.Dim("rows", min=2, max=16)
    scan_args = ramp(2, 3), ramp(4, 2, 3), ramp(4, 1, 1, low=0.5)
    return {
        "scan": one(Scan, *scan_args),
        "scan.core": one(Scan, *scan_args, core=True),
        "scan_reverse": one(ScanReverse, *scan_args),
        "scan_dim": one(ScanDim, ramp(2), ramp(2, 5)),
        "associative_scan": one(AssociativeScan, ramp(3, 2), ramp(3)),
        "while_loop": one(WhileLoop, torch.tensor(3), ramp(2, 3)),
        "while_loop.core": one(WhileLoop, torch.tensor(3), ramp(2, 3), core=True),
        "while_never": one(WhileNever, torch.tensor(1), ramp(2, 3)),
        "map": one(Map, ramp(3, 3), torch.tensor(2.0)),
        "map.core": one(Map, ramp(3, 3), torch.tensor(2.0), core=True),
        "cond_nested": one(CondNested, ramp(2, 4, low=-2), torch.tensor(True)),
        "cond_nested.core": one(CondNested, ramp(2, 4, low=-2), torch.tensor(True), core=True),
        "cond_nested.strict": one(CondNested, ramp(2, 4, low=-2), torch.tensor(True), strict=True),
        "cond_shape": one(CondShape, ramp(3, 2), dynamic_shapes=({0: rows},)),
        "grad_autocast": one(GradAutocast, ramp(3, 4)),
        "grad_autocast.core": one(GradAutocast, ramp(3, 4), core=True),
        "hints": one(Hints, ramp(3, 4), ramp(3, 4), strict=True),
        "out_dtype": one(OutDtype, torch.arange(6, dtype=torch.int8).reshape(2, 3),
                         torch.arange(6, dtype=torch.int8).reshape(3, 2)),
        "print": one(Print, ramp(3)),
        "print.core": one(Print, ramp(3), core=True),
        "region.strict_core": one(Region, ramp(2, 3), ramp(2, 3), strict=True, core=True),
        "region.strict": one(Region, ramp(2, 3), ramp(2, 3), strict=True),
        "vmap": one(Vmap, ramp(4, 2, 3), ramp(2)),
        "vmap.core": one(Vmap, ramp(4, 2, 3), ramp(2), core=True),
        "vmap_nested": one(VmapNested, ramp(4, 2, 3), ramp(2, 3)),
        "vmap_out.strict": one(VmapOut, ramp(4, 2, 3), ramp(2, 3), strict=True),  # out_dims: torch fails unless strict
        "vmap_random": one(VmapRandom, ramp(4, 3)),
        "vmap_outputs": one(VmapOutputs, ramp(3, 4)),
    }


def make(name, table):
    cls, args, options = table[name]
    torch.manual_seed(0)
    model = cls().eval()
    program = torch.export.export(model, args, options.get("kwargs"), strict=options.get("strict", False),
                                  dynamic_shapes=options.get("dynamic_shapes"))
    if options.get("core"):
        program = program.run_decompositions()
    write(name, program, args, options.get("kwargs"))


def main(table):
    torch.set_num_threads(1)
    failed = []
    for name in sys.argv[1:] or table:
        try:
            make(name, table)
        except Exception as error:
            failed.append(name)
            print(f"FAILED {name}: {type(error).__name__}: {str(error)[:400]}", file=sys.stderr)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main(programs())
