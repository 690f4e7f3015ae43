"""Functions of eager mode against numpy: values, dtypes, shapes, and which of them stay on the device."""

from __future__ import annotations

import operator
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import eager
from graph_runtime.eager import routines
from graph_runtime.eager.elementwise import ELEMENTWISE
from graph_runtime.ir import ops
from graph_runtime.ir.ops.inputs import nmse

X, Y = (5, 40), (40,)

# name -> (numpy's function, eager's, both of (a, b)); float32 inputs, all done by kernels
ON_DEVICE = {
    "add": lambda xp, a, b: xp.add(a, b),
    "subtract": lambda xp, a, b: xp.subtract(b, a),
    "multiply": lambda xp, a, b: xp.multiply(a, b),
    "divide": lambda xp, a, b: xp.divide(a, b),
    "maximum": lambda xp, a, b: xp.maximum(a, b),
    "minimum": lambda xp, a, b: xp.minimum(a, b),
    "negative": lambda xp, a, b: xp.negative(a),
    "positive": lambda xp, a, b: xp.positive(a),
    "absolute": lambda xp, a, b: xp.absolute(a),
    "square": lambda xp, a, b: xp.square(a),
    "reciprocal": lambda xp, a, b: xp.reciprocal(a),
    "exp": lambda xp, a, b: xp.exp(a),
    "tanh": lambda xp, a, b: xp.tanh(a),
    "sqrt": lambda xp, a, b: xp.sqrt(xp.square(a)),
    "power": lambda xp, a, b: xp.power(a, 2),
    "clip": lambda xp, a, b: xp.clip(a, -0.5, 0.5),
    "sum": lambda xp, a, b: xp.sum(a),
    "sum of rows": lambda xp, a, b: xp.sum(a, axis=1, keepdims=True),
    "mean": lambda xp, a, b: xp.mean(a, axis=(0, -1)),
    "max": lambda xp, a, b: xp.max(a, axis=0),
    "min": lambda xp, a, b: xp.min(a, axis=-1),
    "var": lambda xp, a, b: xp.var(a, axis=1, ddof=1),
    "std": lambda xp, a, b: xp.std(a),
    "matmul": lambda xp, a, b: xp.matmul(a, b),
    "matmul of matrices": lambda xp, a, b: xp.matmul(a, xp.transpose(a)),
    "dot": lambda xp, a, b: xp.dot(b, b),
    "reshape": lambda xp, a, b: xp.reshape(a, (8, -1)),
    "ravel": lambda xp, a, b: xp.ravel(a),
    "squeeze": lambda xp, a, b: xp.squeeze(xp.expand_dims(a, (0, -1))),
    "transpose": lambda xp, a, b: xp.transpose(xp.expand_dims(a, 0), (1, 2, 0)),
    "swapaxes": lambda xp, a, b: xp.swapaxes(a, 0, -1),
    "moveaxis": lambda xp, a, b: xp.moveaxis(xp.expand_dims(a, 0), 0, -1),
    "flip": lambda xp, a, b: xp.flip(a, 1),
    "concatenate": lambda xp, a, b: xp.concatenate([a, a], axis=1),
    "concatenate flat": lambda xp, a, b: xp.concatenate([a, b], axis=None),
    "stack": lambda xp, a, b: xp.stack([b, b], axis=-1),
    "take": lambda xp, a, b: xp.take(a, [0, -1, 3], axis=1),
    "where": lambda xp, a, b: xp.where(xp.greater(a, b), a, -1.0),
    "comparisons": lambda xp, a, b: xp.logical_and(xp.less(a, 0.5), xp.logical_not(xp.equal(a, b))),
    "bits": lambda xp, a, b: xp.bitwise_xor(xp.isnan(a), xp.invert(xp.isinf(a))),
    "any power": lambda xp, a, b: xp.power(xp.absolute(a), 1.5),
    "rounding": lambda xp, a, b: xp.add(xp.floor(a), xp.subtract(xp.ceil(b), xp.round(a))),
    "logarithms": lambda xp, a, b: xp.log(xp.add(xp.log1p(xp.absolute(a)), 1.0)),
    "angles": lambda xp, a, b: xp.arctan(xp.add(xp.sin(a), xp.multiply(xp.cos(b), xp.sign(a)))),
    "hyperbolic": lambda xp, a, b: xp.arcsinh(xp.sinh(xp.expm1(a))),
    "prod": lambda xp, a, b: xp.prod(a, axis=0),
    "broadcast_to": lambda xp, a, b: xp.broadcast_to(b, (3, 2, 40)),
    "tile": lambda xp, a, b: xp.tile(a, (2, 1, 3)),
    "pad": lambda xp, a, b: xp.pad(a, ((1, 2), (0, 3)), constant_values=1.5),
    "argmax": lambda xp, a, b: xp.less(xp.argmax(a, axis=1), 20),  # int32 on tt
    "argmin": lambda xp, a, b: xp.equal(xp.argmin(a), 3),
    "cumsum": lambda xp, a, b: xp.cumsum(a, axis=0),
    "any": lambda xp, a, b: xp.any(xp.less(a, -1.0), axis=1, keepdims=True),
    "all": lambda xp, a, b: xp.all(a),
    "remainder": lambda xp, a, b: xp.remainder(a, b),
    "fmod": lambda xp, a, b: xp.fmod(a, b),
    "ldexp": lambda xp, a, b: xp.ldexp(a, np.arange(40) - 20),
    "logaddexp": lambda xp, a, b: xp.logaddexp(a, b),
    "logaddexp2": lambda xp, a, b: xp.logaddexp2(a, b),
    "hypot": lambda xp, a, b: xp.hypot(a, b),
    "i0": lambda xp, a, b: xp.i0(a),
}
ON_CPU = {  # tt has no kernel for them
    "reflected": lambda xp, a, b: xp.pad(a, 2, mode="reflect"),
}
ON_HOST = {
    "sort": lambda xp, a, b: xp.sort(a),
    "argsort": lambda xp, a, b: xp.argsort(a),
    "cumprod": lambda xp, a, b: xp.cumprod(a, axis=1),
    "decimals": lambda xp, a, b: xp.round(a, 2),
    "initial": lambda xp, a, b: xp.sum(a, initial=2.0),
    "order": lambda xp, a, b: xp.reshape(a, (8, -1), order="F"),
    "wrap": lambda xp, a, b: xp.take(a, [50], axis=1, mode="wrap"),
}


def pair(rng, device):
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in (X, Y)]
    return arrays, [eager.array(a, device) for a in arrays]


def assert_close(got: gr.Tensor, wanted, bound: float = 1e-11) -> None:
    wanted = np.asarray(wanted)
    assert isinstance(got, gr.Tensor)
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype.name)
    assert nmse(got.numpy(), wanted) <= bound


@pytest.mark.parametrize("name", ON_DEVICE)
@pytest.mark.parametrize("through", ["eager", "numpy"])
def test_stays_on_the_device(name, through, device, rng):
    arrays, tensors = pair(rng, device)
    with eager.strict():
        got = ON_DEVICE[name](eager if through == "eager" else np, *tensors)
    assert str(got.device) == device
    assert_close(got, ON_DEVICE[name](np, *arrays))
    assert eager.fallbacks() == []


@pytest.mark.parametrize("name", ON_CPU)
def test_stays_on_the_cpu(name, rng):
    arrays, tensors = pair(rng, "cpu:0")
    with eager.strict():
        assert_close(ON_CPU[name](eager, *tensors), ON_CPU[name](np, *arrays))
    on_tt = ON_CPU[name](eager, *(eager.array(a, "tt:0") for a in arrays))
    wanted = np.asarray(ON_CPU[name](np, *arrays))
    np.testing.assert_allclose(on_tt.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert str(on_tt.device) == "tt:0"
    assert eager.fallbacks()


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32"])
@pytest.mark.parametrize("operate", [operator.lt, operator.ge, operator.eq, operator.ne])
def test_comparisons_are_numpys(dtype, operate, device):
    values = np.array([0, 1, 2, 3]).astype(dtype)
    x = eager.array(values, device)
    for other in (1, 1.5, -1, 10**6, values[::-1].copy()):
        given = eager.array(other, device) if isinstance(other, np.ndarray) else other
        got = operate(x, given)
        assert got.dtype == "bool"
        np.testing.assert_array_equal(got.numpy(), operate(values, other))


def test_integers_without_a_common_dtype_are_compared_exactly():
    big = np.array([2**63 + 1], np.uint64)
    assert not (eager.array(big) == eager.array(np.array([2**62], np.int64))).numpy().any()


def test_an_op_of_several_outputs_needs_a_graph():
    with pytest.raises(gr.InputError, match="topk has 2 outputs"):
        eager.call("topk", eager.ones((3, 4)), k=2)


@pytest.mark.parametrize("name", ON_HOST)
def test_is_done_on_the_host_and_placed_back(name, device, rng):
    arrays, tensors = pair(rng, device)
    got = ON_HOST[name](eager, *tensors)
    wanted = np.asarray(ON_HOST[name](np, *arrays))
    if wanted.dtype == np.int64 and device == "tt:0":
        wanted = wanted.astype(np.int32)
    assert str(got.device) == device
    assert_close(got, wanted)
    (fallback,) = eager.fallbacks()
    assert fallback.count == 1
    assert fallback.device == device
    assert fallback.reason


DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
)
_BF16 = ml_dtypes.bfloat16


@pytest.mark.parametrize("b", [*DTYPES, bool, int, float], ids=str)
@pytest.mark.parametrize("a", DTYPES)
def test_dtypes_on_cpu_are_numpys(a, b):
    left = eager.array(np.array([1, 0, 1]).astype(_BF16 if a == "bfloat16" else a))
    scalar = isinstance(b, type)
    right = b(1) if scalar else eager.array(np.array([1, 1, 0]).astype(_BF16 if b == "bfloat16" else b))
    names = {a, b}
    if "bfloat16" in names:
        wanted = "bfloat16"  # numpy knows no rule for it and integers
        (other,) = names - {wanted} or names
        wanted = {"float64": "float64", "float32": "float32", "float16": "float32"}.get(other, wanted)
    else:
        wanted = np.result_type(np.dtype(a), b(1) if scalar else np.dtype(b)).name
    for function in (eager.add, eager.multiply, eager.maximum):
        assert function(left, right).dtype == wanted
    if "bfloat16" not in names:
        other = right if scalar else np.ones(1, b)
        assert eager.divide(left, right).dtype == np.true_divide(np.ones(1, a), other).dtype.name


@pytest.mark.parametrize(
    ("a", "b", "wanted"),
    [
        ("int32", 1.5, "float32"),
        ("int32", 2, "int32"),
        ("bool", 1, "int32"),
        ("bfloat16", 1.5, "bfloat16"),
        ("uint8", 1, "uint8"),
    ],
)
def test_a_device_without_64_bits_takes_32(a, b, wanted):
    x = eager.array(np.array([1, 0]).astype(_BF16 if a == "bfloat16" else a), "tt:0")
    got = eager.multiply(x, b)
    assert got.dtype == wanted
    np.testing.assert_array_equal(got.numpy().astype(float), [b, 0])


def test_narrowing_when_arrays_are_pushed():
    assert eager.array(np.ones(2), "tt:0").dtype == "float32"
    assert eager.array(np.ones(2, np.int64), "tt:0").dtype == "int32"
    assert eager.array(np.ones(2), "cpu:0").dtype == "float64"


@pytest.mark.parametrize("dtype", ["int8", "int32", "uint8", "float32", "float16", "bfloat16"])
def test_extremes(dtype):
    """Where a formula through negation would overflow."""
    dtype = np.dtype(_BF16 if dtype == "bfloat16" else dtype)
    info = ml_dtypes.finfo(dtype) if dtype.kind in "fV" else np.iinfo(dtype)
    values = np.array([info.min, 0, 1, info.max]).astype(dtype)
    x, other = eager.array(values), values[::-1].copy()
    np.testing.assert_array_equal(eager.minimum(x, other).numpy(), np.minimum(values, other))
    np.testing.assert_array_equal(eager.min(x).numpy(), values.min())
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(eager.negative(x).numpy(), -values)
        np.testing.assert_array_equal(eager.absolute(x).numpy(), np.abs(values))


def test_nan_and_signed_zero():
    values = np.array([np.nan, -0.0, 0.0, np.inf], np.float32)
    x = eager.array(values)
    assert np.signbit(eager.negative(x).numpy())[1:].tolist() == np.signbit(-values)[1:].tolist()
    np.testing.assert_array_equal(eager.minimum(x, 1.0).numpy(), np.minimum(values, 1.0))
    added = (x + -0.0).numpy()  # the constant 0.0 is another one
    assert np.signbit(added[1])
    assert not np.signbit((x + 0.0).numpy()[1])


@pytest.mark.parametrize(
    "shapes", [((3, 1), (1, 4)), ((), (3,)), ((2, 1, 5), (4, 1)), ((0, 3), (1, 3))], ids=str
)
def test_broadcasting(shapes, device, rng):
    a, b = (np.asarray(rng.standard_normal(s), np.float32) for s in shapes)
    assert_close(eager.array(a, device) + eager.array(b, device), a + b)


def test_python_scalars_and_arrays_join_the_tensors_device(device, rng):
    (x, y), (a, b) = pair(rng, device)
    assert_close(2 * a - 1, 2 * x - 1)
    assert_close(1 / (a + 10), 1 / (x + 10))
    assert_close(a + y, x + y)
    assert_close(y + a, y + x)
    assert_close(np.float32(3) * b, np.float32(3) * y)
    assert_close(a + np.ones(40), (x + np.ones(40)) if device == "cpu:0" else x + 1)
    assert eager.fallbacks() == []


def test_out(device, rng):
    (x, y), (a, b) = pair(rng, device)
    out = eager.zeros(X, device)
    assert np.add(a, b, out=out) is out
    assert_close(out, x + y)
    assert eager.multiply(a, a, out=a) is a
    assert_close(a, x * x)
    array = np.empty(X, np.float32)
    assert np.subtract(a, b, out=array) is array
    np.testing.assert_array_equal(array, (x * x) - y)
    a += b
    assert_close(a, x * x + y)
    with pytest.raises(gr.InputError, match=r"out= has shape \(40,\), the result has \(5, 40\)"):
        np.add(a, a, out=b)
    with pytest.raises(gr.InputError, match="out= is int32, the result is float32"):
        np.add(a, a, out=eager.zeros(X, device, "int32"))


@pytest.mark.parametrize(
    "index",
    [
        0,
        -1,
        slice(1, 4),
        slice(None, None, -2),
        (slice(1, 3), slice(5, 30, 7)),
        (..., 3),
        (None, 2, ..., None),
        (1, 2),
        (slice(4, 1), 0),
        [0, 2, -1],
        (slice(None), [3, 3]),
        np.array([[1], [0]]),
        (..., slice(0, 2)),
    ],
    ids=str,
)
def test_indexing(index, device, rng):
    (x, _), (a, _) = pair(rng, device)
    assert_close(a[index], x[index])
    assert eager.fallbacks() == []


def test_other_indices_are_numpys(device, rng):
    (x, _), (a, _) = pair(rng, device)
    assert_close(a[a > 0], x[x > 0])
    assert_close(a[[0, 1], [2, 3]], x[[0, 1], [2, 3]])
    for wrong in (5, (0, 0, 0), [7]):
        with pytest.raises(IndexError):
            a[wrong]
    with pytest.raises(IndexError):
        a[eager.array(np.array([7], np.int32), device)].numpy()  # known when the kernel has run


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 7.0),
        ((slice(1, 3), slice(None, None, 2)), 1),
        ((..., 5), np.arange(5)),
        (slice(None), np.ones(40)),
        ((slice(4, 1),), 3),
        (([0, 2], [1, 1]), 5.0),
        (slice(1, 2), np.float32(2)),
    ],
    ids=str,
)
def test_assignment(index, value, device, rng):
    (x, _), (a, _) = pair(rng, device)
    before = a.copy()
    wanted = x.copy()
    wanted[index] = value
    a[index] = value
    assert_close(a, wanted)
    assert_close(before, x)


def test_assignment_of_a_tensor_and_of_what_does_not_fit(device, rng):
    (x, y), (a, b) = pair(rng, device)
    a[2] = b
    x[2] = y
    assert_close(a, x)
    a[1:3] = b  # broadcast
    x[1:3] = y
    assert_close(a, x)
    with pytest.raises(ValueError, match="broadcast"):
        a[0] = np.ones(3)
    with pytest.raises(IndexError):
        a[9] = 1


def test_an_attribute_that_is_none_is_not_given(device):
    """As in a graph: what goes with an alias, or is the default, is used."""
    x = eager.array(np.array([-3, 2, 9], np.float32), device)
    with eager.strict():
        np.testing.assert_array_equal(eager.call("relu6", x, min=None).numpy(), [0, 2, 6])
        np.testing.assert_array_equal(eager.call("relu6", x, min=-1.0, max=None).numpy(), [-1, 2, 6])
        np.testing.assert_array_equal(
            eager.call("softmax", x, axis=None).numpy(), eager.call("softmax", x).numpy()
        )


def test_mistakes_are_typed_and_say_where(device):
    a, b = eager.ones((2, 3), device), eager.ones((4, 5), device)
    where = rf"add\(float32\[2, 3\], float32\[4, 5\]\) on {device}: .*broadcast"
    with pytest.raises(gr.InputError, match=where):
        a + b
    with pytest.raises(ValueError, match="axis 5 is out of bounds"):
        eager.sum(a, axis=5)
    with pytest.raises(gr.UnsupportedOpError, match="did you mean 'softmax'"):
        eager.call("softmx", a)
    with pytest.raises(gr.InputError, match="no attribute 'axes'"):
        eager.call("softmax", a, axes=1)
    with pytest.raises(gr.InputError, match="needs a Tensor"):
        eager.add(1, 2)
    with pytest.raises(OverflowError):
        eager.ones(2, device, "int8") + 300
    assert eager.fallbacks() == []  # a mistake is no fallback


def test_tensors_of_two_devices():
    with pytest.raises(gr.DeviceError, match=r"float32\[2\] on cpu:0, float32\[2\] on tt:0: move them"):
        eager.ones(2, "cpu:0") + eager.ones(2, "tt:0")


def test_formats_stay(rng):
    """A float32 tensor that a tt device stores in bf16 gives results in bf16."""
    x = eager.array(rng.standard_normal((33, 40)).astype(np.float32), "tt:0")
    assert (x + x).layout.layout == "tile"
    assert (x + x).layout.format == "f32"


def test_the_page_lists_every_function():
    """docs/eager.md names what there is, in the row where it belongs."""
    page = (Path(__file__).parents[2] / "docs" / "eager.md").read_text()
    rows = (page.split(f"\n| {row}")[1].split("\n")[0] for row in ("kernels |", "the host,"))
    kernels, host = (set(re.findall(r"\w+", row)) for row in rows)
    kernels |= set(ELEMENTWISE)  # which are in docs/ops.md
    assert {f.__name__ for f in routines.DEVICE.values()} <= kernels
    assert {f.__name__ for f in routines.HOST.values()} <= host
    others = {
        "Fallback",
        "array",
        "call",
        "fallbacks",
        "forget",
        "full",
        "getitem",
        "ones",
        "setitem",
        "strict",
        "verify",
        "zeros",
    }
    assert set(eager.__all__) - others <= kernels | host


def test_layers(device, rng):
    (x, y), (a, _) = pair(rng, device)
    with eager.strict():
        for name in ("relu", "gelu", "sigmoid", "softmax"):
            op = ops.require(name)
            assert_close(getattr(eager, name)(a), op.reference([x], op.decode({}))[0])
        assert_close(eager.dense(a, x), x @ x.T)
        assert eager.layer_norm(a, y, y).shape == X
