"""Kernels that refuse values of their inputs do so before they write: an output that takes an input's place
leaves the old bytes there."""

from __future__ import annotations

import numpy as np
import pytest
from graph_runtime.codegen.build import build_library

import graph_runtime as gr
from graph_runtime.base.config import config
from graph_runtime.base.errors import KernelError
from graph_runtime.plan import plan
from graph_runtime.run.library import load_library
from graph_runtime.run.sessions.session import Session

ROWS, COLS = 300, 64  # several panels of a tt output, several chunks of the host's threads
STATE = (ROWS, COLS)


def _last(shape: tuple[int, ...], good: int, bad: int) -> np.ndarray:
    """int32, all ``good`` but the last, which is ``bad``."""
    values = np.full(shape, good, np.int32)
    values.flat[-1] = bad
    return values


# op: attrs, whether the output takes the first input's place (else that of another), the other inputs
CASES = {
    "scatter_elements": ({"axis": 0}, True, [_last(STATE, 2, ROWS), np.ones(STATE, np.float32)]),
    "scatter_nd": ({}, True, [_last((ROWS, 1), -1, -ROWS - 1), np.ones(STATE, np.float32)]),
    "take": ({"axis": 0}, False, [_last((ROWS,), 0, ROWS)]),
    "take_along_axis": ({"axis": 1}, False, [_last(STATE, 0, -COLS - 1)]),
    "gather_nd": ({}, False, [_last((ROWS, 1), 0, ROWS)]),
    "mod": ({}, True, [_last(STATE, 3, 0)]),
    "divide": ({}, True, [_last(STATE, 3, 0)]),
    "power": ({}, True, [_last(STATE, 3, -1)]),
}
INTEGERS = ("mod", "divide", "power")
PLACES = [
    (name, device, layout)
    for name in CASES
    for device, layout in (("cpu:0", None), ("tt:0", "dram"), ("tt:0", "dram/row_major"))
    if device == "cpu:0" or name not in ("divide", "power")
]


def _planned(name: str, device: str, layout: str | None):
    attrs, in_place, others = CASES[name]
    b = gr.GraphBuilder(device=device)
    dtype = "int32" if name in INTEGERS else "float32"
    state = b.input("state", STATE, dtype)
    data = state if in_place else b.input("data", STATE, dtype)
    ends = [
        b.input(f"x{i}", x.shape, "int32" if x.dtype == np.int32 else "float32") for i, x in enumerate(others)
    ]
    y = b.op(name, data, *ends, name="y", **attrs)
    b.output(y)
    b.alias(y, state)
    graph = b.build()
    return plan(graph, [device], layouts={node: layout for node in graph.names} if layout else {})


def _refused(planned, name: str, libraries) -> None:
    """A run with a bad value fails and leaves the state; without it, the run goes well."""
    _, _, others = CASES[name]
    session = Session(planned, libraries)
    names = planned.graph.input_names
    old = np.arange(ROWS * COLS).reshape(STATE).astype("int32" if name in INTEGERS else "float32") + 1
    values = {"state": old, "data": old[::-1].copy(), **{f"x{i}": x for i, x in enumerate(others)}}
    for i, key in enumerate(names):
        session.set_input(i, values[key])
    with pytest.raises(KernelError, match=r"out of range|by zero|negative exponent"):
        session.run()
    np.testing.assert_array_equal(session.input(names.index("state")).numpy(), old)
    good = others[0].copy()
    good.flat[-1] = good.flat[0]
    session.set_input(names.index("x0"), good)
    session.run()
    assert (session.output(0).numpy() != old).any()


@pytest.mark.parametrize(("name", "device", "layout"), PLACES)
def test_a_refused_value_leaves_what_the_output_would_replace(name, device, layout):
    _refused(_planned(name, device, layout), name, [])


@pytest.mark.slow  # compiles them
@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_compiled_kernels_refuse_as_the_generic_ones_do(tmp_path, kernel_cache, few_units, device):
    planned = {
        name: _planned(name, at, layout)
        for name, at, layout in PLACES
        if at == device and layout in (None, "dram")
    }
    with config(CACHE_DIR=kernel_cache):
        library = load_library(build_library(list(planned.values()), tmp_path / "kernels.so"))
    for name, made in planned.items():
        _refused(made, name, [library])
