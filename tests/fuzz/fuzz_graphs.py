"""Random graphs on random device lists, run with the kernels built in, compared with the interpreter.

    SEED=1 GRAPHS=1000 python tests/fuzz/fuzz_graphs.py

Each graph runs as it is made and from its planned file, which must give the same bits. Storage is shared,
values are overwritten in place, copies are inserted. A failure prints the command that replays it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.compare import compare, random_inputs
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.plan import plan
from graph_runtime.plan.record import record
from graph_runtime.testing.graphs import random_graph

LISTS = (
    ("cpu:0",),
    ("tt:0",),
    ("cpu:0", "tt:0"),
    ("tt:0", "cpu:0"),
    ("tt:0", "tt:1"),
    ("tt:1", "cpu:0", "tt:0"),
)


def try_graph(seed: int) -> tuple[str, ...]:
    """Make, run and judge graph number ``seed``; returns its device list."""
    rng = np.random.default_rng(seed)
    devices = LISTS[rng.integers(len(LISTS))]
    graph = random_graph(rng, devices, nodes=int(rng.integers(3, 30)), columns=bool(rng.random() < 0.8))
    try:
        report = compare(graph, None, devices, seed=seed)
        assert report.ok, str(report)
        inputs = random_inputs(graph, seed)
        written = graph_to_json(record(plan(graph, devices))).decode()
        both = outputs(graph, devices, inputs), outputs(written, devices, inputs)
        for once, again in zip(*both, strict=True):
            np.testing.assert_array_equal(once, again)
    except Exception as error:
        file = Path(tempfile.gettempdir()) / f"fuzz-graph-{seed}.json"
        file.write_bytes(graph_to_json(graph))
        raise AssertionError(
            f"on {', '.join(devices)}: {error}\ngraph kept in {file}\n"
            f"replay: SEED={seed} GRAPHS=1 python tests/fuzz/fuzz_graphs.py"
        ) from error
    return devices


def outputs(graph, devices, inputs) -> list[np.ndarray]:
    """All outputs of one run."""
    module = gr.create(graph, None, devices)
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


def fuzz(seed: int, graphs: int, seconds: float = float("inf")) -> Counter:
    """``graphs`` graphs, or as many as ``seconds`` allow, by device list."""
    counts: Counter = Counter()
    end = time.monotonic() + seconds
    for i in range(graphs):
        if time.monotonic() > end:
            break
        counts[try_graph(seed + i)] += 1
    return counts


def main() -> None:
    seed, graphs = int(os.environ.get("SEED", "0")), int(os.environ.get("GRAPHS", "1000"))
    counts = fuzz(seed, graphs)
    for devices, count in sorted(counts.items()):
        print(f"{' '.join(devices):20} {count:7}")
    print(f"{counts.total()} graphs from seed {seed}: each as numpy, and the same from its planned file")


@pytest.mark.timeout(60)
def test_a_second_of_graphs():
    # a sanitizer on a busy machine gets through five
    assert fuzz(int(os.environ.get("SEED", "0")), 100_000, seconds=1.0).total() > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_full_count(capsys):
    with capsys.disabled():
        main()


if __name__ == "__main__":
    main()
