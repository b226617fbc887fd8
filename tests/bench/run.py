"""Prints the table of figures: `run.py BENCH TORCHLENS FOLDER [PYTHON]`; PYTHON imports torch, for the rows that compare with it. Ratios are of one run on one machine; times are in milliseconds."""

import os
import pathlib
import statistics
import subprocess
import sys
import time


def pairs(*command):
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return dict(zip(out[::2], map(float, out[1::2])))


def row(what, figure, goal):
    print(f"{what:<62} {figure:>16}   {goal}", flush=True)


def wall_ms(command, runs=21):
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


STATISTICS_GOALS = {"resnet": 1.3, "encoder": 1.5}


def steady(bench, folder):
    for name, goal, rounds in (("resnet", 1.10, 11), ("encoder", 1.10, 21), ("cnn", 1.10, 21), ("mlp100", 1.3, 301)):
        got = pairs(bench, "steady", f"{folder}/{name}.ts.pt", f"{folder}/{name}.inputs.safetensors", str(rounds))
        row(f"{name}: plain run", f"{got['plain_ms']:.3f} ms", "")
        row(f"{name}: nothing saved : plain, steady", f"{got['none_ratio']:.3f}", "")
        row(f"{name}: all kept : plain, steady", f"{got['all_ratio']:.3f}", f"<= {goal}")
        if name in STATISTICS_GOALS:
            row(f"{name}: --stats : plain, steady", f"{got['stats_ratio']:.3f}", f"<= {STATISTICS_GOALS[name]}")
        if name == "mlp100":
            row("what a selector of three terms adds, per op", f"{got['us_per_op_selected']:.2f} us", "")
            row("overhead per op, nothing saved, 100-op MLP", f"{got['us_per_op_none']:.2f} us", "<= 0.5 us")


def cold(bench, folder):
    for name in ("resnet", "encoder"):
        runs = {mode: [] for mode in ("plain", "none", "all")}
        for _ in range(5):
            for mode in runs:
                runs[mode].append(pairs(bench, "cold", mode, f"{folder}/{name}.ts.pt", f"{folder}/{name}.inputs.safetensors"))
        plain = statistics.median(r["run_ms"] for r in runs["plain"])
        kept = statistics.median(r["run_ms"] for r in runs["all"])
        row(f"{name}: all kept : plain, cold process", f"{kept / plain:.3f}", "<= 1.15")
        one = runs["all"][0]
        used = (one["peak_kb"] - one["rss_before_kb"]) * 1024
        allowed = 1.1 * one["kept_bytes"] + 600 * one["kept"]
        row(f"{name}: peak memory over the loaded model : allowed", f"{used / allowed:.2f}", "<= 1.00")


def million(bench, folder):
    loop = (f"{folder}/loop.ts.pt", f"{folder}/loop.inputs.safetensors")
    got = pairs(bench, "steady", *loop, "3")
    row("overhead per op, nothing saved, loop of 1,000,000 ops", f"{got['us_per_op_none']:.2f} us", "<= 0.5 us")
    got = pairs(bench, "written", *loop, folder)
    row("1,000,000 ops: steps", f"{got['steps_ms']:.0f} ms", "<= 1000 ms")
    row("1,000,000 ops: open", f"{got['open_ms']:.1f} ms", "<= 50 ms")
    row("1,000,000 ops: look up", f"{got['lookup_ms']:.3f} ms", "<= 1 ms")
    row("1,000,000 ops: records on disk", f"{got['column_bytes_per_op']:.1f} B an op", "<= 120 B")


def writing(bench, folder):
    """Against cp + sync of the same files, both warm, alternating."""
    ours, copies = [], []
    for _ in range(3):
        got = pairs(bench, "written", f"{folder}/resnet.ts.pt", f"{folder}/resnet.inputs.safetensors", folder)
        ours.append(got["bytes"] / got["write_ms"])
        source, copy = f"{folder}/bench.tlspec", f"{folder}/copy.tlspec"
        start = time.perf_counter()
        subprocess.run(f"cp -r {source} {copy} && sync -f {copy}", shell=True, check=True)
        copies.append(got["bytes"] / ((time.perf_counter() - start) * 1e3))
        subprocess.run(["rm", "-rf", copy], check=True)
    row("resnet: writing payloads : cp + sync of the same bytes", f"{statistics.median(ours) / statistics.median(copies):.2f}",
        ">= 0.80")


def start_up(torchlens, folder):
    row("torchlens --help", f"{wall_ms([torchlens, '--help']):.1f} ms", "<= 15 ms")
    trace = f"{folder}/cnn.tlspec"
    subprocess.run([torchlens, "trace", f"{folder}/cnn.ts.pt", "--input", f"{folder}/cnn.inputs.safetensors", "-o", trace,
                    "--force", "-q"], check=True, stdout=subprocess.DEVNULL)
    row("torchlens show TRACE", f"{wall_ms([torchlens, 'show', trace]):.1f} ms", "<= 15 ms")
    row("torchlens show MODEL, 0.4 MB", f"{wall_ms([torchlens, 'show', f'{folder}/cnn.ts.pt']):.1f} ms", "<= 15 ms")
    row("torchlens show MODEL, 47 MB", f"{wall_ms([torchlens, 'show', f'{folder}/resnet.ts.pt']):.1f} ms", "<= 30 ms")


def record(torchlens, folder, model, output, *words, inputs=None):
    inputs = inputs or ["--input", f"{folder}/{model}.inputs.safetensors"]
    subprocess.run([torchlens, "trace", f"{folder}/{model}.ts.pt", *inputs, "-o", f"{folder}/{output}.tlspec", "--force", "-q", *words],
                   check=True, stdout=subprocess.DEVNULL)
    return f"{folder}/{output}.tlspec"


def reading(torchlens, folder):
    """What a shell sees of a million operations: processes of their own, files in the page cache."""
    trace = record(torchlens, folder, "loop", "loop", "--save", "none")
    query = [torchlens, "query", trace, 'where(func_name == "tanh" and pass_index > 499990)']
    row("1,000,000 ops: query with where", f"{wall_ms(query, 7):.0f} ms", "<= 100 ms")
    row("1,000,000 ops: show KEY", f"{wall_ms([torchlens, 'show', trace, 'tanh_1_1:last'], 7):.0f} ms", "<= 20 ms")
    row("1,000,000 ops: show", f"{wall_ms([torchlens, 'show', trace], 7):.0f} ms", "")


def anonymous_mb(command):
    """Milliseconds that a command took, and the most memory that it held beside mapped files, in MB."""
    start, most = time.perf_counter(), 0
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while process.poll() is None:
        try:
            with open(f"/proc/{process.pid}/status") as status:
                most = max([most] + [int(line.split()[1]) for line in status if line.startswith("RssAnon")])
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.005)
    return (time.perf_counter() - start) * 1e3, most / 1024


def comparing(torchlens, folder):
    """Recordings of the same run and of another input; files in the page cache."""
    sides = [record(torchlens, folder, "wide", f"wide{i}") for i in range(2)]
    size = sum(file.stat().st_size for side in sides for file in pathlib.Path(side).iterdir())
    times = [anonymous_mb([torchlens, "diff", *sides]) for _ in range(3)]
    row("diff of two 1 GB traces, equal: read", f"{size / 1e6 / statistics.median(t for t, _ in times):.1f} GB/s", ">= 2 GB/s")
    row("diff of two 1 GB traces: memory beside the mapping", f"{max(m for _, m in times):.0f} MB", "< 200 MB")
    other = record(torchlens, folder, "wide", "wide2", inputs=["--random", "x:f32[1024,1024]"])
    times = [anonymous_mb([torchlens, "diff", sides[0], other]) for _ in range(3)]
    row("diff of two 1 GB traces, different: read", f"{size / 1e6 / statistics.median(t for t, _ in times):.1f} GB/s", ">= 2 GB/s")
    turns = ["--random", "x:f32[8]", "--input", "turns=50000"]
    small = [record(torchlens, folder, "loop", f"small{i}", inputs=turns) for i in range(2)]
    row("diff of 100,000 small ops", f"{wall_ms([torchlens, 'diff', *small], 5):.0f} ms", "< 1000 ms")
    cnn = f"{folder}/cnn.tlspec"
    row("diff of a small trace with itself", f"{wall_ms([torchlens, 'diff', cnn, cnn]):.1f} ms", "<= 15 ms")


def loading(bench, folder):
    times = {"plain": [], "checked": []}
    for _ in range(8):  # the first pair warms the page cache
        for how in times:
            times[how].append(pairs(bench, "load", how, f"{folder}/gigabyte.ts.pt")["load_ms"])
    plain, checked = (statistics.median(times[how][1:]) for how in ("plain", "checked"))
    row("1 GB file: plain load", f"{plain:.0f} ms", "")
    row("1 GB file: what the checks add to loading", f"{100 * (checked / plain - 1):.1f} %", "<= 5 %")


EXPORT_LOAD = """
import sys, time, torch
torch.export.load(sys.argv[2])
start = time.perf_counter()
torch.export.load(sys.argv[1])
print(time.perf_counter() - start)
"""


def exported(bench, folder, python):
    """Exported programs against each operator of the same graph called bare."""
    for name, goal, rounds in (("resnet", 1.10, 11), ("encoder", 1.10, 21), ("cnn", 1.10, 21), ("mlp100", 1.3, 301)):
        got = pairs(bench, "steady", f"{folder}/{name}.pt2", f"{folder}/{name}.inputs.safetensors", str(rounds))
        row(f"{name}.pt2: nothing saved : bare run, steady", f"{got['none_ratio']:.3f}", "")
        row(f"{name}.pt2: all kept : bare run, steady", f"{got['all_ratio']:.3f}", f"<= {goal}")
    for name in ("resnet", "gigabyte"):
        model = f"{folder}/{name}.pt2"
        got = [pairs(bench, "load_exported", model, f"{folder}/cnn.pt2") for _ in range(3)]
        ours = statistics.median(one["load_ms"] for one in got)
        grown = (got[0]["peak_kb"] - got[0]["rss_before_kb"]) * 1024
        row(f"{name}.pt2: load", f"{ours:.0f} ms", "")
        row(f"{name}.pt2: memory while loading : weights", f"{grown / os.path.getsize(model):.2f}", "<= 1.10")
        if not python:
            continue
        times = [float(subprocess.run([python, "-c", EXPORT_LOAD, model, f"{folder}/cnn.pt2"], check=True,
                                      capture_output=True, text=True).stdout) * 1e3 for _ in range(3)]
        row(f"{name}.pt2: load : torch.export.load", f"{ours / statistics.median(times):.3f}", "")


def main(bench, torchlens, folder, python=""):
    folder = pathlib.Path(folder)
    os.makedirs(folder, exist_ok=True)
    print(f"{'what':<62} {'figure':>16}   goal")
    steady(bench, folder)
    cold(bench, folder)
    million(bench, folder)
    writing(bench, folder)
    start_up(torchlens, folder)
    reading(torchlens, folder)
    comparing(torchlens, folder)
    loading(bench, folder)
    exported(bench, folder, python)


main(*sys.argv[1:])
