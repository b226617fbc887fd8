#!/usr/bin/env python3
"""The Python recorder: reading back what it wrote equals what hooks of our own saw. Exit 77 without torch.

Usage: recorder_test.py RECORDERS [REFERENCE]   REFERENCE: a directory of model sources with build() and inputs()
"""
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import struct
import sys
import tempfile
import unittest
import warnings

try:
    import torch
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
try:
    from safetensors import safe_open
except ImportError:
    safe_open = None

HERE = pathlib.Path(__file__).resolve().parent
RECORDERS = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else HERE
REFERENCE = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else None
sys.path[:0] = [str(RECORDERS), str(HERE)]
import recorder_models as models  # noqa: E402
import torchlens_recorder  # noqa: E402
from torchlens_recorder import record, tap  # noqa: E402


DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
          "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool",
          "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "F8_E8M0": "float8_e8m0fnu",
          "F8_E4M3FNUZ": "float8_e4m3fnuz", "F8_E5M2FNUZ": "float8_e5m2fnuz"}


def load_tensors(path):
    """{name: tensor} of a safetensors file by the letter of the format; the ordinary library, where it is, must agree."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for key, entry in json.loads(data[8:8 + length]).items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        block = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8) if end > begin else torch.empty(0, dtype=torch.uint8)
        tensors[key] = block.view(getattr(torch, DTYPES[entry["dtype"]])).reshape(entry["shape"])
    if safe_open is not None:
        with safe_open(str(path), "pt") as opened:
            assert sorted(opened.keys()) == sorted(tensors)
            for key in opened.keys():
                assert opened.get_tensor(key).dtype == tensors[key].dtype and opened.get_tensor(key).shape == tensors[key].shape
    return tensors


def load(directory):
    """(manifest, {key: tensor}) of a recording, every file held against what the manifest says of it."""
    directory = pathlib.Path(directory)
    manifest = json.loads((directory / "manifest.json").read_text())
    assert sorted(os.listdir(directory)) == sorted(["manifest.json"] + [file["name"] for file in manifest["files"]])
    tensors = {}
    for file in manifest["files"]:
        path = directory / file["name"]
        assert path.stat().st_size == file["bytes"], file
        found = load_tensors(path)
        assert not found.keys() & tensors.keys()
        tensors.update(found)
    return manifest, tensors


def entries_of(manifest, **wanted):
    return [entry for entry in manifest["entries"] if all(entry[key] == value for key, value in wanted.items())]


def tensors_in(value):
    """Leaves of our own walk, in order: a second opinion on the recorder's."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in tensors_in(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in tensors_in(item)]
    if hasattr(value, "__dataclass_fields__"):
        return [leaf for name in value.__dataclass_fields__ for leaf in tensors_in(getattr(value, name))]
    return []


class Witness:
    """Hooks that keep a copy of every tensor a module returns, by (address, call)."""

    def __init__(self, model):
        self.seen, self.calls, self.handles = [], {}, []
        for name, module in model.named_modules():
            self.handles.append(module.register_forward_hook(self.hook(name or "self")))

    def hook(self, name):
        def keep(module, args, output):
            self.calls[name] = self.calls.get(name, 0) + 1
            self.seen.append((name, self.calls[name], [leaf.detach().clone() for leaf in tensors_in(output)]))
        return keep

    def remove(self):
        for handle in self.handles:
            handle.remove()


class InTemporary(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        self.path = self.directory / "ref.tlspec"
        torch.manual_seed(0)

    def tearDown(self):
        shutil.rmtree(self.directory)

    def record(self, model, *args, options={}, **kwargs):
        with record(model, self.path, force=True, **options):
            model(*args, **kwargs)
        return load(self.path)

    def same(self, left, right):
        self.assertEqual((left.dtype, tuple(left.shape)), (right.dtype, tuple(right.shape)))
        if left.numel():
            as_bytes = [tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (left, right)]
            self.assertTrue(torch.equal(*as_bytes))

    def against_witness(self, model, *args, **kwargs):
        """Records `model` beside a witness and compares every tensor of every call."""
        witness = Witness(model)
        try:
            manifest, tensors = self.record(model, *args, **kwargs)
        finally:
            witness.remove()
        for name, call, leaves in witness.seen:
            found = [entry for entry in entries_of(manifest, kind="module", name=name, call=call) if "shape" in entry]
            self.assertEqual(len(found), len(leaves), (name, call))
            for entry, leaf in zip(found, leaves):
                self.same(tensors[entry["key"]], leaf)
        self.assertEqual(sum("shape" in entry for entry in entries_of(manifest, kind="module")),
                         sum(len(leaves) for *_, leaves in witness.seen))
        return manifest, tensors


warnings.simplefilter("ignore")


class Outputs(InTemporary):
    def test_every_call_and_nested_outputs(self):
        model = models.Nested()
        x = torch.randn(4, 8)
        batch = {"bias": torch.randn(8)}
        manifest, tensors = self.against_witness(model, x, mask=torch.rand(4, 8) > 0.5, batch=batch, scale=0.25)
        self.assertEqual([entry["call"] for entry in entries_of(manifest, name="shared")], [1, 2, 3, 4])
        self.assertEqual([entry["path"] for entry in entries_of(manifest, name="pack")],
                         ["out", "parts.0", "parts.1.0", "parts.1.1", "pair.left", "pair.right", "block.hidden", "block.weights.0"])
        self.assertEqual(entries_of(manifest, name="pack", path="parts.1.1")[0]["scalar"], "null")
        self.assertEqual(entries_of(manifest, name="pack", path="pair.right")[0]["scalar"], "3")
        self.assertIn("pack:1/parts.1.0", tensors)
        self.assertIn("blocks.1.proj:1", tensors)

    def test_inputs_by_name(self):
        model = models.Nested()
        x, batch = torch.randn(2, 8), {"bias": torch.randn(8)}
        manifest, tensors = self.record(model, x, None, batch, scale=2, options={"inputs": self.directory / "x.safetensors"})
        inputs = entries_of(manifest, kind="input")
        self.assertEqual([(entry["name"], entry["path"]) for entry in inputs],
                         [("x", ""), ("mask", ""), ("batch", "bias"), ("scale", "")])
        self.assertEqual(inputs[3]["scalar"], "2")
        self.same(tensors["input/x:1"], x)
        self.same(tensors["input/batch:1/bias"], batch["bias"])
        written = load_tensors(self.directory / "x.safetensors")
        self.assertEqual(sorted(written), ["batch.bias", "scale", "x"])
        self.same(written["batch.bias"], batch["bias"])
        self.assertEqual(written["scale"].item(), 2)

    def test_values_are_those_at_production(self):
        self.against_witness(models.InPlace(), torch.randn(3, 4))

    def test_element_types_and_layouts(self):
        x = torch.tensor([[0.5, -1.5, 2.0, 0.25], [1.0, 0.0, -2.0, 4.0], [3.0, -0.5, 0.125, 1.5]])
        for name, make in models.odd_tensors():
            with self.subTest(name):
                manifest, tensors = self.record(models.Give(make), x)
                entry = entries_of(manifest, kind="module")[0]
                self.assertNotIn("skipped", entry)
                value = make(x)
                self.assertEqual(entry["shape"], list(value.shape))
                self.check_value(entry, tensors, value)

    def check_value(self, entry, tensors, value):
        key = entry["key"]
        if entry["encoding"] == "quantised":
            self.same(tensors[key], value.int_repr())
            per_channel = key + ".axis" in tensors
            scale = value.q_per_channel_scales() if per_channel else torch.tensor(value.q_scale(), dtype=torch.float64)
            self.same(tensors[key + ".scale"], scale)
        elif entry["encoding"] == "sparse":
            value = value.coalesce() if value.layout is torch.sparse_coo else value
            self.same(tensors[key + ".values"], value.values())
        elif entry["encoding"] == "pairs":
            parts = tensors[key].to(torch.float64)
            self.assertTrue(torch.equal(torch.view_as_complex(parts), value.to(torch.complex128)))
        else:
            self.same(tensors[key], value.resolve_conj().resolve_neg().detach())

    def test_what_has_no_bytes_is_named(self):
        nested = models.Give(lambda x: torch.nested.nested_tensor([x, x[:1]]))
        manifest, tensors = self.record(nested, torch.randn(2, 3))
        self.assertIn("skipped", entries_of(manifest, kind="module")[0])
        manifest, _ = self.record(models.Give(lambda x: x.to("meta")), torch.randn(2, 3))
        self.assertIn("meta", entries_of(manifest, kind="module")[0]["skipped"])
        manifest, _ = self.record(models.Give(lambda x: [object(), x]), torch.randn(2, 3))
        self.assertEqual(entries_of(manifest, kind="module")[0]["skipped"], "a object is no tensor")

    def test_a_strange_tensor_does_not_stop_the_model(self):
        class Strange(torch.Tensor):
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                if function.__name__ in ("detach", "to", "contiguous", "reshape"):
                    raise AttributeError("no such thing")
                return super().__torch_function__(function, types, args, kwargs or {})
        manifest, _ = self.record(models.Give(lambda x: x.as_subclass(Strange)), torch.ones(2))
        self.assertEqual(entries_of(manifest, kind="module")[0]["skipped"], "no such thing")

    def test_keys_that_collide_stay_apart(self):
        manifest, tensors = self.record(models.Give(lambda x: {"0": x * 1, 0: x + 1, "a": {"b": x * 1}, "a.b": x + 2}), torch.ones(2))
        keys = [entry["key"] for entry in entries_of(manifest, kind="module")]
        self.assertEqual(len(set(keys)), 4)
        self.assertEqual([tensors[key][0].item() for key in keys], [1, 2, 1, 3])

    def test_a_value_is_stored_once(self):
        model = torch.nn.Sequential(torch.nn.Sequential(torch.nn.Linear(3, 3)))
        manifest, tensors = self.record(model, torch.randn(2, 3))
        outputs = entries_of(manifest, kind="module")
        self.assertEqual([(entry["name"], entry["key"]) for entry in outputs],
                         [("0.0", "0.0:1"), ("0", "0.0:1"), ("self", "0.0:1")])
        self.assertEqual(sorted(tensors), ["0.0:1", "input/input:1"])
        changed = torch.nn.Sequential(torch.nn.Linear(3, 3), models.Give(lambda x: x.add_(1)))
        with torch.no_grad():
            manifest, tensors = self.against_witness(changed, torch.randn(2, 3))
        self.assertEqual([entry["key"] for entry in entries_of(manifest, kind="module")], ["0:1", "1:1", "1:1"])
        with torch.inference_mode():
            self.against_witness(changed, torch.randn(2, 3))

    def test_taps(self):
        model = torch.nn.Linear(3, 3)
        self.assertIs(tap("outside", 3), 3)
        with record(model, self.path):
            x = tap("scaled", torch.ones(2, 3) * 3)
            model(x)
            tap("scaled", {"a": x + 1})
        manifest, tensors = load(self.path)
        self.assertEqual([(entry["name"], entry["call"], entry["path"]) for entry in entries_of(manifest, kind="tap")],
                         [("scaled", 1, ""), ("scaled", 2, "a")])
        self.assertEqual(tensors["tap/scaled:2/a"].sum(), 24)

    def test_many_tensors_go_to_several_files(self):
        model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(400)])
        with record(model, self.path, shard_bytes=4096):
            model(torch.randn(4, 8))
        manifest, tensors = load(self.path)
        self.assertGreater(len(manifest["files"]), 10)
        self.assertEqual(len(tensors), 401)
        for entry in manifest["entries"]:
            self.assertIn(manifest["files"][entry["shard"]]["name"], os.listdir(self.path))

    def test_a_long_name_finds_room(self):
        manifest, tensors = self.record(models.Give(lambda x: {"k" * 40000: x + 1, "l" * 40000: x + 2}), torch.ones(2))
        self.assertEqual(len(tensors), 3)


class Choices(InTemporary):
    def test_match(self):
        manifest, _ = self.record(models.Nested(), torch.randn(2, 8), options={"match": r"^blocks\.\d+$"})
        names = {entry["name"] for entry in entries_of(manifest, kind="module")}
        self.assertEqual(names, {"blocks.0", "blocks.1", "blocks.2", "self"})

    def test_match_without_a_hit_is_an_error_and_leaves_nothing(self):
        with self.assertRaisesRegex(ValueError, "blocks.0"):
            with record(models.Nested(), self.path, match="layers"):
                self.fail("the block ran")
        self.assertEqual(os.listdir(self.directory), [])

    def test_nothing_recorded_is_an_error(self):
        model = torch.nn.Linear(2, 2)
        with self.assertRaisesRegex(RuntimeError, "model.forward"):
            with record(model, self.path):
                model.forward(torch.ones(2))
        self.assertEqual(os.listdir(self.directory), [])

    def test_what_takes_no_hooks_is_refused(self):
        with self.assertRaisesRegex(TypeError, "torchlens trace"):
            record(torch.jit.script(torch.nn.Linear(2, 2)), self.path)
        with self.assertRaisesRegex(TypeError, "model.module"):
            record(torch.nn.DataParallel(torch.nn.Linear(2, 2)), self.path)

    def test_hooks_are_removed(self):
        model = models.Nested()
        self.record(model, torch.randn(2, 8))
        for module in model.modules():
            self.assertEqual((len(module._forward_hooks), len(module._forward_pre_hooks)), (0, 0))

    def test_an_existing_recording_is_kept_unless_forced(self):
        model = torch.nn.Linear(2, 2)
        self.record(model, torch.ones(2))
        before = (self.path / "manifest.json").read_bytes()
        with self.assertRaises(FileExistsError):
            with record(model, self.path):
                model(torch.ones(2))
        self.assertEqual((self.path / "manifest.json").read_bytes(), before)
        (self.directory / "other").mkdir()
        with self.assertRaisesRegex(FileExistsError, "no recording"):
            with record(model, self.directory / "other", force=True):
                model(torch.ones(2))
        self.assertEqual(sorted(os.listdir(self.directory)), ["other", "ref.tlspec"])

    def test_compiled_names_are_the_plain_ones(self):
        model = torch.nn.Sequential(torch.nn.Linear(3, 3))
        wrapped = torch.compile(model, backend="eager")
        with torch._dynamo.config.patch(disable=True) if hasattr(torch._dynamo.config, "disable") else torch.no_grad():
            manifest, _ = self.record(wrapped, torch.ones(1, 3))
        self.assertTrue({"self", "0"} >= {entry["name"] for entry in entries_of(manifest, kind="module")})
        self.assertEqual([item["address"] for item in manifest["parameters"]], ["0.weight", "0.bias"])

    def test_the_random_state_is_left_alone(self):
        model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(64, 64))
        torch.manual_seed(7)
        plain = model(torch.ones(2, 64))
        manifest, tensors = self.record(model, torch.ones(2, 64), options={"seed": 7})
        self.same(tensors[entries_of(manifest, name="self")[0]["key"]], plain.detach())
        self.assertEqual(manifest["run"]["seed"], "7")
        self.assertEqual(manifest["run"]["mode"], "train")


class Failures(InTemporary):
    def test_the_prefix_is_kept(self):
        model = models.Raises()
        with self.assertRaisesRegex(ValueError, "no luck"):
            with record(model, self.path):
                model(torch.randn(2, 4))
        manifest, tensors = load(self.path)
        outcome = manifest["outcome"]
        self.assertEqual((outcome["status"], outcome["error_type"], outcome["where"]), ("failed", "ValueError", "second:1"))
        self.assertIn("8 elements", outcome["reason"])
        self.assertEqual([entry["name"] for entry in entries_of(manifest, kind="module")], ["first"])
        self.assertEqual(sum(len(module._forward_hooks) for module in model.modules()), 0)

    def test_a_caught_exception_does_not_shift_calls(self):
        model = models.Catches()
        manifest, _ = self.against_witness(model, torch.randn(2, 4))
        self.assertEqual(manifest["outcome"]["status"], "complete")
        self.assertEqual(entries_of(manifest, name="last")[0]["within"], "self:1")

    def test_an_interrupt_is_told_as_one(self):
        model = models.Give(lambda x: (_ for _ in ()).throw(KeyboardInterrupt()))
        with self.assertRaises(KeyboardInterrupt):
            with record(model, self.path):
                model(torch.ones(1))
        self.assertEqual(load(self.path)[0]["outcome"]["status"], "interrupted")


class Facts(InTemporary):
    def test_parameters(self):
        model = models.Nested().to(torch.bfloat16)
        model.embed.weight.requires_grad_(False)
        manifest, _ = self.record(model, torch.randn(2, 8, dtype=torch.bfloat16))
        by_address = {item["address"]: item for item in manifest["parameters"]}
        tied = by_address["embed.weight"]
        self.assertEqual((tied["addresses"], tied["dtype"], tied["shape"], tied["trainable"]),
                         (["embed.weight", "head.weight"], "bf16", [8, 8], False))
        self.assertEqual(by_address["shared.proj.bias"]["addresses"], ["shared.proj.bias", "alias.proj.bias"])
        self.assertEqual(by_address["steps"]["kind"], "buffer")
        self.assertEqual(manifest["run"]["dtype"], "bf16")

    def test_digests_are_xxh3(self):
        # From XXH3_128bits of the C library, 0.8.1, over the bytes 0, 1, 2 … modulo 251.
        known = json.loads((HERE / "xxh3_128.json").read_text())
        for size, expected in known.items():
            data = (torch.arange(int(size)) % 251).to(torch.uint8)
            self.assertEqual(torchlens_recorder.digest(data), expected, size)
        data = (torch.arange(100000) % 251).to(torch.uint8)
        self.assertEqual(torchlens_recorder.digest(data[1:4001]), torchlens_recorder.digest(data[1:4001].clone()))

    def test_digests_are_of_the_elements_in_order(self):
        weight = torch.randn(33, 17)
        self.assertEqual(torchlens_recorder.digest(weight.t()), torchlens_recorder.digest(weight.t().contiguous()))
        self.assertNotEqual(torchlens_recorder.digest(weight.t()), torchlens_recorder.digest(weight))

    def test_source_lines(self):
        manifest, _ = self.record(models.Nested(), torch.randn(2, 8))
        source = (HERE / "recorder_models.py").read_text().splitlines()
        head = entries_of(manifest, name="head")[0]
        self.assertIn("self.pack(self.head(x))", source[head["line"] - 1])
        self.assertEqual((pathlib.Path(head["file"]).name, head["function"]), ("recorder_models.py", "forward"))
        nested = next(module for module in manifest["modules"] if module["address"] == "self")
        self.assertIn("def forward(self, x, mask=None", source[nested["line"] - 1])
        self.assertEqual(nested["qualified_class"], "recorder_models.Nested")
        shared = next(module for module in manifest["modules"] if module["address"] == "shared")
        self.assertEqual((shared["addresses"], shared["calls"]), (["shared", "alias"], 4))

    def test_constants_of_modules(self):
        model = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=(1, 2)), torch.nn.GELU(approximate="tanh"),
                                    torch.nn.LayerNorm(4, eps=1e-6), torch.nn.Dropout(0.25))
        model[3].weights = [0.5] * 17  # no constant: too long to be one
        model[3].scale, model[3].top = torch.ones(1), float("inf")
        manifest, _ = self.record(model, torch.randn(1, 1, 4, 2))
        attributes = {module["address"]: module["attributes"] for module in manifest["modules"]}
        self.assertEqual(attributes["self"], {})
        self.assertEqual({name: attributes["0"][name] for name in ("in_channels", "kernel_size", "padding", "padding_mode")},
                         {"in_channels": "1", "kernel_size": "[3, 3]", "padding": "[1, 2]", "padding_mode": '"zeros"'})
        self.assertEqual(attributes["1"], {"approximate": '"tanh"'})
        self.assertEqual(attributes["2"], {"normalized_shape": "[4]", "eps": "1e-06", "elementwise_affine": "True"})
        self.assertEqual(attributes["3"], {"p": "0.25", "inplace": "False", "top": "inf"})

    def test_the_same_run_gives_the_same_files(self):
        model, x = models.Nested(), torch.randn(2, 8)
        sums = []
        for name in ("a", "b"):
            with record(model, self.directory / name):
                model(x)
            sums.append([hashlib.sha256(path.read_bytes()).hexdigest()
                         for path in sorted((self.directory / name).iterdir())])
        # manifest.json states the line of the call; both calls stand on one line of this file.
        self.assertEqual(sums[0], sums[1])


class ReferenceModels(InTemporary):
    @unittest.skipUnless(REFERENCE is not None and REFERENCE.is_dir(), "no reference models")
    def test_all(self):
        sys.path.insert(0, str(REFERENCE))
        count = 0
        for source in sorted(REFERENCE.glob("*.py")):
            spec = importlib.util.spec_from_file_location("reference_" + source.stem, source)
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            if not hasattr(module, "build") or not hasattr(module, "inputs"):
                continue
            with self.subTest(source.stem):
                model = module.build()
                if not isinstance(model, torch.nn.Module):
                    continue
                manifest, _ = self.against_witness(model, *module.inputs())
                self.assertEqual(manifest["outcome"]["status"], "complete")
                count += 1
        self.assertGreater(count, 5)


if __name__ == "__main__":
    unittest.main(warnings="ignore")
