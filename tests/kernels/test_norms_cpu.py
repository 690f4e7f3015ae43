"""layer_norm and rms_norm of a host in rows of every length, far from zero, and with a first element, about
which sums are taken, that is far from all others."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr

LENGTHS = (1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 100, 257)


@pytest.mark.parametrize(("dtype", "limit"), [("float32", 3e-7), ("float64", 1e-11)])
@pytest.mark.parametrize(("offset", "scale"), [(0, 1), (1000, 1), (0, 1e-3), (-50, 3)])
def test_norms_of_rows_of_every_length(dtype, limit, offset, scale):
    rng = np.random.default_rng(0)
    b, values, wanted = gr.GraphBuilder(), {}, []
    for n in LENGTHS:
        x = rng.normal(offset, scale, (5, n)).astype(dtype)
        x[3, 0] += np.asarray(scale * 1000, dtype)
        s, t = rng.normal(1, 0.2, n).astype(dtype), rng.normal(0, 1, n).astype(dtype)
        names = {f"{name}{n}": value for name, value in (("x", x), ("s", s), ("t", t))}
        xi, si, ti = (b.input(name, value.shape, dtype) for name, value in names.items())
        b.output(b.op("layer_norm", xi, si, ti, axis=-1, epsilon=1e-5))
        b.output(b.op("rms_norm", xi, si, axis=-1, epsilon=1e-5))
        values |= names
        wide, epsilon = x.astype(np.longdouble), np.longdouble(1e-5)
        far = wide - wide.mean(-1, keepdims=True)
        wanted.append(far / np.sqrt((far * far).mean(-1, keepdims=True) + epsilon) * s + t)
        wanted.append(wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + epsilon) * s)
    module = gr.create(b.build(), None, "cpu:0")
    module.run(**values)
    for i, exact in enumerate(wanted):
        error = np.abs(module.get_output(i).numpy() - exact).max()
        assert error <= limit * max(1, np.abs(exact).max()), LENGTHS[i // 2]


def test_a_row_with_what_is_not_finite_is_none():
    x = np.ones((4, 20), np.float32)
    x[0, 0], x[1, 7], x[2, 19] = np.inf, -np.inf, np.nan
    b = gr.GraphBuilder()
    s = b.input("s", (20,))
    b.output(b.op("layer_norm", b.input("x", (4, 20)), s, s, axis=-1, epsilon=1e-5))
    module = gr.create(b.build(), None, "cpu:0")
    module.run(x=x, s=np.ones(20, np.float32))
    found = module.get_output(0).numpy()
    assert np.isnan(found[:3]).all()
    np.testing.assert_array_equal(found[3], 1)
