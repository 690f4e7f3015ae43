"""DFT, STFT and MelWeightMatrix beside numpy's transforms, with lengths that do not fit the signal."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import UnsupportedOpError  # noqa: E402

_RNG = np.random.default_rng(2)


def _run(op, inputs, constants=(), **attrs):
    """``inputs``: arrays; those whose index is in ``constants`` are initialisers; None is left out."""
    names = ["" if x is None else f"v{i}" for i, x in enumerate(inputs)]
    given = {i: np.asarray(x) for i, x in enumerate(inputs) if x is not None}
    infos = [
        helper.make_tensor_value_info(names[i], helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)
        for i, x in given.items()
        if i not in constants
    ]
    initial = [numpy_helper.from_array(given[i], names[i]) for i in constants if i in given]
    node = helper.make_node(op, names, ["y"], **attrs)
    graph = helper.make_graph([node], "g", infos, [onnx.ValueInfoProto(name="y")], initial)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    module = gr.create(model, compile=False)
    module.run(**{names[i]: x for i, x in given.items() if i not in constants})
    return module.get_output(0).numpy()


def _split(x):
    return np.stack([x.real, x.imag], -1)


@pytest.mark.parametrize("length", [None, 5, 12, 16])
@pytest.mark.parametrize("axis", [1, 2])
@pytest.mark.parametrize("inverse", [0, 1])
@pytest.mark.parametrize("parts", [1, 2])
def test_dft(length, axis, inverse, parts):
    x = _RNG.standard_normal((2, 12, 9, parts))
    signal = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
    wanted = (np.fft.ifft if inverse else np.fft.fft)(signal, length, axis=axis)
    inputs = (x, None if length is None else np.int64(length), np.int64(axis))
    got = _run("DFT", inputs, constants=(1, 2), inverse=inverse)
    np.testing.assert_allclose(got, _split(wanted), atol=1e-10)


@pytest.mark.parametrize("length", [8, 9])
def test_half_of_the_frequencies_and_back(length):
    x = _RNG.standard_normal((3, length, 1))
    half = _run("DFT", (x, None, np.int64(1)), constants=(2,), onesided=1)
    np.testing.assert_allclose(half, _split(np.fft.rfft(x[..., 0], axis=1)), atol=1e-10)
    back = _run("DFT", (half, np.int64(length), np.int64(1)), constants=(1, 2), onesided=1, inverse=1)
    np.testing.assert_allclose(back, x, atol=1e-10)


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize(("window", "length"), [("input", None), ("constant", 16), (None, 16)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_stft(onesided, window, length, dtype):
    x, step = _RNG.standard_normal((2, 70, 1)).astype(dtype), 7
    taper = np.hanning(16).astype(dtype) if window else np.ones(16, dtype)
    frames = np.stack([x[:, at : at + 16, 0] * taper for at in range(0, 70 - 15, step)], 1)
    wanted = _split((np.fft.rfft if onesided else np.fft.fft)(frames, axis=2))
    inputs = (x, np.int64(step), taper if window else None, None if length is None else np.int64(length))
    constants = (1, 3) if window == "input" else (1, 2, 3)
    got = _run("STFT", inputs, constants, onesided=onesided)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, wanted, atol=1e-5 if dtype == "float32" else 1e-10)


@pytest.mark.parametrize(
    ("op", "inputs", "constants", "attrs", "words"),
    [
        ("DFT", (np.ones((1, 4, 3)), None, np.int64(1)), (2,), {}, "the last dimension is not 1"),
        ("DFT", (np.ones((1, 4, 1)), None, np.int64(2)), (2,), {}, "axis 2"),
        ("DFT", (np.ones((1, 4, 1)), np.int64(0), np.int64(1)), (1, 2), {}, "0 points"),
        ("DFT", (np.ones((1, 4, 1)), np.int64(2**40), np.int64(1)), (1, 2), {}, "needs a matrix"),
        ("DFT", (np.ones((1, 4, 2)), None, np.int64(1)), (2,), {"onesided": 1}, "onesided"),
        ("STFT", (np.ones((1, 9, 1)), np.int64(0), None, np.int64(4)), (1, 3), {}, "one every 0"),
        ("STFT", (np.ones((1, 9, 1)), np.int64(1), None, np.int64(10)), (1, 3), {}, "frames of 10"),
        ("STFT", (np.ones((1, 9, 1)), np.int64(1), np.ones(3), np.int64(4)), (1, 3), {}, "window"),
        ("STFT", (np.ones((1, 9, 1)), np.int64(1)), (1,), {}, "the length of frames"),
        ("MelWeightMatrix", (8, 2**50, 8000, 0.0, 4000.0), range(5), {}, "bytes"),
        ("MelWeightMatrix", (8, 16, 0, 0.0, 4000.0), range(5), {}, "at 0 Hz"),
        ("MelWeightMatrix", (8, 16, 100, 0.0, 4000.0), range(5), {}, "filters reach"),
    ],
)
def test_what_cannot_be_is_refused_before_a_run(op, inputs, constants, attrs, words):
    inputs = tuple(np.asarray(x, np.float32) if isinstance(x, float) else x for x in inputs)
    with pytest.raises((UnsupportedOpError, gr.GraphRuntimeError), match=words):
        _run(op, inputs, tuple(constants), **attrs)
