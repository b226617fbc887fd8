"""Writes the programs about values (torch 2.13): argument kinds, dtypes, structures, shapes, mutation, names.
`python make_values.py [NAME...]`."""

import collections
import dataclasses
import math
import typing

import torch
from torch import nn
from torch.utils import _pytree as pytree

from fixture import write
from make_control import main, one, ramp


class Kinds(nn.Module):
    """Strings, dtypes, layouts, devices, memory formats, lists, infinities, complex and wrapped numbers."""

    def forward(self, x, i, m):
        infinite = torch.clamp(x, float("-inf"), math.inf).masked_fill(m, float("nan")).nan_to_num(0.5, posinf=9.0)
        wrapped = i * 2.5, i + 1, i * True, 2 - i, torch.where(m, x, 3), torch.pow(2, i), x.half() * 1e-3
        created = (torch.full((2,), 1 + 2j), torch.zeros(2, dtype=torch.complex64) + 1j,
                   torch.empty_like(x, memory_format=torch.preserve_format).fill_(-math.inf),
                   torch.zeros(1, 2, 2, 2).to(memory_format=torch.channels_last),
                   torch.arange(3, dtype=torch.float64, device="cpu", layout=torch.strided, pin_memory=False),
                   torch.tensor(9223372036854775807), torch.tensor([1e-45, 3.4e38]), torch.scalar_tensor(-2**63))
        strings = (torch.nn.functional.gelu(x, approximate="tanh"), torch.einsum("ij,kj->ik", x, x),
                   torch.linalg.norm(x, "fro"), torch.div(x, 0.3, rounding_mode="floor"),
                   torch.searchsorted(x[0].sort()[0], x, side="right"),
                   torch.nn.functional.pad(x, (1, 1), mode="reflect"))
        lists = (x.sum((0, 1)), x.mean([]), torch.cat([x, x[:1]]), x[:, None, [0, 1]], torch.roll(x, (1, 2), (0, 1)),
                 torch.stack([x, x]), torch.block_diag(x, x))
        return infinite, wrapped, created, strings, lists


class OptionalTensors(nn.Module):
    """Tensor?[] with and without None, as indices and in index_put; an in-place list operator."""

    def forward(self, x, rows, columns):
        y = x.clone()
        y[:, columns] = 0.0
        y[rows] += 1
        z = torch._foreach_add([x, y], 2.0)
        torch._foreach_mul_(z, [2.0, 3.0])
        return x[rows, columns], x[:, columns], x[None, rows], y, z


class Lists(nn.Module):
    """bool[], float[] and Tensor[] results, several of them unused; (Tensor, Tensor[])."""

    def forward(self, x):
        image = x.reshape(1, 1, *x.shape)
        grad = torch.ops.aten.convolution_backward(
            image, image, torch.ones(1, 1, 1, 1), [1], [1, 1], [0, 0], [1, 1], False, [0, 0], 1, [True, False, True])
        grown = torch.ops.aten.upsample_bilinear2d.vec(image, None, False, [2.0, 1.5])
        parts = x.split([1, 2], 0)
        one, two, three = x.unbind(0)
        values, _ = x.topk(2)
        _, indices = x.sort(descending=True)
        floats = torch.ops.aten._test_optional_floatlist(x[0, :2].contiguous(), [1.5, -math.inf])
        q, _ = torch.linalg.qr(x)
        return grad[0], grad[2], grown, parts[1], two, values, indices, floats, q.shape[0], tuple(torch.aminmax(x))


class Symbols(nn.Module):
    """The arithmetic of sizes: every operator python knows for them, negative operands included."""

    def forward(self, x):
        s = x.shape[0]
        t = x.shape[1]
        whole = [s - 10, (s - 10) // 3, (s - 10) % 3, s * t, s + t, -s, s**2, s << 1, (s * 8) >> 1,
                 torch.sym_max(s, t), torch.sym_min(s, t), torch.sym_int(torch.sym_float(s) * 2.5),
                 torch.sym_ite(s > 4, s, t), math.trunc(s / 3)]
        real = [s / 4, torch.sym_float(t) * 0.5, torch.sym_sqrt(s), s / t - 1.5, torch.sym_sqrt(s) ** 2.0]
        made = [x.new_full((2,), v) for v in whole + real]
        shapes = x.reshape(-1, 1), x.new_zeros(s + 1, t), x.expand(2, s, t), torch.arange(s * 2)
        return made, shapes, s, s * t


class Unbacked(nn.Module):
    """Sizes and numbers read out of tensors: item of int, float and bool, checks, slices by a read number."""

    def forward(self, n, f, flag, x):
        count = n.item()
        torch._check(count >= 0)
        torch._check(count <= 4)
        scale = f.item()
        chosen = x.nonzero()
        return x[:count] * scale, torch.ones(count, 2), chosen, torch.full((2,), scale) + flag.item(), x[x > 0]


class Asserts(nn.Module):
    """Checks that come to run time, with the user's own words."""

    def forward(self, x, n):
        count = n.item()
        torch._check(count > 2, lambda: "count must be above 2")
        torch._assert_async((x < 100).all(), "entries must be below 100")
        return x * count


class Ranges(nn.Module):
    """Two dynamic sizes, one derived from the other; a third that must be a multiple of 4."""

    def forward(self, x, y, z):
        return x + y[1::2], z.reshape(4, -1).sum(0)


class Strides(nn.Module):
    """Inputs that are transposed, channels last, sliced with an offset, expanded; values that depend on the strides."""

    def forward(self, transposed, image, sliced, expanded):
        seen = transposed.as_strided((12,), (1,)) * 2
        pooled = torch.nn.functional.max_pool2d(image, 2)
        return seen, pooled.as_strided((8,), (1,)), image.contiguous(), sliced + 1, expanded * 2


class Dtypes(nn.Module):
    """A buffer of every dtype that a file can hold, viewed or cast."""

    FP8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz)
    WIDE = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
            torch.float32, torch.float64, torch.complex64, torch.complex128, torch.bool)
    UNSIGNED = (torch.uint16, torch.uint32, torch.uint64)

    @staticmethod
    def name(dtype):
        return "w_" + str(dtype).split(".")[1]

    def __init__(self):
        super().__init__()
        for dtype in self.FP8 + self.WIDE + self.UNSIGNED:
            self.register_buffer(self.name(dtype), torch.tensor([0.0, 1.0, 3.0]).to(torch.float32).to(dtype))
        self.register_buffer("w_complex32", torch.tensor([0, 1 + 2j, -0.5j]).to(torch.complex32))
        self.register_buffer("w_float8_e8m0fnu", torch.tensor([127, 128, 130], dtype=torch.uint8).view(
            torch.float8_e8m0fnu))

    def forward(self, x):
        small = [getattr(self, self.name(d)).to(torch.float32) + x for d in self.FP8 + self.UNSIGNED]
        wide = [getattr(self, self.name(d)).clone() for d in self.WIDE]
        wide.append(self.w_complex32.to(torch.complex64))
        return small, wide, self.w_float8_e8m0fnu.clone(), self.w_uint16.clone(), x.to(torch.float8_e5m2)


class Mutations(nn.Module):
    """A buffer through a view, one wholly, one by slice; both inputs; a parameter-like buffer read before and after."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(3, 4))
        self.register_buffer("total", torch.ones(()))
        self.register_buffer("scratch", torch.full((4,), 2.0), persistent=False)

    def forward(self, x, y):
        before = self.total * 2
        self.table[1].add_(x[0])
        self.table[2:, ::2] = 7
        self.total.copy_(self.table.sum())
        self.scratch.mul_(self.total)
        x.add_(1)
        y[:, 0] = x[:, 1]
        return before, self.total + 0, x.sum(), self.scratch


class Mapping(nn.Module):
    """A weight that the program itself writes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        y = x * self.weight
        self.weight.add_(1)
        return y


Point = collections.namedtuple("Point", ["x", "y"])


class Pose(typing.NamedTuple):
    position: torch.Tensor
    heading: typing.Optional[torch.Tensor]


@dataclasses.dataclass
class Result:
    logits: torch.Tensor
    hidden: typing.Optional[list] = None
    loss: typing.Optional[torch.Tensor] = None


class ModelOutput(collections.OrderedDict):
    """A class of its own with named fields, as transformer libraries return them."""


pytree._register_namedtuple(Point, serialized_type_name="shapes.Point")
pytree._register_namedtuple(Pose, serialized_type_name="shapes.Pose")
torch.export.register_dataclass(Result, serialized_type_name="outputs.Result")
pytree.register_pytree_node(
    ModelOutput, lambda d: (list(d.values()), list(d.keys())), lambda v, c: ModelOutput(zip(c, v)),
    serialized_type_name="outputs.ModelOutput", to_dumpable_context=lambda c: c, from_dumpable_context=lambda c: c)


class Structures(nn.Module):
    """Containers of every kind in and out, empty ones, constants, None, one tensor thrice, an input passed through."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))

    def forward(self, batch, point, *rest, scale=1.0, options=None):
        a = batch["z"]["inner"][0] * scale + point.x
        b = batch["a"] + rest[0]
        return {
            "result": Result(a, [b, {"deep": (a, None)}]),
            "output": ModelOutput(logits=a + 1, cache=[(a, b), ()]),
            "pose": Pose(b, None),
            "empty": [(), {}, []],
            "again": (a, a),
            "passed": [rest[0], point.y, batch],
            "weight": self.weight,
            "numbers": [1, 2.5, True, None],
            "ordered": collections.OrderedDict([("b", a - 1), ("a", b - 1)]),
            "deque": collections.deque([a * 3]),
        }


class Leaf(nn.Module):
    def forward(self, x):
        return torch.tanh(x)


class Names(nn.Module):
    """Module names that hold the separators of the metadata; the parameter of "a,b" too."""

    ODD = ("a,b", "c;d", "e[0]", "f(1,2", "g h", "i@1", "j:k,l", "m'n\"o\\p", "ß→", "q,r;s")

    def __init__(self):
        super().__init__()
        for name in self.ODD:
            self.add_module(name, nn.Sequential(Leaf()))
        getattr(self, "a,b").register_parameter("w;,x", nn.Parameter(torch.tensor(0.5)))

    def forward(self, x):
        for module in self.children():
            x = module(x)
        return x * next(self.parameters())


def helper(x):
    return torch.relu(x) - 0.5


class Loops(nn.Module):
    """A cell called twice in a loop and once after, a function thrice on a line, lines that name an operator twice."""

    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(2, 2)
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(2)])

    def forward(self, x):
        for _ in range(2):
            x = torch.sin(self.cell(x)) + torch.sin(x * 2)
        y = helper(helper(helper(x)))
        for layer in self.layers:
            y = torch.tanh(layer(y))
        return torch.stack([torch.exp(row) for row in y.unbind(0)]), self.cell(y)


def programs():
    rows = torch.export.Dim("rows", min=2, max=16)
    columns = torch.export.Dim("columns", min=1, max=9)
    image = ramp(1, 2, 4, 4).to(memory_format=torch.channels_last)
    structures = ({"z": {"inner": [ramp(2)]}, "a": torch.tensor(2.0)}, Point(ramp(2), torch.tensor(5)), ramp(1, 2))
    unbacked = torch.tensor(3), torch.tensor(0.5), torch.tensor(True), ramp(4)
    loops = ramp(2, 2)
    return {
        "kinds": one(Kinds, ramp(2, 3), torch.arange(6).reshape(2, 3), torch.eye(2, 3).bool()),
        "optional_tensors": one(OptionalTensors, ramp(3, 4), torch.tensor([0, 2]), torch.tensor([1, 3])),
        "optional_tensors.core": one(OptionalTensors, ramp(3, 4), torch.tensor([0, 2]), torch.tensor([1, 3]),
                                     core=True),
        "lists": one(Lists, ramp(3, 4)),
        "symbols": one(Symbols, ramp(5, 3), dynamic_shapes=({0: rows, 1: columns},)),
        "unbacked": one(Unbacked, *unbacked),
        "unbacked.core": one(Unbacked, *unbacked, core=True),
        "asserts": one(Asserts, ramp(3, low=0.5), torch.tensor(3)),
        "asserts.core": one(Asserts, ramp(3, low=0.5), torch.tensor(3), core=True),
        "ranges": one(Ranges, ramp(4, 2), ramp(9, 2), ramp(8),
                      dynamic_shapes=({0: rows}, {0: 2 * rows + 1}, {0: 4 * columns})),
        "strides": one(Strides, ramp(3, 4).t(), image, ramp(4, 6)[1:3, ::2], ramp(1, 3).expand(2, 3)),
        "strides.core": one(Strides, ramp(3, 4).t(), image, ramp(4, 6)[1:3, ::2], ramp(1, 3).expand(2, 3), core=True),
        "dtypes": one(Dtypes, ramp(3)),
        "mutations": one(Mutations, ramp(2, 4), ramp(2, 3)),
        "mutations.core": one(Mutations, ramp(2, 4), ramp(2, 3), core=True),
        "weight_mutation": one(Mapping, ramp(3)),
        "weight_mutation.core": one(Mapping, ramp(3), core=True),
        "structures": one(Structures, *structures, kwargs={"options": None, "scale": 2.0}),
        "structures.strict": one(Structures, *structures, kwargs={"options": None, "scale": 2.0}, strict=True),
        "names": one(Names, ramp(3, 2)),
        "names.strict": one(Names, ramp(3, 2), strict=True),
        "loops": one(Loops, loops),
        "loops.strict": one(Loops, loops, strict=True),
        "loops.core": one(Loops, loops, core=True),
    }


if __name__ == "__main__":
    main(programs())
