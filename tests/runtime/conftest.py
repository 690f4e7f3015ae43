"""Bundles of small programs on the kernels built in, and an open device."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graph_runtime.runtime as rt
from graph_runtime import GraphBuilder
from graph_runtime.artifacts.bundles.bundle import BundleProgram
from graph_runtime.artifacts.bundles.writer import write_bundle
from graph_runtime.ir.documents.write import graph_to_json
from graph_runtime.plan import plan
from graph_runtime.plan.record import record


def _write(path, graphs, devices=("tt:0",), const=(), edit=lambda name, text: text):
    """A bundle without a library. ``graphs`` {name: GraphBuilder}; ``edit`` may change a program's text."""
    programs, files, params = [], {}, {}
    for name, builder in graphs.items():
        planned = plan(builder.build(), list(devices))
        files[f"{name}.json"] = edit(name, graph_to_json(record(planned)).decode()).encode()
        keys = {key: f"{name}/{key}" for key in builder.params}
        params |= {keys[key]: value for key, value in builder.params.items()}
        inputs = tuple(key for key in planned.graph.input_names if key not in keys)
        programs.append(
            BundleProgram(
                name, f"{name}.json", inputs, planned.graph.output_names, keys, planned.aliases, name in const
            )
        )
    return write_bundle(
        path, devices=list(devices), programs=programs, libraries=(), files=files, params=params
    )


@pytest.fixture(scope="session")
def new_bundle(tmp_path_factory):
    """new_bundle(graphs, devices=["tt:0"], const=(), edit=..., folder=None) -> Bundle, a zip unless a folder
    is named"""

    def make(graphs, folder=None, **options):
        path = folder or tmp_path_factory.mktemp("bundle") / "test.zip"
        return rt.load_bundle(_write(path, graphs, **options))

    return make


def _binary(op, shape, dtype):
    builder = GraphBuilder()
    x, y = builder.input("x", shape, dtype), builder.input("y", shape, dtype)
    builder.output(builder.op(op, x, y, name="out"))
    return builder


@pytest.fixture(scope="session")
def binary():
    """binary("add", shape, dtype): a GraphBuilder of one op of inputs x and y."""
    return _binary


@pytest.fixture(scope="session")
def chain(new_bundle):
    """Programs add, multiply, subtract of two float32 [64, 128] on tt:0."""
    return new_bundle({op: _binary(op, (64, 128), "float32") for op in ("add", "multiply", "subtract")})


@pytest.fixture
def device():
    """tt:0, open for the test."""
    with rt.open_device("tt:0") as opened:
        yield opened


@pytest.fixture
def rng():
    return np.random.default_rng(7)


@pytest.fixture
def randn(rng):
    """randn(shape, dtype="float32"): normal values."""
    return lambda *shape, dtype="float32": rng.standard_normal(shape).astype(dtype)


def _output_in_l1(_, text):
    """A program's text, with its last entry in L1."""
    document = json.loads(text)
    ours = document["metadata"]["graph_runtime"]
    sid = document["attrs"]["storage_id"][1][-1]
    ours["layouts"].append({**ours["layouts"][0], "memory": "l1"})
    ours["layout"][-1] = len(ours["layouts"]) - 1
    ours["storage"][sid] |= {"memory": "l1", "offset": 0}
    return json.dumps(document)


@pytest.fixture
def output_in_l1():
    """What new_bundle takes as ``edit`` for a program whose last entry is in L1."""
    return _output_in_l1
