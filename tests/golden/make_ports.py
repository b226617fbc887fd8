"""Writes the model files that `diff --static` is tried on: `python make_ports.py` (torch 2.13, safetensors) in inputs/.
Seeded; what differs between port.* and port_other.* is planted here: eps of norm, one bias, the mode of bn, in the
exported program also the kind of gelu, an operation more, and a fixed batch."""

import pathlib
import re
import zipfile

import torch
from safetensors.torch import save_file
from torch import nn


class Port(nn.Module):
    def __init__(self, eps: float, approximate: str):
        super().__init__()
        self.fc1 = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4, eps=eps)
        self.act = nn.GELU(approximate)
        self.bn = nn.BatchNorm1d(4)
        self.fc2 = nn.Linear(4, 2)
        self.scale = 0.5

    def forward(self, x):
        y = self.act(self.norm(self.fc1(x)))
        return self.fc2(self.bn(y)) * self.scale


class Longer(Port):
    def forward(self, x):
        y = self.act(self.norm(self.fc1(x)))
        return torch.tanh(self.fc2(self.bn(y))) * self.scale


def build(kind, eps, approximate, state=None):
    torch.manual_seed(0)
    model = kind(eps, approximate).eval()
    if state:
        model.load_state_dict(state)
    return model


def strip_places(path):
    """Takes out where torch and this script lie on the machine that wrote the file."""
    with zipfile.ZipFile(path) as archive:
        entries = [(item.filename, archive.read(item)) for item in archive.infolist()]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in entries:
            if name.endswith(".debug_pkl"):
                continue
            if name.endswith(".json"):
                data = re.sub(rb"/[^\\\" ]*?/(site-packages/torch/|make_ports\.py)",
                              lambda found: found[1].replace(b"site-packages/", b""), data)
            archive.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)


def main():
    x = torch.randn(3, 4)
    batch = torch.export.Dim("batch", min=2, max=64)
    port = build(Port, 1e-5, "none")
    state = port.state_dict()
    torch.jit.script(port).save("port.ts.pt")
    torch.jit.trace(port, x).save("port.trace.pt")
    torch.export.save(torch.export.export(port, (x,), dynamic_shapes={"x": {0: batch}}), "port.pt2")
    torch.save(state, "port.state.pt")
    renamed = {name.replace("fc1.", "layers.0.").replace("fc2.", "head."): value for name, value in state.items()}
    save_file({name: value for name, value in renamed.items() if "running" not in name and "num_batches" not in name},
              "port_renamed.safetensors")
    other = {name: value.clone() for name, value in state.items()}
    other["fc2.bias"][1] += 1
    changed = build(Port, 1e-6, "none", other)
    changed.bn.train()
    torch.jit.script(changed).save("port_other.ts.pt")
    changed = build(Longer, 1e-6, "tanh", other)
    torch.export.save(torch.export.export(changed, (x,)), "port_other.pt2")
    changed = build(Port, 1e-5, "none", state)
    changed.fc1.weight.data = changed.fc1.weight.data.to(torch.bfloat16)
    torch.save({"model": changed.state_dict()}, "port_half.state.pt")


if __name__ == "__main__":
    main()
    for file in pathlib.Path().glob("port*.p*"):
        strip_places(file)
