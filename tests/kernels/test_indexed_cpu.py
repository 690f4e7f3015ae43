"""take_along_axis on hosts along any axis: rows of indices that threads cut anywhere, none of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime import GraphBuilder
from graph_runtime.base.errors import KernelError
from graph_runtime.run.factory import create

pytestmark = pytest.mark.core
DTYPES = ("uint8", "float16", "float32", "float64")


def taken(x: np.ndarray, indices: np.ndarray, axis: int) -> np.ndarray:
    b = GraphBuilder()
    inputs = [b.input(n, a.shape, a.dtype.name) for n, a in (("x", x), ("i", indices))]
    b.output(b.op("take_along_axis", *inputs, axis=axis))
    module = create(b, None, ["cpu:0"])
    module.run(x=x, i=indices)
    return module.get_output(0).numpy()


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(0, 99))
def test_along_any_axis(data, seed):
    draw, rng = data.draw, np.random.default_rng(seed)
    shape = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    axis, count = draw(st.integers(-len(shape), len(shape) - 1)), draw(st.integers(0, 400))
    x = rng.integers(0, 200, shape).astype(draw(st.sampled_from(DTYPES)))
    n, dtype = shape[axis], draw(st.sampled_from(["int32", "int64"]))
    wanted = [*shape]
    wanted[axis] = count
    indices = rng.integers(-n, n, wanted).astype(dtype)
    np.testing.assert_array_equal(taken(x, indices, axis), np.take_along_axis(x, indices, axis))


@pytest.mark.parametrize(("axis", "shape"), [(0, (20001, 5)), (1, (7, 20001))])
def test_many_results_are_cut_between_rows_and_within(axis, shape):
    """So many that several threads take them, in rows of 5 and of 20,001."""
    rng = np.random.default_rng(axis)
    x = rng.standard_normal((7, 5)).astype(np.float32)
    indices = rng.integers(-x.shape[axis], x.shape[axis], shape)
    np.testing.assert_array_equal(taken(x, indices, axis), np.take_along_axis(x, indices, axis))


@pytest.mark.parametrize("index", [3, -4])
def test_an_index_beyond_the_axis_is_refused_wherever_it_is(index):
    indices = np.zeros((2, 50), np.int64)
    indices[1, 49] = index
    with pytest.raises(KernelError, match="out of range"):
        taken(np.ones((2, 3), np.float32), indices, 1)
