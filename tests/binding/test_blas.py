"""OpenBLAS behind products of the host: the same numbers where its wheel is installed, and where it is not
another kernel in its place."""

import ctypes.util

import numpy as np
import pytest
from graph_runtime.codegen.build import cached_library

from graph_runtime import GraphBuilder, create
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base.errors import LibraryError
from graph_runtime.binding import blas, core
from graph_runtime.ir.graph import TensorType
from graph_runtime.ir.model import Model
from graph_runtime.run.tuning import Tuner

RNG = np.random.default_rng(3)
STEPS = [["multiply", [-1, 3], {}], ["relu", [-2], {}]]
PRODUCTS = [
    ("matmul", [(65, 97), (97, 70)], {}),
    ("matmul", [(97, 65), (40, 97), (40,)], {"transpose_a": True, "transpose_b": True}),
    ("matmul", [(2, 1, 33, 8), (3, 8, 65)], {}),
    ("matmul", [(2, 3, 300, 200), (2, 3, 200, 31)], {}),
    ("matmul", [(4, 0), (0, 5), (5,)], {}),
    ("matmul", [(0, 3, 4), (4, 5)], {}),
    ("dense", [(2, 33, 40), (65, 40), (65,)], {}),
    ("dense", [(1, 700), (900, 700)], {}),
    ("dense", [(33,), (31, 33)], {}),
    ("dense", [(2, 150, 128), (256, 128), (256,), (256,)], {"epilogue": STEPS}),
]
here = pytest.mark.skipif(blas.absent() is not None, reason=str(blas.absent()))


@pytest.fixture
def without(monkeypatch):
    """As on a machine where the wheel is not installed."""
    monkeypatch.setattr(blas, "absent", lambda: "scipy-openblas32 is not installed")


def build(op, shapes, attrs):
    b = GraphBuilder()
    values = [b.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
    b.output(b.op(op, *values, **attrs))
    return b


def outcome(module, feeds):
    module.run(**feeds)
    return module.get_output(0).numpy()


def agree(op, shapes, attrs):
    """The kernel of OpenBLAS and the default one."""
    arrays = [RNG.standard_normal(shape).astype(np.float32) for shape in shapes]
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    wanted = outcome(create(build(op, shapes, attrs), None, "cpu:0"), feeds)
    got = outcome(create(build(op, shapes, {**attrs, "kernel": f"{op}_blas"}), None, "cpu:0"), feeds)
    np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)


@here
@pytest.mark.parametrize(("op", "shapes", "attrs"), PRODUCTS)
def test_products_are_the_same(op, shapes, attrs):
    agree(op, shapes, attrs)


@pytest.mark.parametrize(("op", "shapes", "attrs"), [PRODUCTS[0], PRODUCTS[2], PRODUCTS[9]])
def test_without_the_wheel_another_kernel_serves_with_a_warning(op, shapes, attrs, without):
    with pytest.warns(UserWarning, match=f"not installed: .* serves nodes that name {op}_blas"):
        agree(op, shapes, attrs)


def product():
    b = GraphBuilder()
    x = b.input("x", (50, 40))
    y = b.op("matmul", x, b.param("w", RNG.standard_normal((40, 30)).astype(np.float32)), name="first")
    b.output(b.op("dense", y, b.param("v", RNG.standard_normal((20, 30)).astype(np.float32)), name="second"))
    return Model.from_builder(b)


def favour(*slow):
    """A measure by which all kernels take a second, and the named ones two."""
    return lambda op, attrs, inputs, names: {name: 2.0 if name in slow else 1.0 for name in names}


@pytest.mark.parametrize("slow", ["dense_packed", "dense_blas"])
def test_constant_weights_stay_plain_where_openblas_is_faster(slow):
    model = product()
    prepared = prepare(model, "cpu:0", measure=favour(slow))
    funcs = [f for f in prepared.model.graph.funcs if f.op == "dense"]
    x = RNG.standard_normal((50, 40)).astype(np.float32)
    if slow == "dense_blas":
        assert [f.attrs["packed"] for f in funcs] == [30, 20]
        return
    assert [f.attrs["kernel"] for f in funcs] == ["dense_blas", "dense_blas"]
    assert cached_library([prepared.plan]) is None  # nothing to compile: the wheel has them
    wanted = x @ model.constants["w"].read() @ model.constants["v"].read().T
    if blas.absent() is None:
        module = create(prepared.plan, None, params=read(prepared.model))
        np.testing.assert_allclose(outcome(module, {"x": x}), wanted, rtol=1e-4, atol=1e-4)


def read(model):
    return {name: constant.read() for name, constant in model.constants.items()}


def test_the_tuner_leaves_out_what_is_not_there(without):
    types = [TensorType("float32", (20, 8)), TensorType("float32", (8, 33))]
    assert set(Tuner()("matmul", {}, types, ["matmul", "matmul_blas"])) == {"matmul"}


def test_tuning_without_the_wheel_names_no_kernel_of_it(without):
    prepared = prepare(product(), "cpu:0", measure=Tuner())
    assert not [f for f in prepared.model.graph.funcs if str(f.attrs.get("kernel")).endswith("_blas")]


def test_what_is_no_openblas_is_refused():
    if blas.absent() is None:
        pytest.skip("one is open, and stays so")
    with pytest.raises(LibraryError, match="has no function scipy_cblas_sgemm"):
        core.blas_open(ctypes.util.find_library("m"), "scipy_")
    with pytest.raises(LibraryError, match="cannot open"):
        core.blas_open("/nowhere/libopenblas.so", "scipy_")
