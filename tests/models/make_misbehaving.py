"""Writes the models whose running is the test: `python make_misbehaving.py` (torch 2.13). Each does what its name says.

misbehaving.ts.pt and reaching.ts.pt have one method a way to misbehave; restoring.ts.pt, writing.ts.pt and reading.ts.pt do it while they are loaded.
"""

from typing import List, Tuple

import torch
from torch import nn


class Misbehaving(nn.Module):
    def forward(self, x: torch.Tensor):
        return x + 1

    @torch.jit.export
    def endless(self, x: torch.Tensor):
        while bool((x.abs() < 1e30).all()):
            x = x * 0.999 + 0.001
        return x

    @torch.jit.export
    def endless_numbers(self, x: torch.Tensor):
        n = 0
        while n >= 0:
            n = (n + 1) % 1000
        return x + n

    @torch.jit.export
    def slow_operator(self, x: torch.Tensor):
        y = torch.relu(x)
        return torch.linalg.eigvals(torch.rand(4000, 4000)).abs().sum() + y

    @torch.jit.export
    def one_allocation(self, x: torch.Tensor):
        return x.sum() + torch.ones(2000000000).sum()

    @torch.jit.export
    def hoard(self, x: torch.Tensor):
        kept: List[torch.Tensor] = []
        while len(kept) >= 0:
            kept.append(torch.ones(4000000))
        return kept

    @torch.jit.export
    def produce(self, x: torch.Tensor, count: int):
        y = torch.zeros(1000000)
        for _ in range(count):
            y = y + x.sum()
        return y

    @torch.jit.export
    def shout(self, x: torch.Tensor):
        print("::error::from the model \x1b[31m")
        return x + 1


class Reaching(nn.Module):
    """Reaches outside of the process."""

    def forward(self, x: torch.Tensor):
        return x + 1

    @torch.jit.export
    def write(self, x: torch.Tensor):
        torch.save(x, "written_by_the_model.pt")
        return x + 1

    @torch.jit.export
    def read(self, x: torch.Tensor):
        return x + torch.from_file("read_by_the_model.bin", False, 3)


class Restoring(nn.Module):
    """Never finishes loading."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))

    @torch.jit.export
    def __getstate__(self) -> Tuple[torch.Tensor, bool]:
        return self.w, self.training

    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]):
        self.w = state[0]
        self.training = state[1]
        x = state[0]
        while bool((x < 2).all()):
            x = x * 0.5
        self.w = x

    def forward(self, x: torch.Tensor):
        return x + self.w


class Writing(Restoring):
    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]):
        self.w = state[0]
        self.training = state[1]
        torch.save(state[0], "written_by_the_model.pt")


class Reading(Restoring):
    @torch.jit.export
    def __setstate__(self, state: Tuple[torch.Tensor, bool]):
        self.w = torch.from_file("read_by_the_model.bin", False, 3)
        self.training = state[1]


class Talking(nn.Module):
    """Says what would be taken for commands by terminals and CI logs, wherever a program can say something."""

    def forward(self, x: torch.Tensor, fails: bool = False):
        print("\x1b[31mprinted\n::error::pwned\n\u202e##[group]x")
        if fails:
            raise RuntimeError("\x1b[31mraised\n::error::pwned\n\u202e##[group]x")
        return {"\x1b[31mkey\n::error::pwned\u202e": x + 1}


def main():
    torch.jit.script(Misbehaving().eval()).save("misbehaving.ts.pt")
    torch.jit.script(Reaching().eval()).save("reaching.ts.pt")
    torch.jit.script(Restoring().eval()).save("restoring.ts.pt")
    torch.jit.script(Writing().eval()).save("writing.ts.pt")
    torch.jit.script(Reading().eval()).save("reading.ts.pt")
    torch.jit.script(Talking().eval()).save("talking.ts.pt")


if __name__ == "__main__":
    main()
