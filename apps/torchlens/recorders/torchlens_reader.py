"""torchlens recorder: one file that reads `.tlspec` recordings. Needs numpy and the standard library.

    from torchlens_reader import open_recording

    run = open_recording("run.tlspec")
    run.kind                            # "trace": made by `torchlens trace`; "dump": by a recorder
    run.labels                          # of a trace: one label an Op; of a dump: one an entry
    run.tensor("relu_1_2:3")            # a numpy array; the file is mapped, only this tensor is read
    run.table("layers")                 # a dict of columns, strings and shapes spelt out
    run.rows("ops")                     # the same as a list of dicts

    python3 torchlens_reader.py run.tlspec              what there is
    python3 torchlens_reader.py run.tlspec --rows ops   a table as JSON lines
    python3 torchlens_reader.py run.tlspec LABEL        shape, range and first values of a tensor

Element types that numpy has not become float32 (bf16, f8) and uint8 (bits); quantised tensors are dequantised, sparse
ones dense. Nothing in a recording is executed. The format is described in docs/tlspec.md of torchlens. Copy this file freely.
"""
import json
import os
import sys

import numpy

__all__ = ["open_recording", "Recording"]
_STRINGS = frozenset("""@TORCHLENS_STRING_COLUMNS@""".split())
_SHAPES = frozenset("""@TORCHLENS_SHAPE_COLUMNS@""".split())
_NUMPY = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U64": "<u8",
          "U32": "<u4", "U16": "<u2", "U8": "u1", "BOOL": "?", "C64": "<c8", "BF16": "<u2", "F8_E4M3": "u1",
          "F8_E5M2": "u1", "F8_E4M3FNUZ": "u1", "F8_E5M2FNUZ": "u1", "F8_E8M0": "u1"}
_OP_KINDS = ("operation", "input", "buffer", "output")
_ENCODINGS = ("dense", "window", "quantised", "sparse", "pairs", "empty", "opaque")
_DTYPES = {0: "u8", 1: "i8", 2: "i16", 3: "i32", 4: "i64", 5: "f16", 6: "f32", 7: "f64", 8: "c32", 9: "c64", 10: "c128",
           11: "bool", 12: "qi8", 13: "qu8", 14: "qi32", 15: "bf16", 16: "qu4x2", 17: "qu2x4", 18: "bits1x8",
           19: "bits2x4", 20: "bits4x2", 21: "bits8", 22: "bits16", 23: "f8_e5m2", 24: "f8_e4m3", 25: "f8_e5m2fnuz",
           26: "f8_e4m3fnuz", 27: "u16", 28: "u32", 29: "u64", 44: "f8_e8m0", 45: "f4x2", 255: "none"}


def _float8(bits, exponent_bits, bias, special):
    """Eight-bit floats as float32. special: ieee (inf and NaN), fn (NaN only), fnuz (NaN is -0)."""
    mantissa_bits = 7 - exponent_bits
    codes = numpy.arange(256)
    exponent = codes >> mantissa_bits & (1 << exponent_bits) - 1
    mantissa = codes & (1 << mantissa_bits) - 1
    normal = numpy.ldexp(1 + mantissa / (1 << mantissa_bits), exponent - bias)
    values = numpy.where(exponent == 0, numpy.ldexp(mantissa / (1 << mantissa_bits), 1 - bias), normal)
    if special == "ieee":
        values = numpy.where(exponent == (1 << exponent_bits) - 1, numpy.where(mantissa == 0, numpy.inf, numpy.nan), values)
    elif special == "fn":
        values = numpy.where(codes & 127 == 127, numpy.nan, values)
    values = numpy.where(codes > 127, -values, values)
    if special == "fnuz":
        values = numpy.where(codes == 128, numpy.nan, values)
    return values.astype(numpy.float32)[bits]


def _as_float(name, bits):
    """Elements of a type that numpy has not, as float32."""
    if name == "BF16":
        return (bits.astype(numpy.uint32) << 16).view(numpy.float32)
    if name == "F8_E5M2":
        return _float8(bits, 5, 15, "ieee")
    if name == "F8_E4M3":
        return _float8(bits, 4, 7, "fn")
    if name == "F8_E5M2FNUZ":
        return _float8(bits, 5, 16, "fnuz")
    if name == "F8_E4M3FNUZ":
        return _float8(bits, 4, 8, "fnuz")
    if name == "F8_E8M0":
        return numpy.where(bits == 255, numpy.nan, numpy.ldexp(1.0, bits.astype(int) - 127)).astype(numpy.float32)
    return bits


class TensorFile:
    """A safetensors file, mapped. Its header is held against the size of the file before anything is read."""

    def __init__(self, path):
        if os.path.islink(path):
            raise ValueError("%s: is a link" % path)
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if length > min(size - 8, 100_000_000):
                raise ValueError("%s: the header has %d bytes, the file %d" % (path, length, size))
            header = json.loads(file.read(length))
        header.pop("__metadata__", None)
        self.path, self.entries = path, header
        self.data = numpy.memmap(path, "u1", "r", 8 + length) if size > 8 + length else numpy.zeros(0, "u1")

    def __contains__(self, name):
        return name in self.entries

    def raw(self, name):
        """(type, array) of a tensor; types that numpy has not come as their bits."""
        entry = self.entries[name]
        begin, end = entry["data_offsets"]
        dtype = numpy.dtype(_NUMPY[entry["dtype"]])
        count = 1
        for extent in entry["shape"]:
            count *= extent
        if not 0 <= begin <= end <= self.data.size or end - begin != count * dtype.itemsize:
            raise ValueError("%s: %s does not fit the file" % (self.path, name))
        block = self.data[begin:end]
        if begin % dtype.itemsize:
            block = block.copy()
        return entry["dtype"], block.view(dtype).reshape(entry["shape"]).view(numpy.ndarray)

    def get(self, name):
        return _as_float(*self.raw(name))


class Recording:
    """What traces and dumps have in common: manifest, files, tensors by label."""

    def __init__(self, path, manifest):
        self.path, self.manifest, self.kind = path, manifest, manifest["kind"]
        self._files = {}

    def _file(self, name):
        if name not in self._files:
            if os.path.basename(name) != name:
                raise ValueError("%s is no plain file name" % name)
            self._files[name] = TensorFile(os.path.join(self.path, name))
        return self._files[name]

    def _decode(self, shard, key, encoding, dtype, shape, strides=None, offset=0):
        file = self._file("tensors-%05d.safetensors" % shard)
        if encoding == "quantised":
            return self._dequantise(file, key)
        if encoding == "sparse":
            return self._densify(file, key, shape)
        if encoding == "pairs":
            parts = file.get(key)
            pairs = parts.astype(numpy.float32 if dtype == "c32" else numpy.float64, copy=False)
            return pairs[..., 0] + 1j * pairs[..., 1]
        if encoding == "window":
            name, block = file.raw(key)
            if shape and min(shape) > 0 and offset + sum((n - 1) * s for n, s in zip(shape, strides)) >= block.size:
                raise ValueError("%s leaves its block" % key)
            view = numpy.lib.stride_tricks.as_strided(block[offset:], shape, [s * block.itemsize for s in strides])
            return _as_float(name, numpy.ascontiguousarray(view))
        if encoding in ("empty", "opaque"):
            raise KeyError("%s was recorded without bytes (%s)" % (key, encoding))
        return file.get(key)

    @staticmethod
    def _dequantise(file, key):
        values = file.get(key).astype(numpy.float64)
        scale, zero = (file.get(key + suffix).astype(numpy.float64) for suffix in (".scale", ".zero_point"))
        if scale.size > 1 or key + ".axis" in file:
            axis = int(file.get(key + ".axis").reshape(-1)[0]) if key + ".axis" in file else 0
            spread = [1] * values.ndim
            spread[axis] = -1
            scale, zero = scale.reshape(spread), zero.reshape(spread)
        return ((values - zero) * scale).astype(numpy.float32)

    @staticmethod
    def _densify(file, key, shape):
        values = file.get(key + ".values")
        if key + ".indices" in file:
            dense = numpy.zeros(shape, values.dtype)
            numpy.add.at(dense, tuple(file.get(key + ".indices")), values)
            return dense
        by_row = key + ".crow_indices" in file
        starts = file.get(key + (".crow_indices" if by_row else ".ccol_indices"))
        others = file.get(key + (".col_indices" if by_row else ".row_indices"))
        if starts.ndim != 1 or values.ndim != 1:
            raise NotImplementedError("%s: batches and blocks of compressed sparse tensors" % key)
        lines = numpy.repeat(numpy.arange(starts.size - 1), numpy.diff(starts))
        dense = numpy.zeros(shape, values.dtype)
        dense[(lines, others) if by_row else (others, lines)] = values
        return dense


class Trace(Recording):
    """A recording of `torchlens trace`."""

    def __init__(self, path, manifest):
        super().__init__(path, manifest)
        columns = self._file("columns.safetensors")
        offsets, pool = columns.get("strings.offsets"), columns.get("strings.bytes").tobytes()
        self._strings = [pool[begin:end].decode("utf-8", "backslashreplace")
                         for begin, end in zip(offsets[:-1].tolist(), offsets[1:].tolist())]
        begins, dims = columns.get("shapes.begin").tolist(), columns.get("shapes.dims").tolist()
        self._shapes = [dims[begin:end] for begin, end in zip(begins[:-1], begins[1:])]
        self._columns = columns
        self.tables = sorted({name.split(".")[0] for name in columns.entries if "." in name} - {"strings", "shapes"})
        self._label_rows = None

    def column(self, name):
        """One column as a numpy array of numbers, as it lies in the file."""
        return self._columns.get(name)

    def table(self, name):
        """{column: list}, string and shape codes spelt out; None where the file has -1 for a string or a shape."""
        result = {}
        for full in self._columns.entries:
            if full.split(".")[0] != name:
                continue
            values = self.column(full).tolist()
            if full in _STRINGS:
                values = [self._strings[code] if code >= 0 else None for code in values]
            elif full in _SHAPES:
                values = [self._shapes[code] if code >= 0 else None for code in values]
            result[full.split(".", 1)[1]] = values
        if not result:
            raise KeyError("no table %s; there are %s" % (name, ", ".join(self.tables)))
        return result

    def rows(self, name):
        """The rows of a table as dicts; Ops and Layers with their labels, kinds and types as words."""
        table = self.table(name)
        rows = [dict(zip(table, values)) for values in zip(*table.values())]
        if name == "ops":
            for row, label in zip(rows, self.labels):
                row.update(label=label, kind=_OP_KINDS[row["kind"]], dtype=_DTYPES.get(row["dtype"], "none"))
        elif name == "layers":
            for row, label in zip(rows, self.layer_labels):
                row["layer_label"] = label
        return rows

    @property
    def layer_labels(self):
        layers = self.table("layers")
        return ["%s_%d%s" % (kind, number, "_%d" % total if total else "")
                for kind, number, total in zip(layers["layer_type"], layers["type_num"], layers["total_num"])]

    @property
    def labels(self):
        """The label of every Op, in order; with :pass where its Layer has several."""
        layers, passes = self.layer_labels, self.column("layers.num_passes")
        return ["%s:%d" % (layers[layer], number) if passes[layer] > 1 else layers[layer]
                for layer, number in zip(self.column("ops.layer").tolist(), self.column("ops.pass_index").tolist())]

    def op(self, label):
        """The row of `ops` of a label, with or without `:1` where the Layer has one pass."""
        if self._label_rows is None:
            self._names = self.labels
            self._label_rows = {name: row for row, name in enumerate(self._names)}
        row = self._label_rows.get(label)
        if row is None and label.endswith(":1"):
            row = self._label_rows.get(label[:-2])
        if row is None:
            raise KeyError("no Op %s" % label)
        return row

    def module_output(self, address, call=1):
        """The label of the Op whose value call `call` of a module returned first."""
        modules, calls = self.table("modules"), self.table("module_calls")
        for module, index, op in zip(calls["module"], calls["call_index"], calls["output_op"]):
            if modules["address"][module] == address and index == call and op >= 0:
                return self.labels[op]
        raise KeyError("no output of %s:%d" % (address, call))

    def tensor(self, label):
        """The saved value of an Op."""
        payload = int(self.column("ops.payload")[self.op(label)])
        if payload < 0:
            raise KeyError("the value of %s was not saved" % label)
        row = {name: self.column("payloads." + name)[payload].item()
               for name in ("first_op", "encoding", "dtype", "shape", "strides", "offset", "shard")}
        if row["shard"] < 0:
            raise KeyError("the value of %s was not written" % label)
        shape, strides = (self._shapes[row[name]] if row[name] >= 0 else [] for name in ("shape", "strides"))
        key, encoding = self._names[row["first_op"]], _ENCODINGS[row["encoding"]]
        return self._decode(row["shard"], key, encoding, _DTYPES.get(row["dtype"]), shape, strides, row["offset"])

    def saved_labels(self):
        payloads = self.column("ops.payload")
        return [label for label, payload in zip(self.labels, payloads) if payload >= 0]


class Dump(Recording):
    """A recording of a recorder: entries in the order they were made."""

    def __init__(self, path, manifest):
        super().__init__(path, manifest)
        self.tables = [name for name in ("entries", "parameters", "modules") if name in manifest]
        self._entries = {}
        for entry in manifest["entries"]:
            if "key" in entry:
                self._entries.setdefault(self._label(entry), entry)

    @staticmethod
    def _label(entry):
        """blocks.0:2, blocks.0:2/logits; input/x:1, tap/latents:1. Entries of equal values may share a stored tensor."""
        kind, path = entry.get("kind", "module"), entry.get("path", "")
        prefix = "" if kind == "module" else kind + "/"
        return "%s%s:%d%s" % (prefix, entry["name"], entry.get("call", 1), "/" + path if path else "")

    @property
    def labels(self):
        return list(self._entries)

    saved_labels = labels.fget

    def rows(self, name):
        return self.manifest[name]

    def table(self, name):
        rows = self.rows(name)
        keys = sorted({key for row in rows for key in row})
        return {key: [row.get(key) for row in rows] for key in keys}

    def tensor(self, label):
        entry = self._entries.get(label) or self._entries.get(label + ":1")
        if entry is None:
            raise KeyError("no entry %s" % label)
        return self._decode(entry["shard"], entry["key"], entry["encoding"], entry["dtype"], entry["shape"])


def open_recording(path):
    """Opens a `.tlspec` directory."""
    with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    if manifest.get("format") != "torchlens.tlspec":
        raise ValueError("%s: no recording of torchlens" % path)
    if manifest.get("version") != 1:
        raise ValueError("%s: format version %s, this reader knows 1" % (path, manifest.get("version")))
    kinds = {"trace": Trace, "dump": Dump}
    if manifest.get("kind") == "sparse":
        raise ValueError("%s: a sparse recording, `torchlens finish` makes a trace of it" % path)
    if manifest.get("kind") not in kinds:
        raise ValueError("%s: a %s, this reader knows traces and dumps" % (path, manifest.get("kind")))
    return kinds[manifest["kind"]](path, manifest)


def _describe(array):
    finite = array[numpy.isfinite(array)] if array.dtype.kind in "fc" else array.reshape(-1)
    if finite.dtype.kind in "cb":
        finite = numpy.abs(finite.astype(numpy.complex128))
    text = "%s%s" % (array.dtype, list(array.shape))
    if finite.size:
        text += "   range %.6g .. %.6g" % (finite.min(), finite.max())
    return text + "   first %s" % array.reshape(-1)[:5].tolist()


def main(arguments):
    if not arguments or arguments[0] in ("-h", "--help"):
        print(__doc__)
        return 0 if arguments else 2
    run = open_recording(arguments[0])
    if arguments[1:2] == ["--rows"] and len(arguments) == 3:
        for row in run.rows(arguments[2]):
            print(json.dumps(row))
    elif len(arguments) == 2:
        print(json.dumps(arguments[1]), _describe(run.tensor(arguments[1])))
    else:
        print("%s of %s" % (run.kind, json.dumps(run.manifest.get("model", {}).get("class", ""))))
        print("tables: " + ", ".join(run.tables))
        for label in run.saved_labels():
            print("  " + json.dumps(label))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
