"""Every cpu kernel that is built in, on every case of the op table, against numpy; canaries around every
buffer."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_runtime.base import dtypes
from graph_runtime.base.errors import GraphError, KernelError
from graph_runtime.base.machine import devices
from graph_runtime.binding import core
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws
from graph_runtime.ir.ops.products.levels import pack_levels
from graph_runtime.ir.ops.products.packed import pack_float_convolution
from graph_runtime.ir.ops.products.winograd import pack_winograd
from graph_runtime.ir.ops.rules import select
from graph_runtime.run.device_handles import open_device

ffi = core.ffi
CANARY = 0xA5
CASES = [(op, case) for op in ops.all_ops().values() if not op.is_nop for case in op.cases]


class Buffer:
    """A tensor of type ``t`` at a 64-byte boundary between two canaries of 64 bytes or more."""

    def __init__(self, t, array=None):
        self.type = t
        self.raw = np.full(t.nbytes + 192, CANARY, np.uint8)
        self.start = -self.raw.ctypes.data % 64 + 64
        self.address = self.raw.ctypes.data + self.start
        if array is not None:
            self.raw[self.start : self.start + t.nbytes] = np.frombuffer(array.tobytes(), np.uint8)

    def array(self):
        data = self.raw[self.start : self.start + self.type.nbytes]
        return data.view(dtypes.to_numpy(self.type.dtype)).reshape(self.type.shape)

    def intact(self):
        return (self.raw[: self.start] == CANARY).all() and (
            self.raw[self.start + self.type.nbytes :] == CANARY
        ).all()


def call(op, attrs, arrays, into=None):
    """Run the built-in cpu kernel of an op; ``into``: the input that the output overwrites. Returns the
    output array, of several outputs the first."""
    return call_all(op, attrs, arrays, into)[0]


def call_all(op, attrs, arrays, into=None, plain=False):
    """As ``call``: all outputs. ``into`` is for ops of one output; ``plain``: the kernel for any machine."""
    attrs = op.decode(attrs)
    types = [TensorType(dtypes.from_numpy(a.dtype), a.shape) for a in arrays]
    outputs = op.infer(types, attrs)
    selected = select(op, attrs, "cpu", types, outputs)
    buffers = [Buffer(t, a) for t, a in zip(types, arrays, strict=True)]
    made = [Buffer(t) for t in outputs] if into is None else [buffers[into]]
    args, shapes = ffi.new("gr_arg[]", len(buffers) + len(made)), []
    for arg, buffer in zip(args, [*buffers, *made], strict=True):
        shapes.append(ffi.new("int64_t[]", list(buffer.type.shape)))
        arg.addr, arg.shape, arg.ndim = buffer.address, shapes[-1], len(buffer.type.shape)
        arg.dtype = arg.format = dtypes.format_of(buffer.type.dtype).code
    words = ffi.new("int64_t[]", op.words(types, outputs, attrs) if op.words else [])
    scratch = Buffer(TensorType("uint8", (selected.scratch,)))
    env = open_device(devices.cpu()).env
    request = ffi.new(
        "gr_call *",
        {
            "abi": core.lib.gr_abi_version(),
            "nargs": len(args),
            "args": args,
            "attrs": words,
            "scratch": ffi.cast("void *", scratch.address),
            "env": env,
        },
    )
    core.check(ffi.cast("gr_kernel_fn", core.generic_kernels(plain)[selected.generic])(request))
    assert all(b.intact() for b in (*buffers, *made, scratch)), (
        f"{selected.generic} wrote outside of its buffers"
    )
    untouched = [b for i, b in enumerate(buffers) if i != into]
    assert all(
        b.array().tobytes() == a.tobytes()
        for b, a in zip(untouched, [a for i, a in enumerate(arrays) if i != into], strict=True)
    ), f"{selected.generic} wrote to an input"
    return [out.array().copy() for out in made]


def test_every_announced_cpu_kernel_has_an_op_and_every_op_its_kernels():
    """The table and native/kernels agree: nothing is missing, nothing is built that no op uses."""
    wanted = {
        select(op, op.decode(case.attrs), "cpu", types, op.infer(types, op.decode(case.attrs))).generic
        for op, case in CASES
        for types in [[TensorType(*i) for i in case.inputs]]
    }
    bodies = [body for op in ops.all_ops().values() for body in op.variants.get("cpu", ())]
    wanted |= {f"cpu/{body.name}/f32" for body in bodies if body.library}  # chosen with that library only
    assert {name for name in core.generic_kernels() if name.startswith("cpu/")} == wanted
    for op in ops.all_ops().values():
        if not op.is_nop:
            assert {case.inputs[0][0] for case in op.cases} == set(op.bodies["cpu"].dtypes), op.name


def _has_forms(op):
    """Whether one of an op's kernels is there twice on this machine: for it, and for any."""
    fast, plain = core.generic_kernels(), core.generic_kernels(plain=True)
    names = {body.name for body in op.all_bodies("cpu")}
    return any(fast[key] != plain[key] for key in plain if key.split("/")[1] in names)


OPS = [op for op in ops.all_ops().values() if not op.is_nop]
FORMS = [*((op.name, False) for op in OPS), *((op.name, True) for op in OPS if _has_forms(op))]


@pytest.mark.parametrize(("name", "plain"), FORMS)
def test_cases(name, plain):
    """All cases of an op, into a buffer of its own and over every input that the op may overwrite."""
    op = ops.require(name)
    for case in op.cases:
        arrays = draws.draw(case)
        wanted, *others = draws.expected(op, case, arrays)
        like = [(a.dtype, a.shape) == (wanted.dtype, wanted.shape) for a in arrays]
        same = [i for i in op.inplace if i < len(like) and like[i]]
        for into in (None, *same):
            made = call_all(op, case.attrs, arrays, into, plain)
            error = max(draws.nmse(a, b) for a, b in zip(made, [wanted, *others], strict=True))
            assert error <= case.nmse["cpu"], (
                f"{name}/{case.name}: nmse {error:.2e}, output over input {into}"
            )


@pytest.fixture
def two_threads():
    before = core.pool_threads()
    core.pool_set_threads(2)
    yield
    core.pool_set_threads(before)


@pytest.mark.parametrize(
    ("name", "shapes", "attrs"),
    [
        ("add", [(3, 300, 400), (3, 300, 400)], {}),
        ("add", [(3, 300, 400), (300, 1)], {}),
        ("multiply", [(400000,), ()], {}),
        ("gelu", [(300, 401)], {}),
        ("relu", [(700, 401)], {}),
        ("dense", [(130, 70), (150, 70), (150,)], {}),
        ("matmul", [(2, 130, 70), (70, 150)], {}),
        ("conv2d", [(2, 8, 40, 50), (40, 8, 3, 3), (40,)], {"pads": (1, 1, 1, 1)}),
        ("conv2d", [(2, 24, 40, 50), (24, 1, 3, 3)], {"group": 24}),
        ("dense", [(130, 70), (5, 70, 32), (150,)], {"packed": 150}),
        (
            "conv2d",
            [(2, 40, 50, 8), (2, 72, 32), (40,)],
            {"layout": "NHWC", "packed": 40, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1)},
        ),
        (
            "conv2d",  # five tiles: a thread has one or two
            [(1, 4, 20, 64), (36, 64, 32), (32,)],
            {"layout": "NHWC", "packed": 32, "kernel_shape": (3, 3), "pads": (1, 1, 1, 1), "winograd": True},
        ),
        ("max_pool2d", [(3, 40, 40, 30)], {"kernel_shape": (3, 3)}),
        ("sum", [(300, 401, 5)], {"axes": (0, 2)}),
        ("max", [(300, 401, 5)], {"axes": (1,)}),
        ("softmax", [(300, 401)], {}),
        ("softmax", [(30, 40, 401)], {"axis": 1}),
        ("layer_norm", [(300, 401), (401,), (401,)], {}),
        ("transpose", [(30, 40, 201)], {"perm": (2, 0, 1)}),
        ("slice", [(300, 401)], {"starts": (1,), "ends": (300,), "steps": (2,)}),
        ("slice_update", [(300, 401), (250, 401)], {"starts": (7,)}),
    ],
)
def test_threads_change_nothing(name, shapes, attrs, two_threads):
    """Work that is large enough for several threads gives the same bits as one thread, which are right."""
    op = ops.require(name)
    rng = np.random.default_rng(1)
    arrays = [draws.draw_array(TensorType("float32", s), rng) for s in shapes]
    many = call(op, attrs, arrays)
    core.pool_set_threads(1)
    np.testing.assert_array_equal(call(op, attrs, arrays), many)
    assert draws.nmse(many, op.reference(arrays, op.decode(attrs))[0]) < 1e-11


# ---------------------------------------------------------------- special values


def test_integers_wrap():
    low = np.array([-128, -128, 127, 100], np.int8)
    other = np.array([-1, 1, 1, 100], np.int8)
    for name in ("add", "subtract", "multiply", "divide"):
        op = ops.require(name)
        np.testing.assert_array_equal(call(op, {}, [low, other]), op.reference([low, other], {})[0])
    least = np.array([-(2**63), 2**63 - 1], np.int64)
    np.testing.assert_array_equal(
        call(ops.require("divide"), {}, [least, np.array([-1, -1])]), [-(2**63), -(2**63 - 1)]
    )
    big = np.full((3, 3), 2**30, np.int32)
    np.testing.assert_array_equal(call(ops.require("matmul"), {}, [big, big]), np.zeros((3, 3), np.int32))
    np.testing.assert_array_equal(
        call(ops.require("sum"), {"keepdims": False}, [big[0, :2]]), np.int32(-(2**31))
    )


def test_division_truncates_toward_zero():
    a, b = np.array([7, -7, 7, -7], np.int32), np.array([2, 2, -2, -2], np.int32)
    np.testing.assert_array_equal(call(ops.require("divide"), {}, [a, b]), [3, -3, -3, 3])


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8", "uint64"])
def test_integer_division_by_zero_is_an_error(dtype):
    zeros = np.array([1, 0], dtype)
    with pytest.raises(KernelError, match="division by zero"):
        call(ops.require("divide"), {}, [zeros, zeros])
    with pytest.raises(KernelError, match="division by zero"):
        ops.require("divide").reference([zeros, zeros], {})


@pytest.mark.parametrize("index", [5, -6, 2**31 - 1, -(2**31)])
def test_an_index_out_of_range_is_an_error(index):
    data, indices = np.arange(10, dtype=np.float32).reshape(5, 2), np.array([0, index], np.int32)
    with pytest.raises(KernelError, match="out of range"):
        call(ops.require("take"), {}, [data, indices])
    with pytest.raises(KernelError, match="out of range"):
        ops.require("take").reference([data, indices], {"axis": 0})


@pytest.mark.parametrize("index", [5, -6, 2**40, -(2**63)])
@pytest.mark.parametrize("name", ["take_along_axis", "gather_nd", "scatter_elements", "scatter_nd"])
def test_indices_out_of_range_are_errors(name, index):
    data, indices = np.arange(10, dtype=np.float32).reshape(5, 2), np.array([[0], [index]])
    updates = [] if name[0] in "tg" else [np.ones((2, 1 if name == "scatter_elements" else 2), np.float32)]
    op = ops.require(name)
    with pytest.raises(KernelError, match="out of range"):
        call(op, {}, [data, indices, *updates])
    with pytest.raises(KernelError, match="out of range"):
        op.reference([data, indices, *updates], op.decode({}))


def test_what_integers_cannot_be_is_an_error():
    x = np.array([7, -7], np.int32)
    for name, y, text in (("mod", 0, "division by zero"), ("power", -1, "negative exponent")):
        with pytest.raises(KernelError, match=text):
            call(ops.require(name), {}, [x, np.full(2, y, np.int32)])
    least = np.array([-(2**63)], np.int64)
    assert call(ops.require("mod"), {}, [least, np.array([-1])]) == 0  # one instruction would trap
    assert call(ops.require("abs"), {}, [least]) == least


def test_remainders_have_the_sign_they_should():
    a, b = np.array([7, -7, 7, -7]), np.array([3, 3, -3, -3])
    for dtype in ("int8", "int64", "float32", "float64"):
        x, y = a.astype(dtype), b.astype(dtype)
        np.testing.assert_array_equal(call(ops.require("mod"), {}, [x, y]), [1, 2, -2, -1])
        np.testing.assert_array_equal(call(ops.require("mod"), {"fmod": True}, [x, y]), [1, -1, 1, -1])


def test_the_first_of_equal_elements_counts_and_nan_is_extreme():
    x = np.array([[1, 3, 3, 0, 0], [np.nan, 5, np.nan, -9, 2]], np.float32)
    assert call(ops.require("argmax"), {"axis": 1, "keepdims": False}, [x]).tolist() == [1, 0]
    assert call(ops.require("argmin"), {"axis": 1, "keepdims": False}, [x]).tolist() == [3, 0]
    last = {"axis": 1, "keepdims": False, "select_last_index": True}
    assert call(ops.require("argmax"), last, [x]).tolist() == [2, 2]
    assert call_all(ops.require("topk"), {"k": 3}, [x])[1].tolist() == [[1, 2, 0], [0, 2, 1]]
    least = call_all(ops.require("topk"), {"k": 3, "largest": False}, [x])
    assert least[1].tolist() == [[3, 4, 0], [3, 4, 1]]


SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3e38, -3e38, 88.0, -88.0, 104.0, -104.0, 5.0, -9.0, -13.5],
    np.float32,
)


# of floats, with defaults for all attributes; gelu below
FUNCTIONS = [
    op.name
    for op in ops.all_ops().values()
    if (op.kind, op.arity, op.name != "gelu") == ("elementwise", (1, 1), True)
    and {"float32", "float64"} <= {*op.bodies["cpu"].dtypes}
    and not any(a.default is ops.REQUIRED for a in op.attrs)
]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_functions_of_special_values(name, dtype):
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(dtypes.to_numpy(dtype))
    op = ops.require(name)
    made = call(op, {}, [x]), op.reference([x], op.decode({}))[0]
    got, wanted = (np.asarray(a, np.float64) for a in made)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
    np.testing.assert_allclose(
        got,
        wanted,
        rtol={"float32": 4e-7, "float64": 1e-15, "float16": 1e-3, "bfloat16": 8e-3}[dtype],
        atol=1e-43 if dtype == "float32" else 1e-7 if dtype == "float16" else 0,
    )


@settings(deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 50),
    st.integers(1, 150),
    st.booleans(),
    st.booleans(),
    st.integers(0, 99),
)
def test_softmax_down_columns_of_any_number(outer, n, inner, logs, in_place, seed):
    op = ops.require("log_softmax" if logs else "softmax")
    x = np.random.default_rng(seed).uniform(-30, 30, (outer, n, inner)).astype(np.float32)
    wanted = op.reference([x.astype(np.float64)], op.decode({"axis": 1}))[0]
    got = call(op, {"axis": 1}, [x], into=0 if in_place else None)
    np.testing.assert_allclose(got, wanted, rtol=2e-5 if logs else 5e-6, atol=1e-6 if logs else 1e-37)


@pytest.mark.parametrize("columns", [5, 63, 64, 70])
def test_softmax_of_long_columns_and_of_what_is_no_number(columns):
    x = np.random.default_rng(0).uniform(-5, 5, (1, 2200, columns)).astype(np.float32)
    x[0, 7, 2], x[0, 8, 3], x[0, :, 4] = np.nan, -np.inf, -np.inf
    op = ops.require("softmax")
    with np.errstate(invalid="ignore"):
        wanted = op.reference([x.astype(np.float64)], op.decode({"axis": 1}))[0]
    np.testing.assert_allclose(call(op, {"axis": 1}, [x]), wanted, rtol=5e-6, atol=1e-37)


@settings(deadline=None)
@given(st.data())
def test_convolutions_along_a_line_in_panels(data):
    draw = data.draw
    group, own = draw(st.sampled_from([(1, 4), (1, 7), (2, 8), (4, 3)]))
    columns = draw(st.integers(1, 40) if group == 1 else st.sampled_from([4, 8, 16]))
    taps, far, pad, step = (draw(st.integers(low, high)) for low, high in ((1, 5), (1, 4), (0, 3), (1, 2)))
    long = draw(st.integers(max(1, (taps - 1) * far + 1 - 2 * pad), 90))
    down = draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((2, *((long, 1) if down else (1, long)), group * own)).astype(np.float32)
    kernel = (taps, 1) if down else (1, taps)
    w = rng.standard_normal((group * columns, own, *kernel)).astype(np.float32)
    attrs = {"layout": "NHWC", "packed": group * columns, "kernel_shape": kernel, "group": group}
    attrs["dilations"], attrs["strides"] = ((far, 1), (step, 1)) if down else ((1, far), (1, step))
    attrs["pads"] = (pad, 0, pad, 0) if down else (0, pad, 0, pad)
    op, panels = ops.require("conv2d"), pack_float_convolution(w, group)
    wanted = op.reference([x, panels], op.decode(attrs))[0]
    np.testing.assert_allclose(call(op, attrs, [x, panels]), wanted, rtol=1e-4, atol=1e-4)


@settings(deadline=None)
@given(st.data())
def test_groups_of_few_channels(data):
    """That make as many: of all sizes, channels that fill no vector, windows that stick out."""
    draw = data.draw
    each, group = draw(st.sampled_from([2, 4, 8, 16])), draw(st.integers(2, 14))
    (kh, kw), far = draw(st.sampled_from([(3, 3), (3, 3), (1, 1), (2, 5), (5, 7)])), draw(st.integers(1, 2))
    pad, steps = draw(st.integers(0, 3)), [draw(st.integers(1, 3)) for _ in range(2)]
    least = [max(1, (k - 1) * far + 1 - 2 * pad) for k in (kh, kw)]
    size = draw(st.integers(least[0], 20)), draw(st.integers(least[1], 40))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((2, *size, group * each)).astype(np.float32)
    w = rng.standard_normal((group * each, each, kh, kw)).astype(np.float32)
    bias = [rng.standard_normal(len(w)).astype(np.float32)] * draw(st.booleans())
    attrs = {"layout": "NHWC", "packed": len(w), "kernel_shape": (kh, kw), "group": group}
    attrs |= {"dilations": (1, far) if far > 1 and steps[0] > 1 else (far, far), "strides": tuple(steps)}
    attrs["pads"] = (pad, pad, pad, pad)
    op, inputs = ops.require("conv2d"), [x, pack_float_convolution(w, group), *bias]
    wanted = op.reference(inputs, op.decode(attrs))[0]
    np.testing.assert_allclose(call(op, attrs, inputs), wanted, rtol=1e-4, atol=1e-4)
    plain = {name: attrs[name] for name in ("group", "dilations", "strides", "pads")}
    whole = op.reference([x.transpose(0, 3, 1, 2), w, *bias], op.decode(plain))[0]
    np.testing.assert_allclose(wanted, whole.transpose(0, 2, 3, 1), rtol=1e-4, atol=1e-4)


@settings(deadline=None)
@given(st.data())
def test_products_with_weights_of_few_bits(data):
    """Levels, scales and zeros of any kind, k that ends within a word or a block."""
    draw = data.draw
    bits, words = draw(st.sampled_from([4, 8])), draw(st.sampled_from([1, 2, 3, 4, 8]))
    block, rows, n, k = words * 32 // bits, *(draw(st.integers(1, high)) for high in (60, 70, 420))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((rows, k)).astype(np.float32)
    levels = rng.integers(0, 1 << bits, (n, k)).astype(np.uint8)
    scales = rng.choice([0, 1e-30, 0.01, 1, -3], (n, -(-k // block))).astype(np.float32)
    zeros = draw(st.sampled_from([None, rng.uniform(-4, 1 << bits, scales.shape).astype(np.float32)]))
    middle = np.full(scales.shape, 1 << (bits - 1)) if zeros is None else zeros
    spread = [np.repeat(a.astype(np.float64), block, axis=1)[:, :k] for a in (middle, scales)]
    w = (levels - spread[0]) * spread[1]
    attrs = {"packed": n, "levels": [bits, block]}
    packed = pack_levels(levels, scales, zeros, bits, block)
    wanted, most = x.astype(np.float64) @ w.T, np.abs(x).astype(np.float64) @ np.abs(w).T
    op = ops.require("dense")
    made = op.reference([x, packed], op.decode(attrs))[0]
    np.testing.assert_allclose(made, wanted, rtol=1e-5, atol=1e-5 * most.max())
    got = call(op, attrs, [x, packed])
    assert (np.abs(got - wanted) <= 2e-6 * most + 1e-30).all()


@pytest.mark.parametrize("levels", [[4], [3, 32], [4, 12], [8, 0], [4, 32, 1]])
def test_levels_that_the_kernel_does_not_read_are_refused(levels):
    with pytest.raises(GraphError, match="levels is"):
        infer_dense(packed=8, levels=levels)
    with pytest.raises(GraphError, match="levels are for packed weights"):
        infer_dense(levels=[4, 32])


def infer_dense(**attrs):
    op = ops.require("dense")
    types = [TensorType("float32", (2, 64)), TensorType("uint8", (1, 2, 640))]
    return op.infer(types, op.decode(attrs))


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_tiles_of_winograd_make_the_convolution(data):
    """Against the sum over taps in float64: odd sizes, overhanging tiles, channels that fill no vector."""
    draw = data.draw
    group, own, columns = draw(
        st.sampled_from([(1, 1, 1), (1, 5, 7), (1, 16, 33), (1, 48, 16), (4, 8, 8), (3, 5, 40), (2, 16, 3)])
    )
    pads = tuple(draw(st.integers(0, 3)) for _ in range(4))
    size = tuple(draw(st.integers(max(1, 3 - pads[i] - pads[i + 2]), 19)) for i in (0, 1))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    x = rng.standard_normal((draw(st.integers(1, 2)), *size, group * own)).astype(np.float32)
    w = rng.standard_normal((group * columns, own, 3, 3)).astype(np.float32)
    bias = rng.standard_normal(group * columns).astype(np.float32)
    op, plain = ops.require("conv2d"), {"group": group, "pads": pads}
    attrs = {**plain, "layout": "NHWC", "packed": len(w), "kernel_shape": (3, 3), "winograd": True}
    wide = [x.transpose(0, 3, 1, 2).astype(np.float64), w.astype(np.float64), bias.astype(np.float64)]
    wanted = op.reference(wide, op.decode(plain))[0].transpose(0, 2, 3, 1)
    exact = [x.astype(np.float64), pack_winograd(wide[1], group), wide[2]]
    np.testing.assert_allclose(op.reference(exact, op.decode(attrs))[0], wanted, rtol=1e-9, atol=1e-9)
    got = call(op, attrs, [x, pack_winograd(w, group), bias])
    most = op.reference([np.abs(a) for a in wide], op.decode(plain))[0].max()  # one result alone may cancel
    np.testing.assert_allclose(got, wanted, atol=2e-6 * most)


@pytest.mark.parametrize("group", [1, 6])
@pytest.mark.parametrize("far", [np.nan, np.inf, 3e38, 1e20, 1e5, 2e3])
@pytest.mark.parametrize("size", [1e-3, 1.0])
def test_a_pixel_far_from_others_reaches_its_windows_only(far, size, group):
    """One, and a square of them, whose multiple of the others' size is lost in no result that does not see
    it."""
    rng = np.random.default_rng(3)
    x = (rng.standard_normal((1, 13, 9, 24)) * size).astype(np.float32)
    w = rng.standard_normal((48, 24 // group, 3, 3)).astype(np.float32)
    x[0, 5, 4, 1] = x[0, 9:11, 1:3, 7:9] = far * size
    plain = {"group": group, "pads": (1, 1, 1, 1)}
    attrs = {**plain, "layout": "NHWC", "packed": 48, "kernel_shape": (3, 3), "winograd": True}
    attrs["epilogue"] = [["clip", [-1], {"min": -1e37, "max": 1e37}]]
    op = ops.require("conv2d")
    wide = [x.transpose(0, 3, 1, 2).astype(np.float64), w.astype(np.float64)]
    with np.errstate(invalid="ignore"):
        wanted = op.reference(wide, op.decode(plain))[0].transpose(0, 2, 3, 1).clip(-1e37, 1e37)[0]
    got = call(op, attrs, [x, pack_winograd(w, group)])[0]
    sees = np.zeros((13, 9), bool)
    sees[4:7, 3:6] = sees[8:12, :4] = True
    np.testing.assert_allclose(got[~sees], wanted[~sees], atol=1e-2 * size)  # of results of about 15 size
    if far in (1e5, 2e3):
        np.testing.assert_allclose(got[sees], wanted[sees], atol=3e-5 * far * size)
    elif group == 1 and not 1e30 < far < np.inf:  # groups share panels; 3e38 times a weight may be infinity
        np.testing.assert_array_equal(np.isnan(got[sees]), np.isnan(wanted[sees]))


@settings(deadline=None)
@given(st.data())
def test_transposes_of_any_size(data):
    draw = data.draw
    shape = draw(st.lists(st.integers(1, 37), min_size=2, max_size=3)) + draw(st.sampled_from([[], [1], [3]]))
    dtype = draw(st.sampled_from(["float32", "int32", "float16", "float64"]))
    perm = draw(st.permutations(range(len(shape))))
    x = np.random.default_rng(draw(st.integers(0, 99))).integers(-9999, 9999, shape).astype(dtype)
    np.testing.assert_array_equal(call(ops.require("transpose"), {"perm": perm}, [x]), x.transpose(perm))


@pytest.mark.parametrize("name", ["elu", "selu", "celu", "softplus", "expm1", "log1p"])
def test_exponentials_less_one_are_within_a_few_ulp(name):
    """Small numbers too, where 1 would swallow them, and numbers that no float32 holds the exponential of."""
    small = np.float32(2.0) ** -np.arange(1, 120, dtype=np.float32)
    x = np.concatenate(
        [np.linspace(-95, 88.5, 9001, dtype=np.float32), small, -small, np.float32([-0.0, 120])]
    )
    x = x[x > -1] if name == "log1p" else x
    op = ops.require(name)
    exact = op.reference([x.astype(np.float64)], op.decode({}))[0].astype(np.float64)
    got = call(op, {}, [x])
    near = np.abs(exact) < 3e38
    np.testing.assert_allclose(got[near], exact[near], rtol=6e-7, atol=1e-43)
    assert np.isinf(got[~near]).all()
    assert np.isnan(call(op, {}, [np.float32([np.nan])])).all()


STEP_FUNCTIONS = ["exp", "log", "sqrt", "reciprocal", "erf", "tanh", "sigmoid", "silu", "hard_swish", "gelu"]


@settings(deadline=None)
@given(st.sampled_from([*STEP_FUNCTIONS, "hard_sigmoid", "leaky_relu"]), st.integers(1, 70), st.booleans())
def test_a_function_gives_the_same_bits_wherever_an_element_lies(name, n, in_place):
    op, x = ops.require(name), np.linspace(-9, 9, 70, dtype=np.float32)
    alone = np.concatenate([call(op, {}, [x[i : i + 1]]) for i in range(n)])
    np.testing.assert_array_equal(call(op, {}, [x[:n]], into=0 if in_place else None), alone)


@pytest.mark.parametrize("attrs", [{}, {"approximate": "tanh"}])
def test_gelu_is_within_a_few_ulp(attrs):
    x = np.linspace(-10, 10, 4001, dtype=np.float32)
    op = ops.require("gelu")
    exact = op.reference([x.astype(np.float64)], op.decode(attrs))[0]
    near = np.abs(exact) > 1e-30
    np.testing.assert_allclose(call(op, attrs, [x])[near], exact[near], rtol=2e-5)


def test_maxima_keep_nan():
    a, b = np.array([np.nan, 1, 2], np.float32), np.array([1, np.nan, 3], np.float32)
    np.testing.assert_array_equal(call(ops.require("maximum"), {}, [a, b]), [np.nan, np.nan, 3])
    for at in range(40):
        x = np.arange(40, dtype=np.float32)
        x[at] = np.nan
        assert np.isnan(call(ops.require("max"), {}, [x])).all()
        assert np.isnan(call(ops.require("global_max_pool2d"), {}, [x.reshape(1, 1, 5, 8)])).all()
        assert np.isnan(call(ops.require("max"), {"axes": (0,)}, [x.reshape(20, 2)])).any()


@pytest.mark.parametrize(
    "to",
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool", "float16", "bfloat16"],
)
@pytest.mark.parametrize("source", ["float32", "float64"])
def test_casts_saturate(source, to):
    limits = [
        v for t in ("int8", "int16", "int32", "int64", "uint64") for v in (np.iinfo(t).min, np.iinfo(t).max)
    ]
    x = np.array([*SPECIAL, 0.5, -0.5, 0.999, 65504, 65520, 70000, -70000, *limits]).astype(source)
    op = ops.require("cast")
    got, wanted = call(op, {"to": to}, [x]), op.reference([x], {"to": to})[0]
    assert draws.nmse(got, wanted) == 0.0, f"{x}: {got}, numpy says {wanted}"


# ---------------------------------------------------------------- random shapes


@st.composite
def broadcast_pairs(draw):
    shape = draw(st.lists(st.integers(0, 5), max_size=5))

    def side():
        return tuple(1 if draw(st.booleans()) else n for n in shape)[draw(st.integers(0, len(shape))) :]

    return side(), side()


@settings(max_examples=60, deadline=None)
@given(broadcast_pairs())
def test_broadcasting_of_any_shapes(shapes):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in shapes)
    np.testing.assert_array_equal(call(ops.require("subtract"), {}, [a, b]), a - b)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), max_size=5), st.data())
def test_transposes_slices_and_reductions_of_any_shapes(shape, data):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    perm = data.draw(st.permutations(range(len(shape))))
    np.testing.assert_array_equal(call(ops.require("transpose"), {"perm": perm}, [x]), x.transpose(perm))
    cuts = [
        data.draw(st.tuples(st.integers(-7, 7), st.integers(-7, 7), st.sampled_from([-3, -2, -1, 1, 2, 3])))
        for _ in shape
    ]
    starts, ends, steps = zip(*cuts, strict=True) if cuts else ((), (), ())
    attrs = {"starts": starts, "ends": ends, "steps": steps}
    expected = x[tuple(slice(*c) for c in cuts)] if cuts else x
    np.testing.assert_array_equal(call(ops.require("slice"), attrs, [x]), expected)
    axes = tuple(data.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1))) if shape else ()
    if x.size or all(shape[d] == 0 for d in axes):
        wanted = x.sum(axis=axes or None, keepdims=True, dtype=np.float64).astype(np.float32)
        np.testing.assert_allclose(
            call(ops.require("sum"), {"axes": axes}, [x]), wanted, rtol=1e-6, atol=1e-6
        )


@settings(max_examples=40, deadline=None)
@given(st.tuples(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40)), st.booleans(), st.booleans())
def test_products_of_any_shapes(mnk, transpose_a, transpose_b):
    m, n, k = mnk
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (m, k)).astype(np.float32), rng.integers(-9, 9, (k, n)).astype(np.float32)
    given_a, given_b = (
        np.ascontiguousarray(x.T) if t else x for x, t in ((a, transpose_a), (b, transpose_b))
    )
    attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    wanted = a.astype(np.int64) @ b.astype(np.int64)
    np.testing.assert_array_equal(call(ops.require("matmul"), attrs, [given_a, given_b]), wanted)
    np.testing.assert_array_equal(call(ops.require("dense"), {}, [a, np.ascontiguousarray(b.T)]), wanted)


@settings(max_examples=40, deadline=None)
@given(broadcast_pairs(), st.data())
def test_where_and_comparisons_of_any_shapes(shapes, data):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, s).astype(np.float32) for s in shapes)
    axes = np.broadcast_shapes(a.shape, b.shape)
    cond = rng.integers(0, 2, tuple(1 if data.draw(st.booleans()) else n for n in axes)).astype(bool)
    np.testing.assert_array_equal(call(ops.require("where"), {}, [cond, a, b]), np.where(cond, a, b))
    np.testing.assert_array_equal(call(ops.require("less"), {}, [a, b]), a < b)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_fills_and_orders_of_any_shapes(shape, data):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    count = st.integers(0, 3)
    repeats = tuple(data.draw(count) for _ in shape)
    np.testing.assert_array_equal(call(ops.require("tile"), {"repeats": repeats}, [x]), np.tile(x, repeats))
    before, after = ([data.draw(st.integers(0, 4)) for _ in shape] for _ in range(2))
    for mode in ("constant", "edge", "reflect", "wrap"):
        wanted = np.pad(x, list(zip(before, after, strict=True)), mode=mode)
        attrs = {"pads": (*before, *after), "mode": mode}
        np.testing.assert_array_equal(call(ops.require("pad"), attrs, [x]), wanted, err_msg=mode)
    axis = data.draw(st.integers(0, len(shape) - 1))
    attrs = {"axis": axis, "k": data.draw(st.integers(0, shape[axis]))}
    order = np.argsort(-x, axis=axis, kind="stable").take(range(attrs["k"]), axis=axis)
    np.testing.assert_array_equal(call_all(ops.require("topk"), attrs, [x])[1], order)
