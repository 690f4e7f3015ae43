"""Attention on tt against its reference and against the two products and the softmax that it replaces."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base.machine.layout import Layout
from graph_runtime.ir import ops
from graph_runtime.ir.ops import inputs as draws

TILES, ROWS = Layout("dram", "tile", "f32"), Layout("dram", "row_major", "f32")
BF16 = Layout("dram", "tile", "bf16")
ATTENTION = ops.require("attention")


def normal(seed: int, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@settings(max_examples=12, deadline=None)
@given(data=st.data(), causal=st.booleans(), biased=st.booleans())
def test_any_sizes(tt, data, causal, biased):
    """Blocks of queries, keys and columns that end anywhere, in tiles and rows; what is masked is -inf."""
    s, t, d, e = (
        data.draw(st.integers(1, most), label) for label, most in zip("stde", (300, 400, 70, 70), strict=True)
    )
    arrays = normal(s, (2, s, d), (t, d), (2, t, e))
    if biased:
        (bias,) = normal(t, (s, t))
        arrays.append(np.where(bias > 0.5, -np.inf, bias).astype(np.float32))
        arrays[-1][0] = -np.inf  # a query that sees nothing: NaN
    for layout in (TILES, ROWS):
        got, wanted = tt.run(ATTENTION, {"causal": causal}, arrays, [layout] * (len(arrays) + 1))
        assert draws.nmse(got, wanted) <= 1e-11


@pytest.mark.parametrize("numerics", [{}, {"numerics": "exact"}], ids=["fast", "exact"])
def test_keys_that_come_after_masked_blocks(tt, numerics):
    """The first 200 keys are hidden, so the greatest score is unknown for a block and more."""
    q, k, v, bias = normal(1, (40, 32), (300, 32), (300, 40), (40, 300))
    bias[:, :200] = -np.inf
    got, wanted = tt.run(ATTENTION, numerics, [q, k, v, bias], [TILES] * 5)
    assert draws.nmse(got, wanted) <= (1e-5 if numerics else 1e-11)


def test_what_is_not_a_number_stays_in_its_query(tt):
    q, k, v = normal(2, (70, 32), (300, 32), (300, 33))
    q[3, 5], q[40] = np.nan, 0.0
    q[41, 0], k[290, 0] = np.inf, 1.0
    got, wanted = tt.run(ATTENTION, {}, [q, k, v], [TILES] * 4)
    assert np.isnan(got).any(axis=1).nonzero()[0].tolist() == [3, 41]
    assert draws.nmse(got, wanted) <= 1e-11


@pytest.mark.parametrize(
    ("words", "bound"),
    [
        ({}, 1e-11),
        ({"fidelity": "HiFi4"}, 1e-6),
        ({"fidelity": "HiFi2"}, 1e-4),
        ({"fidelity": "LoFi"}, 2e-3),
        ({"fidelity": "HiFi2", "dst": "bf16"}, 1e-3),
        ({"numerics": "exact"}, 1e-6),
        ({"numerics": "exact", "fidelity": "LoFi", "dst": "bf16"}, 2e-3),
    ],
    ids=str,
)
def test_it_is_what_its_parts_are(tt, words, bound):
    """q k^T, softmax, times v, each a kernel of its own, with the scores in float32."""
    q, k, v = normal(3, (2, 70, 64), (2, 150, 64), (2, 150, 48))
    scores, _ = tt.run(ops.require("matmul"), {"transpose_b": True, **words}, [q, k], [TILES] * 3)
    weights, _ = tt.run(ops.require("softmax"), {}, [scores * np.float32(0.125)], [TILES] * 2)
    parts, _ = tt.run(ops.require("matmul"), words, [weights, v], [TILES] * 3)
    got, _ = tt.run(ATTENTION, words, [q, k, v], [TILES] * 4)
    assert draws.nmse(got, parts) <= bound


def test_scores_are_not_rounded_to_the_format(tt):
    """bf16 tensors: closer to the exact result than its parts, which store their scores and weights."""
    q, k, v = normal(4, (70, 64), (150, 64), (150, 48))
    scores, _ = tt.run(ops.require("matmul"), {"transpose_b": True}, [q, k], [BF16] * 3)
    weights, _ = tt.run(ops.require("softmax"), {}, [scores * np.float32(0.125)], [BF16] * 2)
    parts, _ = tt.run(ops.require("matmul"), {}, [weights, v], [BF16] * 3)
    got, wanted = tt.run(ATTENTION, {}, [q, k, v], [BF16] * 4)
    assert draws.nmse(got, wanted) < draws.nmse(parts, wanted)
