"""Writes the small scripted models of engine_test.cpp and their inputs: `python make_models.py`, in this folder. torch 2.13."""

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn


class Raises(nn.Module):
    class Inner(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = x + 1
            if bool(y.sum() > 0):
                raise ValueError("sum {} is positive".format(int(y.numel())))
            return y

    def __init__(self):
        super().__init__()
        self.inner = Raises.Inner()

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.relu(x)) * 2


class RaisesInOperator(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.sigmoid(x)
        return torch.matmul(y, torch.ones(7, 2))


class Asserts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.tanh(x)
        assert y.size(0) == 99, "first size must be 99"
        return y


class Overlap(nn.Module):
    """An in-place operation whose operand overlaps its target in part: LibTorch refuses it."""

    def forward(self, x: Tensor) -> Tensor:
        y = x * 1.0
        y.add_(y.t())
        return y


@torch.jit.script
class Scaled:
    def __init__(self, factor: float):
        self.factor = factor
        self.depth = 0

    def __enter__(self):
        self.depth += 1
        return self.factor

    def __exit__(self, type: Any, value: Any, traceback: Any) -> None:
        self.depth -= 1


class WithBlock(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = torch.relu(x)
        block = Scaled(3.0)
        with block as factor:
            y = y * factor
        return y + block.depth


def double(t: Tensor) -> Tensor:
    return torch.tanh(t) * 2


class ForkWait(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        futures: List[torch.jit.Future[Tensor]] = []
        for i in range(3):
            futures.append(torch.jit.fork(double, x + i))
        results: List[Tensor] = []
        for future in futures:
            results.append(torch.jit.wait(future))
        return torch.cat(results, 0)


def same(x: Tensor) -> Tensor:
    """Eval dropout returns its input object, so identity cannot tell the two apart."""
    return F.dropout(x, 0.5, False)


class ListOps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(x)
        b = same(a)
        items = [a, b]
        first = torch.exp(items[0])                 # relu
        second = torch.exp(items[1])                # dropout
        items.append(torch.sin(a))                  # [relu, dropout, sin]
        items.insert(1, torch.cos(a))               # [relu, cos, dropout, sin]
        popped = torch.tanh(items.pop(2))           # dropout
        items[-1] = b                               # [relu, cos, dropout]
        items.extend([a, b])                        # [relu, cos, dropout, relu, dropout]
        part = items[1:4]                           # [cos, dropout, relu]
        part.reverse()                              # [relu, dropout, cos]
        joined = part + [b]                         # [relu, dropout, cos, dropout]
        del items[0]                                # [cos, dropout, relu, dropout]
        copied = items.copy()
        items.clear()
        doubled = [a, b] * 2                        # [relu, dropout, relu, dropout]
        alias = copied
        alias.append(first)                         # seen through `copied`
        total = torch.zeros_like(x)
        for t in copied:
            total = torch.sub(total, t)
        last = torch.log1p(doubled[3])              # dropout
        other = torch.erf(doubled[2])               # relu
        return torch.stack(joined + [first, second, popped, total, last, other])


class NestedLists(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(x)
        b = same(a)
        rows: List[List[Tensor]] = []
        inner = [a]
        rows.append(inner)
        rows.append([b, a])
        inner.append(b)                             # rows[0] = [relu, dropout]
        pairs: List[Tuple[Tensor, Tensor]] = [(a, b), (b, a)]
        p, q = pairs[1]
        y = torch.exp(rows[0][1])                   # dropout
        z = torch.sin(rows[1].pop())                # relu
        u = torch.cos(p)                            # dropout
        v = torch.tan(q)                            # relu
        maybe: List[Optional[Tensor]] = [None, a, b]
        w = maybe[2]
        if w is not None:
            v = torch.sub(v, w)                     # tan, dropout
        return y + z + u + v


class DictOps(nn.Module):
    def forward(self, x: Tensor) -> Dict[str, Tensor]:
        a = torch.relu(x)
        b = same(a)
        d: Dict[str, Tensor] = {"a": a, "b": b}
        y = torch.exp(d["a"])                       # relu
        z = torch.sin(d.get("b", y))                # dropout
        d["c"] = torch.cos(a)
        popped = torch.tan(d.pop("b"))              # dropout
        kept = torch.tanh(d.setdefault("e", b))     # dropout
        total = torch.zeros_like(x)
        for key, value in d.items():                # relu, cos, dropout
            total = torch.sub(total, value)
        for value in d.values():
            total = torch.maximum(total, value)
        del d["c"]
        more = {"a": a, "b": b}
        zero = torch.ceil(more.setdefault("z", a))  # relu
        one = torch.floor(more["a"])                # relu
        more.update({"u": a, "v": b})
        two = torch.asin(more["u"])                 # relu
        three = torch.atan(more.pop("a"))           # relu
        four = torch.erf(more["b"])                 # dropout
        total = total + zero + one + two + three + four
        return {"y": y, "z": z, "popped": popped, "kept": kept, "total": total, "e": torch.log1p(d["e"])}


class WhileLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        steps = 0
        while float(x.sum()) < 100.0 and steps < 10:
            x = x * 2
            steps += 1
        if steps > 3:
            return x + steps
        for i in range(3):
            if i == 2:
                return x - i
        return x


def helper(x: Tensor, times: int) -> Tensor:
    for _ in range(times):
        x = torch.sin(x)
    return x


class NestedCalls(nn.Module):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def twice(self, x: Tensor) -> Tensor:
            return helper(self.linear(x), 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.twice(x) + self.twice(x * 2)

    def __init__(self):
        super().__init__()
        self.block = NestedCalls.Block()

    def forward(self, x: Tensor) -> Tensor:
        return self.block(self.block(x))


@torch.jit.interface
class Activation(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass


class InterfaceCall(nn.Module):
    class Relu(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.relu(x)

    class Tanh(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.tanh(x)

    first: Activation
    second: Activation

    def __init__(self):
        super().__init__()
        self.first = InterfaceCall.Relu()
        self.second = InterfaceCall.Tanh()

    def forward(self, x: Tensor) -> Tensor:
        return self.second.forward(self.first.forward(x))


class Hooks(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.inner(x))


def root_pre_hook(self, input: Tuple[Tensor]) -> Tuple[Tensor]:
    return (torch.exp(input[0]),)


def root_hook(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
    return torch.sub(output, input[0])


def inner_hook(self, input: Tuple[Tensor], output: Tensor) -> Tensor:
    return torch.neg(output)


class Counter(nn.Module):
    """State of every kind that a run may change: a buffer in place and rebound, a parameter, a plain tensor, a number, a list."""

    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(4))
        self.weight = nn.Parameter(torch.ones(4))
        self.plain = torch.ones(4)
        self.number = 0
        self.seen: List[Tensor] = [torch.zeros(3, 4)]

    def forward(self, x: Tensor, what: str) -> Tensor:
        if what == "buffer":
            self.steps += 1
            return x + self.steps
        if what == "rebound":
            self.mean = self.mean * 0.5 + x.mean(0)
            return x - self.mean
        if what == "parameter":
            with torch.no_grad():
                self.weight.mul_(2.0)
            return x * self.weight
        if what == "plain":
            self.plain.mul_(2.0)
            return x * self.plain
        if what == "number":
            self.number += 1
            return x * self.number
        self.seen.append(x)
        return torch.cat(self.seen)


class Mode(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.norm(x))


class MultiMethod(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return self.decode(self.encode(x))

    @torch.jit.export
    def encode(self, x: Tensor) -> Tensor:
        return torch.tanh(x)

    @torch.jit.export
    def decode(self, x: Tensor) -> Tensor:
        return torch.exp(x)


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand_like(x) + torch.randn(3, 4)
        y = F.dropout(x, 0.5, True) + noise
        z = x * 1.0
        z.uniform_(0.0, 1.0)
        w = x * 1.0
        w.bernoulli_(0.5)
        u = x * 1.0
        u.normal_()
        return y + z + w + u + torch.rand([]) + torch.multinomial(torch.ones(4), 4, True)


class Defaults(nn.Module):
    def forward(self, x: Tensor, scale: float = 2.0, times: int = 3, bias: Optional[Tensor] = None) -> Tensor:
        for _ in range(times):
            x = x * scale
        if bias is not None:
            x = x + bias
        return x


class Views(nn.Module):
    """Kept values that are written afterwards, by every way a storage is shared."""

    def forward(self, x: Tensor) -> List[Tensor]:
        out: List[Tensor] = []
        a = x * 1.0
        row = a[0]
        flat = a.view(-1)
        tail = a[1:]
        row.add_(1.0)                    # through a view: a, flat change
        out.append(a + 0)
        a.mul_(2.0)                      # on the base: row, flat, tail change
        out.append(flat + 0)
        tail.relu_()
        a.mul_(a)                        # its own operand
        out.append(row + 0)
        b = torch.exp(x)
        b.t_()
        out.append(b + 0)
        b.t_()
        b.squeeze_()
        b.transpose_(0, 1)
        out.append(b + 0)
        c = torch.sin(x)
        d = torch.cos(x)
        c.set_(d)
        d.add_(1.0)                      # c shows it
        out.append(c + 0)
        e = torch.tan(x)
        e.resize_(2, 2)
        out.append(e + 0)
        f = torch.sigmoid(x)
        f[1] = 5.0
        f[:, 0] = f[:, 1]
        f[f > 3.0] = -1.0
        out.append(f + 0)
        g = torch.tanh(x)
        parts = torch.unbind(g, 0)
        parts[0].fill_(7.0)
        halves = torch.chunk(g, 2, 1)
        halves[1].zero_()
        out.append(g + parts[1] + parts[0])
        h = torch.neg(x)
        k = h.detach()
        k.clamp_(-0.5, 0.5)
        out.append(h + 0)
        m = x.t() * 1.0                  # dense, not row-major
        n = m[:, :1].clone()
        m.add_(n)
        m.sub_(torch.ones(4, 3))
        out.append(m + n)
        p = torch.zeros(1, 3, 1, 4).permute(0, 3, 1, 2) + x.mean()
        q = p[0]
        p.add_(1.0)
        p.mul_(torch.full([1, 4, 3, 1], 2.0))
        out.append(p + q)
        s = torch.ones(4).expand(3, 4)
        r = torch.floor(x)
        view = r[0]
        r.add_(s)
        r.gt_(0.5)                       # its out-of-place form yields another element type
        r.copy_(s)
        r.masked_fill_(x > 0, 2.0)
        r.addcmul_(x, x)
        r.lerp_(x, 0.5)
        out.append(r + view)
        big = torch.zeros(100, 100) + x.mean()
        small = big[3, :4]
        small.add_(1.0)
        out.append(small + big[3, :4])
        i = torch.arange(12) + x.to(torch.long).sum()
        j = i[:3]
        i.add_(1)
        i.mul_(2)
        i.bitwise_and_(7)
        out.append(i + j.sum())
        return out


class Outputs(nn.Module):
    class Pair(NamedTuple):
        low: Tensor
        high: Tensor

    def forward(self, x: Tensor):
        values, indices = torch.topk(x, 2, 1)
        low, high = x.min(1)[0], x.max(1)[0]
        none = torch.unbind(x[:0])
        parts = torch.split(x, [1, 2], 0)
        q, r = torch.linalg.qr(x)
        quotient, rest = divmod(x.size(1), 3)
        return {"values": values, "indices": indices}, (low, [high]), parts, len(none), q, r, quotient * 10 + rest


class JitOnly(nn.Module):
    """Operations that only the interpreter's registry has, and those that call others."""

    def forward(self, x: Tensor) -> Tensor:
        a = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        b = torch.tensor([1, 2, 3])
        c = torch.tensor(2.5)
        d = torch.tensor(3, dtype=torch.float64)
        e = torch.tensor([True, False])
        f = torch.as_tensor([1.5, 2.5])
        t = x.T + x.mT + x.t()
        s = c * d.to(torch.float32) + 1
        z = torch.zeros([])
        z += s
        z.add_(x.sum())
        w = z * 2
        n = int(x.sum()) + x.dim() + len(x.size())
        text = "{} {}".format(x.size(0), c)
        items = [x, t.t()]
        up = F.interpolate(x.unsqueeze(0), scale_factor=2.0, mode="nearest")
        y = x * float(s) + n + len(text)
        numbers = [i * 2 for i in range(4)]
        view = x.reshape([numbers[1], 2, -1][1:])
        kept: List[int] = b.tolist()
        g = torch.ones(kept[0], kept[1])
        index = x[torch.tensor([0, 2]), :]
        return (y.sum() + a.sum() + b.sum() + e.sum() + f.sum() + w + up.sum() + view.sum() + g.sum() + index.sum() +
                items[1].sum())


@torch.jit.script
class State:
    def __init__(self, x: Tensor):
        self.x = x
        self.history = [x]

    def step(self, y: Tensor) -> Tensor:
        self.history.append(self.x)
        self.x = self.x * y
        return self.x


class Objects(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        a = torch.relu(x)
        state = State(same(a))
        state.step(a)                               # mul of dropout and relu
        state.step(torch.sin(x))
        total = torch.cos(state.history[0])         # dropout
        for _ in range(2):
            other = State(x)
            total = total + other.step(total)
        return total + torch.tan(state.history[1]) + state.x


class OtherLayouts(nn.Module):
    """Conjugate and negative views, sparse and quantised tensors, half precision."""

    def forward(self, x: Tensor) -> Tensor:
        c = torch.view_as_complex(torch.stack([x, x * 2], -1))
        conj = torch.conj(c)
        imag = torch.imag(conj)
        c.mul_(2.0)
        total = imag + torch.real(conj)
        s = x.relu().to_sparse()
        s.mul_(2.0)
        total = total + s.to_dense()
        q = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)
        total = total + q.dequantize() + x.to(torch.bfloat16).to(torch.float32)
        h = x.to(torch.float16)
        v = h[0]
        h.add_(1.0)
        return total + v.to(torch.float32)


class Writes(nn.Module):
    """Buffers written through views and fused updates, and a buffer read before and after."""

    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.zeros(3, 4))
        self.register_buffer("count", torch.tensor(0))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        before = self.table + 0
        self.table[0] = x[0]
        self.table.view(-1)[4:].add_(1.0)
        self.count += 1
        old = self.table
        self.table = old * 2
        old.add_(1.0)
        return before + old + self.table + self.norm(x) * self.count


class Saves(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        torch.save(x, "/dev/null")
        return x + 1


class Uninitialised(nn.Module):
    """Bytes that mean nothing, a view of them, and the same once something was written to them."""

    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        bare = torch.empty([3, 4])
        seen = x.new_empty([2, 6]).view(3, 4)
        written = torch.empty([3, 4])
        written.view(12).copy_(x.view(12))
        return bare, seen, written.view(4, 3), x + 1


def write(name: str, module: nn.Module, train: bool = False) -> None:
    module.train(train)
    torch.jit.save(torch.jit.script(module), f"{name}.ts.pt")


def main() -> None:
    torch.manual_seed(7)
    x = torch.randn(3, 4)
    models = {
        "small_raises": Raises(), "small_raises_in_operator": RaisesInOperator(), "small_asserts": Asserts(),
        "small_overlap": Overlap(), "small_with_block": WithBlock(), "small_fork_wait": ForkWait(),
        "small_list_ops": ListOps(), "small_nested_lists": NestedLists(), "small_dict_ops": DictOps(),
        "small_while_loop": WhileLoop(), "small_nested_calls": NestedCalls(), "small_interface": InterfaceCall(),
        "small_counter": Counter(), "small_mode": Mode(), "small_multi_method": MultiMethod(),
        "small_random": Random(), "small_defaults": Defaults(), "small_views": Views(), "small_outputs": Outputs(),
        "small_jit_only": JitOnly(), "small_objects": Objects(), "small_other_layouts": OtherLayouts(),
    }
    for name, module in models.items():
        write(name, module)
    write("small_writes", Writes(), train=True)
    hooks = Hooks()
    hooks.register_forward_pre_hook(root_pre_hook)
    hooks.register_forward_hook(root_hook)
    hooks.inner.register_forward_hook(inner_hook)
    write("small_hooks", hooks)
    save_file({"x": x}, "small.inputs.safetensors")
    save_file({"x": torch.ones(4, 4)}, "small_square.inputs.safetensors")
    write("small_saves", Saves())
    write("small_uninitialised", Uninitialised())
    torch.jit.save(torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval(), (x,)), "small_linear.trace.pt")


if __name__ == "__main__":
    main()
