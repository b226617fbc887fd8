"""Writes exported_facts.json: what torch.export.load says of the reference .pt2 files.

usage: python make_exported_facts.py DIR_OF_REFERENCE_FILES OUTPUT   (torch 2.13)

Nodes are those of the loaded graph without getitem, which the file format does not hold.
"""
import json
import operator
import os
import sys
import warnings
import zlib

import torch
from torch.fx import GraphModule

warnings.filterwarnings("ignore")

# One file a feature; nodes are listed for the first ones only.
DETAILED = ["repeated_calls.pt2", "repeated_calls.strict.pt2", "constants.strict.pt2", "hop_cond.core.pt2",
            "dyn_shape.dyn.pt2", "shared_modules.pt2"]
COUNTED = ["bert_tiny.core.pt2", "bf16_convnet.pt2", "chain500.pt2", "complex_linear.pt2", "containers.pt2",
           "dlrm.pt2", "hop_map.pt2",
           "hop_while_loop.pt2", "input_mutation.core.pt2", "spectral_fft.core.pt2",
           "no_state.pt2", "resnet_narrow.pt2", "train_bn.core.pt2",
           "multi_output.export.pt2", "attention.export.pt2"]


def graphs(module):
    yield module.graph
    for child in module.children():
        if isinstance(child, GraphModule):
            yield from graphs(child)


def target_name(target):
    if isinstance(target, torch._ops.OpOverload):
        return "torch.ops." + str(target)
    if isinstance(target, torch._ops.HigherOrderOperator):
        return "torch.ops.higher_order." + target.name()
    return target.__module__ + "." + target.__name__


def node_facts(node):
    facts = {"target": target_name(node.target)}
    stack = node.meta.get("nn_module_stack")
    if stack:
        key, (path, kind) = list(stack.items())[-1]
        facts["modules"] = len(stack)
        facts["module"] = path
        facts["class"] = kind
        facts["key"] = key
    trace = node.meta.get("stack_trace")
    if trace:
        line = [text for text in trace.splitlines() if text.lstrip().startswith("File ")][-1]
        facts["line"] = int(line.split(", line ")[1].split(",")[0])
    return facts


def tensor_facts(tensor):
    raw = tensor.detach().contiguous().view(torch.uint8) if tensor.dim() else tensor.detach().reshape(1).view(torch.uint8)
    return {"dtype": str(tensor.dtype)[len("torch."):], "sizes": list(tensor.shape), "strides": list(tensor.stride()),
            "offset": tensor.storage_offset(), "crc32": zlib.crc32(raw.numpy().tobytes())}


def spec_facts(spec):
    return {"leaves": spec.num_leaves, "children": [spec_facts(child) for child in spec.children()]}


def program_facts(path, detailed):
    program = torch.export.load(path)
    nodes = [n for g in graphs(program.graph_module) for n in g.nodes
             if n.op == "call_function" and n.target is not operator.getitem]
    counts = {}
    for node in nodes:
        counts[target_name(node.target)] = counts.get(target_name(node.target), 0) + 1
    signature = program.graph_signature
    facts = {
        "dialect": program.verifiers[0].dialect,
        "targets": counts,
        "inputs": [[s.kind.name, s.target or ""] for s in signature.input_specs],
        "outputs": [[s.kind.name, s.target or ""] for s in signature.output_specs],
        "ranges": {str(k): [str(v.lower), str(v.upper)] for k, v in program.range_constraints.items()},
        "in_spec": spec_facts(program.call_spec.in_spec),
        "out_spec": spec_facts(program.call_spec.out_spec),
        "modules": sorted(entry.fqn for entry in program.module_call_graph)[:40],
    }
    state = dict(program.state_dict)
    state.update({k: v for k, v in program.constants.items() if isinstance(v, torch.Tensor)})
    names = sorted(state)[:30]
    facts["payloads"] = {name: tensor_facts(state[name]) for name in names}
    if detailed:
        facts["nodes"] = [node_facts(n) for n in program.graph_module.graph.nodes
                          if n.op == "call_function" and n.target is not operator.getitem]
    return facts


def main():
    sys.path.insert(0, os.path.join(sys.argv[1], "zoo"))
    facts = {}
    for name in DETAILED + COUNTED:
        folder = "reference/artifacts" if ".export." in name else "zoo"
        path = os.path.join(sys.argv[1], folder, name)
        try:
            facts[folder + "/" + name] = program_facts(path, name in DETAILED)
        except Exception as error:
            print("left out:", name, type(error).__name__, str(error)[:100])
    with open(sys.argv[2], "w") as out:
        json.dump(facts, out, indent=None, separators=(",", ":"), sort_keys=True)
        out.write("\n")


main()
