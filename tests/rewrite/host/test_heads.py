"""Attention on hosts reads and writes heads where they lie beside each other in rows: nothing is left that
only moves them, and the numbers are the same."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import GraphBuilder
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.ir.model import Model
from graph_runtime.plan.passes import place
from graph_runtime.rewrite.target import target

pytestmark = pytest.mark.core
B, S, H, D = 2, 19, 3, 5
MOVES = ("transpose", "slice", "take")


def _apart(b, x, rows, columns=D):
    """[B, rows, H * columns] -> [B, H, rows, columns]"""
    x = b.op("reshape", x, shape=(B, rows, H, columns))
    return b.op("transpose", x, perm=(0, 2, 1, 3))


def _separate(b):
    return [_apart(b, b.input(n, (B, S, H * D)), S) for n in "qkv"]


def _parts_of_a_row(b):
    x = b.input("x", (B, S, 3 * H * D))
    n = H * D
    return [_apart(b, b.op("slice", x, starts=(i * n,), ends=(i * n + n,), axes=(-1,)), S) for i in range(3)]


def _parts_first(b):
    x = b.op("reshape", b.input("x", (B, S, 3 * H * D)), shape=(B, S, 3, H, D))
    x = b.op("transpose", x, perm=(2, 0, 3, 1, 4))
    parts = [b.op("slice", x, starts=(i,), ends=(i + 1,), axes=(0,)) for i in range(3)]
    return [b.op("squeeze", part, axes=(0,)) for part in parts]


def _taken_parts(b):
    x = b.op("reshape", b.input("x", (B, S, 3 * H * D)), shape=(B, S, 3, H, D))
    x = b.op("transpose", x, perm=(2, 0, 3, 1, 4))
    return [b.op("take", x, b.param(f"i{i}", np.array(i, np.int64)), axis=0) for i in range(3)]


def _parts_of_a_head(b):
    x = b.op("reshape", b.input("x", (B, S, H * 3 * D)), shape=(B, S, H, 3 * D))
    parts = [b.op("slice", x, starts=(i * D,), ends=(i * D + D,), axes=(3,)) for i in range(3)]
    return [b.op("transpose", part, perm=(0, 2, 1, 3)) for part in parts]


def _some_apart(b):
    """Keys as a dimension, as a cache has them; values of another width, which other queries share."""
    v = b.op("transpose", b.op("reshape", b.input("v", (31, H * 7)), shape=(31, H, 7)), perm=(1, 0, 2))
    return [_apart(b, b.input("q", (B, S, H * D)), S), b.input("k", (B, H, 31, D)), v]


def _agree(b):
    """The ops of the target, which computes the same in the interpreter and in a session."""
    model = Model.from_builder(b)
    made, _ = target(model, place(model.graph, "cpu:0"))
    rng = np.random.default_rng(3)
    graph, given = model.graph, {name: c.read() for name, c in model.constants.items()}
    types = (
        dict(zip(graph.input_names, graph.input_types, strict=True)) if hasattr(graph, "input_types") else {}
    )
    del types
    for nid in graph.inputs:
        node = graph.node(nid)
        if node.name not in given:
            given[node.name] = rng.standard_normal(node.output_types[0].shape).astype(np.float32)
    wanted = heads(graph, interpret(graph, {n: given[n] for n in graph.input_names}))
    kept = {**given, **{name: c.read() for name, c in made.constants.items()}}
    got = heads(made.graph, interpret(made.graph, {n: kept[n] for n in made.graph.input_names}))
    module = gr.create(model, devices="cpu:0", fuse=True)
    module.run(**{n: x for n, x in given.items() if n not in model.constants})
    for i, y in enumerate(wanted):
        np.testing.assert_allclose(got[i], y, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(module.get_output(i).numpy(), y, rtol=1e-5, atol=1e-5)
    return [made.graph.funcs[f].op for f in made.graph.func_id if f >= 0]


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize(
    "parts", [_separate, _parts_of_a_row, _parts_first, _taken_parts, _parts_of_a_head, _some_apart]
)
def test_nothing_moves_heads_around_attention(parts, biased):
    b = GraphBuilder()
    q, k, v = parts(b)
    keys = 31 if parts is _some_apart else S
    bias = [b.input("bias", (B, 1, 1, keys))] if biased else []
    y = b.op("transpose", b.op("attention", q, k, v, *bias), perm=(0, 2, 1, 3))
    width = 7 if parts is _some_apart else D
    b.output(b.op("reshape", b.op("relu", y), shape=(B, S, H * width)))
    ops = _agree(b)
    assert not set(ops) & set(MOVES)
    assert ops.count("attention") == 1


def test_a_result_that_others_read_keeps_heads_as_a_dimension():
    b = GraphBuilder()
    y = b.op("attention", *_separate(b), causal=True, scale=0.2)
    b.output(y)
    b.output(b.op("transpose", y, perm=(0, 2, 1, 3)))
    assert _agree(b).count("transpose") == 1


def test_heads_with_the_batch_between_them_are_moved_as_before():
    b = GraphBuilder()
    x = b.op("reshape", b.input("x", (S, B, H * D)), shape=(S, B, H, D))
    q = b.op("transpose", x, perm=(1, 2, 0, 3))
    b.output(b.op("attention", q, b.input("k", (B, H, S, D)), b.input("v", (B, H, S, D))))
    assert _agree(b).count("transpose") == 1
