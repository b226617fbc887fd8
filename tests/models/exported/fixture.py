"""What the scripts of this folder share: writes an exported program, its inputs and its outputs side by side."""

import io
import json
import zipfile

import torch
from safetensors.torch import save_file
from torch.utils import _pytree as pytree

SEED = 1234


def storable(tensor):
    """A contiguous copy that safetensors can hold; complex128 gets a trailing axis of 2 in float64."""
    tensor = tensor.detach().clone(memory_format=torch.contiguous_format)
    return torch.view_as_real(tensor).clone() if tensor.dtype == torch.complex128 else tensor


def save_leaves(path, prefix, leaves):
    """Keys are prefix.NNN by leaf number; leaves that are no tensors leave gaps."""
    save_file({f"{prefix}.{i:03}": storable(x) for i, x in enumerate(leaves) if isinstance(x, torch.Tensor)}, path)


def copy_leaves(tree):
    """Copies that keep strides and offsets, so that a program that writes to its inputs cannot change ours."""
    def copy(x):
        if not isinstance(x, torch.Tensor):
            return x
        storage = x.detach().untyped_storage().clone()
        return torch.empty(0, dtype=x.dtype).set_(storage, x.storage_offset(), x.shape, x.stride())
    return pytree.tree_map(copy, tree)


def run(module, args, kwargs):
    torch.manual_seed(SEED)
    with torch.no_grad():
        return module(*copy_leaves(args), **copy_leaves(kwargs or {}))


def write(name, program, args, kwargs=None, **save_options):
    """NAME.pt2, NAME.inputs.safetensors, NAME.outputs.safetensors; the outputs are those of the file read back, or of
    the program in memory where torch cannot read what it wrote (odd module names, strings)."""
    torch.export.save(program, f"{name}.pt2", **save_options)
    try:
        program = torch.export.load(f"{name}.pt2")
    except Exception as error:
        print(f"{name}.pt2: torch itself cannot read it: {type(error).__name__}")
    write_sides(name, program.module(), args, kwargs)


def write_sides(name, module, args, kwargs=None):
    save_leaves(f"{name}.inputs.safetensors", "in", pytree.tree_leaves((tuple(args), kwargs or {})))
    save_leaves(f"{name}.outputs.safetensors", "out", pytree.tree_leaves(run(module, args, kwargs)))


def rewrite(source, target, change):
    """Copies an archive, passing every entry through change(name, bytes) -> bytes, None (dropped) or unchanged bytes.
    Entries stay stored and their data aligned to 64 bytes, as torch writes them."""
    out = io.BytesIO()
    with zipfile.ZipFile(source) as src, zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as dst:
        for item in src.infolist():
            data = change(item.filename, src.read(item))
            if data is None:
                continue
            info = zipfile.ZipInfo(item.filename, (1980, 1, 1, 0, 0, 0))
            header = out.tell() + 30 + len(item.filename.encode())
            padding = -(header + 4) % 64
            info.extra = b"FB" + padding.to_bytes(2, "little") + b"Z" * padding
            dst.writestr(info, data)
    with open(target, "wb") as f:
        f.write(out.getvalue())


def change_json(part, edit):
    """For rewrite(): edits in place the JSON of entries whose name contains `part`."""
    def change(name, data):
        if part not in name:
            return data
        value = json.loads(data)
        edit(value)
        return json.dumps(value).encode()
    return change
