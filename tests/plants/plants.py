"""The faults: what is changed in which file, and the operation that has to be named for it."""
import dataclasses
import math
import typing

import model_file

PLANTS = {}


@dataclasses.dataclass
class Plant:
    name: str
    model: str  # a file of the zoo
    change: typing.Callable  # of a ModelFile
    module: str  # address of the module whose operation is at fault
    func: tuple  # its names in the two formats
    argument: str = ""  # the argument that must be named, where the fault is one
    reduced: int = 2304  # elements that the operation sums; none of these models sums more
    small: bool = False  # part of the everyday run


def plant(name, model, module, func, *, argument="", reduced=2304, small=False):
    def register(change):
        key = f"{name}:{model}"
        assert key not in PLANTS, key
        PLANTS[key] = Plant(key, model, change, module, func, argument, reduced, small)
        return change

    return register


# --- changes of weights ---------------------------------------------------------------------------------------------------


def swap_channels(file, address):
    """The first two output channels that differ change places."""
    weight = file.weights()[address]
    values, size = weight.values(), weight.numel // weight.sizes[0]
    values[:size], values[size:2 * size] = values[size:2 * size], values[:size]
    weight.write(values)


def transpose(file, address):
    weight = file.weights()[address]
    rows, columns = weight.sizes
    assert rows == columns, f"{address} is {rows} x {columns}"
    values = weight.values()
    weight.write([values[column * columns + row] for row in range(rows) for column in range(columns)])


def to_bfloat16(file, address):
    weight = file.weights()[address]
    weight.write([model_file.to_bfloat16(value) for value in weight.values()])


def fill(file, address, value):
    weight = file.weights()[address]
    weight.write([value] * weight.numel)


def permute_channels(file, address):
    """Input channels turned by one: every statistic of the weight stays."""
    weight = file.weights()[address]
    outer, inner = weight.sizes[0], weight.sizes[1]
    size = math.prod(weight.sizes[2:])
    values, turned = weight.values(), []
    for row in range(outer):
        base = row * inner * size
        turned += values[base + size:base + inner * size]
        turned += values[base:base + size]
    weight.write(turned)


def weight_plant(name, change, model, address, module, func, *, small=False, **more):
    plant(name, model, module, func, small=small)(lambda file: change(file, address, **more))


CONV, LINEAR, NORM = ("conv2d", "_convolution", "convolution"), ("linear", "addmm"), ("layer_norm",)
# What reads the statistics, or the statistics themselves where they are rows of their own.
BATCH_NORM = ("batch_norm", "_native_batch_norm_legit_no_training", "buffer")

weight_plant("swapped-channels", swap_channels, "smallconv.ts.pt", "c2.weight", "c2", CONV, small=True)
weight_plant("swapped-channels", swap_channels, "smallconv.pt2", "c2.weight", "c2", CONV, small=True)
weight_plant("swapped-channels", swap_channels, "mobilenet_v2.ts.pt", "features.3.conv.2.weight", "features.3.conv.2", CONV)
weight_plant("swapped-channels", swap_channels, "efficientnet_b0.pt2", "features.3.0.block.0.0.weight", "features.3.0.block.0.0", CONV)
weight_plant("swapped-channels", swap_channels, "diffusion_unet.ts.pt", "conv_in.weight", "conv_in", CONV)
weight_plant("swapped-channels", swap_channels, "shufflenet_v2.trace.pt", "stage2.1.branch2.0.weight", "stage2.1.branch2.0", CONV)
weight_plant("transposed-weight", transpose, "bert_tiny.pt2", "model.encoder.layer.1.attention.self.key.weight",
             "model.encoder.layer.1.attention.self.key", LINEAR, small=True)
weight_plant("transposed-weight", transpose, "bert_tiny.trace.pt", "model.encoder.layer.0.attention.output.dense.weight",
             "model.encoder.layer.0.attention.output.dense", LINEAR, small=True)
weight_plant("bf16-island", to_bfloat16, "bert_tiny.trace.pt", "model.encoder.layer.1.intermediate.dense.weight",
             "model.encoder.layer.1.intermediate.dense", LINEAR, small=True)
weight_plant("bf16-island", to_bfloat16, "bert_tiny.pt2", "model.encoder.layer.1.intermediate.dense.weight",
             "model.encoder.layer.1.intermediate.dense", LINEAR)
weight_plant("bf16-island", to_bfloat16, "resnet_narrow.pt2", "conv1.3.weight", "conv1.3", CONV)
weight_plant("bf16-island", to_bfloat16, "convnext_mini.ts.pt", "features.0.0.weight", "features.0.0", CONV)
weight_plant("dropped-bias", fill, "nn_transformer.pt2", "t.encoder.layers.0.linear1.bias", "t.encoder.layers.0.linear1", LINEAR,
             small=True, value=0.0)
weight_plant("dropped-bias", fill, "diffusion_unet.trace.pt", "time.l1.bias", "time.l1", LINEAR, value=0.0)
weight_plant("dropped-bias", fill, "smallconv.ts.pt", "fc.bias", "fc", LINEAR, value=0.0)
weight_plant("stale-statistics", fill, "resnet_narrow.trace.pt", "conv1.4.running_var", "conv1.4", BATCH_NORM, small=True, value=4.0)
weight_plant("stale-statistics", fill, "mobilenet_v2.ts.pt", "features.1.conv.0.1.running_mean", "features.1.conv.0.1", BATCH_NORM,
             value=0.5)
weight_plant("stale-statistics", fill, "shufflenet_v2.ts.pt", "conv1.1.running_var", "conv1.1", BATCH_NORM, value=3.0)
weight_plant("permuted-channels", permute_channels, "resnet_narrow.pt2", "conv1.3.weight", "conv1.3", CONV, small=True)
weight_plant("permuted-channels", permute_channels, "smallconv.trace.pt", "c2.weight", "c2", CONV)


# --- changes of arguments -------------------------------------------------------------------------------------------------


def set_float(target, argument, value, which):
    """Sets a float argument of occurrence `which` of an operator in the graph of a `.pt2`."""
    seen = []

    def change(node):
        if node["target"] != target:
            return False
        seen.append(node)
        if len(seen) - 1 != which:
            return False
        for given in node["inputs"]:
            if given["name"] == argument:
                given["arg"] = {"as_float": value}
                return True
        node["inputs"].append({"name": argument, "arg": {"as_float": value}, "kind": 2})
        return True

    return change


@plant("wrong-eps", "bert_tiny.pt2", "model.encoder.layer.0.output.LayerNorm", NORM, argument="eps", small=True)
def _(file):
    # Occurrences: embeddings, attention and output of each layer.
    assert file.change_nodes(set_float("torch.ops.aten.layer_norm.default", "eps", 1e-2, 2)) == 1


@plant("wrong-eps", "vit_mini.pt2", "encoder.layers.encoder_layer_1.ln_1", NORM, argument="eps")
def _(file):
    assert file.change_nodes(set_float("torch.ops.aten.layer_norm.default", "eps", 1e-1, 2)) == 1


@plant("wrong-eps", "smallconv.ts.pt", "b2", BATCH_NORM, argument="eps", small=True)
def _(file):
    assert file.replace_in_code("1.0000000000000001e-05, )", "1.0000000000000001e-01, )", "___torch_mangle_1")


@plant("wrong-eps", "convnext_mini.ts.pt", "features.1.0.block.2", NORM, argument="eps")
def _(file):
    old = "_0(input, [16], weight, bias, 9.9999999999999995e-07, )"
    assert file.replace_in_code(old, old.replace("e-07", "e-01")) >= 1


def other_gelu(node, seen):
    if node["target"] != "torch.ops.aten.gelu.default" or seen:
        return False
    seen.append(node)
    node["inputs"].append({"name": "approximate", "arg": {"as_string": "tanh"}, "kind": 2})
    return True


@plant("other-gelu", "vit_mini.pt2", "encoder.layers.encoder_layer_0.mlp.1", ("gelu",), argument="approximate", reduced=1, small=True)
def _(file):
    seen = []
    assert file.change_nodes(lambda node: other_gelu(node, seen)) == 1


@plant("other-gelu", "whisper_encoder.pt2", "model", ("gelu",), argument="approximate", reduced=1)
def _(file):
    seen = []
    assert file.change_nodes(lambda node: other_gelu(node, seen)) == 1


@plant("pad-off-by-one", "smallconv.ts.pt", "c2", CONV, argument="padding", small=True)
def _(file):
    old = "torch.conv2d(input, weight, bias, [2, 2], [0, 0], [1, 1])"
    assert file.replace_in_code(old, old.replace("[0, 0]", "[1, 1]"), "conv/___torch_mangle_0") == 1


@plant("pad-off-by-one", "smallconv.pt2", "c2", CONV, argument="padding")
def _(file):
    seen = []

    def change(node):
        if node["target"] != "torch.ops.aten.conv2d.default":
            return False
        seen.append(node)
        if len(seen) != 2:
            return False
        node["inputs"].append({"name": "padding", "arg": {"as_ints": [1, 1]}, "kind": 2})
        return True

    assert file.change_nodes(change) == 1
