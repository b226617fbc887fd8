"""Writes the inputs of the reference models: `python make_inputs.py REFERENCE_DIR`. Each model's inputs*() is run once, with the
arguments' names from its forward."""

import importlib.util
import inspect
import pathlib
import sys

import torch
from safetensors.torch import save_file

for path in sorted(pathlib.Path(sys.argv[1]).glob("*.py")):
    spec = importlib.util.spec_from_file_location("reference_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, "inputs"):
        continue
    builder = getattr(module, getattr(module, "BUILD_VARIANTS", ["build"])[0])
    names = list(inspect.signature(builder().forward).parameters)
    for variant in sorted(name for name in dir(module) if name.startswith("inputs")):
        values = getattr(module, variant)()
        tensors = {name: value.contiguous() for name, value in zip(names, values)}
        suffix = "" if variant == "inputs" else "." + variant
        save_file(tensors, f"{path.stem}{suffix}.inputs.safetensors")
        print(path.stem, variant, {k: tuple(v.shape) for k, v in tensors.items()})
