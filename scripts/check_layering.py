#!/usr/bin/env python3
"""Checks who includes whom. Usage: check_layering.py [ROOT] | --self-test

- An include of another lib must be in the DEPS or PRIVATE_DEPS of the including lib's tl_library call.
- DEPS must follow the one-way arrows below (what an arrow reaches through others is allowed too).
- LibTorch headers only in plugins/torch and tests/torch.
- No heavy third-party header in any header of lib, apps or plugins.
- Nothing but the two sinks writes to stdout or stderr, so that all text is escaped on its way out.
"""
import pathlib
import re
import sys
import tempfile

ARROWS = {
    "core": "",
    "tensor": "core",
    "archive": "tensor core",
    "ops": "core",
    "trace": "tensor core",
    "postprocess": "ops trace",
    "cost": "ops trace tensor",
    "select": "cost trace",
    "replay": "select trace tensor",
    "validate": "replay ops trace tensor",
    "analysis": "select cost trace tensor",
    "diff": "archive ops cost select trace tensor core",
    "tlspec": "archive trace tensor",
    "render": "trace",
    "serve": "render analysis tlspec trace core",
    "plugin": "render analysis ops trace core",
    "engine": "replay archive trace tensor core",
    "plugins/torch": "engine replay trace archive ops tensor core",
}
TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2)/")
HEAVY_HEADER = re.compile(r"^(nlohmann/json\.hpp|CLI/.*|spdlog/.*|fmt/.*|zip\.h|httplib\.h)$")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.M)
SINKS = {"apps/torchlens/output.cpp", "lib/core/log.cpp"}
WRITES = re.compile(
    r"\bstd::(cout|cerr|clog)\b|\bfmt::print|(?<![\w.>])(printf|vprintf|puts|putchar|perror|psignal)\s*\("
    r"|\b(fprintf|vfprintf|fputs|fputc|putc|fwrite|dprintf|write|writev)\s*\([^;]*\b(stdout|stderr|STD(OUT|ERR)_FILENO)\b"
    r"|\bSTD(OUT|ERR)_FILENO\b|::write\s*\(\s*[12]\s*,|\bspdlog/sinks/")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
SOURCES = {".h", ".hpp", ".cpp", ".cc"}


def closure(name):
    seen, todo = set(), [name]
    while todo:
        for target in ARROWS.get(todo.pop(), "").split():
            if target not in seen:
                seen.add(target)
                todo.append(target)
    return seen


def declared_deps(cmake_lists):
    """The libs named as tl::<lib> in the DEPS and PRIVATE_DEPS of the tl_library or tl_plugin call."""
    text = re.sub(r"#.*", "", cmake_lists.read_text())
    deps = set()
    for arguments in re.findall(r"\btl_(?:library|plugin)\s*\(([^)]*)\)", text):
        keyword = ""
        for word in arguments.split():
            if word in ("SOURCES", "HEADERS", "DEPS", "PRIVATE_DEPS", "PCH"):
                keyword = word
            elif keyword in ("DEPS", "PRIVATE_DEPS") and word.startswith("tl::"):
                deps.add(word[len("tl::"):])
    return deps


def sources_of(directory):
    # What `torchlens recorder` prints is text to this program, and a part of others.
    return sorted(p for p in directory.rglob("*") if p.suffix in SOURCES and p.parent.name != "recorders") \
        if directory.is_dir() else []


def check_room(root, room, libs):
    """A lib or plugin: its declared deps against the arrows, its includes against its declared deps."""
    directory = root / room
    name = directory.name if room.startswith("lib/") else room
    cmake_lists = directory / "CMakeLists.txt"
    deps = declared_deps(cmake_lists) & libs if cmake_lists.exists() else set()
    if name not in ARROWS:
        yield f"{room}: no row in the arrows of scripts/check_layering.py"
        return
    for dep in sorted(deps - closure(name)):
        yield f"{room}/CMakeLists.txt: {name} may not depend on {dep}"
    for path in sources_of(directory):
        for include in INCLUDE.findall(path.read_text(errors="replace")):
            target = include.split("/")[0]
            if "/" not in include or target not in libs or target == name:
                continue
            where = f"{path.relative_to(root)}: includes {include}"
            if target not in closure(name):
                yield f"{where}, but {name} may not depend on {target}"
            elif target not in deps and cmake_lists.exists():
                yield f"{where}, but tl::{target} is not in the DEPS of {room}/CMakeLists.txt"


def check_third_party(root):
    for top in ("lib", "apps", "plugins", "tests"):
        for path in sources_of(root / top):
            relative = path.relative_to(root)
            torch_allowed = relative.parts[:2] in (("plugins", "torch"), ("tests", "torch"), ("tests", "bench"))
            for include in INCLUDE.findall(path.read_text(errors="replace")):
                if TORCH_HEADER.match(include) and not torch_allowed:
                    yield f"{relative}: includes {include}, but LibTorch is named in plugins/torch only"
                if top != "tests" and path.suffix in (".h", ".hpp") and HEAVY_HEADER.match(include):
                    yield f"{relative}: includes {include}, which belongs in a .cpp"


def check_streams(root):
    for top in ("lib", "apps", "plugins"):
        for path in sources_of(root / top):
            relative = path.relative_to(root)
            if str(relative) in SINKS:
                continue
            for write in WRITES.finditer(COMMENT.sub("", path.read_text(errors="replace"))):
                yield (f"{relative}: '{' '.join(write.group(0).split())}' writes past the sinks; use Output or "
                       "write_error_lines of core/log.h")


def check(root):
    libs = {p.name for p in (root / "lib").iterdir() if p.is_dir()}
    rooms = [f"lib/{name}" for name in sorted(libs)]
    rooms += ["plugins/torch"] if (root / "plugins/torch").is_dir() else []
    problems = [problem for room in rooms for problem in check_room(root, room, libs)]
    return problems + list(check_third_party(root)) + list(check_streams(root))


def self_test():
    """Plants one violation of each kind in a small tree that is otherwise clean; each must be reported, alone."""
    clean = {
        "lib/core/CMakeLists.txt": "tl_library(core SOURCES a.cpp)",
        "lib/core/a.h": "#include <vector>\n// unlike std::cout\n",
        "lib/core/log.cpp": "void f() { std::fwrite(a, 1, 2, stderr); }\n",
        "lib/tensor/CMakeLists.txt": "tl_library(tensor SOURCES t.cpp DEPS tl::core)",
        "lib/tensor/t.cpp": '#include "core/a.h"\n#include <nlohmann/json.hpp>\n',
        "lib/trace/CMakeLists.txt": "tl_library(trace SOURCES t.cpp DEPS tl::core)",
        "lib/trace/t.cpp": '#include "core/a.h"\n',
        "plugins/torch/CMakeLists.txt": "tl_plugin(torch SOURCES p.cpp DEPS tl::core)",
        "plugins/torch/p.cpp": '#include "core/a.h"\n#include <torch/script.h>\n',
    }
    planted = [
        ("lib/core/b.cpp", '#include "tensor/t.h"\n', "core may not depend on tensor"),
        ("lib/trace/b.cpp", '#include "tensor/t.h"\n', "tl::tensor is not in the DEPS"),
        ("lib/core/CMakeLists.txt", "tl_library(core SOURCES a.cpp PRIVATE_DEPS tl::trace)", "core may not depend on trace"),
        ("lib/core/b.h", "#include <ATen/ATen.h>\n", "LibTorch"),
        ("apps/torchlens/main.cpp", "#include <torch/script.h>\n", "LibTorch"),
        ("lib/trace/b.h", "#include <nlohmann/json.hpp>\n", "belongs in a .cpp"),
        ("apps/torchlens/cli.h", "#  include <CLI/CLI.hpp>\n", "belongs in a .cpp"),
        ("plugins/torch/b.cpp", '#include "tlspec/w.h"\n', "plugins/torch may not depend on tlspec"),
        ("lib/core/b.cpp", 'void f() { std::cerr << "x"; }\n', "writes past the sinks"),
        ("lib/core/b.cpp", 'void f() { std::printf("x"); }\n', "writes past the sinks"),
        ("apps/torchlens/x_command.cpp", 'void f() { std::fwrite(a, 1, 2,\n  stdout); }\n', "writes past the sinks"),
        ("plugins/torch/b.cpp", 'void f() { ::write(2, a, 1); }\n', "writes past the sinks"),
        ("lib/misc/x.h", "\n", "no row in the arrows"),
    ]
    failures = []
    for violation in [None] + planted:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "lib/tlspec").mkdir(parents=True)
            for path, text in list(clean.items()) + ([violation[:2]] if violation else []):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            problems = check(root)
            expected = [violation[2]] if violation else []
            if len(problems) != len(expected) or any(e not in p for e, p in zip(expected, problems)):
                failures.append(f"planted {violation}: reported {problems}")
    return failures


def main():
    if sys.argv[1:] == ["--self-test"]:
        problems = self_test()
    else:
        root = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
        problems = check(root)
    print("\n".join(problems) if problems else "layering: clean")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
