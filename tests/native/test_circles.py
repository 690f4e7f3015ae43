"""The files of native/ call each other downwards only: no circle among them, by the symbols of their objects.

An object says which symbols it defines and which it wants of others. A function that is handed over as a
pointer, as a hook is, is wanted by the file that hands it over, not by the file that calls it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import Path

import pytest

NATIVE = Path(__file__).resolve().parents[2] / "native"
FOLDERS = ("core", "ttsim", "tvm")  # what native/build_native.py compiles, but for generated files
INCLUDES = [f"-I{NATIVE / folder}" for folder in ("include", "core", "ttsim", "kernels")] + [f"-I{NATIVE}"]
CC = os.environ.get("CC", "gcc")
Graph = dict[str, dict[str, list[str]]]  # file -> file that it wants -> the symbols

pytestmark = [
    pytest.mark.skipif(not shutil.which(CC.split()[0]), reason=f"no C compiler {CC}"),
    pytest.mark.skipif(not shutil.which("nm"), reason="no nm, which reads the symbols of objects"),
]


def compile_one(source: Path, folder: Path) -> Path:
    """The object of a source."""
    out = folder / f"{source.parent.name}_{source.stem}.o"
    flags = ["-std=gnu11", "-O0", "-w", "-c", *INCLUDES]
    subprocess.run([*CC.split(), *flags, str(source), "-o", str(out)], check=True, timeout=100)
    return out


def symbols(made: Path) -> tuple[list[str], list[str]]:
    """(the symbols that an object defines for others, those that it wants)"""
    text = subprocess.run(["nm", str(made)], check=True, capture_output=True, text=True, timeout=100).stdout
    rows = [line.split()[-2:] for line in text.splitlines()]
    wanted = [name for kind, name in rows if kind in "Uw"]
    return [name for kind, name in rows if kind.isupper() and kind != "U"], wanted


def graph_of(sources: Iterable[Path], folder: Path) -> Graph:
    """Which file wants which symbols of which other one."""
    sources = list(sources)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda source: symbols(compile_one(source, folder)), sources))
    names = [f"{source.parent.name}/{source.name}" for source in sources]
    home = {symbol: name for name, (defined, _) in zip(names, found, strict=True) for symbol in defined}
    graph: Graph = {}
    for name, (_, wanted) in zip(names, found, strict=True):
        others = defaultdict(list)
        for symbol in wanted:
            if home.get(symbol, name) != name:
                others[home[symbol]].append(symbol)
        graph[name] = dict(others)
    return graph


def circle(graph: Graph) -> str:
    """A line for each step of one circle; empty where there is none."""
    try:
        TopologicalSorter({name: list(others) for name, others in graph.items()}).prepare()
    except CycleError as e:
        around = e.args[1][::-1]  # graphlib lists what is wanted before the file that wants it
        return "\n".join(f"{a} wants {graph[a][b]} of {b}" for a, b in pairwise(around))
    return ""


@pytest.mark.slow  # compiles them all
def test_no_circle_among_the_files_of_native(tmp_path):
    sources = [source for folder in FOLDERS for source in sorted((NATIVE / folder).glob("*.c"))]
    graph = graph_of(sources, tmp_path)
    assert graph["core/run.c"]["core/async.c"] == ["gr_async_usable"]  # this much is known: it was read
    found = circle(graph)
    assert not found, f"a circle among the files of native/:\n{found}"


def test_a_circle_is_seen_and_a_hook_is_none(tmp_path):
    """The same two files, once with a call up, once with a hook that the upper one hands down."""
    low, high = tmp_path / "low.c", tmp_path / "high.c"
    high.write_text("void up(void) {} int down(void); int use(void) { return down(); }")
    low.write_text("void up(void); int down(void) { up(); return 0; }")
    name = tmp_path.name
    steps = {
        f"{name}/low.c wants ['up'] of {name}/high.c",
        f"{name}/high.c wants ['down'] of {name}/low.c",
    }
    assert set(circle(graph_of([low, high], tmp_path)).splitlines()) == steps
    low.write_text(
        "static void (*hook)(void); void hand(void (*f)(void)) { hook = f; } void down(void) { hook(); }"
    )
    high.write_text("void hand(void (*)(void)); static void up(void) {} void start(void) { hand(up); }")
    assert not circle(graph_of([low, high], tmp_path))
