"""The numpy references against other ways to say the same: loops over elements, einsum, Python's own
arithmetic."""

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from graph_runtime.base.errors import KernelError
from graph_runtime.ir import ops


def reference(name, arrays, **attrs):
    op = ops.require(name)
    return op.reference(arrays, op.decode(attrs))[0]


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


# ---------------------------------------------------------------- elementwise


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("add", lambda a, b: a + b),
        ("subtract", lambda a, b: a - b),
        ("multiply", lambda a, b: a * b),
        ("divide", lambda a, b: a / b),
        ("maximum", max),
    ],
)
def test_binary_of_float64_is_pythons(name, python):
    a, b = normal(3, 4, dtype=np.float64), normal(4, seed=1, dtype=np.float64)
    wanted = [[python(a[i, j], b[j]) for j in range(4)] for i in range(3)]
    np.testing.assert_array_equal(reference(name, [a, b]), wanted)


@pytest.mark.parametrize(
    ("name", "python"),
    [
        ("relu", lambda x: max(x, 0.0)),
        ("sigmoid", lambda x: 1 / (1 + math.exp(-x))),
        ("tanh", math.tanh),
        ("exp", math.exp),
        ("gelu", lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2),
    ],
)
def test_functions_are_pythons(name, python):
    x = normal(50, dtype=np.float64)
    np.testing.assert_allclose(reference(name, [x]), [python(v) for v in x.tolist()], rtol=1e-13)


def test_gelu_by_tanh_is_its_formula():
    x = normal(50, dtype=np.float64)
    wanted = [0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in x.tolist()]
    np.testing.assert_allclose(reference("gelu", [x], approximate="tanh"), wanted, rtol=1e-12)


def test_sigmoid_does_not_overflow():
    np.testing.assert_array_equal(reference("sigmoid", [np.array([-1e4, 1e4], np.float32)]), [0, 1])


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_sixteen_bit_floats_round_once(dtype):
    """1 + 2^-9 + 2^-9 in one sum: rounding after each addend would give 1."""
    x = np.array([[1.0, 2.0**-9, 2.0**-9, 2.0**-9, 2.0**-9]]).astype(dtype)
    exact = np.array([[1 + 4 * 2.0**-9]]).astype(dtype)
    assert exact > 1
    np.testing.assert_array_equal(reference("sum", [x], axes=[1]), exact)
    np.testing.assert_array_equal(reference("dense", [x, np.ones((1, 5), dtype)]), exact)


def test_integer_division_truncates_and_wraps():
    a, b = np.array([7, -7, 7, -7, -128], np.int8), np.array([2, 2, -2, -2, -1], np.int8)
    np.testing.assert_array_equal(reference("divide", [a, b]), [3, -3, -3, 3, -128])


@pytest.mark.parametrize(
    ("value", "to", "wanted"),
    [
        (2.9, "int32", 2),
        (-2.9, "int32", -2),
        (300.0, "int8", 127),
        (-300.0, "int8", -128),
        (-1.0, "uint8", 0),
        (math.nan, "int16", 0),
        (math.inf, "int64", 2**63 - 1),
        (2.0**63, "uint64", 2**63),
        (-math.inf, "uint32", 0),
        (0.25, "bool", True),
        (-0.0, "bool", False),
        (math.nan, "bool", True),
        (70000.0, "float16", math.inf),
        (1 + 2.0**-9, "bfloat16", 1.0),
        (3, "float64", 3.0),
    ],
)
def test_cast(value, to, wanted):
    result = reference("cast", [np.array([value], np.float64)], to=to)
    assert result.tolist() == [wanted]
    assert result.dtype.name == to


def test_integers_wrap_when_cast():
    np.testing.assert_array_equal(reference("cast", [np.array([300, -1], np.int64)], to="uint8"), [44, 255])


# ---------------------------------------------------------------- linear, convolution, pools


def test_dense_and_bias():
    x, w, b = normal(2, 3, 5), normal(4, 5, seed=1), normal(4, seed=2)
    wanted = np.einsum("bsk,nk->bsn", x.astype(np.float64), w) + b
    np.testing.assert_allclose(reference("dense", [x, w, b]), wanted, rtol=1e-5)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul(transpose_a, transpose_b):
    a, b = (
        normal(2, 1, *((5, 3) if transpose_a else (3, 5))),
        normal(4, *((6, 5) if transpose_b else (5, 6)), seed=1),
    )
    left, right = "abkm" if transpose_a else "abmk", "bnk" if transpose_b else "bkn"
    wanted = np.einsum(
        f"{left},{right}->abmn", np.broadcast_to(a, (2, 4, *a.shape[2:])).astype(np.float64), b
    )
    result = reference("matmul", [a, b], transpose_a=transpose_a, transpose_b=transpose_b)
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def test_integer_products_wrap():
    big = np.full((1, 2), 2**30, np.int32)
    np.testing.assert_array_equal(reference("dense", [big, big]), [[(2**61) % 2**32]])


def conv_by_loops(x, w, bias, strides, pads, dilations, group):
    n, _, h, wd = x.shape
    o, cg, kh, kw = w.shape
    oh = (h + pads[0] + pads[2] - (kh - 1) * dilations[0] - 1) // strides[0] + 1
    ow = (wd + pads[1] + pads[3] - (kw - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((n, o, oh, ow))
    for b, f, i, j in itertools.product(range(n), range(o), range(oh), range(ow)):
        for c, p, q in itertools.product(range(cg), range(kh), range(kw)):
            r, s = i * strides[0] - pads[0] + p * dilations[0], j * strides[1] - pads[1] + q * dilations[1]
            if 0 <= r < h and 0 <= s < wd:
                y[b, f, i, j] += float(x[b, f // (o // group) * cg + c, r, s]) * float(w[f, c, p, q])
        y[b, f, i, j] += bias[f]
    return y


@pytest.mark.parametrize(
    ("x", "w", "strides", "pads", "dilations", "group"),
    [
        ((2, 3, 5, 6), (4, 3, 3, 2), (1, 1), (0, 0, 0, 0), (1, 1), 1),
        ((1, 4, 7, 5), (6, 2, 3, 3), (2, 1), (1, 0, 2, 1), (1, 1), 2),
        ((1, 3, 8, 9), (3, 1, 2, 3), (1, 2), (1, 2, 0, 1), (2, 3), 3),
        ((1, 1, 2, 2), (2, 1, 2, 2), (3, 3), (3, 3, 3, 3), (1, 1), 1),
    ],
)
def test_conv2d(x, w, strides, pads, dilations, group):
    image, weight, bias = normal(*x), normal(*w, seed=1), normal(w[0], seed=2)
    result = reference(
        "conv2d", [image, weight, bias], strides=strides, pads=pads, dilations=dilations, group=group
    )
    wanted = conv_by_loops(image, weight, bias, strides, pads, dilations, group)
    assert result.shape == wanted.shape
    np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-6)


def pool_by_counting(x, kernel, strides, pads, ceil_mode, include, mean):
    """ONNX's text: walk window starts from -pad by stride; a window must start inside the image or the
    padding before it, and, but for ceil_mode, end inside the padded image."""

    def windows(size, k, s, begin, end):
        start = -begin
        while start < size and (start + k <= size + end or (ceil_mode and start - s + k < size + end)):
            yield start, [t for t in range(start, start + k) if t < size + end]
            start += s

    rows, columns = windows(x.shape[2], kernel[0], strides[0], pads[0], pads[2]), []
    rows, columns = list(rows), list(windows(x.shape[3], kernel[1], strides[1], pads[1], pads[3]))
    y = np.zeros((*x.shape[:2], len(rows), len(columns)))
    for (i, (_, r)), (j, (_, c)) in itertools.product(enumerate(rows), enumerate(columns)):
        inside = [(a, b) for a in r for b in c if 0 <= a < x.shape[2] and 0 <= b < x.shape[3]]
        values = np.array([x[:, :, a, b].astype(np.float64) for a, b in inside])
        y[:, :, i, j] = (
            values.sum(0) / (len(r) * len(c) if include else len(inside)) if mean else values.max(0)
        )
    return y


@pytest.mark.parametrize("ceil_mode", [False, True])
@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize(
    ("shape", "kernel", "strides", "pads"),
    [
        ((1, 2, 8, 8), (2, 2), (2, 2), (0, 0, 0, 0)),
        ((2, 1, 9, 10), (3, 3), (2, 3), (1, 0, 1, 2)),
        ((1, 1, 4, 4), (2, 2), (3, 3), (1, 1, 1, 1)),
        ((1, 1, 7, 5), (3, 2), (1, 2), (2, 1, 0, 0)),
        ((1, 1, 10, 11), (3, 3), (2, 3), (0, 1, 0, 1)),
    ],
)
def test_pools(shape, kernel, strides, pads, ceil_mode, include):
    x = normal(*shape)
    attrs = {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": ceil_mode}
    largest = pool_by_counting(x, kernel, strides, pads, ceil_mode, include, False)
    np.testing.assert_array_equal(reference("max_pool2d", [x], **attrs), largest)
    mean = pool_by_counting(x, kernel, strides, pads, ceil_mode, include, True)
    np.testing.assert_allclose(
        reference("avg_pool2d", [x], count_include_pad=include, **attrs), mean, rtol=1e-5, atol=1e-7
    )


def test_global_pools():
    x = normal(2, 3, 4, 5)
    np.testing.assert_array_equal(
        reference("global_max_pool2d", [x])[..., 0, 0], [[p.max() for p in image] for image in x]
    )
    wanted = [[math.fsum(p.ravel().tolist()) / 20 for p in image] for image in x]
    np.testing.assert_allclose(reference("global_avg_pool2d", [x])[..., 0, 0], wanted, rtol=1e-6)


# ---------------------------------------------------------------- reductions and normalisations


def test_reductions():
    x = normal(2, 3, 4)
    for name, python in (("sum", math.fsum), ("mean", lambda v: math.fsum(v) / len(v)), ("max", max)):
        wanted = [python([float(x[i, j, k]) for i in range(2) for k in range(4)]) for j in range(3)]
        np.testing.assert_allclose(reference(name, [x], axes=[0, -1], keepdims=False), wanted, rtol=1e-6)
        assert reference(name, [x]).shape == (1, 1, 1)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_softmax(axis):
    x = normal(3, 4, 5)
    e = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(
        reference("softmax", [x], axis=axis), e / e.sum(axis=axis, keepdims=True), rtol=1e-6
    )
    np.testing.assert_array_equal(reference("softmax", [np.array([1e4, 0], np.float32)]), [1, 0])


def test_layer_norm():
    x, scale, bias = normal(2, 3, 4), normal(3, 4, seed=1), normal(3, 4, seed=2)
    result = reference("layer_norm", [x, scale, bias], axis=1, epsilon=0.1)
    for i in range(2):
        row = [float(v) for v in x[i].ravel()]
        mean = math.fsum(row) / 12
        variance = math.fsum((v - mean) ** 2 for v in row) / 12
        wanted = [(v - mean) / math.sqrt(variance + 0.1) for v in row] * scale.ravel() + bias.ravel()
        np.testing.assert_allclose(result[i].ravel(), wanted, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------- movement


def test_slices_are_pythons():
    x = normal(5, 7)
    cases = {
        (0, 5, 1): x[0:5],
        (-2, 2**63 - 1, 1): x[-2:],
        (10, -(2**63), -2): x[10::-2],
        (3, 1, 1): x[3:1],
        (-100, 100, 3): x[::3],
    }
    for (start, end, step), wanted in cases.items():
        np.testing.assert_array_equal(
            reference("slice", [x], starts=[start], ends=[end], steps=[step], axes=[0]), wanted
        )


def test_slice_update():
    x, update = normal(5, 7), normal(2, 7, seed=1)
    wanted = x.copy()
    wanted[4:0:-2] = update
    np.testing.assert_array_equal(reference("slice_update", [x, update], starts=[-1], steps=[-2]), wanted)


def test_take():
    x, indices = normal(4, 5), np.array([[0, -1], [2, 4]], np.int64)
    result = reference("take", [x, indices], axis=1)
    assert result.shape == (4, 2, 2)
    for i, j, k in itertools.product(range(4), range(2), range(2)):
        assert result[i, j, k] == x[i, indices[j, k]]
    with pytest.raises(KernelError, match="index 5 is out of range for 5 elements"):
        reference("take", [x, np.array([5])], axis=1)


@pytest.mark.parametrize(
    ("name", "arrays", "attrs", "shape"),
    [
        ("divide", [np.ones((0, 2), np.int32), np.zeros((1, 2), np.int32)], {}, (0, 2)),
        ("take", [np.ones((3, 0), np.float32), np.array([7, -9], np.int32)], {"axis": 0}, (2, 0)),
        ("take", [np.ones((0, 2), np.float32), np.zeros((0,), np.int32)], {"axis": -2}, (0, 2)),
        ("max", [np.ones((0, 0), np.float32)], {"axes": (1,)}, (0, 1)),
        ("max", [np.ones((2, 0, 0), np.float32)], {"axes": (1,), "keepdims": False}, (2, 0)),
    ],
)
def test_an_empty_result_is_no_error_as_in_the_kernels(name, arrays, attrs, shape):
    op = ops.require(name)
    (result,) = op.reference(arrays, op.decode(attrs))
    assert result.shape == shape
    assert result.dtype == arrays[0].dtype
