"""Random programs of eager ops against numpy: exact, for all values are small integers."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime import eager

SHAPE = (4, 36)
BINARY = (np.add, np.subtract, np.maximum, np.minimum, np.multiply)
UNARY = {
    "negative": np.negative,
    "absolute": np.absolute,
    "clip": lambda x: np.clip(x, -9, 9),
    "flip": lambda x: np.flip(x, 1),
    "there and back": lambda x: x.T.reshape(9, -1).reshape(36, 4).T,
    "halves": lambda x: np.concatenate([x[:, 18:], x[:, :18]], axis=1),
    "rows": lambda x: x[[2, 0, 3, 1]],
    "less its max": lambda x: x - x.max(axis=1, keepdims=True),
    "sums": lambda x: x.sum(axis=0) + x * 0,
    "on the host": lambda x: np.cumsum(np.sign(x), axis=1).astype(np.float32),
    "masked": lambda x: np.where(x > 0, x, -1).astype(np.float32),
}

names = st.integers(0, 3)
rows, columns = st.integers(0, 3), st.integers(0, 35)
steps = st.one_of(
    st.tuples(st.just("binary"), names, names, names, st.sampled_from(range(len(BINARY)))),
    st.tuples(st.just("unary"), names, names, st.sampled_from(sorted(UNARY))),
    st.tuples(st.just("in place"), names, names),
    st.tuples(st.just("set"), names, rows, columns, st.integers(-9, 9)),
    st.tuples(st.just("set row"), names, rows, names, rows),
    st.tuples(st.just("out"), names, names, names),
    st.tuples(st.just("host"), names),
)


def run(values: list, program: list) -> list:
    """The same code for arrays and tensors; every result is clipped, so that sums stay exact."""
    for kind, target, *rest in program:
        if kind == "binary":
            left, right, op = rest
            values[target] = np.clip(BINARY[op](values[left], values[right]), -999, 999)
        elif kind == "unary":
            values[target] = UNARY[rest[1]](values[rest[0]]).copy()  # numpy's may be a view
        elif kind == "in place":
            values[target] += 1
            values[target] -= values[rest[0]] * 0
        elif kind == "set":
            values[target][rest[0], rest[1] :] = rest[2]
        elif kind == "set row":
            values[target][rest[0]] = values[rest[1]][rest[2]]
        elif kind == "out":
            np.maximum(values[rest[0]], values[rest[1]], out=values[target])
        elif isinstance(values[target], gr.Tensor):
            values[target].numpy()
    return values


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(["cpu:0", "tt:0"]), st.lists(steps, max_size=25), st.integers(0, 2**16))
def test_random_programs(device, program, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.integers(-9, 10, SHAPE).astype(np.float32) for _ in range(4)]
    tensors = run([eager.array(a, device) for a in arrays], program)
    wanted = run([a.copy() for a in arrays], program)
    for got, array in zip(gr.gather(tensors), wanted, strict=True):
        np.testing.assert_array_equal(got, array)
