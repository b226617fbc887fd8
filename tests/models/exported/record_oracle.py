"""Runs an exported program node by node in Python and writes every value:

    record_oracle.py MODEL.pt2 INPUTS.safetensors|- OUT.safetensors [--program NAME] [--facts]
    record_oracle.py --all FOLDER MODEL.pt2... [--facts]     # inputs: the *.inputs.safetensors beside each MODEL

What runs is `ep.graph_module` itself, not `ep.module()`: its names are the names in the file, while module() moves the
state into attributes and adds copy_ nodes. One thread, no gradients, manual_seed(1234) just before; state is cloned.

Keys of OUT:
  <value>                 each value by its name in the file (names of a multi-output operator's slots included)
  <value>.<i>             element i of a sequence that has no names of its own in the file
  <hop>/<graph>:<k>/<value>   a value inside a subgraph, k-th run (from 1) of that subgraph by that node; nested alike
  out.NNN                 leaves of the program's result, numbered over the user outputs; no tensor, no key
  after.<fqn or input>    state and inputs that the run changed (ATEN: the leading outputs, to be copied back)
Under vmap the value is the unwrapped tensor, batch dimension and all. Kept out: sparse, quantised, complex32 values.
Metadata: "order" (JSON list of value keys as executed), "scalars" (JSON: value key -> number, string or null),
"skipped" (JSON: key -> why), "batched" (JSON: key -> [batch dimension, level]), "torch".
INPUTS: keys in.NNN by leaf number of (args, kwargs); other leaves, and all for -, are the file's sample inputs.
"""

import argparse
import io
import json
import math
import os
import pickle
import sys

import torch
from safetensors.torch import load_file, save_file
from torch.utils import _pytree as pytree

SEED = 1234
UNSTORABLE = {torch.complex32}


def tolerate_what_torch_writes():
    """torch.export.load refuses some files that torch.export.save wrote; nothing of that matters for running them."""
    import torch.ao.quantization.fx._decomposed  # noqa: F401, registers quantized_decomposed::*
    from torch._export.serde import schema, serialize
    from torch._higher_order_ops import auto_functionalize
    from torch.export.pt2_archive import _package as archive

    def keep_metadata(inner):
        def deserialize_metadata(self, metadata):
            try:
                return inner(self, metadata)
            except Exception:  # separators in module names
                return {"stack_trace": metadata.get("stack_trace", "")}
        return deserialize_metadata

    def read_optional(inner):
        def deserialize_input(self, given):
            if given.type != "as_optional_tensor":
                return inner(self, given)
            value = given.as_optional_tensor
            return None if value.type == "as_none" else self.serialized_name_to_node[value.as_tensor.name]
        return deserialize_input

    def flatten_listed(inner):
        def deserialize_node(self, node, target):
            """torch 2.6 listed the tuple of a higher-order operator as one as_tensors."""
            if isinstance(target, torch._ops.HigherOrderOperator) and node.is_hop_single_tensor_return is None and \
                    len(node.outputs) == 1 and node.outputs[0].type == "as_tensors":
                node.outputs = [schema.Argument.create(as_tensor=t) for t in node.outputs[0].as_tensors]
                node.is_hop_single_tensor_return = False
            return inner(self, node, target)
        return deserialize_node

    def keep_strings(inner):
        def deserialize_graph_output(self, output):
            return output.as_string if output.type == "as_string" else inner(self, output)
        return deserialize_graph_output

    reader = serialize.GraphModuleDeserializer
    reader.deserialize_metadata = keep_metadata(reader.deserialize_metadata)
    reader.deserialize_graph_output = keep_strings(reader.deserialize_graph_output)
    reader.deserialize_node = flatten_listed(reader.deserialize_node)
    reader.deserialize_input = read_optional(reader.deserialize_input)
    serialize.deserialize_device = archive.deserialize_device = lambda device: torch.device("cpu")
    auto_functionalize.can_auto_functionalize = lambda operator: True
    loads = serialize.treespec_loads

    def treespec_loads(text):
        """Classes that only the exporting process registered become lists."""
        def known(spec):
            kind = spec["type"]
            names = [k.serialized_type_name for k in pytree.SUPPORTED_SERIALIZED_TYPES.values()]
            unknown = kind is not None and kind not in names
            if kind == "collections.namedtuple" and spec["context"].strip('"') not in names:
                unknown = True
            if unknown:
                spec["type"], spec["context"] = "builtins.list", "null"
            for child in spec["children_spec"]:
                known(child)
            return spec
        try:
            return loads(text)
        except Exception:
            version, spec = json.loads(text)
            return loads(json.dumps([version, known(spec)]))
    serialize.treespec_loads = treespec_loads
    artifact = serialize.deserialize_torch_artifact

    def deserialize_torch_artifact(data):
        if not isinstance(data, bytes) or not data:
            return artifact(data)
        return torch.load(io.BytesIO(data), map_location="cpu", pickle_module=StandInPickle, weights_only=False)
    serialize.deserialize_torch_artifact = deserialize_torch_artifact


class StandIn(tuple):
    """An instance of a class that is not here: its leaves in order."""

    def __new__(cls, *fields):
        return tuple.__new__(cls, fields)


pytree.register_pytree_node(StandIn, lambda s: (list(s) + list(vars(s).values()), None), lambda v, _: StandIn(*v))


class StandInPickle:
    """A pickle module for torch.load whose unknown classes are StandIn."""

    load, loads, __name__ = pickle.load, pickle.loads, "pickle"

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            try:
                return super().find_class(module, name)
            except (AttributeError, ImportError):
                return StandIn


def storable(value):
    """(tensor that safetensors can hold, None) or (None, why not)."""
    if value.layout != torch.strided or value.is_quantized or value.dtype in UNSTORABLE:
        return None, f"{value.dtype} {value.layout}"
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return None, type(value).__name__
    value = value.detach().resolve_conj().resolve_neg().clone(memory_format=torch.contiguous_format)
    return (torch.view_as_real(value).clone() if value.dtype == torch.complex128 else value), None


class Record:
    def __init__(self):
        self.tensors, self.order, self.scalars, self.skipped, self.batched, self.ops = {}, [], {}, {}, {}, []

    def unwrap(self, key, value):
        functorch = torch._C._functorch
        while functorch.is_batchedtensor(value):
            self.batched.setdefault(key, []).append([functorch.maybe_get_bdim(value), functorch.maybe_get_level(value)])
            value = functorch.get_unwrapped(value)
        return value

    def add(self, key, value):
        if isinstance(value, torch.Tensor):
            value = self.unwrap(key, value)
            with torch._C._DisableFuncTorch():
                stored, why = storable(value)
            if why:
                self.skipped[key] = why
                return
            self.tensors[key] = stored
            self.order.append(key)
        elif value is None or isinstance(value, (bool, int, str)):
            self.scalars[key] = value
        elif isinstance(value, float):
            self.scalars[key] = value if math.isfinite(value) else str(value)

    def describe(self, value):
        if isinstance(value, torch.Tensor):
            value = self.unwrap("", value)
            self.batched.pop("", None)
            return {"dtype": str(value.dtype).split(".")[1], "shape": list(value.shape)}
        if isinstance(value, (list, tuple)):
            return [self.describe(v) for v in value]
        return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def target_name(target):
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target}"
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target}"
    return f"{target.__module__}.{target.__name__}"


class Recorder(torch.fx.Interpreter):
    """Runs a graph and hands every value to `record`, under `prefix`."""

    def __init__(self, module, record, prefix=""):
        super().__init__(module, garbage_collect_values=False)
        self.record, self.prefix, self.calls, self.node = record, prefix, {}, None

    def run_node(self, node):
        self.node = node
        value = super().run_node(node)
        if node.op != "call_function":
            return value
        key = self.prefix + node.name
        if not str(node.target).endswith("getitem>"):
            described = self.record.describe(value)
            self.record.ops.append({"key": key, "target": target_name(node.target), "value": described})
        if isinstance(value, (list, tuple)):
            named = {u.args[1] for u in node.users if str(u.target).endswith("getitem>")}
            for i, part in enumerate(value):
                if i not in named:
                    self.record.add(f"{key}.{i}", part)
        else:
            self.record.add(key, value)
        return value

    def call_function(self, target, args, kwargs):
        if isinstance(target, torch._ops.HigherOrderOperator):
            args = tuple(self.recording(a) for a in args)
        return super().call_function(target, args, kwargs)

    def recording(self, value):
        """A subgraph argument, as something that runs it and records."""
        if not isinstance(value, torch.fx.GraphModule):
            return value
        node = self.node
        graph = next(a.target for a in node.args if isinstance(a, torch.fx.Node) and a.op == "get_attr"
                     and self.fetch_attr(a.target) is value)
        outer = self

        class Subgraph(torch.nn.Module):
            def forward(self, *inputs):
                count = outer.calls[node, graph] = outer.calls.get((node, graph), 0) + 1
                prefix = f"{outer.prefix}{node.name}/{graph}:{count}/"
                return Recorder(value, outer.record, prefix).run(*inputs)

        return Subgraph()


def clone(value):
    """A copy that keeps strides and offset."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.layout != torch.strided or type(value) not in (torch.Tensor, torch.nn.Parameter):
        return value.detach().clone()
    value = value.detach()
    return torch.empty(0, dtype=value.dtype).set_(value.untyped_storage().clone(), value.storage_offset(),
                                                  value.shape, value.stride())


def user_leaves(program, path):
    args, kwargs = program.example_inputs if program.example_inputs else ((), {})
    leaves = pytree.tree_leaves((args, kwargs))
    given = {} if path == "-" else {int(k.split(".")[-1]): v for k, v in load_file(path).items()}
    count = len([s for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"])
    leaves = (leaves + [None] * count)[:count]
    for i, value in given.items():
        like = leaves[i]
        if isinstance(like, torch.Tensor) and like.layout == torch.strided and like.dtype == torch.complex128:
            value = torch.view_as_complex(value) if not value.is_complex() else value
        if isinstance(like, torch.Tensor) and like.shape == value.shape and like.stride() != value.stride():
            laid = clone(like)
            if 0 not in laid.stride():
                value = laid.copy_(value)
            else:
                value = laid
        leaves[i] = value
    return leaves


def bind(program, leaves):
    """Placeholder values in order, and the storages they share kept shared; tokens are empty tensors."""
    state = {**program.constants, **program.state_dict}
    copies, values, named, leaf = {}, [], {}, iter(leaves)

    def shared(tensor):
        if not isinstance(tensor, torch.Tensor) or tensor.layout != torch.strided or \
                type(tensor) not in (torch.Tensor, torch.nn.Parameter) or tensor.numel() == 0:
            return clone(tensor)
        key = tensor.untyped_storage().data_ptr()
        if key not in copies:
            copies[key] = tensor.detach().untyped_storage().clone()
        copy = torch.empty(0, dtype=tensor.dtype).set_(copies[key], tensor.storage_offset(), tensor.shape,
                                                       tensor.stride())
        return copy.requires_grad_(tensor.requires_grad)  # at::matmul folds by it, which shows in the last bit

    for spec in program.graph_signature.input_specs:
        if spec.kind.name == "USER_INPUT":
            value = clone(next(leaf))
            if hasattr(spec.arg, "value"):
                value = spec.arg.value
            named[spec.arg.name] = value
        elif spec.kind.name == "TOKEN":
            value = torch.empty(0)
        else:
            value = shared(state[spec.target]) if spec.target in state else None
            named[spec.target] = value
        values.append(value)
    return values, named


def same(a, b):
    return a.shape == b.shape and bool(torch.equal(a.view(torch.uint8) if a.dim() and a.is_contiguous() else a,
                                                   b.view(torch.uint8) if b.dim() and b.is_contiguous() else b))


def record(program, inputs):
    """(Record, {"out.NNN" and "after.NAME": value})."""
    torch.set_num_threads(1)
    values, named = bind(program, user_leaves(program, inputs))
    before = {k: clone(v) for k, v in named.items() if isinstance(v, torch.Tensor)}
    recorded = Record()
    torch.manual_seed(SEED)
    with torch.no_grad():
        results = Recorder(program.graph_module, recorded).run(*values)
    results = results if isinstance(results, (list, tuple)) else [results]
    ends, number = {}, 0
    for spec, value in zip(program.graph_signature.output_specs, results):
        if spec.kind.name == "USER_OUTPUT":
            ends[f"out.{number:03}"] = value
            number += 1
        elif spec.kind.name.endswith("MUTATION"):
            ends[f"after.{spec.target}"] = value
    for name, old in before.items():
        if old.layout == torch.strided and type(old) in (torch.Tensor, torch.nn.Parameter) and \
                not same(old, named[name]):
            ends[f"after.{name}"] = named[name]
    return recorded, ends


def load(path, name):
    from torch.export.pt2_archive import _package as archive
    if not archive.is_pt2_package(path):
        return torch.export.load(path)
    with archive.PT2ArchiveReader(path) as reader:  # not load_pt2: that runs the compiled libraries beside
        programs = archive._load_exported_programs(reader, reader.get_file_names(), None)
    return programs[name] if name else programs.get("model") or next(iter(programs.values()))


def write(model, inputs, out, facts=None, name=None):
    recorded, ends = record(load(model, name), inputs)
    count = len(recorded.order)
    for key, value in ends.items():
        recorded.add(key, value)
    metadata = {"order": recorded.order[:count], "scalars": recorded.scalars, "skipped": recorded.skipped,
                "batched": recorded.batched}
    save_file(recorded.tensors, out, {k: json.dumps(v) for k, v in metadata.items()} | {"torch": torch.__version__})
    if facts:
        lines = ",\n".join(json.dumps(op) for op in recorded.ops)
        described = json.dumps({k: recorded.describe(v) for k, v in ends.items()})
        with open(facts, "w") as f:
            f.write(f'{{"ops": [\n{lines}\n],\n"ends": {described}}}\n')


def inputs_of(model):
    """NAME.inputs.safetensors of NAME.variant.pt2, the longest NAME there is; else the samples in the file."""
    stem = model.removesuffix(".pt2")
    while not os.path.exists(f"{stem}.inputs.safetensors"):
        folder, _, last = stem.rpartition("/")
        if "." not in last:
            return "-"
        stem = f"{folder}/{last.rpartition('.')[0]}" if folder else last.rpartition(".")[0]
    return f"{stem}.inputs.safetensors"


def write_all(folder, models, facts):
    """One process for many files, each of which may fail: prints `FILE: why` for those, and goes on."""
    failed = 0
    for model in models:
        stem = os.path.join(folder, os.path.basename(model).removesuffix(".pt2"))
        try:
            write(model, inputs_of(model), f"{stem}.safetensors", f"{stem}.facts.json" if facts else None)
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            print(f"{model}: {type(error).__name__}: {lines[0][:200]} ... {lines[-1][:200]}", flush=True)
            failed += 1
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", help="MODEL INPUTS OUT, or with --all: MODEL...")
    parser.add_argument("--all", metavar="FOLDER", help="writes FOLDER/<stem>.safetensors for every MODEL")
    parser.add_argument("--program", help="which of the programs in the archive")
    parser.add_argument("--facts", action="store_true", help="also <stem>.facts.json: operators, shapes and dtypes")
    options = parser.parse_args()
    tolerate_what_torch_writes()
    if options.all:
        sys.exit(1 if write_all(options.all, options.files, options.facts) else 0)
    model, inputs, out = options.files
    write(model, inputs, out, out.replace(".safetensors", ".facts.json") if options.facts else None, options.program)


if __name__ == "__main__":
    main()
