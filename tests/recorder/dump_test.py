#!/usr/bin/env python3
"""The C++ header: compiles under strict warnings and writes what it was given. Standard library only.

Usage: dump_test.py COMPILER RECORDERS
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
COMPILER, RECORDERS = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
FLAGS = ["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror", "-O1"]


def load(directory):
    """(manifest, {key: (dtype, shape, bytes)}) by nothing but json and struct."""
    manifest = json.loads((directory / "manifest.json").read_text(encoding="utf-8"))
    tensors = {}
    for file in manifest["files"]:
        data = (directory / file["name"]).read_bytes()
        assert len(data) == file["bytes"], file
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        end = 0
        for key, entry in header.items():
            begin, stop = entry["data_offsets"]
            assert begin == end, "a gap before " + key
            end = stop
            tensors[key] = (entry["dtype"], entry["shape"], data[8 + length + begin:8 + length + stop])
        assert 8 + length + end == len(data)
    return manifest, tensors


class Header(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = pathlib.Path(tempfile.mkdtemp())
        cls.program = cls.directory / "program"
        subprocess.run([COMPILER, *FLAGS, "-I", RECORDERS, HERE / "dump_program.cpp", "-o", cls.program], check=True)
        cls.out = cls.directory / "run.tlspec"
        cls.done = subprocess.run([cls.program, cls.out], check=True, capture_output=True, text=True)
        cls.manifest, cls.tensors = load(cls.out)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.directory)

    def test_two_files_may_include_it(self):
        other = self.directory / "other.cpp"
        other.write_text('#include "torchlens_dump.h"\nvoid other() { torchlens::dump("x", nullptr, torchlens::f32, {0}); }\n')
        subprocess.run([COMPILER, *FLAGS, "-I", RECORDERS, HERE / "dump_program.cpp", other,
                        "-o", self.directory / "both"], check=True)

    def test_values(self):
        floats = struct.pack("<6f", 0, 1, 2, 3, 4, 5)
        self.assertEqual(self.tensors["input/x:1"], ("F32", [2, 3], floats))
        self.assertEqual(self.tensors["blocks.0:1"], ("F32", [2, 3], floats))
        self.assertEqual(self.tensors["blocks.0:2"], ("F32", [3, 2], struct.pack("<6f", 0, 3, 1, 4, 2, 5)))
        self.assertEqual(self.tensors["ids:1/left"], ("I64", [2], struct.pack("<2q", -1, 1 << 62)))
        self.assertEqual(self.tensors["ids:1/right"], ("I64", [], struct.pack("<q", -1)))
        self.assertEqual(self.tensors["empty:1"], ("BF16", [0, 4], b""))
        self.assertEqual(self.tensors["halves:1"], ("BF16", [2], struct.pack("<2H", 0x3f80, 0xc000)))
        self.assertEqual(self.tensors["loop:300"][2], struct.pack("<f", 5))
        self.assertNotIn("before.open:1", self.tensors)

    def test_names_are_escaped(self):
        self.assertIn('na"me\n\ufffd:1', self.tensors)

    def test_entries_follow_the_program(self):
        entries = self.manifest["entries"]
        self.assertEqual([entry["name"] for entry in entries[:5]], ["x", "blocks.0", "blocks.0", "ids", "ids"])
        self.assertEqual([entry["key"] for entry in entries], list(self.tensors))
        self.assertGreater(len(self.manifest["files"]), 1)
        for entry in entries:
            self.assertLess(entry["shard"], len(self.manifest["files"]))

    def test_parameter_digest(self):
        known = json.loads((HERE / "xxh3_128.json").read_text())
        checked = 0
        for line in self.done.stdout.splitlines():
            size, digest = line.split()
            if size in known:
                self.assertEqual(digest, known[size], size)
                checked += 1
        self.assertGreater(checked, 15)
        self.assertEqual(self.manifest["parameters"][0]["address"], "fc.weight")

    def test_an_exception_marks_the_recording(self):
        manifest, tensors = load(self.directory / "run.tlspec.failed")
        self.assertEqual(manifest["outcome"]["status"], "failed")
        self.assertEqual(list(tensors), ["a:1"])

    def test_nothing_is_left_behind(self):
        hidden = [name for name in os.listdir(self.directory) if name.startswith(".")]
        self.assertEqual(hidden, [])


if __name__ == "__main__":
    unittest.main()
