"""Writes the archives that differ in what holds the program (torch 2.13, a C++ compiler for the AOTInductor one):
several programs, extra files, a tensor subclass, draft export, CUDA tags, an AOTInductor package, hand-made arguments.
`python make_archives.py [NAME...]`."""

import glob
import io
import os
import sys
import tempfile
import zipfile

import torch
from torch import nn
from torch.export.pt2_archive._package import package_pt2
from torch.testing._internal.two_tensor import TwoTensor

from fixture import change_json, rewrite, save_leaves, write, write_sides
from make_control import Hints, ramp


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        return self.fc(x).relu()


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 4)
        self.register_buffer("shift", torch.tensor([1.0, 2.0, 3.0]), persistent=False)

    def forward(self, code, scale):
        return self.fc(code * scale + self.shift)


def export(cls, *args, **options):
    torch.manual_seed(0)
    return torch.export.export(cls().eval(), args, **options)


def several():
    """Three programs in one archive, one of them in a folder, and extra files."""
    encode, decode = (ramp(2, 4),), (ramp(2, 3), torch.tensor(2.0))
    programs = {"encoder": export(Encoder, *encode), "decoder": export(Decoder, *decode),
                "heads/second": export(Decoder, *decode).run_decompositions()}
    package_pt2("several.pt2", exported_programs=programs,
                extra_files={"notes.txt": "three programs", "config/labels.json": '["a", "b"]'})
    write_sides("several.encoder", programs["encoder"].module(), encode)
    write_sides("several.decoder", programs["decoder"].module(), decode)


class Subclass(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(TwoTensor(torch.ones(3, 3), torch.full((3, 3), 2.0)))
        self.plain = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return x @ self.weight + self.plain


def subclass():
    """A weight of a tensor subclass: pickled in the archive, read through export.access_subclass_inner_tensor."""
    torch.export.save(export(Subclass, ramp(2, 3)), "subclass.pt2")


class Draft(nn.Module):
    """Branches on a value, which export refuses and draft export takes by the example."""

    def forward(self, x, n):
        count = n.item()
        return x[:count] * 2 if count > 2 else x


def draft():
    args = ramp(4), torch.tensor(3)
    write("draft", torch.export.draft_export(Draft(), args), args)


def cuda():
    """A program as a machine with a CUDA device writes it: every device "cuda", index 0, in the tensors' metadata, in
    device arguments and in the pickled sample inputs."""
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 3)
            self.register_buffer("shift", torch.ones(3), persistent=False)

        def forward(self, x):
            return self.fc(x) + self.shift.to("cpu") + torch.arange(3, device="cpu") + torch.zeros_like(self.shift)

    args = (ramp(2, 4),)
    torch.manual_seed(0)
    write("cuda", torch.export.export(Model().eval(), args), args)

    def tag(value):
        if isinstance(value, dict):
            if value.get("type") == "cpu" and set(value) <= {"type", "index"}:
                value.update(type="cuda", index=0)
            for child in value.values():
                tag(child)
        elif isinstance(value, list):
            for child in value:
                tag(child)

    def change(name, data):
        if name.endswith("sample_inputs/model.pt"):
            inner = rewritten(data, lambda n, d: d.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
                              if n.endswith("data.pkl") else d)
            return inner
        return change_json(".json", tag)(name, data)

    rewrite("cuda.pt2", "cuda.pt2", change)


def rewritten(data, change):
    with tempfile.NamedTemporaryFile() as out:
        rewrite(io.BytesIO(data), out.name, change)
        with open(out.name, "rb") as f:
            return f.read()


def aoti():
    """A real AOTInductor package, refused by name, and an archive that has a program beside one. Of the shared library
    inside only the first 4 KiB are kept, of the C++ sources nothing: nobody loads it."""
    class Model(nn.Module):
        def forward(self, x):
            return x.relu() + 1

    args = (ramp(4),)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "aoti.pt2")
        torch._inductor.aoti_compile_and_package(torch.export.export(Model(), args), package_path=path)
        rewrite(path, "aoti.pt2", lambda name, data: None if name.endswith(".cpp") else
                data[:4096] if name.endswith(".so") else data)
        with zipfile.ZipFile("aoti.pt2") as archive:
            archive.extractall(folder)
        files = sorted(glob.glob(f"{folder}/**/aotinductor/model/*", recursive=True))
        package_pt2("aoti_beside.pt2", exported_programs=torch.export.export(Model(), args),
                    aoti_files={"compiled": files})
    write_sides("aoti_beside", Model(), args)


class Base(nn.Module):
    """What the hand-made archives start from."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.register_buffer("state", torch.zeros(3))

    def forward(self, x):
        return torch.nn.functional.layer_norm(x, (3,), self.weight, None) + self.state


def crafted():
    """Argument kinds that the schema has and no exporter of ours writes, set by hand in the JSON: as_optional_tensor,
    mixed as_sym_ints; unknown fields everywhere; missing ones where the schema has a default."""
    args = (ramp(2, 3),)
    write("crafted", export(Base, *args), args)

    def edit(program):
        graph = program["graph_module"]["graph"]
        for node in graph["nodes"]:
            node["added_later"] = {"as": "unknown"}
            del node["is_hop_single_tensor_return"], node["name"]
            for given in node["inputs"]:
                del given["kind"]
                if given["name"] == "weight":
                    given["arg"] = {"as_optional_tensor": {"as_tensor": given["arg"]["as_tensor"]}}
                elif given["name"] == "bias":
                    given["arg"] = {"as_optional_tensor": {"as_none": True}}
                elif given["name"] == "normalized_shape":
                    given["arg"] = {"as_sym_ints": [{"as_int": 3}]}
        for meta in graph["tensor_values"].values():
            meta["added_later"] = 1
            del meta["device"]["index"]
        del program["guards_code"], program["graph_module"]["treespec_namedtuple_fields"]
        program["added_later"] = None

    rewrite("crafted.pt2", "crafted.pt2", change_json("models/", edit))


def auto_functionalized():
    """auto_functionalized and auto_functionalized_v2 as the ATEN dialect writes them around an operator that mutates,
    here aten.add_, which every installation has. By hand: torch wraps only operators of other namespaces."""
    class Model(nn.Module):
        def forward(self, x, y):
            return x + y, x * y

    args = (ramp(3), ramp(3, low=2, high=4))
    for version in ("", "_v2"):
        name = f"auto_functionalized{version}"
        write(name, torch.export.export(Model(), args).run_decompositions(), args)

        def edit(program, version=version):
            graph = program["graph_module"]["graph"]
            add, mul = graph["nodes"]

            def given(name, kind, arg):
                return {"name": name, "arg": arg, "kind": kind}

            tensor = graph["tensor_values"]["x"]
            graph["tensor_values"].update(getitem=dict(tensor), getitem_1=dict(tensor))
            base = given("_self_base_index", 2, {"as_int": 0})
            operands = [given("other", 2, {"as_tensor": {"name": "y"}}), given("alpha", 2, {"as_int": 2})]
            operator = given("", 1, {"as_operator": "torch.ops.aten.add_.Tensor"})
            if version:
                operands += [base, given("_all_bases", 2, {"as_tensors": [{"name": "x"}]})]
            else:
                operands = [given("self", 2, {"as_tensor": {"name": "x"}})] + operands
            add.update(name="wrapped", target=f"torch.ops.higher_order.auto_functionalized{version}",
                       inputs=[operator] + operands, is_hop_single_tensor_return=False,
                       outputs=[{"as_tensor": {"name": "getitem"}}, {"as_tensor": {"name": "getitem_1"}}])
            graph["outputs"][0] = {"as_tensor": {"name": "getitem_1"}}
            program["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"] = graph["outputs"][0]

        rewrite(f"{name}.pt2", f"{name}.pt2", change_json("models/", edit))
        write_sides(name, lambda x, y: (x + 2 * y, x * y), args)


def functionalized(name, args, operator, given, results, expected):
    """A program whose only node wraps `operator`; `given` are its keyword arguments, `results` its outputs by name."""
    class Model(nn.Module):
        def forward(self, x, y):
            return x + y, x * y

    write(name, torch.export.export(Model(), args).run_decompositions(), args)

    def edit(program):
        graph = program["graph_module"]["graph"]
        node = graph["nodes"].pop(0)
        kinds = {int: "as_int", float: "as_float", bool: "as_bool"}
        inputs = [{"name": "", "arg": {"as_operator": operator}, "kind": 1}]
        for key, value in given.items():
            inputs.append({"name": key, "arg": value if isinstance(value, dict) else {kinds[type(value)]: value}, "kind": 2})
        outputs = []
        for result, like in results.items():
            graph["tensor_values"][result] = dict(graph["tensor_values"][like]) if like else None
            outputs.append({"as_tensor": {"name": result}} if like else {"as_none": True})
            if not like:
                del graph["tensor_values"][result]
        node.update(name="wrapped", target="torch.ops.higher_order.auto_functionalized_v2", inputs=inputs, outputs=outputs,
                    is_hop_single_tensor_return=False)
        graph["nodes"] = [node]
        for i, result in enumerate(name for name, like in results.items() if like):
            graph["outputs"][i] = {"as_tensor": {"name": result}}
            program["graph_module"]["signature"]["output_specs"][i]["user_output"]["arg"] = graph["outputs"][i]
        del graph["tensor_values"]["add"], graph["tensor_values"]["mul"]

    rewrite(f"{name}.pt2", f"{name}.pt2", change_json("models/", edit))
    write_sides(name, expected, args)


def functionalized_kinds():
    """What auto_functionalized_v2 wraps beside single tensors: a list that is mutated, one element a slice of its base; a
    base with gaps, of which a view by strides is mutated; a tensor that an `out=` operator writes."""
    tensors = {"as_tensors": [{"name": "x"}, {"name": "y"}]}

    def add_to_parts(x, y):
        x, y = x.clone(), y.clone()
        y[1:] += 2
        return x + 2, y

    functionalized("auto_functionalized_list", (ramp(4), ramp(4, low=2, high=4)), "torch.ops.aten._foreach_add_.Scalar",
                   {"scalar": 2, "_self_length": 2, "_self_0_base_index": 0, "_self_1_base_index": 1, "_self_1_slice_dim": 0,
                    "_self_1_slice_start": 1, "_self_1_slice_end": 4, "_all_bases": tensors},
                   {"nothing": None, "first": "x", "second": "y"}, add_to_parts)

    wide = ramp(6)
    functionalized("auto_functionalized_gaps", (wide[::2], ramp(3)), "torch.ops.aten._foreach_add_.List",
                   {"other": {"as_tensors": [{"name": "y"}]}, "alpha": 1, "_self_length": 1, "_self_0_base_index": 0,
                    "_self_0_size": {"as_ints": [3]}, "_self_0_stride": {"as_ints": [2]}, "_self_0_storage_offset": 0,
                    "_all_bases": tensors},
                   {"nothing": None, "first": "x", "second": "y"}, lambda x, y: (x + y, y))


def untraced():
    """Calls of modules without a stack trace, as other exporters write them; every other node has an empty one."""
    def edit(program):
        for i, node in enumerate(program["graph_module"]["graph"]["nodes"]):
            if i % 2:
                node["metadata"]["stack_trace"] = ""
            else:
                node["metadata"].pop("stack_trace", None)

    rewrite("loops.pt2", "untraced.pt2", change_json("models/", edit))
    for side in ("inputs", "outputs"):
        with open(f"loops.{side}.safetensors", "rb") as source, open(f"untraced.{side}.safetensors", "wb") as target:
            target.write(source.read())


def hints_kinds():
    """Every remaining argument kind of the schema, as values of a hint that the program carries along unread."""
    args = ramp(3, 4), ramp(3, 4)
    torch.manual_seed(0)
    write("hints_kinds", torch.export.export(Hints().eval(), args, strict=True), args)
    kinds = {
        "strings": {"as_strings": ["a", "b"]}, "bools": {"as_bools": [True, False]}, "floats": {"as_floats": []},
        "infinite": {"as_floats": [1.5, "Infinity", "-Infinity", "NaN"]}, "none": {"as_none": True},
        "int_lists": {"as_int_lists": [[1, 2], [], [-9223372036854775808]]}, "big": {"as_int": 9223372036854775807},
        "float_lists": {"as_float_lists": [[0.5, "NaN"], []]}, "complex": {"as_complex": {"real": 1.0, "imag": -2.5}},
        "nested": {"as_nested_tensors": [[{"name": "x"}, {"name": "y"}], []]},
        "inner": {"as_string_to_argument": {"deep": {"as_string_to_argument": {"layout": {"as_layout": 7}}}}},
        "sym_ints": {"as_sym_ints": [{"as_int": 1}]}, "sym_floats": {"as_sym_floats": [{"as_float": 0.5}]},
        "sym_bools": {"as_sym_bools": [{"as_bool": True}]}, "format": {"as_memory_format": 2},
        "dtype": {"as_scalar_type": 13}, "device": {"as_device": {"type": "cpu", "index": None}},
        "optional": {"as_optional_tensors": [{"as_tensor": {"name": "x"}}, {"as_none": True}]},
        "operator": {"as_operator": "torch.ops.aten.relu.default"},
    }

    def edit(program):
        for node in program["graph_module"]["graph"]["nodes"]:
            if node["target"].endswith("hints_wrapper"):
                node["inputs"][-1]["arg"]["as_string_to_argument"].update(kinds)

    rewrite("hints_kinds.pt2", "hints_kinds.pt2", change_json("models/", edit))


def failing_inputs():
    """For asserts.pt2 and ranges.pt2: inputs that a check refuses while running, or before."""
    save_leaves("asserts.small_n.inputs.safetensors", "in", [ramp(3, low=0.5), torch.tensor(1)])
    save_leaves("asserts.large_x.inputs.safetensors", "in", [ramp(3, low=0.5, high=200), torch.tensor(3)])
    save_leaves("ranges.above.inputs.safetensors", "in", [ramp(17, 2), ramp(35, 2), ramp(8)])
    save_leaves("ranges.derived.inputs.safetensors", "in", [ramp(5, 2), ramp(10, 2), ramp(8)])
    save_leaves("ranges.multiple.inputs.safetensors", "in", [ramp(4, 2), ramp(9, 2), ramp(10)])


def layouts():
    """The archive again as other zip writers leave it: deflated and unaligned; renamed; without sample inputs."""
    args = (ramp(2, 3),)
    write("plain", export(Base, *args), args)
    with zipfile.ZipFile("plain.pt2") as src, zipfile.ZipFile("deflated.pt2", "w", zipfile.ZIP_DEFLATED) as dst:
        for item in src.infolist():
            dst.writestr(zipfile.ZipInfo(item.filename, (1980, 1, 1, 0, 0, 0)), src.read(item),
                         zipfile.ZIP_DEFLATED)
    rewrite("plain.pt2", "no_samples.pt2", lambda n, d: b"" if "sample_inputs" in n else d)
    for name in ("deflated", "no_samples"):
        write_sides(name, torch.export.load("plain.pt2").module(), args)


MAKERS = {f.__name__: f for f in (several, subclass, draft, cuda, aoti, crafted, auto_functionalized, functionalized_kinds, hints_kinds, untraced,
                                failing_inputs, layouts)}


def main():
    torch.set_num_threads(1)
    for name in sys.argv[1:] or MAKERS:
        try:
            MAKERS[name]()
        except Exception as error:
            print(f"FAILED {name}: {type(error).__name__}: {str(error)[:600]}", file=sys.stderr)


if __name__ == "__main__":
    main()
