"""Opens a file with the safetensors library and prints name, dtype, shape and bytes in hex of each tensor, by name."""

import sys

import torch
from safetensors import safe_open
from safetensors.torch import load_file

with safe_open(sys.argv[1], framework="pt") as file:
    print("metadata", file.metadata())
for name, tensor in sorted(load_file(sys.argv[1]).items()):
    raw = tensor.contiguous().reshape(-1).view(dtype=torch.uint8).numpy().tobytes()
    print(name, str(tensor.dtype).removeprefix("torch."), list(tensor.shape), raw.hex())
