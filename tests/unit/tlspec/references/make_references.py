#!/usr/bin/env python3
"""Makes the recordings of other tools that foreign_test.cpp reads, with those tools. Their files are part of the project.

  make_references.py             nested.tlspec (the Python recorder), sglang/, passes/, tensors/, sparse.pt: torch, numpy
  make_references.py polygraphy  polygraphy.json, feeds.json: numpy, polygraphy 0.53

python.tlspec is what TorchLens 2.36.1 (torch 2.13.0) saved of a recurrent cell, without its pickle. The values are simple numbers, which
foreign_test.cpp states again.
"""
import pathlib
import platform
import shutil
import sys

import numpy

HERE = pathlib.Path(__file__).resolve().parent
GRID = numpy.arange(6, dtype=numpy.float32).reshape(2, 3) / 4


def polygraphy():
    from polygraphy.comparator import IterationResult, RunResults
    from polygraphy.json import save_json
    ids = numpy.array([1, 2, -3], dtype=numpy.int64)
    results = RunResults()
    for runner in ("trt-runner-N0", "onnxrt-runner-N0"):
        results.append((runner, [IterationResult({"zeta": GRID * scale, "ids": ids}, 0.25, runner) for scale in (1, 2)]))
    results.save(str(HERE / "polygraphy.json"))
    save_json([{"x": GRID, "mask": numpy.array([True, False])}], str(HERE / "feeds.json"))


def recorder():
    import torch
    sys.path.insert(0, str(HERE.parents[3] / "apps/torchlens/recorders"))
    from torchlens_recorder import record, tap

    class Cell(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(3, 3, bias=False)
            self.tied = torch.nn.Linear(3, 3, bias=False)
            self.tied.weight = self.lin.weight
            self.register_buffer("offset", torch.tensor([10.0]))
            with torch.no_grad():
                self.lin.weight.copy_(2 * torch.eye(3))

        def forward(self, x, scale=1, extra=None):
            y = self.lin(x)
            for _ in range(2):
                y = self.tied(y)
            tap("sum", y.sum().to(torch.bfloat16))
            return {"y": y * scale, "parts": (y + self.offset, torch.complex(y, -y).to(torch.complex128))}

    class Quantise(torch.nn.Module):
        def forward(self, x):
            return [torch.quantize_per_tensor(x, 0.5, 1, torch.qint8), x.to_sparse(), x.to("meta")]

    x = torch.from_numpy(GRID)
    model = torch.nn.ModuleDict({"cell": Cell(), "odd": Quantise()})
    model.forward = lambda x, **kwargs: (model["odd"](x), model["cell"](x, **kwargs))[1]
    shutil.rmtree(HERE / "nested.tlspec", ignore_errors=True)
    with record(model.eval(), HERE / "nested.tlspec", seed=7):
        model(x, scale=2, extra=[x[0]])
    # The machine it was made on is nobody's business.
    path = HERE / "nested.tlspec" / "manifest.json"
    text = path.read_text().replace(str(HERE) + "/", "").replace("@TORCHLENS_VERSION@", "0.1.0")
    text = text.replace(str(pathlib.Path(torch.__file__).parents[1]) + "/", "").replace(platform.platform(), "Linux")
    path.write_text(text)


def torch_files():
    import torch
    grid = torch.from_numpy(GRID)
    for name in ("sglang", "passes"):
        shutil.rmtree(HERE / name, ignore_errors=True)
    folder = HERE / "sglang"
    folder.mkdir()
    index = 0
    for rank in (0, 1):
        for layer in (0, 1):
            index += 1
            name = f"step=0___rank={rank}___dump_index={index}___name=hidden___layer_id={layer}.pt"
            torch.save({"value": grid + layer + 100 * rank, "meta": {"name": "hidden", "rank": rank}}, folder / name)
    torch.save(grid, folder / "step=0___rank=0___dump_index=9___name=logits.pt")
    folder = HERE / "passes" / "TP0_PP0_Rank0_pid17"
    folder.mkdir(parents=True)
    for number in (0, 1):
        torch.save({"model.layers.0.mlp": grid + number, "model.layers.0.attn": [grid, grid * 2]},
                   folder / f"Pass{number:05d}.pt")
    torch.save({"dense": grid, "sparse": grid.to_sparse()}, HERE / "sparse.pt")


def tensors():
    folder = HERE / "tensors"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for number in (10, 2, 1):
        numpy.save(folder / f"tensor_{number}.npy", GRID + number)
    numpy.savez_compressed(folder / "more.npz", **{"blocks.0:2": GRID, "words": numpy.array(["a"])})


if __name__ == "__main__":
    if sys.argv[1:] == ["polygraphy"]:
        polygraphy()
    else:
        recorder()
        torch_files()
        tensors()
