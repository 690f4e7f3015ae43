"""lstm, gru and rnn on tt against their reference: sizes, weights held or read anew, fidelities."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.machine.layout import Layout
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops.products.cells import CELL_BYTES, CELLS, held_columns

TILES, ROWS = Layout("dram", "tile", "f32"), Layout("dram", "row_major", "f32")


def drawn(op: str, steps: int, batch: int, hidden: int, directions: int = 1) -> list[np.ndarray]:
    rng, cell = np.random.default_rng(hidden), CELLS[op]
    shapes = [
        (steps, batch, directions * cell.gates * hidden),
        (directions, cell.gates * hidden, hidden),
        *[(directions, batch, hidden)] * cell.states,
    ]
    scale = [1.0, hidden**-0.5, *[1.0] * cell.states]
    return [(s * rng.standard_normal(shape)).astype("f4") for s, shape in zip(scale, shapes, strict=True)]


def run(tt, op: str, arrays: list[np.ndarray], layout: Layout, **attrs):
    return tt.run(ops.require(op), attrs, arrays, [layout] * (len(arrays) + 1 + CELLS[op].states))


@settings(max_examples=12, deadline=None)
@given(
    op=st.sampled_from(sorted(CELLS)),
    sizes=st.tuples(st.integers(0, 5), st.integers(1, 70), st.integers(1, 70)),
    way=st.sampled_from(("forward", "reverse", "bidirectional")),
)
def test_any_sizes(tt, op, sizes, way):
    arrays = drawn(op, *sizes, 2 if way == "bidirectional" else 1)
    for layout in (TILES, ROWS):
        got, wanted = run(tt, op, arrays, layout, direction=way)
        assert draws.nmse(got, wanted) <= 1e-10


@pytest.mark.parametrize("op", CELLS)
def test_weights_that_do_not_fit_are_read_in_each_step(tt, op):
    hidden = {"lstm": 450, "gru": 450, "rnn": 700}[op]
    held, nbytes = held_columns(op, 40, hidden, 0)
    assert held < CELLS[op].gates * hidden
    assert nbytes <= CELL_BYTES
    got, wanted = run(tt, op, drawn(op, 3, 40, hidden), TILES)
    assert draws.nmse(got, wanted) <= 1e-10


@pytest.mark.parametrize("op", CELLS)
@pytest.mark.parametrize(
    ("words", "bound"),
    [
        ({"fidelity": "HiFi4"}, 1e-5),
        ({"fidelity": "HiFi3"}, 1e-4),
        ({"fidelity": "LoFi"}, 5e-3),
        ({"fidelity": "HiFi2", "dst": "bf16"}, 5e-3),
        ({"numerics": "exact"}, 1e-5),
        ({"numerics": "exact", "fidelity": "LoFi", "dst": "bf16"}, 1e-2),
    ],
    ids=str,
)
def test_fidelities(tt, op, words, bound):
    got, wanted = run(tt, op, drawn(op, 5, 3, 70), TILES, **words)
    assert 1e-12 < draws.nmse(got, wanted) <= bound


@pytest.mark.parametrize("op", CELLS)
def test_states_that_no_core_holds_are_refused_by_their_sizes(op):
    inputs = [TensorType("float32", a.shape) for a in drawn(op, 1, 32, 2000)]
    entry = ops.require(op)
    attrs = entry.decode({})
    why = entry.bodies["tt"].accepts(inputs, entry.infer(inputs, attrs), attrs)
    assert "the states of 32 rows of 2000 take" in why
