"""A model file whose weights, code and graph can be changed: enough of both formats for planting faults. Trusts the file."""
import array
import io
import json
import math
import pathlib
import pickle
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "hostile"))
import archives  # noqa: E402

FLOAT32_OF_SERDE = 7


class Weight:
    """A float32 tensor of the file: contiguous, in an entry of its own."""

    def __init__(self, file, entry, begin, sizes):
        self.file, self.entry, self.begin, self.sizes = file, entry, begin, sizes

    @property
    def numel(self):
        return math.prod(self.sizes)

    def values(self):
        values = array.array("f")
        values.frombytes(self.file.entries[self.entry][self.begin:self.begin + 4 * self.numel])
        return values

    def write(self, values):
        data = bytearray(self.file.entries[self.entry])
        data[self.begin:self.begin + 4 * self.numel] = array.array("f", values).tobytes()
        self.file.entries[self.entry] = bytes(data)


class ModelFile:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.entries = dict(archives.read(path))
        self.root = next(iter(self.entries)).split("/")[0]
        self.exported = any(name.endswith("/models/model.json") for name in self.entries)

    def write(self, path):
        pathlib.Path(path).write_bytes(archives.pack(list(self.entries.items())))

    def weights(self):
        """{address: Weight} of the float32 parameters and buffers."""
        return self._exported_weights() if self.exported else self._script_weights()

    def replace_in_code(self, old, new, only=""):
        """Replaces a text in the sources of modules whose entry name holds `only`; of equal length, so that places stay."""
        if len(old) != len(new):
            raise ValueError(f"{old!r} and {new!r} differ in length: the places in debug_pkl would move")
        found = 0
        for name, data in self.entries.items():
            if name.endswith(".py") and only in name:
                found += data.count(old.encode())
                self.entries[name] = data.replace(old.encode(), new.encode())
        return found

    def graph_nodes(self):
        """The nodes of the graph of a `.pt2`; give them back with set_graph_nodes."""
        return self._program()["graph_module"]["graph"]["nodes"]

    def change_nodes(self, change):
        """Calls change(node) for every node of a `.pt2`; counts the true answers."""
        program = self._program()
        count = sum(bool(change(node)) for node in program["graph_module"]["graph"]["nodes"])
        self.entries[self._named("/models/model.json")] = json.dumps(program).encode()
        return count

    def _named(self, ending):
        return next(name for name in self.entries if name.endswith(ending))

    def _program(self):
        return json.loads(self.entries[self._named("/models/model.json")])

    def _exported_weights(self):
        config = json.loads(self.entries[self._named("/model_weights_config.json")])["config"]
        weights = {}
        for address, item in config.items():
            meta = item["tensor_meta"]
            if meta["dtype"] != FLOAT32_OF_SERDE or item["use_pickle"]:
                continue
            sizes = [size["as_int"] for size in meta["sizes"]]
            if [stride["as_int"] for stride in meta["strides"]] == strides_of(sizes):
                entry = f"{self.root}/data/weights/{item['path_name']}"
                weights[address] = Weight(self, entry, 4 * meta["storage_offset"]["as_int"], sizes)
        return weights

    def _script_weights(self):
        root = ModuleUnpickler(self.entries[f"{self.root}/data.pkl"]).load()
        weights = {}

        def visit(prefix, value):
            if isinstance(value, Tensor):
                if value.kind == "FloatStorage" and list(value.strides) == strides_of(value.sizes):
                    entry = f"{self.root}/data/{value.key}"
                    weights[prefix] = Weight(self, entry, 4 * value.offset, list(value.sizes))
            elif isinstance(value, Object):
                for name, item in value.state.items():
                    visit(f"{prefix}.{name}" if prefix else name, item)

        visit("", root)
        return weights


def strides_of(sizes):
    strides, step = [], 1
    for size in reversed(sizes):
        strides.append(step)
        step *= size
    return strides[::-1]


class Object:
    state = {}

    def __setstate__(self, state):
        self.state = state if isinstance(state, dict) else {}


class Tensor:
    def __init__(self, storage, offset, sizes, strides, *_rest):
        self.kind, self.key = storage
        self.offset, self.sizes, self.strides = offset, sizes, strides


class ModuleUnpickler(pickle.Unpickler):
    def __init__(self, data):
        super().__init__(io.BytesIO(data))

    def find_class(self, module, name):
        if name == "_rebuild_tensor_v2":
            return Tensor
        if module == "collections" and name == "OrderedDict":
            return dict
        if name.endswith("Storage"):
            return name
        return type(name, (Object,), {}) if module.startswith("__torch__") else (lambda *arguments: None)

    def persistent_load(self, pid):
        return pid[1], pid[2]


def to_bfloat16(value):
    """The nearest bfloat16, ties to even."""
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return struct.unpack("<f", struct.pack("<I", bits))[0]
