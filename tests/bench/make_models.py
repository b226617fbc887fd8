"""Writes the models of the benchmarks: `python make_models.py OUT`. Seeded; shapes as the performance figures name them."""

import inspect
import os
import sys

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inputs = [], 3
        for outputs in (32, 64, 128):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
            layers += [nn.MaxPool2d(2)] if outputs < 128 else []
            inputs = outputs
        self.features = nn.Sequential(*layers)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(128, 10)

    def forward(self, x):
        return self.fc(torch.flatten(self.pool(self.features(x)), 1))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.down = None
        if stride != 1 or inputs != outputs:
            self.down = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        residual = x if self.down is None else self.down(x)
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        y += residual
        return self.relu(y)


class ResNet18(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        layers, width = [], 64
        for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            layers.append(nn.Sequential(Block(width, outputs, stride), Block(outputs, outputs, 1)))
            width = outputs
        self.layers = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, 1000)

    def forward(self, x):
        x = self.layers(self.maxpool(self.relu(self.bn1(self.conv1(x)))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


class EncoderBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(d, dim=-1)
        q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        a = torch.softmax(q @ k.transpose(-2, -1) / (d // self.heads) ** 0.5, dim=-1)
        x = x + self.proj((a @ v).transpose(1, 2).reshape(b, t, d))
        return x + self.fc2(F.gelu(self.fc1(self.ln2(x))))


class Encoder(nn.Module):
    def __init__(self, width=256, heads=4, blocks=4, words=1000, length=64):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.pos = nn.Parameter(torch.zeros(1, length, width))
        self.blocks = nn.ModuleList([EncoderBlock(width, heads) for _ in range(blocks)])
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, words)

    def forward(self, ids):
        x = self.emb(ids) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.ln(x))


class TinyMlp(nn.Module):
    """100 operations of about 2 us: the overhead laid bare."""

    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(*[nn.Sequential(nn.Linear(32, 32), nn.ReLU()) for _ in range(50)])

    def forward(self, x):
        return self.l(x)


class Loop(nn.Module):
    def forward(self, x, turns: int):
        for _ in range(turns):
            x = torch.tanh(x) * 1.0001
        return x


class Wide(nn.Module):
    """A gigabyte of activations: 256 of 4 MB, cheap to compute."""

    def forward(self, x):
        for _ in range(256):
            x = x * 0.999
        return x


class Gigabyte(nn.Module):
    """Weights of 1 GB in 64 tensors, as large models have them."""

    def __init__(self):
        super().__init__()
        self.rows = nn.ParameterList([nn.Parameter(torch.randn(1024, 4096)) for _ in range(64)])

    def forward(self, x):
        for row in self.rows:
            x = x + row[0, : x.size(0)]
        return x


def main(out):
    os.makedirs(out, exist_ok=True)
    torch.manual_seed(0)
    models = {
        "resnet": (ResNet18(), {"x": torch.randn(4, 3, 224, 224)}),
        "encoder": (Encoder(), {"ids": torch.randint(0, 1000, (8, 64))}),
        "cnn": (SmallCnn(), {"x": torch.randn(16, 3, 32, 32)}),
        "mlp100": (TinyMlp(), {"x": torch.randn(4, 32)}),
        "loop": (Loop(), {"x": torch.randn(8), "turns": torch.tensor(500000)}),
        "wide": (Wide(), {"x": torch.randn(1024, 1024)}),
    }
    for name, (model, inputs) in models.items():
        assert list(inspect.signature(model.forward).parameters) == list(inputs)
        torch.jit.script(model.eval()).save(f"{out}/{name}.ts.pt")
        save_file(inputs, f"{out}/{name}.inputs.safetensors")
        if name not in ("loop", "wide"):
            torch.export.save(torch.export.export(model, tuple(inputs.values())), f"{out}/{name}.pt2")
    torch.export.save(torch.export.export(Gigabyte(), (torch.randn(64),)), f"{out}/gigabyte.pt2")
    torch.jit.script(Gigabyte()).save(f"{out}/gigabyte.ts.pt")


if __name__ == "__main__":
    main(sys.argv[1])
