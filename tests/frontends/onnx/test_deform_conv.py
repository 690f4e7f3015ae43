"""DeformConv against loops over its definition, on a host and on tt, and what is refused."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from graph_runtime.base.errors import GraphError, UnsupportedOpError  # noqa: E402
from graph_runtime.run.factory import create  # noqa: E402


def _read(image, place):
    """An image [channels, sizes...] between its elements, zero outside."""
    low = np.floor(place).astype(int)
    total = np.zeros(image.shape[0])
    for step in itertools.product((0, 1), repeat=len(place)):
        at = low + step
        if all(0 <= i < n for i, n in zip(at, image.shape[1:], strict=True)):
            total += np.prod(1 - np.abs(place - at)) * image[(slice(None), *at)]
    return total


def _wanted(x, w, offset, bias, mask, strides, pads, dilations, group, parts):
    kernel, out, rank = w.shape[2:], offset.shape[2:], x.ndim - 2
    taps = math.prod(kernel)
    offset = offset.reshape(len(x), parts, taps, rank, *out)
    mask = np.ones((len(x), parts, taps, *out)) if mask is None else mask.reshape(len(x), parts, taps, *out)
    each = x.shape[1] // parts
    made = np.zeros((len(x), w.shape[0], *out)) + bias.reshape(1, -1, *[1] * rank)
    for n, o in itertools.product(range(len(x)), np.ndindex(*out)):
        columns = np.zeros((x.shape[1], *kernel))
        for p, (k, tap) in itertools.product(range(parts), enumerate(np.ndindex(*kernel))):
            at = np.array(o) * strides - pads[:rank] + np.array(tap) * dilations
            place = at + offset[(n, p, k, slice(None), *o)]
            found = _read(x[n, p * each : (p + 1) * each], place) * mask[(n, p, k, *o)]
            columns[(slice(p * each, (p + 1) * each), *tap)] = found
        for g, part in enumerate(np.split(columns, group)):
            rows = slice(g * w.shape[0] // group, (g + 1) * w.shape[0] // group)
            made[(n, rows, *o)] += np.tensordot(w[rows], part, w.ndim - 1)
    return made


def _case(seed, sizes, kernel, strides, pads, dilations, group, parts, masked, far=1.5):
    rng = np.random.default_rng(seed)
    n, channels, outer = 2, 4, 6
    rank = len(sizes)
    out = [
        (size + pads[d] + pads[d + rank] - dilations[d] * (kernel[d] - 1) - 1) // strides[d] + 1
        for d, size in enumerate(sizes)
    ]
    taps = math.prod(kernel)
    feed = {
        "x": rng.standard_normal((n, channels, *sizes)),
        "w": rng.standard_normal((outer, channels // group, *kernel)),
        "o": rng.standard_normal((n, parts * taps * rank, *out)) * far,
        "b": rng.standard_normal(outer),
    }
    if masked:
        feed["m"] = rng.random((n, parts * taps, *out))
    attrs = {
        "strides": strides,
        "pads": pads,
        "dilations": dilations,
        "group": group,
        "offset_group": parts,
    }
    return feed, attrs


CASES = [
    ((6, 7), (3, 3), [1, 1], [1, 1, 1, 1], [1, 1], 1, 1, False),
    ((6, 7), (3, 2), [2, 1], [0, 1, 2, 0], [1, 2], 2, 4, True),
    ((5, 5), (1, 1), [1, 1], [0, 0, 0, 0], [1, 1], 1, 2, True),
    ((9,), (3,), [2], [1, 1], [2], 2, 1, True),
    ((3, 4, 4), (2, 2, 2), [1, 1, 2], [0, 0, 0, 0, 1, 0], [1, 1, 1], 1, 2, False),
]


def _model(kit, feed, attrs, dtype=np.float32, opset=19):
    code = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [("DeformConv", list(feed), ["y"], attrs)]
    return kit.make(nodes, {name: (code, a.shape) for name, a in feed.items()}, ["y"], opset=opset)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [["cpu"], ["tt:0", "cpu"]])
@pytest.mark.parametrize("case", CASES)
def test_equals_loops(kit, case, devices):
    feed, attrs = _case(1, *case)
    module = create(_model(kit, feed, attrs), devices=devices, compile=False)
    module.run(**{name: a.astype(np.float32) for name, a in feed.items()})
    wanted = _wanted(feed["x"], feed["w"], feed["o"], feed["b"], feed.get("m"), **_named(attrs))
    np.testing.assert_allclose(module.get_output(0).numpy(), wanted, atol=2e-4)


def _named(attrs):
    return {("parts" if name == "offset_group" else name): value for name, value in attrs.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "near"), [(np.float64, 1e-12), (np.float16, 0.1)])
def test_other_floats(kit, dtype, near):
    feed, attrs = _case(2, *CASES[1])
    module = create(_model(kit, feed, attrs, dtype), compile=False)
    feed = {name: a.astype(dtype) for name, a in feed.items()}
    module.run(**feed)
    wide = {name: a.astype(np.float64) for name, a in feed.items()}
    wanted = _wanted(wide["x"], wide["w"], wide["o"], wide["b"], wide["m"], **_named(attrs))
    got = module.get_output(0).numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, atol=near)


def test_what_lies_infinitely_far_away_is_zero(kit):
    feed, attrs = _case(3, *CASES[0])
    feed["o"] = np.where(feed["o"] > 0, np.inf, -3e38)
    module = create(_model(kit, feed, attrs), compile=False)
    module.run(**{name: a.astype(np.float32) for name, a in feed.items()})
    wanted = np.broadcast_to(
        feed["b"].astype(np.float32).reshape(1, -1, 1, 1), module.get_output(0).numpy().shape
    )
    np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)


@pytest.mark.parametrize(
    ("change", "shapes", "text"),
    [
        ({"group": 4}, {}, "must divide"),
        ({"offset_group": 0}, {}, "must divide"),
        ({"group": 2}, {}, "a weight"),
        ({"strides": [0, 1]}, {}, "strides"),
        ({"pads": [1, 1]}, {}, "pads"),
        ({"dilations": [9, 1]}, {}, "does not fit"),
        ({"kernel_shape": [2, 2]}, {}, "do not form a convolution"),
        ({}, {"o": (2, 18, 6, 6)}, "offset has shape"),
        ({}, {"m": (2, 8, 6, 7)}, "mask has shape"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_node(kit, change, shapes, text):
    feed, attrs = _case(4, *CASES[0][:-1], True)
    feed |= {name: np.zeros(shape) for name, shape in shapes.items()}
    with pytest.raises((GraphError, UnsupportedOpError), match=text) as caught:
        create(_model(kit, feed, attrs | change))
    assert "$.graph.node[0]" in str(caught.value)
