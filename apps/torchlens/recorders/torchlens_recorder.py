"""torchlens recorder: one file that records the eager side of a comparison. Needs torch >= 2.0 and the standard library.

    from torchlens_recorder import record, tap

    with record(model, "ref.tlspec", match=r"^blocks\\.\\d+$", inputs="x.safetensors"):
        model(**batch)

Then `torchlens diff ref.tlspec model.pt2 --input x.safetensors` says where an exported file first differs.

What is recorded: the outputs of every call of every module whose address `match` finds (None: all), nested outputs by
path; the inputs and outputs of every call of the model; what `tap("name", value)` is given between stages; a digest of
every parameter and buffer; the constants every module was built with (eps, stride …); mode, seed, digests of the random
states, versions, the source lines of forwards and calls.
A value is what it was when its module returned; it is written out at once, so that memory stays at one tensor. Hooks are
removed afterwards. Where the model raises, what came before is kept and marked as failed, and the exception goes on.

The directory is described in docs/tlspec.md of torchlens. This file is standard library and torch only: copy it freely.
"""
import collections
import collections.abc
import contextlib
import ctypes
import dataclasses
import inspect
import json
import os
import platform
import re
import shutil
import struct
import sys
import threading
import warnings
import weakref
import zlib

import torch

__all__ = ["record", "tap", "digest"]
VERSION = "@TORCHLENS_VERSION@"
_MAX_DEPTH = 32  # of nested outputs
_DTYPES = {  # torch name: (short name, safetensors name, or None where its bytes go under the name of another)
    "float32": ("f32", "F32"), "float64": ("f64", "F64"), "float16": ("f16", "F16"), "bfloat16": ("bf16", "BF16"),
    "int8": ("i8", "I8"), "int16": ("i16", "I16"), "int32": ("i32", "I32"), "int64": ("i64", "I64"),
    "uint8": ("u8", "U8"), "uint16": ("u16", "U16"), "uint32": ("u32", "U32"), "uint64": ("u64", "U64"),
    "bool": ("bool", "BOOL"), "complex64": ("c64", "C64"), "complex32": ("c32", None), "complex128": ("c128", None),
    "float8_e5m2": ("f8_e5m2", "F8_E5M2"), "float8_e4m3fn": ("f8_e4m3", "F8_E4M3"),
    "float8_e5m2fnuz": ("f8_e5m2fnuz", "F8_E5M2FNUZ"), "float8_e4m3fnuz": ("f8_e4m3fnuz", "F8_E4M3FNUZ"),
    "float8_e8m0fnu": ("f8_e8m0", "F8_E8M0"),
    "qint8": ("qi8", "I8"), "quint8": ("qu8", "U8"), "qint32": ("qi32", "I32"),
}
_ITEM_TYPES = {"complex32": ("F16", torch.float16), "complex128": ("F64", torch.float64)}


# --- bytes and digests -----------------------------------------------------------------------------------------------


class Skip(Exception):
    """A tensor whose bytes cannot be written; the text says why."""


def _name_of(dtype):
    return str(dtype).replace("torch.", "")


def _packed(tensor):
    """The elements on the host in row-major order, conjugation and negation resolved; at least one dimension."""
    if type(tensor).__name__ in ("FakeTensor", "FunctionalTensor") or tensor.device.type == "meta":
        raise Skip("a %s on the device %s has no values" % (type(tensor).__name__, tensor.device.type))
    tensor = tensor.detach()
    if tensor.is_complex():
        tensor = tensor.resolve_conj()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor.to("cpu").contiguous().reshape(-1)


def _view(packed):
    """The bytes of a packed tensor, without a copy; the tensor must outlive the view."""
    count = packed.numel() * packed.element_size()
    if count == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_ubyte * count).from_address(packed.data_ptr())).cast("B")


_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e")
_M32, _M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_P32_1, _P32_2, _P32_3 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D
_P64_1, _P64_2, _P64_3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P64_4, _P64_5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def _u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def _swap(value, size):
    return int.from_bytes(value.to_bytes(size, "little"), "big")


def _fold(left, right):
    product = left * right
    return (product & _M64) ^ (product >> 64)


def _avalanche(value):
    value &= _M64
    value ^= value >> 37
    value = value * 0x165667919E3779F9 & _M64
    return value ^ value >> 32


def _avalanche64(value):
    value = (value ^ value >> 33) * _P64_2 & _M64
    value = (value ^ value >> 29) * _P64_3 & _M64
    return value ^ value >> 32


def _mix(data, at, secret):
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret), _u64(data, at + 8) ^ _u64(_SECRET, secret + 8))


def _mix_two(low, high, data, first, second, secret):
    low = (low + _mix(data, first, secret) & _M64) ^ (_u64(data, second) + _u64(data, second + 8) & _M64)
    high = (high + _mix(data, second, secret + 16) & _M64) ^ (_u64(data, first) + _u64(data, first + 8) & _M64)
    return low, high


def _short_digest(data):
    """(low, high) of XXH3-128 for at most 240 bytes."""
    size = len(data)
    if size == 0:
        return (_avalanche64(_u64(_SECRET, 64) ^ _u64(_SECRET, 72)), _avalanche64(_u64(_SECRET, 80) ^ _u64(_SECRET, 88)))
    if size <= 3:
        low = data[0] << 16 | data[size >> 1] << 24 | data[size - 1] | size << 8
        swapped = _swap(low, 4)
        high = (swapped << 13 | swapped >> 19) & _M32
        return (_avalanche64(low ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4)),
                _avalanche64(high ^ _u32(_SECRET, 8) ^ _u32(_SECRET, 12)))
    if size <= 8:
        keyed = (_u32(data, 0) | _u32(data, size - 4) << 32) ^ _u64(_SECRET, 16) ^ _u64(_SECRET, 24)
        product = keyed * (_P64_1 + (size << 2) & _M64)
        low, high = product & _M64, product >> 64
        high = high + (low << 1) & _M64
        low ^= high >> 3
        low = (low ^ low >> 35) * 0x9FB21C651E98DF25 & _M64
        return low ^ low >> 28, _avalanche(high)
    if size <= 16:
        first, last = _u64(data, 0), _u64(data, size - 8)
        product = (first ^ last ^ _u64(_SECRET, 32) ^ _u64(_SECRET, 40)) * _P64_1
        low, high = (product & _M64) + (size - 1 << 54) & _M64, product >> 64
        last ^= _u64(_SECRET, 48) ^ _u64(_SECRET, 56)
        high = high + last + (last & _M32) * (_P32_2 - 1) & _M64
        product = (low ^ _swap(high, 8)) * _P64_2
        return _avalanche(product), _avalanche((product >> 64) + high * _P64_2)
    low, high = size * _P64_1 & _M64, 0
    if size <= 128:
        for at in (48, 32, 16, 0):
            if size > 2 * at:
                low, high = _mix_two(low, high, data, at, size - 16 - at, 2 * at)
    else:
        for at in range(0, 128, 32):
            low, high = _mix_two(low, high, data, at, at + 16, at)
        low, high = _avalanche(low), _avalanche(high)
        for at in range(128, size - 31, 32):
            low, high = _mix_two(low, high, data, at, at + 16, at - 125)
        low, high = _mix_two(low, high, data, size - 16, size - 32, 103)
    mixed = low * _P64_1 + high * _P64_4 + size * _P64_2
    return _avalanche(low + high), -_avalanche(mixed) & _M64


def _signed(value):
    return value - (1 << 64) if value >> 63 else value


_LANES = torch.tensor([[_signed(_u64(_SECRET, 8 * (stripe + lane))) for lane in range(8)] for stripe in range(16)])
_LAST = torch.tensor([[_signed(_u64(_SECRET, 121 + 8 * lane)) for lane in range(8)]])
_NEIGHBOUR = torch.tensor([1, 0, 3, 2, 5, 4, 7, 6])


def _sums(words, keys):
    """What stripes add to the eight accumulators: words [n, stripes, 8] -> [n, 8], modulo 2**64."""
    keyed = words ^ keys
    products = (keyed & _M32) * (keyed >> 32 & _M32)
    return (products.sum(1) + words.sum(1)[:, _NEIGHBOUR]).tolist()


def _scramble(sums, rows):
    """Takes blocks into the accumulators one after the other; written out, as this is where the time goes."""
    k0, k1, k2, k3, k4, k5, k6, k7 = (_u64(_SECRET, 128 + 8 * lane) for lane in range(8))
    a0, a1, a2, a3, a4, a5, a6, a7 = sums
    mask, prime = _M64, _P32_1
    for s0, s1, s2, s3, s4, s5, s6, s7 in rows:
        a0 = a0 + s0 & mask
        a1 = a1 + s1 & mask
        a2 = a2 + s2 & mask
        a3 = a3 + s3 & mask
        a4 = a4 + s4 & mask
        a5 = a5 + s5 & mask
        a6 = a6 + s6 & mask
        a7 = a7 + s7 & mask
        a0 = (a0 ^ a0 >> 47 ^ k0) * prime & mask
        a1 = (a1 ^ a1 >> 47 ^ k1) * prime & mask
        a2 = (a2 ^ a2 >> 47 ^ k2) * prime & mask
        a3 = (a3 ^ a3 >> 47 ^ k3) * prime & mask
        a4 = (a4 ^ a4 >> 47 ^ k4) * prime & mask
        a5 = (a5 ^ a5 >> 47 ^ k5) * prime & mask
        a6 = (a6 ^ a6 >> 47 ^ k6) * prime & mask
        a7 = (a7 ^ a7 >> 47 ^ k7) * prime & mask
    return [a0, a1, a2, a3, a4, a5, a6, a7]


def _long_digest(data):
    """(low, high) of XXH3-128 for a packed uint8 tensor of more than 240 bytes."""
    size = data.numel()
    blocks = (size - 1) // 1024
    sums = [_P32_3, _P64_1, _P64_2, _P64_3, _P64_4, _P32_2, _P64_5, _P32_1]
    for begin in range(0, blocks, 1024):
        end = min(begin + 1024, blocks)
        part = data[1024 * begin:1024 * end]
        if part.data_ptr() % 8:
            part = part.clone()
        sums = _scramble(sums, _sums(part.view(torch.int64).view(-1, 16, 8), _LANES))
    stripes = (size - 1 - 1024 * blocks) // 64
    rest = data[1024 * blocks:1024 * blocks + 64 * stripes].clone().view(torch.int64).view(1, stripes, 8)
    last = data[size - 64:].clone().view(torch.int64).view(1, 1, 8)
    for row in (_sums(rest, _LANES[:stripes])[0], _sums(last, _LAST)[0]):
        sums = [left + right & _M64 for left, right in zip(sums, row)]

    def merge(secret, start):
        pairs = (_fold(sums[2 * i] ^ _u64(_SECRET, secret + 16 * i), sums[2 * i + 1] ^ _u64(_SECRET, secret + 16 * i + 8))
                 for i in range(4))
        return _avalanche(start + sum(pairs))

    return merge(11, size * _P64_1), merge(117, ~(size * _P64_2) & _M64)


def digest(tensor):
    """XXH3-128 of the elements' bytes in row-major order, 32 hex digits as `xxh128sum` prints them."""
    packed = _packed(tensor)
    raw = packed.view(torch.uint8) if packed.numel() and packed.element_size() else packed
    size = packed.numel() * packed.element_size()
    with torch.no_grad():
        low, high = _short_digest(bytes(_view(packed))) if size <= 240 else _long_digest(raw)
    return "%016x%016x" % (high, low)


# --- values and where they came from ---------------------------------------------------------------------------------


def _leaves(value, path="", depth=0):
    """Yields (path, leaf) of a nested value, in order; leaves are tensors and everything that is no container."""
    if depth > _MAX_DEPTH:
        yield path, Skip("nested deeper than %d levels" % _MAX_DEPTH)
        return
    if isinstance(value, torch.Tensor):
        items = None
    elif isinstance(value, collections.abc.Mapping):
        items = value.items()
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        items = zip(value._fields, value)
    elif isinstance(value, (list, tuple)):
        items = enumerate(value)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        items = ((field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value))
    else:
        items = None
    if items is None:
        yield path, value
        return
    for key, item in items:
        yield from _leaves(item, "%s.%s" % (path, key) if path else str(key), depth + 1)


def _scalar(value):
    """The text of a host value as JSON has it; None for what is no plain host value."""
    if value is None or isinstance(value, (bool, int, str)):
        return json.dumps(value)
    if isinstance(value, float):
        return json.dumps(value) if value == value and abs(value) != float("inf") else str(value)
    return None


def _literal(value):
    """The text of a constant as torchlens writes arguments (True, 3, 1e-05, "tanh", [1, 1]); None for anything else."""
    if value is None or type(value) in (bool, int, float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value) if len(value) <= 64 else None
    if isinstance(value, (torch.dtype, torch.device)):
        return str(value)
    if isinstance(value, (list, tuple)) and len(value) <= 16:
        items = [_literal(item) for item in value]
        return None if None in items else "[%s]" % ", ".join(items)
    return None


def _attributes(module):
    """The constants a module was built with: public attributes of the instance that are numbers, words or lists of them."""
    found = {}
    for name, value in vars(module).items():
        text = None if name.startswith("_") or name == "training" else _literal(value)
        if text is not None and len(found) < 64:
            found[name] = text
    return found


def _line_of_class(module):
    code = getattr(inspect.unwrap(module.forward), "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


def _line_of_caller():
    """(file, line, function) that called the module: the first frame outside torch's own and this file."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name != __file__ and "torch/nn/modules/module.py" not in name.replace("\\", "/"):
            return name, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back
    return "", 0, ""


def _bound(module, args, kwargs):
    """The arguments of a call by the names that forward gives them."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return dict({"arg_%d" % i: value for i, value in enumerate(args)}, **kwargs)
    named = {}
    for parameter in parameters:
        if parameter.name not in given:
            continue
        if parameter.kind is parameter.VAR_KEYWORD:
            named.update(given[parameter.name])
        else:
            named[parameter.name] = given[parameter.name]
    return named


# --- files -----------------------------------------------------------------------------------------------------------


class _TensorFile:
    """A safetensors file that grows while tensors arrive: room for its header is left at the start."""

    def __init__(self, path, room):
        self.path, self.room = path, room
        self.file = open(path, "wb")
        self.file.write(b" " * (8 + room))
        self.header, self.header_bytes, self.data_bytes, self.crc = {}, 2, 0, 0

    def fits(self, name, count, limit):
        return not self.header or (self.header_bytes + 4 * len(name) + 256 <= self.room and self.data_bytes + count <= limit)

    def add(self, name, dtype, shape, data):
        entry = {"dtype": dtype, "shape": list(shape), "data_offsets": [self.data_bytes, self.data_bytes + len(data)]}
        self.header[name] = entry
        self.header_bytes += len(json.dumps(name)) + len(json.dumps(entry)) + 4
        self.data_bytes += len(data)
        self.crc = zlib.crc32(data, self.crc)
        self.file.write(data)

    def finish(self):
        text = json.dumps(self.header, separators=(",", ":")).encode()
        if len(text) > self.room:
            self._move(len(text) + -len(text) % 8)
        self.file.seek(0)
        self.file.write(struct.pack("<Q", self.room) + text.ljust(self.room))
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()
        return {"name": os.path.basename(self.path), "bytes": 8 + self.room + self.data_bytes, "data_crc32": self.crc}

    def _move(self, room):
        """Gives a header of one long entry the room it needs."""
        self.file.close()
        old = self.path + ".old"
        os.replace(self.path, old)
        self.file = open(self.path, "wb")
        with open(old, "rb") as source:
            source.seek(8 + self.room)
            self.file.write(b" " * (8 + room))
            shutil.copyfileobj(source, self.file, 1 << 24)
        os.remove(old)
        self.room = room


def _parts(tensor):
    """(encoding, short dtype, [(suffix, safetensors dtype, shape, packed)]) of a tensor, as docs/tlspec.md says."""
    name = _name_of(tensor.dtype)
    if name not in _DTYPES:
        raise Skip("the element type %s has no form in the file" % name)
    if tensor.is_quantized:
        return _quantised_parts(tensor, name)
    if tensor.layout is not torch.strided:
        return _sparse_parts(tensor, name)
    if getattr(tensor, "is_nested", False):
        raise Skip("a nested tensor has no single shape")
    return ("pairs" if name in _ITEM_TYPES else "dense"), _DTYPES[name][0], [_part("", tensor)]


def _part(suffix, tensor):
    name, packed = _name_of(tensor.dtype), _packed(tensor)
    if name in _ITEM_TYPES:
        stored, item = _ITEM_TYPES[name]
        return suffix, stored, list(tensor.shape) + [2], packed.view(item)
    return suffix, _DTYPES[name][1], list(tensor.shape), packed


def _quantised_parts(tensor, name):
    parts = [_part("", tensor.detach().to("cpu").int_repr())]
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        parts.append(_part(".scale", torch.tensor(tensor.q_scale(), dtype=torch.float64)))
        parts.append(_part(".zero_point", torch.tensor(tensor.q_zero_point())))
    else:
        parts.append(_part(".scale", tensor.q_per_channel_scales()))
        parts.append(_part(".zero_point", tensor.q_per_channel_zero_points()))
        parts.append(_part(".axis", torch.tensor(tensor.q_per_channel_axis())))
    return "quantised", _DTYPES[name][0], parts


def _sparse_parts(tensor, name):
    layout = str(tensor.layout).replace("torch.", "")
    tensor = tensor.detach().to("cpu")
    if layout == "sparse_coo":
        tensor = tensor.coalesce()
        parts = [("indices", tensor.indices()), ("values", tensor.values())]
    elif layout in ("sparse_csr", "sparse_bsr"):
        parts = [("crow_indices", tensor.crow_indices()), ("col_indices", tensor.col_indices()),
                 ("values", tensor.values())]
    elif layout in ("sparse_csc", "sparse_bsc"):
        parts = [("ccol_indices", tensor.ccol_indices()), ("row_indices", tensor.row_indices()),
                 ("values", tensor.values())]
    else:
        raise Skip("the layout %s has no form in the file" % layout)
    return "sparse", _DTYPES[name][0], [_part("." + suffix, part) for suffix, part in parts]


def _json_text(document):
    """A member a line, and a record a line in lists of records."""
    lines = []
    for key, value in document.items():
        if isinstance(value, list) and value:
            text = "[\n%s\n]" % ",\n".join(json.dumps(item, allow_nan=False) for item in value)
        else:
            text = json.dumps(value, allow_nan=False)
        lines.append("%s: %s" % (json.dumps(key), text))
    return "{\n%s\n}\n" % ",\n".join(lines)


class _Directory:
    """The recording while it is written: a hidden sibling of the target, moved into place by commit()."""

    def __init__(self, target, force, shard_bytes):
        self.target = os.path.abspath(os.fspath(target))
        self.force, self.shard_bytes = force, shard_bytes
        if os.path.lexists(self.target) and not force:
            raise FileExistsError("%s exists; pass force=True to replace it" % target)
        if os.path.lexists(self.target) and not os.path.exists(os.path.join(self.target, "manifest.json")):
            raise FileExistsError("%s exists and is no recording, so it is not replaced" % target)
        parent, name = os.path.split(self.target)
        self.temp = os.path.join(parent, ".%s.tmp-%d-%s" % (name, os.getpid(), os.urandom(4).hex()))
        os.mkdir(self.temp)
        self.shards, self.current, self.names = [], None, set()

    def unique(self, name):
        """The name, or with ~2, ~3 … where it was taken."""
        key, count = name, 1
        while key in self.names:
            count += 1
            key = "%s~%d" % (name, count)
        self.names.add(key)
        return key

    def add(self, key, parts):
        """Writes the parts of one tensor into one shard and returns its number."""
        count = sum(len(view) for *_, view in parts)
        names = "".join(key + suffix for suffix, *_ in parts)
        if self.current is not None and not self.current.fits(names, count, self.shard_bytes):
            self._close()
        if self.current is None:
            room = min(1 << 22, 1 << 14 + 2 * min(4, len(self.shards)))
            path = os.path.join(self.temp, "tensors-%05d.safetensors" % len(self.shards))
            self.current = _TensorFile(path, room)
        for suffix, dtype, shape, _, view in parts:
            self.current.add(key + suffix, dtype, shape, view)
        return len(self.shards)

    def _close(self):
        if self.current is not None:
            self.shards.append(self.current.finish())
            self.current = None

    def commit(self, manifest):
        self._close()
        manifest["files"] = self.shards
        path = os.path.join(self.temp, "manifest.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(_json_text(manifest))
            file.flush()
            os.fsync(file.fileno())
        old = None
        if self.force and os.path.lexists(self.target):
            old = self.temp + ".old"
            os.rename(self.target, old)
        os.rename(self.temp, self.target)
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)

    def discard(self):
        if self.current is not None:
            self.current.file.close()
        shutil.rmtree(self.temp, ignore_errors=True)


# --- the recorder ----------------------------------------------------------------------------------------------------

_active = []  # recorders whose block is entered, innermost last


def tap(name, value):
    """Records a tensor, or a nest of them, under a name of its own; returns the value. Does nothing outside record()."""
    if _active:
        _active[-1].tap(name, value)
    return value


def _address(name):
    """The address as the file has it: the root is self, and what torch.compile puts in between is left out."""
    parts = [part for part in name.split(".") if part != "_orig_mod"]
    return ".".join(parts) or "self"


class record:
    """A context in which the calls of `model` are recorded into the directory `path`.

    match       regular expression that is searched for in module addresses (`blocks.0.attn`; the root is `self`); None
                for all modules. The model's own inputs and outputs are recorded whatever it says.
    inputs      also write the arguments of the first call of the model as a safetensors file, named as torchlens binds them
    parameters  digest parameters and buffers (8 s a GB); False leaves their digests out
    seed        call torch.manual_seed first
    force       replace an existing recording
    """

    def __init__(self, model, path, match=None, inputs=None, parameters=True, seed=None, force=False, shard_bytes=1 << 30):
        if sys.byteorder != "little":
            raise RuntimeError("the recording is little-endian, this machine is not")
        if isinstance(model, torch.jit.ScriptModule):
            raise TypeError("the model is a ScriptModule, which takes no hooks: run `torchlens trace` on its file")
        if isinstance(model, torch.nn.DataParallel):
            raise TypeError("the model is wrapped in DataParallel, whose replicas take no hooks: record model.module")
        if not isinstance(model, torch.nn.Module):
            raise TypeError("the model is a %s, no torch.nn.Module" % type(model).__name__)
        self.model, self.path, self.match, self.inputs = model, path, match, inputs
        self.parameters, self.seed, self.force, self.shard_bytes = parameters, seed, force, shard_bytes
        self.lock = threading.RLock()
        self.entries, self.stack, self.calls, self.handles, self.unhooked = [], [], {}, [], []
        self.written = collections.OrderedDict()
        self.raised = None  # the newest exception that left a module, and the innermost call it left

    # -- the block

    def __enter__(self):
        self.chosen = self._choose()
        self.directory = _Directory(self.path, self.force, self.shard_bytes)
        try:
            if self.seed is not None:
                torch.manual_seed(self.seed)
            self.facts = self._facts()
            self._hook()
        except BaseException:
            self._unhook()
            self.directory.discard()
            raise
        _active.append(self)
        return self

    def __exit__(self, kind, error, trace):
        _active.remove(self)
        self._unhook()
        manifest = self._manifest(error)
        self.stack, self.raised = [], None
        try:
            if error is None and not self.entries:
                raise RuntimeError("nothing was recorded: call the model inside the block as model(…), not model.forward(…)")
            self.directory.commit(manifest)
        except BaseException:
            self.directory.discard()
            raise
        return False

    def _choose(self):
        """{id: (address, other addresses, module)} of the modules to hook."""
        if isinstance(self.match, str):
            self.match = re.compile(self.match)
        modules = {}
        for name, module in self.model.named_modules(remove_duplicate=False):
            modules.setdefault(id(module), (module, []))[1].append(_address(name))
        chosen = {}
        for identity, (module, addresses) in modules.items():
            if self.match is None or any(self.match.search(address) for address in addresses):
                chosen[identity] = (addresses[0], addresses, module)
        if not chosen:
            some = ", ".join(addresses[0] for _, addresses in list(modules.values())[1:8])
            raise ValueError("no module has an address that %r finds; the model has %s …" % (self.match.pattern, some))
        chosen.setdefault(id(self.model), ("self", ["self"], self.model))
        self.modules = modules
        return chosen

    def _hook(self):
        for address, _, module in self.chosen.values():
            try:
                before = module.register_forward_pre_hook(self._before(address), with_kwargs=True)
                self.handles.append(before)
                try:  # torch 2.0 has no always_call; what raised then stays on the stack until an outer call returns
                    after = module.register_forward_hook(self._after(address), always_call=True)
                except TypeError:
                    after = module.register_forward_hook(self._after(address))
                self.handles.append(after)
            except RuntimeError as error:  # a ScriptModule within the model
                self.unhooked.append({"address": address, "reason": str(error).splitlines()[0][:200]})

    def _unhook(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def _before(self, address):
        def hook(module, args, kwargs):
            with self.lock:
                call = self.calls[address] = self.calls.get(address, 0) + 1
                self.stack.append((address, call, sys.exc_info()[1]))
                if module is self.model:
                    self._record_inputs(module, call, args, kwargs)
        return hook

    def _after(self, address):
        def hook(module, args, output):
            with self.lock:
                call, outer = self.calls.get(address, 1), None
                while self.stack:
                    top, number, handled = self.stack.pop()
                    if top == address:
                        call, outer = number, handled
                        break
                raised = sys.exc_info()[1]
                if raised is not None and raised is not outer:
                    if self.raised is None or self.raised[0] is not raised:
                        self.raised = (raised, "%s:%d" % (address, call))
                    return
                self._record("module", address, call, output, _line_of_caller())
        return hook

    # -- entries

    def tap(self, name, value):
        with self.lock:
            key = "tap/" + str(name)
            call = self.calls[key] = self.calls.get(key, 0) + 1
            self._record("tap", str(name), call, value, _line_of_caller())

    def _record_inputs(self, module, call, args, kwargs):
        named = _bound(module, args, kwargs)
        place = _line_of_caller()
        for name, value in named.items():
            self._record("input", name, call, value, place)
        if self.inputs is not None and call == 1:
            self._write_inputs(named)

    def _record(self, kind, name, call, value, place):
        with torch.no_grad():
            for path, leaf in _leaves(value):
                entry = {"kind": kind, "name": name, "call": call, "path": path}
                self._fill(entry, leaf)
                entry["file"], entry["line"], entry["function"] = place
                entry["within"] = "%s:%d" % self.stack[-1][:2] if self.stack and kind != "input" else ""
                self.entries.append(entry)

    def _fill(self, entry, leaf):
        if not isinstance(leaf, torch.Tensor):
            text = _scalar(leaf)
            if text is not None:
                entry["scalar"] = text
            else:
                entry["skipped"] = str(leaf) if isinstance(leaf, Skip) else "a %s is no tensor" % type(leaf).__name__
            return
        entry.update(dtype=_DTYPES.get(_name_of(leaf.dtype), ("none",))[0], device=leaf.device.type)
        try:  # whatever kind of tensor it is, the model must not fail because it is recorded
            entry["shape"] = [int(size) for size in leaf.shape]
            entry["strides"] = list(leaf.stride()) if leaf.layout is torch.strided else []
            stored = self._stored(leaf)
            encoding, _, parts = (None, None, None) if stored else _parts(leaf)
            views = [] if stored else [(suffix, dtype, shape, packed, _view(packed)) for suffix, dtype, shape, packed in parts]
        except Exception as error:
            entry.setdefault("shape", [])
            entry["skipped"] = (str(error).splitlines() or [type(error).__name__])[0][:300]
            return
        if stored is None:
            prefix = "" if entry["kind"] == "module" else entry["kind"] + "/"
            key = "%s%s:%d%s" % (prefix, entry["name"], entry["call"], "/" + entry["path"] if entry["path"] else "")
            key = self.directory.unique(key)
            stored = {"encoding": encoding, "shard": self.directory.add(key, views), "key": key}
            self._remember(leaf, stored)
        entry.update(stored)

    def _stored(self, leaf):
        """Where the same tensor object, unchanged since, was written a moment ago: a module that returns what its last
        child returned costs nothing."""
        reference, version, stored = self.written.get(id(leaf), (None, None, None))
        if reference is None or reference() is not leaf or leaf.is_inference() or leaf._version != version:
            return None
        return stored

    def _remember(self, leaf, stored):
        if leaf.is_inference():  # such tensors count no versions
            return
        self.written[id(leaf)] = (weakref.ref(leaf), leaf._version, stored)
        if len(self.written) > 256:
            self.written.popitem(last=False)

    def _write_inputs(self, named):
        temp = "%s.tmp-%d" % (os.fspath(self.inputs), os.getpid())
        file = _TensorFile(temp, 1 << 14)
        left_out = []
        for name, value in named.items():
            for path, leaf in _leaves(value, name):
                if isinstance(leaf, bool) or isinstance(leaf, float):
                    leaf = torch.tensor(leaf, dtype=torch.bool if isinstance(leaf, bool) else torch.float64)
                elif isinstance(leaf, int) and -(1 << 63) <= leaf < 1 << 63:
                    leaf = torch.tensor(leaf)
                try:
                    if not isinstance(leaf, torch.Tensor):
                        raise Skip("a %s has no form in a safetensors file" % type(leaf).__name__)
                    encoding, _, parts = _parts(leaf)
                    if encoding != "dense":
                        raise Skip("a %s tensor is no input of torchlens" % encoding)
                    file.add(path, *parts[0][1:3], _view(parts[0][3]))
                except Skip as error:
                    if leaf is not None:
                        left_out.append("%s (%s)" % (path, error))
        file.finish()
        os.replace(temp, self.inputs)
        if left_out:
            warnings.warn("not in %s: %s" % (self.inputs, ", ".join(left_out)))

    # -- facts

    def _tensors(self, parameters):
        """One record a parameter or buffer; tied ones are one with several addresses."""
        found = {}
        named = self.model.named_parameters if parameters else self.model.named_buffers
        for name, tensor in named(remove_duplicate=False):
            found.setdefault(id(tensor), (tensor, []))[1].append(_address(name))
        records = []
        for tensor, addresses in found.values():
            record = {"address": addresses[0], "addresses": addresses, "kind": "parameter" if parameters else "buffer",
                      "dtype": _DTYPES.get(_name_of(tensor.dtype), ("none",))[0], "trainable": tensor.requires_grad}
            try:
                record["shape"] = [int(size) for size in tensor.shape]
                record["digest"] = digest(tensor) if self.parameters else ""
            except Exception as error:  # a parameter of a kind that has no bytes
                record["shape"] = record.get("shape", [])
                record["digest"], record["skipped"] = "", (str(error).splitlines() or [type(error).__name__])[0][:200]
            records.append(record)
        return records

    def _facts(self):
        records = self._tensors(True) + self._tensors(False)
        modes = {module.training for module, _ in self.modules.values()}
        sizes = {}
        for record in records:
            if record["kind"] == "parameter":
                sizes[record["dtype"]] = sizes.get(record["dtype"], 0) + 1
        devices = sorted({tensor.device.type for tensor in self.model.parameters()}) or ["cpu"]
        states = {"cpu": digest(torch.get_rng_state())}
        if torch.cuda.is_available() and torch.cuda.is_initialized():
            states["cuda"] = digest(torch.cuda.get_rng_state())
        return {
            "parameters": records,
            "run": {
                "mode": "mixed" if len(modes) > 1 else "train" if True in modes else "eval",
                "device": ", ".join(devices), "dtype": max(sizes, key=sizes.get) if sizes else "",
                "grad": torch.is_grad_enabled(), "threads": torch.get_num_threads(),
                "seed": str(torch.initial_seed()), "random_states": states,
                "match": self.match.pattern if self.match else "",
                "deterministic": torch.are_deterministic_algorithms_enabled(),
                "default_dtype": _DTYPES.get(_name_of(torch.get_default_dtype()), ("none",))[0],
            },
        }

    def _module_records(self):
        records = []
        for module, addresses in self.modules.values():
            file, line = _line_of_class(module)
            records.append({
                "address": addresses[0], "addresses": addresses, "class": type(module).__name__,
                "qualified_class": "%s.%s" % (type(module).__module__, type(module).__qualname__),
                "training": module.training, "calls": self.calls.get(addresses[0], 0), "file": file, "line": line,
                "attributes": _attributes(module),
            })
        return records

    def _manifest(self, error):
        where = ""
        if error is not None and self.raised is not None and self.raised[0] is error:
            where = self.raised[1]
        elif error is not None and self.stack:
            where = "%s:%d" % self.stack[-1][:2]
        status = "complete" if error is None else "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        return {
            "format": "torchlens.tlspec", "version": 1, "kind": "dump",
            "producer": {"name": "torchlens recorder python", "version": VERSION},
            "source": {"runtime": "PyTorch " + torch.__version__, "language": "Python " + platform.python_version(),
                       "platform": platform.platform()},
            "model": {"class": type(self.model).__name__,
                      "qualified_class": "%s.%s" % (type(self.model).__module__, type(self.model).__qualname__)},
            "run": self.facts["run"],
            "outcome": {"status": status, "error_type": type(error).__name__ if error is not None else "",
                        "reason": str(error)[:2000] if error is not None else "", "where": where},
            "modules": self._module_records(),
            "unhooked": self.unhooked,
            "parameters": self.facts["parameters"],
            "entries": self.entries,
        }
