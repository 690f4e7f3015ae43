"""Write docs/performance.md and docs/roofline.svg from what is measured now: no number in them is typed.

    python tests/bench/write_performance.py --models DIR [--names mlp,resnet50,...] [--zoo DIR]
        [--threads 1,2] [--seconds 20] [--rounds 15] [--roofline resnet50] [--lines FILE] [--out docs]

It runs bench_peers.py on the models, and on the zoo if there is one, then bench_start.py, then one model node
by node. --roofline names that model, by default the last of --names. --lines keeps the JSON lines of both
benchmarks. It takes models x threads x (seconds + starts) and a few minutes; the machine should have nothing
else to do, and the page says what its load was.

    python tests/bench/write_performance.py --zoo-lines FILE [FILE ...] [--out docs]

puts lines that ``bench_peers.py --zoo`` printed before into the page, in the place of its zoo; of a model
that several lines have, the last counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from bench_peers import NAMES, OURS, summed

import graph_runtime as gr
from graph_runtime.run.peak import machine_peak
from graph_runtime.views.node_rates import node_rates
from graph_runtime.views.svg import Svg, paint

HERE = Path(__file__).resolve().parent
QUIET = 1.0  # a load of one minute above which the page warns; a benchmark of n threads makes n of it itself
RUNS = 30  # of the model that is shown node by node
Line = dict[str, Any]

HEAD = """# Performance

Measured and written by `python tests/bench/write_performance.py`; do not edit. Times are of the wall clock,
least and median of all runs. A ratio is our time divided by the other's: below 1 we are faster. The range
is the 95 % interval of the mean ratio of neighbouring turns. The difference is the greatest of any output
to the first of the others, relative to its greatest value. [cpu.md](cpu.md) tells how the kernels work.
"""
START = """
## From the start of a process to its first result

A chain of adds, in a process of its own each time: `bench_start.py`. The import of numpy is in all of them.
"""
ROOF = """
## Node by node

{model} on one thread: the nodes that take longest. One thread reaches {gflop:.0f}
GFLOP/s in products of float32 in registers and moves {gb:.1f} GB/s of memory, measured in the same
process. Nodes that reach half of what these rates, and those of the caches, allow take {near:.0%} of the
time.

![Roofline](roofline.svg)
"""


# **************** the page ****************


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown; all columns but the first are to the right."""
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, rule, *rows)) + "\n"


def machine_text(found: Mapping[str, Any], loads: Sequence[float]) -> str:
    """The machine of the measurements; a warning where it had other work."""
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items())
    lines = [
        f"\n{found['cpu']}, family {found['family']}, model {found['model']}, {found['isa']}, "
        f"{found['cores']} cores.",
        f"Load of one minute {min(loads):.2f} to {max(loads):.2f}.",
        f"{versions}.",
    ]
    if loads[0] > QUIET:
        lines.append(f"**The machine was busy** before this began (load {loads[0]:.2f}): times are too long.")
    return "\n".join(lines) + "\n"


def peers_table(lines: Sequence[Line]) -> str:
    """A row a model and number of threads."""
    peers = sorted({key for line in lines for key in line if f"ratio_to_{key}" in line})
    head = ["model", "threads", "ours ms"]
    for peer in peers:
        head += [f"{peer} ms", "ratio", "range"]
    return table([*head, "difference"], (_row(line, peers) for line in lines))


def _row(line: Line, peers: Sequence[str]) -> Iterator[str]:
    yield from (line["model"], str(line["threads"]))
    for runtime in (OURS, *peers):
        times = line.get(runtime)
        yield "refused" if times is None else f"{times['least_ms']:.3f} ({times['median_ms']:.3f})"
        if runtime != OURS:
            ratio = line.get(f"ratio_to_{runtime}")
            yield "" if ratio is None else f"{ratio['least_ms']:.2f}"
            yield "" if ratio is None else "{:.2f} to {:.2f}".format(*ratio["turns_95"])
    yield f"{line['greatest_difference']:.0e}" if "greatest_difference" in line else ""


ZOO = "\n## A zoo\n"


def zoo_text(lines: Iterable[Line]) -> str:
    """The section of a zoo, from its lines: what they were measured on, their sum, a row a model."""
    measured = list({(line["model"], line["threads"]): line for line in lines if "model" in line}.values())
    timed = [line for line in measured if "ratio_to_fastest" in line]
    clocks = " and ".join(sorted({CLOCKS_TEXT[line.get("clock", "wall")] for line in measured}))
    rows = [
        [str(threads), str(of["models"]), f"{of['median']:.2f}", _names(of["above_1.15"])]
        for threads, of in summed(timed)["zoo"].items()
    ]
    parts = [
        ZOO,
        machine_text(measured[0]["machine"], [line["machine"]["load"] for line in measured]),
        f"{datetime.date.today()}, {clocks}. Ratios are of our least time to the other's; the first table",
        "\nhas those to the faster of the others. `make_zoo.py` exports the models.\n\n",
        table(["threads", "models", "median", "above 1.15"], rows),
        "\n",
        zoo_table(sorted(timed, key=lambda line: (line["threads"], -line["ratio_to_fastest"]))),
    ]
    refused = [line["model"] for line in measured if "ratio_to_fastest" not in line]
    return "".join(parts) + (f"\nNot measured: {', '.join(refused)}.\n" if refused else "")


CLOCKS_TEXT = {"wall": "wall clock", "cpu": "processor time of a process, beside other work"}


def _names(above: Sequence[Sequence[Any]]) -> str:
    return ", ".join(f"{name} {ratio:.2f}" for name, ratio in above)


def zoo_table(lines: Sequence[Line]) -> str:
    """A row a model: the least of each runtime, our ratio to it, the difference."""
    peers = sorted({key for line in lines for key in line if f"ratio_to_{key}" in line})
    head = ["model", "threads", "ours ms", *(name for peer in peers for name in (f"{peer} ms", "ratio"))]
    return table([*head, "difference"], (_zoo_row(line, peers) for line in lines))


def _zoo_row(line: Line, peers: Sequence[str]) -> Iterator[str]:
    yield from (line["model"], str(line["threads"]), f"{line[OURS]['least_ms']:.3f}")
    for peer in peers:
        yield from (
            (f"{line[peer]['least_ms']:.3f}", f"{line[f'ratio_to_{peer}']['least_ms']:.2f}")
            if peer in line
            else ("refused", "")
        )
    yield f"{line['greatest_difference']:.0e}" if "greatest_difference" in line else ""


def with_zoo(text: str, section: str) -> str:
    """The page with this section in the place of its zoo."""
    before, found, rest = text.partition(ZOO)
    if not found:
        before, found, rest = text.partition(START)
        return before + section + found + rest
    return before + section + "\n## " + rest.partition("\n## ")[2]


def start_table(lines: Sequence[Line]) -> str:
    """A row a program of bench_start."""
    rows = [
        [
            line["program"],
            f"{line['wall_s']['least']:.3f}",
            f"{line['wall_s']['median']:.3f}",
            f"{line['cpu_s']['least']:.2f}",
            f"{line['of_onnxruntime']:.2f}" if "of_onnxruntime" in line else "",
        ]
        for line in lines
    ]
    return table(["program", "least s", "median s", "least CPU s", "ratio to ONNX Runtime"], rows)


def nodes_table(rows: Sequence[Line], most: int = 12) -> str:
    """The nodes that take longest."""
    shown = [
        [
            row["node"].replace("|", "/"),
            row["op"],
            f"{row['us']:.1f}",
            f"{row['share']:.1%}",
            "" if row["gflop_per_s"] is None else f"{row['gflop_per_s']:.1f}",
            f"{row['gb_per_s']:.1f}",
            "" if row["of_peak"] is None else f"{row['of_peak']:.0%}",
            row["kernel"].partition(" in ")[0],
        ]
        for row in rows[:most]
    ]
    return table(["node", "op", "us", "share", "GFLOP/s", "GB/s", "of peak", "kernel"], shown)


# **************** the picture ****************

WIDTH, HEIGHT, LEFT, BELOW, RIGHT, ABOVE = 720, 420, 56, 40, 150, 16


def roofline(rows: Sequence[Line], rates: Mapping[str, float]) -> str:
    """The roof of a machine's rates, and a dot for each node that computes: operations a byte, GFLOP/s."""
    dots = [row for row in rows if row["gflop_per_s"]]
    x = [row["gflop_per_s"] / row["gb_per_s"] for row in dots]
    y = [row["gflop_per_s"] for row in dots]
    ridge = rates["gflop_per_s"] / rates["gb_per_s"]
    low, high = _decades([*x, ridge])
    bottom, top = _decades([*y, rates["gflop_per_s"], 10**low * rates["gb_per_s"]])

    def at(flops_a_byte: float, gflop_per_s: float) -> tuple[float, float]:
        return (
            LEFT + (math.log10(flops_a_byte) - low) / (high - low) * (WIDTH - LEFT - RIGHT),
            ABOVE + (top - math.log10(gflop_per_s)) / (top - bottom) * (HEIGHT - ABOVE - BELOW),
        )

    svg = Svg(WIDTH, HEIGHT)
    svg.rect(0, 0, WIDTH, HEIGHT, "#fff")
    for power in range(low, high + 1):
        svg.line(*at(10**power, 10**bottom), *at(10**power, 10**top), "#ddd")
        svg.text(at(10**power, 1)[0], HEIGHT - BELOW + 16, f"{10.0**power:g}", "middle")
    for power in range(bottom, top + 1):
        svg.line(*at(10**low, 10**power), *at(10**high, 10**power), "#ddd")
        svg.text(LEFT - 6, at(1, 10**power)[1] + 4, f"{10.0**power:g}", "end")
    svg.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "operations a byte", "middle")
    svg.text(4, ABOVE - 4, "GFLOP/s")
    edge = at(10**low, 10**low * rates["gb_per_s"])
    svg.path([edge, at(ridge, rates["gflop_per_s"]), at(10**high, rates["gflop_per_s"])], "#c00")
    ops = list(dict.fromkeys(row["op"] for row in dots))
    for row, flops_a_byte, rate in zip(dots, x, y, strict=True):
        left, upper = at(flops_a_byte, rate)
        title = f"{row['node']}: {rate:.1f} GFLOP/s, {row['us']:.0f} us"
        svg.rect(left - 3, upper - 3, 6, 6, paint(ops.index(row["op"])), title)
    for place, op in enumerate(ops):
        svg.rect(WIDTH - RIGHT + 10, ABOVE + 16 * place, 8, 8, paint(place))
        svg.text(WIDTH - RIGHT + 24, ABOVE + 8 + 16 * place, op)
    head = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="11" '
    return str(svg).replace("<svg ", head, 1) + "\n"


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """Powers of ten below and above all of them."""
    return math.floor(math.log10(min(values))), math.floor(math.log10(max(values))) + 1


# **************** measuring ****************


def lines_of(script: str, *args: str, **environment: str) -> list[Line]:
    """The JSON lines of a benchmark, which says on stderr what goes wrong."""
    command, env = [sys.executable, HERE / script, *args], os.environ | environment
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=env)
    return [json.loads(line) for line in done.stdout.splitlines()]


def profile(model: Path) -> None:
    """Print the rates of this machine and the rows of run --profile, of one thread."""
    with np.load(model.with_suffix(".npz")) as file:
        inputs = {key.removeprefix("in_"): file[key] for key in file.files if key.startswith("in_")}
    module = gr.create(model, threads=1)
    rows = node_rates(module.session.program, module.benchmark_nodes(RUNS, **inputs).medians())
    print(json.dumps({"rates": machine_peak().as_dict(), "nodes": rows}))


def page(peers: list[Line], zoo: list[Line], start: list[Line], shown: str, found: Line) -> str:
    """The whole page, from the lines of the benchmarks and what profile() prints of the model ``shown``."""
    measured = [*peers, *zoo]
    parts = [HEAD, machine_text(peers[0]["machine"], [line["machine"]["load"] for line in measured])]
    parts += ["\n## Models\n\n", peers_table([line for line in peers if "model" in line])]
    if zoo:
        parts.append(zoo_text(zoo))
    parts += [START, "\n", start_table([line for line in start if "program" in line])]
    rates, nodes = found["rates"], found["nodes"]
    near = sum(row["share"] for row in nodes if (row["of_peak"] or 0) >= 0.5)
    words = {"gflop": rates["gflop_per_s"], "gb": rates["gb_per_s"], "near": near}
    parts += [ROOF.format(model=shown, **words), "\n", nodes_table(nodes)]
    return "".join(parts)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=Path)
    parser.add_argument("--names", default=NAMES)
    parser.add_argument("--zoo", type=Path)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", default="20")
    parser.add_argument("--rounds", default="15")
    parser.add_argument("--roofline")
    parser.add_argument("--lines", type=Path)
    parser.add_argument("--out", type=Path, default=HERE.parents[1] / "docs")
    parser.add_argument("--zoo-lines", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--profile", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.zoo_lines:
        text = "".join(file.read_text() for file in given.zoo_lines)
        section, target = zoo_text(map(json.loads, text.splitlines())), given.out / "performance.md"
        target.write_text(with_zoo(target.read_text(), section))
        return
    if given.profile:
        profile(given.profile)
        return
    if given.models is None:
        parser.error("--models DIR is needed")
    how = ("--threads", given.threads, "--seconds", given.seconds)
    peers = lines_of("bench_peers.py", "--models", str(given.models), "--names", given.names, *how)
    zoo = lines_of("bench_peers.py", "--zoo", str(given.zoo), *how) if given.zoo else []
    start = lines_of("bench_start.py", "--rounds", given.rounds)
    if given.lines:
        given.lines.write_text("".join(json.dumps(line) + "\n" for line in (*peers, *zoo, *start)))
    shown = given.roofline or given.names.split(",")[-1]
    found = lines_of(Path(__file__).name, "--profile", str(given.models / f"{shown}.onnx"))[-1]
    (given.out / "roofline.svg").write_text(roofline(found["nodes"], found["rates"]))
    (given.out / "performance.md").write_text(page(peers, zoo, start, shown, found))


if __name__ == "__main__":
    main()
