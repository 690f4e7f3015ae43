"""Mutated graph.json, parameter files and manifests: each gives a value or a GraphRuntimeError, soon.

    SEED=1 ITERS=20000 python tests/fuzz/fuzz_documents.py [SEED [ITERS]]

A graph that loads is written and read again, planned, and, where it is small, run. Prints what came of each
kind of input. A failure prints the command that replays it.
"""

from __future__ import annotations

import copy
import io
import json
import os
import random
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import driver
import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.libraries.manifest import ABI_VERSION, KernelEntry, Manifest, read_manifest
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.base.dtypes import canonical
from graph_runtime.ir.documents.loader import load_graph
from graph_runtime.ir.documents.params import save_params
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.ir.graph import TensorType
from graph_runtime.plan import plan
from graph_runtime.plan.record import record
from graph_runtime.testing.graphs import GraphMaker, random_graph

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "tvm"
DEVICES = ("cpu:0", "tt:0", "tt:1")
MOST_RUN = 1 << 20
ODD = (
    *(-1, 0, 1, 2, 3, 7, 2**31 - 1, 2**31, 2**53, 2**62, 2**63, 2**64, 10**30, 4.0, 1e300, True, False, None),
    *(
        "",
        "0",
        "1",
        "-1",
        "99999999999",
        "add",
        "relu",
        "reshape",
        "__copy",
        "__nop",
        "null",
        "tvm_op",
        "bool",
    ),
    *("float32", "float16x4", "int4", "[1,2]", "{", "[[0]]", "tt:0", "cpu:0", "null:0", "list_int", "size_t"),
    *([], {}, [0], [0, 0], [0, 0, 0], [[]], [1, 2, 3, 4], {"a": 1}, "\u00e9", "\x00", "a\nb", "\ud800"),
)


# ---------------------------------------------------------------- seeds


def graphs() -> list[bytes]:
    """Documents that load: TVM's, and random ones, with and without the columns of a plan."""
    found = [path.read_bytes() for path in sorted(GOLDEN.glob("*/graph.json"))]
    for seed in range(6):
        graph = random_graph(np.random.default_rng(seed), DEVICES, nodes=6)
        found += [graph_to_json(graph), graph_to_json(record(plan(graph, DEVICES)))]
    maker = GraphMaker()
    kept = maker.op("tanh", [maker.op("relu", [maker.input(TensorType("float32", (40, 50)))])])
    wishes = {"x0": "height", "relu": "row_major/block[2x3@1x2:20x17]", "tanh": "bfp4_b/width[2x1]"}
    return [*found, graph_to_json(record(plan(maker.graph([kept]), "tt:0", layouts=wishes)))]


def parameters() -> list[bytes]:
    """A file of each format that read_params takes; each is read as if it were of any."""
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array(True),
        "c": np.zeros((0, 2), np.int8),
    }
    entry = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
    header = json.dumps({"a": entry, "__metadata__": {"k": "v"}}).encode()
    zips = [io.BytesIO(), io.BytesIO()]
    np.savez(zips[0], **arrays)
    np.savez_compressed(zips[1], **arrays)
    safe = len(header).to_bytes(8, "little") + header + bytes(8)
    return [save_params(arrays), save_params({}), safe, *(file.getvalue() for file in zips)]


def manifests() -> list[bytes]:
    """A manifest as it lies in a library, bytes around it."""
    args = (("float32", (2, 3)), ("float32", (2, 3)))
    kernel = KernelEntry("f", "cpu", "f__direct", "relu", {}, 1, args, 64, (0,), True)
    manifest = Manifest(ABI_VERSION, "x86_64", "x86-64-v3", "cc", ("-O3",), "0" * 64, True, (kernel,))
    return [b"\x7fELF" + bytes(60) + manifest.to_bytes() + bytes(8)]


# ---------------------------------------------------------------- mutations


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """A few bytes flipped, cut out, repeated or put in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, size = rng.randrange(len(found) + 1), rng.choice((1, 1, 2, 4, 8, 30))
        piece = found[at : at + size]
        how = rng.randrange(6)
        if how == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del found[at : at + size]
        elif how == 2:
            found[at:at] = piece * rng.choice((1, 2, 50))
        elif how == 3:
            found[at : at + size] = rng.randbytes(size)
        elif how == 4:
            found[at : at + 8] = rng.choice((0, 1, 2**31, 2**40, 2**63, 2**64 - 1)).to_bytes(8, "little")
        else:
            del found[at:]
    return bytes(found)


def mutate_json(rng: random.Random, data: bytes) -> bytes:
    """Values and keys of a document replaced, removed, repeated or swapped."""
    document = json.loads(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(document))
        if not places:
            break
        holder, key = rng.choice(places)
        how = rng.randrange(6)
        if how == 0:
            del holder[key]
        elif how == 1 and isinstance(holder, list):
            holder.insert(rng.randrange(len(holder) + 1), copy.deepcopy(holder[key]))
        elif how == 2 and isinstance(holder, dict):
            holder[rng.choice(("x", "attr", "gr.axis", "gr.op", "metadata", "control_deps"))] = holder.pop(
                key
            )
        elif how == 3:
            other, place = rng.choice(places)
            holder[key] = copy.deepcopy(other[place])
        elif how == 4 and type(holder[key]) is int:
            holder[key] += rng.choice((-2, -1, 1, 2, 30))
        else:
            holder[key] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(document, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")


def _places(value):
    keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


# ---------------------------------------------------------------- targets


def try_graph(data: bytes) -> str:
    graph = load_graph(data)
    again = load_graph(graph_to_json(graph))
    assert graph_to_json(again) == graph_to_json(graph)
    planned = plan(graph, DEVICES)
    if sum(planned.peak.values()) > MOST_RUN or any(f.op is None and f.name[:2] != "__" for f in graph.funcs):
        return "planned"
    module = gr.create(planned)
    for i in range(module.get_num_inputs()):
        entry = graph.entry_type(int(graph.input_eids[i]))
        if canonical(entry.dtype) in ("float32", "float64", "int32", "bool"):
            module.set_input(i, np.ones(entry.shape, entry.dtype))
    module.run()
    return "run"


def try_params(data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        suffix = ".npz" if b"PK" in data[:4] else ".safetensors" if b"{" in data[:9] else ".bin"
        with tempfile.NamedTemporaryFile(suffix=suffix) as file:
            file.write(data)
            file.flush()
            return f"{sum(array.sum() is not None for array in read_params(file.name).values())} arrays"


def try_manifest(data: bytes) -> str:
    with tempfile.NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        return f"{len(read_manifest(file.name).kernels)} kernels"


Target = tuple[Callable[[], list[bytes]], Callable[[bytes], str], tuple[Callable, ...]]
TARGETS: dict[str, Target] = {
    "graph": (graphs, try_graph, (mutate_bytes, mutate_json, mutate_json)),
    "params": (parameters, try_params, (mutate_bytes,)),
    "manifest": (manifests, try_manifest, (mutate_bytes,)),
}


def fuzz(seed: int, iters: int, seconds: float = float("inf")) -> Counter:
    """What came of ``iters`` mutated inputs, or as many as ``seconds`` allow."""
    seeds = {name: make() for name, (make, _, _) in TARGETS.items()}

    def draw(one: int) -> tuple[str, bytes]:
        rng = random.Random(one)
        name = rng.choices(list(TARGETS), (6, 3, 1))[0]
        data = rng.choice(seeds[name])
        return name, rng.choice(TARGETS[name][2])(rng, data)

    def judge(name: str, data: bytes) -> str:
        return TARGETS[name][1](data)

    return driver.fuzz("fuzz_documents.py", draw, judge, seed, iters, seconds)


@pytest.mark.timeout(60)
def test_a_second_of_mutated_documents():
    counts = fuzz(seed=int(os.environ.get("SEED", "0")), iters=100_000, seconds=1.0)
    assert sum(counts.values()) > 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_full_count(capsys):
    with capsys.disabled():
        driver.run(fuzz, "20000", [])


if __name__ == "__main__":
    driver.run(fuzz, "20000", sys.argv[1:])
