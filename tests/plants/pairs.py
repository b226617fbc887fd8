"""Pairs of files that compute the same, and what a comparison has to say of them."""
import json
import random
import re

import model_file
import plants

# --- the same model, exported in two ways ---------------------------------------------------------------------------------

CLEAN = [
    ("smallconv.ts.pt", "smallconv.trace.pt"), ("smallconv.ts.pt", "smallconv.pt2"), ("smallconv.pt2", "smallconv.core.pt2"),
    ("resnet_narrow.ts.pt", "resnet_narrow.trace.pt"), ("resnet_narrow.trace.pt", "resnet_narrow.pt2"),
    ("bert_tiny.trace.pt", "bert_tiny.pt2"), ("gpt2_tiny.trace.pt", "gpt2_tiny.pt2"), ("vit_mini.ts.pt", "vit_mini.pt2"),
    ("convnext_mini.ts.pt", "convnext_mini.pt2"), ("mobilenet_v2.ts.pt", "mobilenet_v2.pt2"),
    ("shufflenet_v2.trace.pt", "shufflenet_v2.pt2"),
    ("lstm_classifier.ts.pt", "lstm_classifier.pt2"), ("moe_dense.ts.pt", "moe_dense.pt2"),
    ("efficientnet_b0.ts.pt", "efficientnet_b0.pt2"), ("timm_vit.trace.pt", "timm_vit.pt2"),
    ("whisper_encoder.trace.pt", "whisper_encoder.pt2"), ("vit_mini.core.pt2", "vit_mini.pt2"),
    # Layers that one side does in one fused operation, padding masks written by views, operators taken apart, constants.
    ("nn_transformer.ts.pt", "nn_transformer.pt2"), ("nn_transformer.trace.pt", "nn_transformer.pt2"),
    ("diffusion_unet.ts.pt", "diffusion_unet.pt2"), ("swin_mini.ts.pt", "swin_mini.pt2"),
    ("transformer_encoder.ts.pt", "transformer_encoder.pt2"), ("transformer_encoder.ts.pt", "transformer_encoder.core.pt2"),
    ("constants.ts.pt", "constants.pt2"), ("vmap_inside.trace.pt", "vmap_inside.pt2"), ("gpt2_tiny.pt2", "gpt2_tiny.core.pt2"),
    ("bert_tiny.trace.pt", "bert_tiny.core.pt2"), ("random_ops.ts.pt", "random_ops.core.pt2"),
]
SMALL_CLEAN = 3

# --- modules under other names --------------------------------------------------------------------------------------------

RENAMED = ["smallconv.ts.pt", "bert_tiny.pt2", "smallconv.pt2", "mobilenet_v2.ts.pt", "vit_mini.pt2", "resnet_narrow.trace.pt",
           "convnext_mini.ts.pt"]
SMALL_RENAMED = 2


def rename_modules(file, seed):
    """Gives every named part of the module tree another name of the same length; returns {old: new}."""
    parts = {part for address in file.weights() for part in address.split(".")[:-1] if not part.isdigit()}
    rng, names = random.Random(seed), {}
    for part in sorted(parts):
        while True:
            new = "q" + "".join(rng.choice("abcdefghijklmnopqrstuvwxyz0123456789") for _ in range(len(part) - 1))
            if new not in parts and new not in names.values() and new != part:
                break
        names[part] = new
    (rename_exported if file.exported else rename_script)(file, names)
    return names


def renamed(address, names):
    return ".".join(names.get(part, part) for part in address.split("."))


def rename_script(file, names):
    attribute = re.compile(rb"\b(" + b"|".join(name.encode() for name in names) + rb")\b")
    for name, data in file.entries.items():
        if name.endswith(".py"):
            file.entries[name] = b"\n".join(rename_line(line, attribute, names) for line in data.split(b"\n"))
        elif name.endswith("/data.pkl"):
            for old, new in names.items():
                length = len(old).to_bytes(4, "little")
                data = data.replace(b"X" + length + old.encode(), b"X" + length + new.encode())
            file.entries[name] = data


def rename_line(line, attribute, names):
    """Attributes of modules, and the local names that the serialiser takes from them; not parts of qualified names."""
    def replace(match):
        before = line[:match.start()]
        if before.endswith(b".") and not re.search(rb"(^|[^\w.])(self|\w+)\.$", before):
            return match.group()
        if re.search(rb"(__torch__|torch)[\w.]*\.$", before) or line[match.end():match.end() + 1] == b"(" and before.endswith(b"."):
            return match.group()
        return names[match.group().decode()].encode()

    return attribute.sub(replace, line)


def rename_exported(file, names):
    for ending in ("/model_weights_config.json", "/model_constants_config.json"):
        entry = file._named(ending)
        config = json.loads(file.entries[entry])
        config["config"] = {renamed(address, names): item for address, item in config["config"].items()}
        file.entries[entry] = json.dumps(config).encode()

    def visit(value):
        if isinstance(value, dict):
            for key, item in value.items():
                if key == "nn_module_stack" and isinstance(item, str):
                    value[key] = ";".join(rename_frame(frame, names) for frame in item.split(";"))
                elif key in ("parameter_name", "buffer_name", "tensor_constant_name") and isinstance(item, str):
                    value[key] = renamed(item, names)
                else:
                    visit(item)
        elif isinstance(value, list):
            for item in value:
                visit(item)

    program = file._program()
    visit(program)
    file.entries[file._named("/models/model.json")] = json.dumps(program).encode()


def rename_frame(frame, names):
    """key,path,class"""
    key, path, rest = frame.split(",", 2)
    return ",".join([re.sub(r"\w+", lambda word: names.get(word.group(), word.group()), key), renamed(path, names), rest])


# --- graphs of another form -----------------------------------------------------------------------------------------------


def insert_second_relu(file):
    """A relu behind the first relu: its value stays."""
    program = file._program()
    graph = program["graph_module"]["graph"]
    at = next(i for i, node in enumerate(graph["nodes"]) if node["target"] == "torch.ops.aten.relu.default")
    node = graph["nodes"][at]
    name = node["outputs"][0]["as_tensor"]["name"]
    added = json.loads(json.dumps(node))
    added["name"] = added["outputs"][0]["as_tensor"]["name"] = name + "_again"
    added["inputs"][0]["arg"]["as_tensor"]["name"] = name

    def visit(value):
        if isinstance(value, dict):
            if set(value) == {"name"} and value["name"] == name:
                value["name"] = name + "_again"
            for item in value.values():
                visit(item)
        elif isinstance(value, list):
            for item in value:
                visit(item)

    visit(graph["nodes"][at + 1:])
    graph["nodes"].insert(at + 1, added)
    graph["tensor_values"][name + "_again"] = graph["tensor_values"][name]
    file.entries[file._named("/models/model.json")] = json.dumps(program).encode()


def exchange(file, first, second):
    weights = file.weights()
    values = weights[first].values(), weights[second].values()
    weights[first].write(values[1])
    weights[second].write(values[0])


# --- weights whose elements are the same, or nearly ---------------------------------------------------------------------------

QUERY = "model.encoder.layer.0.attention.self.query.weight"
ATTENTION_OUTPUT = "model.encoder.layer.0.attention.output.dense.weight"


def blocks_in_order(file, address, order, axis=0):
    """As many blocks of rows (or columns) as `order` has numbers, each in the place that it has there."""
    weight = file.weights()[address]
    values, rows = weight.values(), weight.sizes[0]
    width = weight.numel // rows
    if axis == 0:
        size = rows // len(order) * width
        weight.write([value for block in order for value in values[block * size:(block + 1) * size]])
    else:
        size = width // len(order)
        weight.write([value for row in range(rows) for block in order
                      for value in values[row * width + block * size:row * width + (block + 1) * size]])


# (model, weight, change, what the report says of it)
WEIGHTS = [
    ("bert_tiny.pt2", QUERY, lambda *of: blocks_in_order(*of, [0, 2, 1, 3]), "heads of 8 rows in another order: 0 2 1 3"),
    ("bert_tiny.trace.pt", QUERY, lambda *of: blocks_in_order(*of, [2, 3, 0, 1]), "heads of 8 rows in another order: 2 3 0 1"),
    ("bert_tiny.pt2", ATTENTION_OUTPUT, lambda *of: blocks_in_order(*of, [0, 2, 1, 3], axis=1),
     "heads of 8 columns in another order: 0 2 1 3"),
    ("lstm_classifier.ts.pt", "rnn.weight_ih_l0", lambda *of: blocks_in_order(*of, [0, 2, 1, 3]),
     "gates of 16 rows in another order: 0 2 1 3"),
    ("lstm_classifier.pt2", "rnn.bias_hh_l0", lambda *of: blocks_in_order(*of, [1, 0, 2, 3]),
     "gates of 16 elements in another order: 1 0 2 3"),
    ("bert_tiny.pt2", QUERY, plants.transpose, "transposed"),
    ("smallconv.pt2", "c2.weight", plants.swap_channels, "output channels 0 and 1 of 16 exchanged"),
    ("resnet_narrow.trace.pt", "conv1.3.weight", plants.permute_channels, "input channels turned by 1"),
    ("smallconv.ts.pt", "fc.bias", lambda *of: plants.fill(*of, 0.0), "0 throughout"),
    ("smallconv.trace.pt", "fc.weight", plants.to_bfloat16, "rounded to bf16"),
]
SMALL_WEIGHTS = 1
