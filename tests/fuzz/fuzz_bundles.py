"""Mutated bundles whose hashes are right: each runs as numpy runs its graph, or gives a GraphRuntimeError.

    SEED=1 ITERS=50000 python tests/fuzz/fuzz_bundles.py [SEED [ITERS]]

A hash says that a file is the one that bundle.json names, not that its contents are true. So one file of a
bundle is mutated and the hashes are made anew: the plan's columns (dtypes, shapes, values) and its header,
the index, the graph, the parameters. Prints what came of each kind. A failure prints the command that replays
it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import sys
import tempfile
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import driver
import numpy as np
import pytest
from fuzz_documents import mutate_bytes, mutate_json
from graph_runtime.codegen.build import build_bundle

from graph_runtime import GraphBuilder
from graph_runtime.accuracy.compare import random_inputs
from graph_runtime.accuracy.differences import bounds_of
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.artifacts.bundles.bundle import read_bundle
from graph_runtime.ir.graph import Graph
from graph_runtime.ir.ops.inputs import nmse
from graph_runtime.run.loading import open_program
from graph_runtime.testing.graphs import random_graph

MOST_RUN = 1 << 20
MAGIC, ALIGNMENT = b"GRPLAN\x01\x00", 64
DTYPES = ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float32", "float64")
VALUES = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 3, 7, 63, 64, 127, 255, 2**31 - 1, 2**32, 2**61, 2**63 - 1)
Files = dict[str, bytes]


# ---------------------------------------------------------------- seeds


def bundles() -> list[Files]:
    """The files of bundles that load: random graphs, and one with parameters, an alias and two devices."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(8):
            devices = (("cpu:0",), ("cpu:0", "tt:0"), ("tt:0", "cpu:0"))[seed % 3]
            graph = random_graph(np.random.default_rng(seed), devices, nodes=8)
            found.append(built(graph, devices, Path(folder) / f"{seed}.bundle"))
        rough = {"numerics": {"tt": {"fidelity": "LoFi"}}}
        for i, options in enumerate(({}, {"place": {"conv": "tt:0"}}, rough)):
            path = Path(folder) / f"net{i}.bundle"
            found.append(built(network(), ("cpu:0", "tt:0"), path, fuse=bool(i), **options))
    return found


def network() -> GraphBuilder:
    b = GraphBuilder()
    x, state = b.input("x", (2, 3, 8, 8)), b.input("state", (2, 4, 8, 8))
    rng = np.random.default_rng(0)
    w = b.param("w", rng.standard_normal((4, 3, 3, 3)).astype(np.float32))
    y = b.op("conv2d", x, w, pads=[1, 1, 1, 1], name="conv")
    y = b.op("add", b.op("relu", y, name="act"), state, name="sum")
    b.output(b.op("softmax", b.op("flatten", y, name="flat"), name="out"))
    return b


def built(graph, devices, path: Path, **options) -> Files:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        build_bundle(graph, devices, path, compile=False, **options)
    return {file.name: file.read_bytes() for file in path.iterdir()}


# ---------------------------------------------------------------- plans


def take_apart(data: bytes) -> tuple[dict, dict[str, np.ndarray]]:
    """(header, columns) of a plan's bytes."""
    size = int.from_bytes(data[8:16], "little")
    header = json.loads(data[16 : 16 + size])
    body = data[16 + size :]
    columns = {
        key: np.frombuffer(body, dtype, count, offset)
        for key, (dtype, count, offset) in header["columns"].items()
    }
    return header, columns


def put_together(header: dict, columns: dict[str, np.ndarray]) -> bytes:
    body, places = b"", {}
    for key, column in columns.items():
        body += bytes(-len(body) % ALIGNMENT)
        places[key] = [column.dtype.name, len(column), len(body)]
        body += column.tobytes()
    text = json.dumps({**header, "columns": places}).encode("utf-8", "surrogatepass")
    text += b" " * (-(16 + len(text)) % ALIGNMENT)
    return MAGIC + len(text).to_bytes(8, "little") + text + body


def mutate_plan(rng: random.Random, data: bytes) -> bytes:
    """One to four faults in a plan: in a column's dtype, values, length or place, in the header, in bytes."""
    how = rng.randrange(10)
    if how == 0:
        return mutate_bytes(rng, data)
    if how == 1:
        return mutate_header(rng, data)
    header, columns = take_apart(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        key = rng.choice(list(columns))
        columns[key] = mutate_column(rng, columns[key], columns)
        if rng.random() < 0.05:
            del columns[rng.choice(list(columns))]
        if rng.random() < 0.05 and columns:
            columns[rng.choice(("x", *columns))] = columns[rng.choice(list(columns))]
        if not columns:
            break
    return put_together(header, columns)


def mutate_header(rng: random.Random, data: bytes) -> bytes:
    size = int.from_bytes(data[8:16], "little")
    text = mutate_json(rng, data[16 : 16 + size])
    if rng.random() < 0.2:  # a key that occurs twice
        at = text.index(b"{") + 1
        text = text[:at] + rng.choice((b'"devices": [], ', b'"columns": {}, ', b'"types": 3, ')) + text[at:]
    text += b" " * (-(16 + len(text)) % ALIGNMENT)
    return MAGIC + len(text).to_bytes(8, "little") + text + data[16 + size :]


def mutate_column(rng: random.Random, column: np.ndarray, others: dict[str, np.ndarray]) -> np.ndarray:
    how = rng.randrange(8)
    column = column.copy()
    if how == 0:
        with np.errstate(all="ignore"):
            return column.astype(rng.choice(DTYPES))
    if how == 1:
        whole = len(column.tobytes()) // 8 * 8
        return np.frombuffer(column.tobytes()[:whole], rng.choice(DTYPES))
    if how == 2:
        return column[: rng.randrange(len(column) + 1)]
    if how == 3:
        return np.concatenate([column, column[: rng.randrange(3) + 1]])
    if not len(column):
        return np.zeros(1, column.dtype)
    at = rng.randrange(len(column))
    if how == 4:
        column[at] = column[rng.randrange(len(column))]
    elif how == 5:
        other = rng.randrange(len(column))
        column[[at, other]] = column[[other, at]]
    elif how == 6 and column.dtype != bool:
        info = np.iinfo(column.dtype) if column.dtype.kind in "iu" else None
        value = rng.choice(VALUES)
        column[at] = value if info is None else min(max(value, info.min), info.max)
    elif column.dtype == bool:
        raw = column.view(np.uint8)
        raw[at] = rng.choice((0, 1, 2, 255))
    elif column.dtype.kind in "iu":
        info = np.iinfo(column.dtype)
        column[at] = min(max(int(column[at]) + rng.choice((-64, -2, -1, 1, 2, 64)), info.min), info.max)
    return column


# ---------------------------------------------------------------- mutations of a bundle


def of_plan(rng: random.Random, files: Files) -> Files:
    return {**files, "main.plan": mutate_plan(rng, files["main.plan"])}


def of_index(rng: random.Random, files: Files) -> Files:
    how = rng.choice((mutate_json, mutate_json, mutate_json, mutate_bytes))
    return {**files, "bundle.json": how(rng, files["bundle.json"])}


def of_graph(rng: random.Random, files: Files) -> Files:
    index = json.loads(files["bundle.json"])
    del index["programs"][0]["plan"]
    del index["files"]["main.plan"]
    how = rng.choice((mutate_json, mutate_json, mutate_bytes))
    return {**files, "bundle.json": json.dumps(index).encode(), "main.json": how(rng, files["main.json"])}


def of_params(rng: random.Random, files: Files) -> Files:
    return {**files, "params.bin": mutate_bytes(rng, files.get("params.bin", bytes(8)))}


def hashed(files: Files) -> Files:
    """The files with an index that has their sizes and hashes, as far as it can be read."""
    try:
        index = json.loads(files["bundle.json"])
        for name, row in index["files"].items():
            row |= {"bytes": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return files
    return {**files, "bundle.json": json.dumps(index).encode("utf-8", "surrogatepass")}


def as_zip(files: Files) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


# ---------------------------------------------------------------- the judge


def try_bundle(data: bytes) -> str:
    """Run it where it loads, and compare with what numpy makes of its graph."""
    with tempfile.NamedTemporaryFile(suffix=".zip") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file.write(data)
        file.flush()
        bundle = read_bundle(file.name)
        program = bundle.program()
        module = open_program(bundle, program)
        graph = module.session.graph
        if sum(module.session.plan.peak.values()) > MOST_RUN or any(
            f.op is None and f.name[:2] != "__" for f in graph.funcs
        ):
            return "loaded"
        arrays = random_inputs(graph, 1, set(program.params)) | bundle.params(program)
        module.run(**{name: arrays[name] for name in program.inputs})
        got = [module.get_output(i).numpy() for i in range(module.get_num_outputs())]
        return "run" if same(graph, arrays, got, bounds_of(module.session.plan)[0]) else "run, no numbers"


def same(graph: Graph, arrays: dict[str, np.ndarray], got: list[np.ndarray], bound: float) -> bool:
    """Whether there was something to compare; an AssertionError where it differs."""
    with np.errstate(all="ignore"):
        values = interpret(graph, arrays)
        if not all(np.isfinite(value).all() and np.abs(value).max(initial=0) < 1e30 for value in values):
            return False
        for name, one, other in zip(graph.output_names, got, heads(graph, values), strict=True):
            error = nmse(one, other)
            assert error <= bound, f"output {name} differs from numpy's: nmse {error:.2e}, bound {bound:.0e}"
    return True


TARGETS: dict[str, tuple[int, Callable[[random.Random, Files], Files]]] = {
    "plan": (12, of_plan),
    "index": (4, of_index),
    "graph": (2, of_graph),
    "params": (1, of_params),
}


def fuzz(seed: int, iters: int, seconds: float = float("inf")) -> Counter:
    """What came of ``iters`` mutated bundles, or as many as ``seconds`` allow."""
    seeds = bundles()

    def draw(one: int) -> tuple[str, bytes]:
        rng = random.Random(one)
        name = rng.choices(list(TARGETS), [weight for weight, _ in TARGETS.values()])[0]
        return name, as_zip(hashed(TARGETS[name][1](rng, rng.choice(seeds))))

    return driver.fuzz("fuzz_bundles.py", draw, lambda name, data: try_bundle(data), seed, iters, seconds)


def test_a_bundle_that_nothing_changed_runs_as_numpy_does():
    assert {try_bundle(as_zip(hashed(files))) for files in bundles()} == {"run"}


@pytest.mark.timeout(60)
def test_a_second_of_mutated_bundles():
    counts = fuzz(seed=int(os.environ.get("SEED", "0")), iters=100_000, seconds=1.0)
    assert sum(counts.values()) > 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_full_count_of_bundles(capsys):
    with capsys.disabled():
        driver.run(fuzz, "50000", [])


if __name__ == "__main__":
    driver.run(fuzz, "50000", sys.argv[1:])
