"""Faults planted into files that exist already: weights rewritten, arguments changed in the JSON of an exported program."""
import json
import zipfile

import torch


def middle(items):
    return items[len(items) // 2]


def square(tensor):
    return tensor.dim() == 2 and tensor.shape[0] == tensor.shape[1] and tensor.shape[0] > 1


WEIGHT_FAULTS = {
    "swapped_channels": (lambda name, t: name.endswith("weight") and t.dim() >= 2 and t.shape[0] % 2 == 0,
                         lambda t: t[torch.arange(t.shape[0]) ^ 1]),
    "transposed_weight": (lambda name, t: name.endswith("weight") and square(t), lambda t: t.t()),
    "dropped_bias": (lambda name, t: name.endswith("bias") and t.abs().max() > 1e-3, lambda t: t * 0),
    "stale_statistics": (lambda name, t: name.endswith("running_mean") and t.abs().max() > 1e-3, lambda t: t * 0),
    "permuted_channels": (lambda name, t: name.endswith("weight") and t.dim() >= 2 and t.shape[0] > 2, lambda t: t.flip(0)),
}


def plant_weight(path, target, fault):
    """Rewrites one tensor of a TorchScript file; returns the module it belongs to, None where the file has none that fits."""
    fits, change = WEIGHT_FAULTS[fault]
    model = torch.jit.load(str(path), map_location="cpu")
    tensors = [(name, t) for name, t in list(model.named_parameters()) + list(model.named_buffers())
               if t.is_floating_point() and fits(name, t)]
    if not tensors:
        return None
    name, tensor = middle(tensors)
    with torch.no_grad():
        tensor.copy_(change(tensor.clone()))
    model.save(str(target))
    return name.rpartition(".")[0]


def rewrite_json(path, target, change):
    """Copies an exported program with its model JSON changed; False where change() found nothing to change."""
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as output:
        found = False
        for entry in source.infolist():
            content = source.read(entry)
            if entry.filename.endswith("models/model.json"):
                document = json.loads(content)
                found = change(document)
                content = json.dumps(document).encode()
            output.writestr(entry.filename, content)
    return found


def plant_argument(path, target, operator, argument, value):
    """Changes an argument of the middle call of `operator`; returns the module path it stands in, None if there is no such call."""
    place = []

    def change(document):
        nodes = [node for node in document["graph_module"]["graph"]["nodes"] if operator in node["target"]]
        if not nodes:
            return False
        node = middle(nodes)
        for given in node["inputs"]:
            if given["name"] == argument:
                given["arg"] = value
                break
        else:
            node["inputs"].append({"name": argument, "arg": value, "kind": 2})
        stack = node["metadata"].get("nn_module_stack", "")
        paths = [part.split(",")[1] for part in stack.split(";") if part.count(",") >= 2]
        place.append(paths[-1] if paths else "")
        return True

    return place[0] if rewrite_json(path, target, change) else None


WEIGHT_MODELS = ["resnet_narrow", "timm_vit", "unet", "swin_mini", "mobilenet_v3_small", "shufflenet_v2", "whisper_encoder",
                 "vit_mini", "timm_efficientnet", "moe_dense"]
ARGUMENT_FAULTS = [
    ("resnet_narrow.pt2", "batch_norm", "eps", {"as_float": 0.05}),
    ("timm_vit.pt2", "layer_norm", "eps", {"as_float": 0.05}),
    ("unet.pt2", "group_norm", "eps", {"as_float": 0.05}),
    ("swin_mini.pt2", "layer_norm", "eps", {"as_float": 0.05}),
    ("whisper_encoder.pt2", "scaled_dot_product_attention", "is_causal", {"as_bool": True}),
    ("vit_mini.pt2", "layer_norm", "eps", {"as_float": 0.05}),
]
