"""Writes the smallest models of each kind, which tests take apart: `python make_linear.py` (torch 2.13, safetensors)."""

import torch
from safetensors.torch import save_file
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).eval()
    x = torch.randn(2, 3)
    torch.jit.script(model).save("linear.ts.pt")
    torch.export.save(torch.export.export(model, (x,)), "linear.pt2")
    save_file({"input": x}, "linear.inputs.safetensors")
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)
    torch.jit.script(quantised).save("linear.quantised.ts.pt")


if __name__ == "__main__":
    main()
