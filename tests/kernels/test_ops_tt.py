"""Every built-in tt kernel on every case of the op table against numpy: formats, layouts and memories, also
mixed, ragged tiles, NaN in all padding, neighbours that must stay untouched.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_runtime as gr
from graph_runtime.base.errors import DeviceMemoryError, KernelError
from graph_runtime.base.machine.layout import Layout
from graph_runtime.binding import core
from graph_runtime.ir import ops
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.ops import inputs as draws

STORAGES = {
    "tile-f32": ("tile", "f32"),
    "tile-bf16": ("tile", "bf16"),
    "tile-bfp8_b": ("tile", "bfp8_b"),
    "row-f32": ("row_major", "f32"),
    "row-bf16": ("row_major", "bf16"),
}
F32, ROW_F32 = STORAGES["tile-f32"], STORAGES["row-f32"]


def layout_of(dtype: str, storage: tuple[str, str], memory: str = "dram") -> Layout:
    """Where and how a tensor is stored; ``storage`` names the format of floats, integers have their own."""
    kind, fmt = storage
    if dtype not in ("float32", "bfloat16"):
        fmt = dtype
    elif dtype == "bfloat16" and fmt == "f32":
        fmt = "bf16"
    return Layout(memory, kind, fmt)


CASES = {op.name: draws.cases_on(op, "tt") for op in ops.all_ops().values() if "tt" in op.bodies}


def types_of(op, case) -> list[TensorType]:
    """Of the inputs, then of the output."""
    inputs = [TensorType(d, s) for d, s in case.inputs]
    return [*inputs, *op.infer(inputs, op.decode(case.attrs))]


def check(tt, op, case, layouts, into=None) -> None:
    """Run a case and hold it against the bound of the coarsest format that takes part."""
    got, wanted = tt.run(op, case.attrs, draws.draw(case), layouts, into)
    present = {lay.format for lay in layouts}
    coarsest = next((f for f in ("bfp8_b", "bf16") if f in present), "f32")
    bound, error = case.nmse.get(f"tt/{coarsest}", 0.0), draws.nmse(got, wanted)
    where = ", ".join(map(str, layouts))
    assert error <= bound, f"{op.name}/{case.name} in {where}, output over {into}: nmse {error:.2e} > {bound}"


def test_every_announced_tt_kernel_has_an_op_and_every_op_its_kernel():
    wanted = {f"tt/{body.name}" for op in ops.all_ops().values() for body in op.all_bodies("tt")}
    assert {name for name in core.generic_kernels() if name.startswith("tt/")} == wanted


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("name", "storage"),
    [
        pytest.param(name, s, marks=[] if s == ("tile-bf16", "row-f32")[turn % 2] else [pytest.mark.slow])
        for turn, name in enumerate(CASES)
        for s in STORAGES
    ],
)
def test_cases(tt, name, storage):
    """All tensors stored alike, into a buffer of its own and over every input that the op may overwrite."""
    op = ops.require(name)
    for case in CASES[name]:
        types = types_of(op, case)
        layouts = [layout_of(t.dtype, STORAGES[storage]) for t in types]
        for into in (None, *(i for i in op.inplace if i < len(types) - 1 and types[i] == types[-1])):
            check(tt, op, case, layouts, into)


@pytest.mark.sampled
@pytest.mark.parametrize("part", [4, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_cases_with_every_tensor_stored_its_own_way(tt, name, part):
    """One of ``part`` cases, drawn by name."""
    op, rng = ops.require(name), np.random.default_rng(zlib.crc32(name.encode()))
    storages = list(STORAGES.values())
    for case in CASES[name][rng.integers(min(part, len(CASES[name]))) :: part]:
        for _ in range(2):
            layouts = [
                layout_of(t.dtype, storages[rng.integers(len(storages))], rng.choice(["dram", "l1"]))
                for t in types_of(op, case)
            ]
            check(tt, op, case, layouts)


# **************** more than one panel, one block, one core's share ****************

LARGE = [
    ("add", [(40, 3000), (40, 3000)], {}),
    ("multiply", [(33, 9000), (9000,)], {}),
    ("add", [(70, 1), (70, 5000)], {}),
    ("exp", [(2, 33, 9001)], {}),
    ("gelu", [(3, 1, 1, 50, 1000)], {}),
    ("softmax", [(40, 9000)], {}),
    ("softmax", [(100, 3000)], {"axis": 0}),
    ("softmax", [(5, 3, 40, 70)], {"axis": 1}),
    ("layer_norm", [(33, 9000), (9000,), (9000,)], {}),
    ("layer_norm", [(2, 70, 3000), (70, 3000), (70, 3000)], {"axis": 1}),
    ("matmul", [(300, 900), (900, 200)], {}),
    ("matmul", [(3, 1, 130, 40), (2, 40, 260)], {}),
    ("matmul", [(700, 150), (300, 700)], {"transpose_a": True, "transpose_b": True}),
    ("dense", [(3, 9000), (200, 9000), (200,)], {}),
    ("attention", [(3, 300, 70), (3, 330, 70), (330, 200)], {"causal": True}),
    ("attention", [(60, 1100), (90, 1100), (90, 1300), (90,)], {}),
    ("conv2d", [(3, 40, 50, 60), (70, 40, 3, 3), (70,)], {"pads": (1, 1, 1, 1)}),
    ("conv2d", [(1, 2, 70, 900), (3, 2, 5, 5)], {"strides": (2, 1)}),
    ("conv2d", [(300, 4, 5, 6), (6, 2, 3, 3)], {"group": 2}),
    # several images at a time: even parts, and a last one that is smaller; tiles and rows
    ("conv2d", [(5, 33, 20, 20), (40, 33, 3, 3), (40,)], {"pads": (1, 1, 1, 1)}),
    (
        "conv2d",
        [(7, 130, 9, 9), (36, 65, 3, 3), (36,)],
        {"pads": (1, 1, 1, 1), "strides": (2, 3), "group": 2},
    ),
    ("conv_transpose2d", [(5, 40, 8, 9), (40, 35, 3, 3), (70,)], {"strides": (2, 1), "group": 2}),
    ("conv_transpose2d", [(70, 300, 2, 2), (300, 50, 3, 3)], {"pads": (1, 1, 1, 1)}),
    (
        "conv2d_backward_weight",
        [(7, 300, 9, 9), (7, 40, 5, 5)],
        {"kernel_shape": (3, 3), "group": 2, "strides": (2, 2), "pads": (1, 1, 1, 1)},
    ),
    ("conv2d_backward_weight", [(3, 70, 40, 40), (3, 35, 40, 40)], {"kernel_shape": (1, 1)}),
    ("conv_transpose2d", [(3, 40, 25, 60), (40, 35, 3, 3), (35,)], {"strides": (2, 2), "pads": (1, 1, 1, 1)}),
    (
        "conv_transpose2d",
        [(1, 4, 70, 300), (4, 2, 7, 5)],
        {"dilations": (3, 2), "group": 2, "strides": (1, 7)},
    ),
    (
        "conv2d_backward_weight",
        [(3, 40, 50, 60), (3, 70, 50, 60)],
        {"kernel_shape": (3, 3), "pads": (1, 1, 1, 1)},
    ),
    (
        "conv2d_backward_weight",
        [(2, 4, 41, 300), (2, 6, 11, 50)],
        {"kernel_shape": (11, 7), "group": 2, "strides": (3, 6), "dilations": (1, 1), "pads": (0, 1, 0, 0)},
    ),
    (
        "max_pool2d_backward",
        [(1, 2, 90, 2100), (1, 2, 44, 1049)],
        {"kernel_shape": (3, 3), "strides": (2, 2)},
    ),
    (
        "max_pool2d_indices",
        [(2, 2, 90, 2100)],
        {"kernel_shape": (3, 5), "strides": (2, 3), "dilations": (2, 1), "dtype": "int32"},
    ),
    ("max_pool3d", [(1, 2, 7, 60, 900)], {"kernel_shape": (3, 3, 3), "strides": (2, 2, 2), "pads": (1,) * 6}),
    ("avg_pool3d", [(1, 2, 7, 60, 900)], {"kernel_shape": (2, 1, 7), "dilations": (3, 1, 2)}),
    ("lp_pool2d", [(1, 3, 70, 1500)], {"kernel_shape": (2, 5), "strides": (1, 3), "pads": (0, 2, 1, 2)}),
    ("lrn", [(2, 9, 70, 1500)], {"size": 5, "alpha": 0.5}),
    ("lrn", [(2, 90, 1500)], {"size": 5, "alpha": 0.5}),
    ("conv3d", [(2, 20, 5, 40, 150), (35, 20, 3, 3, 3), (35,)], {"pads": (1,) * 6}),
    (
        "conv3d",
        [(1, 4, 9, 70, 400), (6, 2, 2, 5, 3)],
        {"group": 2, "strides": (3, 6, 5), "dilations": (4, 1, 2)},
    ),
    ("max_pool2d", [(1, 2, 90, 2100)], {"kernel_shape": (3, 3), "strides": (2, 2)}),
    ("avg_pool2d", [(1, 1, 70, 3000)], {"kernel_shape": (2, 5), "strides": (1, 3), "pads": (0, 2, 1, 2)}),
    ("sum", [(3, 70, 3000)], {"axes": (0,)}),
    ("mean", [(40, 9000)], {"axes": (1,)}),
    ("max", [(4, 40, 3000)], {"axes": (0, 1)}),
    ("global_avg_pool2d", [(2, 40, 100, 600)], {}),
    ("argmax", [(3, 70, 3000)], {"axis": 1, "dtype": "int32"}),
    ("argmin", [(40, 9000)], {"axis": 1, "dtype": "int32"}),
    ("topk", [(40, 3000)], {"k": 70, "dtype": "int32"}),
    ("topk", [(40, 3000)], {"k": 3000, "dtype": "int32"}),
    ("cumsum", [(40, 9000)], {"axis": 1}),
    ("cumsum", [(100, 3000)], {"reverse": True}),
    ("cumsum", [(5, 3, 40, 70)], {"axis": 1, "exclusive": True}),
    ("transpose", [(100, 3000)], {}),
    ("transpose", [(2, 3000, 5)], {"perm": (1, 0, 2)}),
    ("transpose", [(40, 3, 2, 50)], {"perm": (2, 3, 1, 0)}),
    ("transpose", [(3, 40, 2, 35)], {"perm": (2, 3, 0, 1)}),
    ("concatenate", [(40, 1500), (40, 5), (40, 2000)], {"axis": 1}),
    ("concatenate", [(3, 700), (70, 700)], {"axis": 0}),
    ("slice", [(70, 4000)], {"starts": (3, 1), "ends": (70, 4000), "steps": (2, 3)}),
    ("slice", [(40, 3000)], {"starts": (0, 2999), "ends": (40, -(2**63)), "steps": (1, -700)}),
    ("slice_update", [(70, 3000), (35, 900)], {"starts": (1, 2999), "steps": (2, -3)}),
    ("take", [(300, 1500), (40,)], {"axis": 0}),
    ("take", [(40, 3000), (5, 70)], {"axis": 1}),
    ("take", [(3, 4, 1200), (600,)], {"axis": 2}),
    ("take_along_axis", [(40, 1500), (40, 700)], {"axis": 1}),
    ("gather_nd", [(30, 3000), (40, 1)], {}),
    ("scatter_nd", [(70, 3000), (5, 1), (5, 3000)], {"reduction": "add"}),
    ("scatter_elements", [(70, 2500), (40, 2200), (40, 2200)], {"axis": 0, "reduction": "max"}),
    ("scatter_elements", [(70, 2500), (40, 2200), (40, 2200)], {"axis": 1}),
]
BY_INDEX = ("take", "take_along_axis", "gather_nd", "scatter_nd", "scatter_elements")


def large_arrays(name, shapes, attrs) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    if name in BY_INDEX:
        n = shapes[0][attrs.get("axis", 0)]
        values, *updates = (rng.standard_normal(s).astype(np.float32) for s in (shapes[0], *shapes[2:]))
        return [values, rng.integers(-n, n, shapes[1]).astype(np.int32), *updates]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


@pytest.fixture
def threads():
    before = core.pool_threads()
    yield
    core.pool_set_threads(before)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("row", range(len(LARGE)), ids=lambda i: f"{LARGE[i][0]}-{i}")
def test_large_tensors(tt, row, threads):
    """Right in tiles and in rows, with the same float32 bits in both, on one thread and on two."""
    name, _, attrs = LARGE[row]
    op, arrays = ops.require(name), large_arrays(*LARGE[row])
    exact = op.cases[0].nmse["tt/f32"] == 0.0
    bounds = {"tile-f32": 1e-11, "row-f32": 1e-11, "tile-bfp8_b": 2e-3, "row-bf16": 1e-4}
    seen = []
    for storage, bound in ((STORAGES[key], bound) for key, bound in bounds.items()):
        core.pool_set_threads(len(seen) % 2 + 1)
        types = [TensorType(str(a.dtype), a.shape) for a in arrays]
        types += op.infer(types, op.decode(attrs))
        layouts = [layout_of(t.dtype, storage) for t in types]
        got, wanted = tt.run(op, attrs, arrays, layouts)
        seen.append(got)
        assert draws.nmse(got, wanted) <= (0.0 if exact and storage[1] == "f32" else bound), storage
    np.testing.assert_array_equal(seen[0], seen[1])


# **************** errors ****************


@pytest.mark.parametrize("index", [5, -6, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize(
    ("name", "chosen", "update"),
    [
        ("take", (2,), ()),
        ("take_along_axis", (2, 1), ()),
        ("gather_nd", (2, 1), ()),
        ("scatter_elements", (2, 1), [(2, 1)]),
        ("scatter_nd", (2, 1), [(2, 40)]),
    ],
)
def test_an_index_out_of_range_is_an_error(tt, name, chosen, update, index):
    op, data = ops.require(name), np.ones((5, 40), np.float32)
    updates = [np.full(shape, 7, np.float32) for shape in update]
    layouts = [layout_of(d, F32) for d in ("float32", "int32", *("float32",) * len(updates), "float32")]
    with pytest.raises(KernelError, match=f"{name}: index {index} is out of range for 5 elements"):
        tt.run(op, {}, [data, np.array([0, index], np.int32).reshape(chosen), *updates], layouts)
    got, wanted = tt.run(op, {}, [data, np.array([0, -5], np.int32).reshape(chosen), *updates], layouts)
    np.testing.assert_array_equal(got, wanted)


def test_an_integer_mod_by_zero_is_an_error(tt):
    op, a, b = ops.require("mod"), np.arange(5, dtype=np.int32), np.array([1, 2, 0, 3, 4], np.int32)
    with pytest.raises(KernelError, match="mod: integer division by zero"):
        tt.run(op, {}, [a, b], [layout_of("int32", ROW_F32)] * 3)
    floats = [x.astype(np.float32) for x in (a, b)]
    got, wanted = tt.run(op, {}, floats, [layout_of("float32", F32)] * 3)
    np.testing.assert_array_equal(got, wanted)


def test_a_page_larger_than_l1_is_an_error(tt):
    """A row-major row is one page, which a core must hold; in tiles the same tensor is no trouble."""
    op, wide = ops.require("relu"), np.linspace(-1, 1, 400_000, dtype=np.float32)
    with pytest.raises(DeviceMemoryError, match="circular buffers"):
        tt.run(op, {}, [wide], [layout_of("float32", ROW_F32)] * 2)
    got, wanted = tt.run(op, {}, [wide], [layout_of("float32", F32)] * 2)
    np.testing.assert_array_equal(got, wanted)


# **************** special values ****************

SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0.0, 3e38, -3e38, 88.0, -88.0, 104.0, -104.0, 5.0, -9.0, -13.5], np.float32
)


@pytest.mark.parametrize("name", ["relu", "gelu", "sigmoid", "tanh", "exp", "sqrt"])
def test_functions_of_special_values(tt, name):
    got, wanted = tt.run(ops.require(name), {}, [SPECIAL], [layout_of("float32", F32)] * 2)
    np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=1e-37)


def test_maxima_keep_nan(tt):
    values = np.arange(40 * 33, dtype=np.float32).reshape(1, 1, 40, 33)
    values[..., 7, 3] = np.nan
    for name, attrs in (
        ("max", {}),
        ("max", {"axes": (2,)}),
        ("global_max_pool2d", {}),
        ("max_pool2d", {"kernel_shape": (2, 2)}),
    ):
        got, wanted = tt.run(ops.require(name), attrs, [values], [layout_of("float32", F32)] * 2)
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("value", [0.0, -np.inf, np.nan, -7.0])
def test_of_equal_maxima_the_first_is_found(tt, value, order):
    """Also where nothing is greater than minus infinity, and where a NaN comes before another."""
    values = np.full((2, 3, 9, 40), value, np.float32)
    values[1, 1, 4:, 20:] = 3.0
    values[0, 0, 3, 5] = np.nan
    attrs = {"kernel_shape": (3, 3), "pads": (1,) * 4, "storage_order": order, "dtype": "int32"}
    layouts = [layout_of(d, F32) for d in ("float32", "float32", "int32")]
    got, wanted = tt.run(ops.require("max_pool2d_indices"), attrs, [values], layouts)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("to", ["int8", "int16", "int32", "uint8", "uint16", "uint32", "bool"])
def test_casts_saturate(tt, to):
    x = np.array([*SPECIAL, 0.5, -0.5, 0.999, 70000, -70000, 2**31, 2**32, -(2**31)], np.float32)
    layouts = [layout_of("float32", F32), layout_of(to, ROW_F32)]
    got, wanted = tt.run(ops.require("cast"), {"to": to}, [x], layouts)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("storage", [STORAGES["tile-bf16"], STORAGES["row-bf16"]])
def test_moved_elements_keep_their_bits(tt, storage):
    """NaN, denormals and signed zeros: the packer would change them, data movement does not."""
    bits = np.arange(2**16, dtype=np.uint32).reshape(256, 256)
    values = np.ascontiguousarray((bits << 16).view(np.float32))
    with np.errstate(invalid="ignore"):
        got, wanted = tt.run(ops.require("transpose"), {}, [values], [layout_of("float32", storage)] * 2)
    np.testing.assert_array_equal(got.view(np.uint32), wanted.view(np.uint32))


# **************** random shapes ****************


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from([1, 2, 3, 31, 33]), min_size=1, max_size=4), st.data())
def test_any_transpose_slice_and_sum(tt, shape, data):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    layouts = [layout_of("float32", data.draw(st.sampled_from([F32, ROW_F32]))) for _ in range(2)]
    cuts = [
        data.draw(st.tuples(st.integers(-40, 40), st.integers(-40, 40), st.sampled_from([-2, -1, 1, 3])))
        for _ in shape
    ]
    starts, ends, steps = zip(*cuts, strict=True)
    axes = tuple(data.draw(st.sets(st.sampled_from(range(len(shape))), min_size=1)))
    perm = data.draw(st.permutations(range(len(shape))))
    for name, attrs in (
        ("transpose", {"perm": perm}),
        ("sum", {"axes": axes}),
        ("slice", {"starts": starts, "ends": ends, "steps": steps}),
    ):
        got, wanted = tt.run(ops.require(name), attrs, [x], layouts)
        np.testing.assert_allclose(got, wanted, rtol=1e-6 if name == "sum" else 0, err_msg=f"{name} {attrs}")


@pytest.mark.parametrize(
    ("op", "shapes", "out", "attrs"),
    [
        ("relu", [(0,)], (0,), {}),
        ("transpose", [(3, 0)], (0, 3), {"perm": [1, 0]}),
        ("add", [(5, 1, 0), (1, 1, 1)], (5, 1, 0), {}),
        ("concatenate", [(4, 0), (4, 0)], (8, 0), {"axis": 0}),
        ("softmax", [(0, 0)], (0, 0), {}),
    ],
)
def test_a_graph_without_any_element_runs_though_its_tensors_lie_nowhere(document, op, shapes, out, attrs):
    """Nothing is allocated then, so that the tensors have no address."""
    inputs = [document.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    y = document.call("f", *inputs, op=op, shape=out, **attrs)
    module = gr.create(document.json(y), None, "tt:0")
    module.run(**{f"x{i}": np.ones(shape, np.float32) for i, shape in enumerate(shapes)})
    assert module.get_output(0).numpy().shape == out
