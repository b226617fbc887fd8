#!/usr/bin/env python3
"""The one-file reader against `torchlens show --json` and the ordinary safetensors library. Exit 77 without numpy.

Usage: reader_test.py --torchlens FILE --text-to-tlspec FILE --recorders DIR --golden-inputs DIR --zoo DIR
"""
import argparse
import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError as missing:
    print("skipped: %s" % missing)
    sys.exit(77)
try:
    import safetensors.torch
    import torch
except ImportError:
    torch = None

PARSER = argparse.ArgumentParser()
for option in ("--torchlens", "--text-to-tlspec", "--recorders", "--golden-inputs", "--zoo"):
    PARSER.add_argument(option, type=pathlib.Path)
OPTIONS = PARSER.parse_args()
HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(OPTIONS.recorders), str(HERE)]
from torchlens_reader import open_recording  # noqa: E402


def show(recording, *arguments):
    done = subprocess.run([OPTIONS.torchlens, "show", recording, *arguments, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class InTemporary(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())

    def tearDown(self):
        shutil.rmtree(self.directory)


class Traces(InTemporary):
    def compare_with_show(self, recording):
        run = open_recording(recording)
        self.assertEqual(run.kind, "trace")
        layers = show(recording, "--layers")["layers"]
        rows = run.rows("layers")
        self.assertEqual([row["layer_label"] for row in rows], [layer["layer_label"] for layer in layers])
        self.assertEqual([row["layer_type"] for row in rows], [layer["layer_type"] for layer in layers])
        self.assertEqual([row["num_passes"] for row in rows], [layer["num_passes"] for layer in layers])
        ops = {op["label"]: op for op in run.rows("ops")}
        for layer in layers:
            first = layer["layer_label"] if layer["layer_label"] in ops else layer["layer_label"] + ":1"
            self.assertEqual(ops[first]["shape"], layer["shape"], first)
            self.assertEqual(ops[first]["dtype"], layer["dtype"], first)
        return run, ops

    def test_golden_recordings(self):
        count = 0
        for source in sorted(OPTIONS.golden_inputs.glob("*.trace")):
            with self.subTest(source.name):
                recording = self.directory / (source.stem + ".tlspec")
                subprocess.run([OPTIONS.text_to_tlspec, source, recording], check=True)
                if json.loads((recording / "manifest.json").read_text())["kind"] == "sparse":
                    with self.assertRaisesRegex(ValueError, "torchlens finish"):
                        open_recording(recording)
                    recording = self.finished(recording)
                run, ops = self.compare_with_show(recording)
                for name in run.tables:
                    self.assertIsInstance(run.table(name), dict)
                self.assertEqual(sorted(run.labels), sorted(ops))
                count += 1
        self.assertGreater(count, 0)

    def finished(self, sparse):
        trace = self.directory / "finished.tlspec"
        subprocess.run([OPTIONS.torchlens, "finish", sparse, "-o", trace], check=True, capture_output=True)
        return trace

    def test_a_model(self):
        """Every saved value of real models, bf16 and complex among them, against safetensors and show."""
        if torch is None:
            self.skipTest("no torch and safetensors")
        names = ["bf16_convnet.ts.pt", "complex_linear.ts.pt", "lstm_classifier.trace.pt", "spectral_fft.pt2"]
        models = [OPTIONS.zoo / name for name in names if (OPTIONS.zoo / name).exists()]
        if not models:
            self.skipTest("no models")
        for model in models:
            with self.subTest(model.name):
                recording = self.directory / (model.stem + ".tlspec")
                done = subprocess.run(
                    [OPTIONS.torchlens, "trace", model, "--input", OPTIONS.zoo / (model.name.split(".")[0] + ".inputs.safetensors"),
                     "-o", recording, "--save", "all"], capture_output=True, text=True)
                if "engine_missing" in done.stderr:
                    self.skipTest("no engine")
                self.assertEqual(done.returncode, 0, done.stderr)
                self.compare_values(recording)

    def compare_values(self, recording):
        run, ops = self.compare_with_show(recording)
        tensors = {}
        for path in recording.glob("tensors-*.safetensors"):
            tensors.update(safetensors.torch.load_file(path))
        plain = {"f32", "f64", "f16", "bf16", "i64", "i32", "bool", "c64"}
        checked = 0
        for label in run.saved_labels():
            value = run.tensor(label)
            self.assertEqual(list(value.shape), ops[label]["shape"], label)
            if label in tensors and ops[label]["dtype"] in plain and tensors[label].shape == value.shape:
                expected = tensors[label]
                expected = expected.float() if ops[label]["dtype"] == "bf16" else expected
                numpy.testing.assert_array_equal(value, expected.numpy())
                checked += 1
        self.assertGreater(checked, 3)
        addresses = run.table("modules")["address"]
        for call in run.rows("module_calls"):
            if call["output_op"] >= 0:
                label = run.module_output(addresses[call["module"]], call["call_index"])
                self.assertEqual(label, run.labels[call["output_op"]])


class Dumps(InTemporary):
    def test_python_recorder(self):
        if torch is None:
            self.skipTest("no torch")
        import recorder_models as models
        from torchlens_recorder import record, tap
        x = torch.tensor([[0.5, -1.5, 2.0, 0.25], [1.0, 0.0, -2.0, 4.0], [3.0, -0.5, 0.125, 1.5]])
        for name, make in models.odd_tensors():
            if name == "complex32":
                continue  # numpy has no such type to compare with
            with self.subTest(name):
                path = self.directory / name
                with record(models.Give(make), path):
                    tap("value", make(x))
                run = open_recording(path)
                value = make(x)
                expected = value.dequantize() if value.is_quantized else value
                expected = expected.to_dense() if expected.layout is not torch.strided else expected
                expected = expected.resolve_conj().resolve_neg().detach()
                if "float8" in name or name == "bfloat16":
                    expected = expected.float()
                numpy.testing.assert_allclose(run.tensor("tap/value:1"), expected.numpy(), rtol=1e-6)

    def test_cpp_recorder(self):
        compiler = shutil.which("c++") or shutil.which("g++")
        if compiler is None:
            self.skipTest("no compiler")
        program = self.directory / "program"
        subprocess.run([compiler, "-std=c++17", "-I", OPTIONS.recorders, HERE / "dump_program.cpp", "-o", program], check=True)
        subprocess.run([program, self.directory / "run.tlspec"], check=True, capture_output=True)
        run = open_recording(self.directory / "run.tlspec")
        self.assertEqual(run.kind, "dump")
        numpy.testing.assert_array_equal(run.tensor("blocks.0:2"), numpy.arange(6, dtype=numpy.float32).reshape(2, 3).T)
        numpy.testing.assert_array_equal(run.tensor("halves"), numpy.array([1, -2], numpy.float32))
        self.assertEqual(run.tensor("empty").shape, (0, 4))
        self.assertEqual(run.table("entries")["name"][0], "x")


class CrossFormat(InTemporary):
    """Eager models beside the files made of them: every recorded module output is the one that the file computes."""

    # Tracing ran the model, so this file holds a buffer that the model writes as that run left it.
    DIFFERENT = {"buffers_bn.trace.pt"}

    def test_reference_models(self):
        reference = OPTIONS.zoo.parent / "reference"
        if torch is None or not reference.is_dir():
            self.skipTest("no torch or no reference models")
        sys.path.insert(0, str(reference))
        files = 0
        for source in sorted(reference.glob("*.py")):
            module = importlib.import_module(source.stem)
            if not hasattr(module, "build") or not isinstance(module.build(), torch.nn.Module):
                continue
            for file in sorted((reference / "artifacts").glob(source.stem + ".*.pt*")):
                if file.suffix in (".pt", ".pt2") and file.name not in self.DIFFERENT:
                    with self.subTest(file.name):
                        self.compare(module, file)
                        files += 1
        self.assertGreater(files, 20)

    def compare(self, module, file):
        from torchlens_recorder import record
        model, inputs = module.build(), self.directory / "x.safetensors"
        with torch.no_grad(), record(model, self.directory / "ref.tlspec", inputs=inputs, force=True):
            model(*module.inputs())
        traced = self.directory / "run.tlspec"
        done = subprocess.run([OPTIONS.torchlens, "trace", file, "--input", inputs, "-o", traced, "--force", "--save", "all"],
                              capture_output=True, text=True)
        if "engine_missing" in done.stderr:
            self.skipTest("no engine")
        self.assertEqual(done.returncode, 0, done.stderr)
        eager, run = open_recording(self.directory / "ref.tlspec"), open_recording(traced)
        checked = 0
        for entry in eager.rows("entries"):
            if entry["kind"] == "module" and entry["path"] in ("", "0") and "key" in entry:
                label = run.module_output(entry["name"], entry["call"])
                numpy.testing.assert_allclose(run.tensor(label), eager.tensor(eager._label(entry)), rtol=1e-5, atol=1e-6)
                checked += 1
        self.assertGreater(checked, 0)


class Refusals(InTemporary):
    def test_other_json(self):
        (self.directory / "manifest.json").write_text("{}")
        with self.assertRaisesRegex(ValueError, "no recording"):
            open_recording(self.directory)

    def test_a_newer_version(self):
        (self.directory / "manifest.json").write_text('{"format": "torchlens.tlspec", "version": 9, "kind": "trace"}')
        with self.assertRaisesRegex(ValueError, "version 9"):
            open_recording(self.directory)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], warnings="ignore")
