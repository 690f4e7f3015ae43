"""float16 and bfloat16 on hosts: what computes in float32 instead, and what is rounded all the same."""

from __future__ import annotations

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.prepare import prepare
from graph_runtime.base import dtypes
from graph_runtime.ir.model import Model

pytestmark = pytest.mark.core
RNG = np.random.default_rng(16)
HALVES = ("float16", "bfloat16")


def array(dtype, *shape):
    return RNG.standard_normal(shape).astype(dtypes.to_numpy(dtype))


def network(dtype, scale=1.0):
    """relu, then two products with a residual and a transpose between, all of 16 bits."""
    b = gr.GraphBuilder()
    x = b.op("relu", b.input("x", (4, 24), dtype), name="first")
    w = (array("float32", 24, 24) * scale).astype(dtypes.to_numpy(dtype))
    y = b.op("dense", x, b.param("w1", w), b.param("b1", array(dtype, 24)), name="d1")
    y = b.op("add", b.op("softmax", y, name="soft"), x, name="sum")
    y = b.op("transpose", y, perm=(1, 0), name="turned")
    b.output(b.op("matmul", y, b.param("w2", array(dtype, 4, 5)), name="d2"))
    return Model.from_builder(b)


def types_of(model):
    """op -> dtype of what its nodes make."""
    graph = model.graph
    found = {}
    for nid, fid in enumerate(graph.func_id.tolist()):
        if fid >= 0:
            found.setdefault(graph.funcs[fid].op, []).append(graph.entry_type(int(graph.row_ptr[nid])).dtype)
    return found


@pytest.mark.parametrize("dtype", HALVES)
def test_from_the_first_product_on_float32_computes(dtype):
    made = prepare(network(dtype), "cpu:0").model
    types = types_of(made)
    assert types["relu"] == [dtype]
    assert types["dense"] == types["matmul"] == ["float32"]
    assert set(types["softmax"]) == {"float32"}
    assert types["cast"] == ["float32", dtype]  # in front of the first product, behind the last
    assert [n.text.split()[0] for n in made.notes if n.rule == "compute_wide"] == ["4"]


@pytest.mark.parametrize("dtype", HALVES)
def test_results_are_those_of_float32_rounded_once_and_what_bfloat16_products_read(dtype):
    model, x = network(dtype), array(dtype, 4, 24)
    module = gr.create(model, devices="cpu:0")
    module.run(x=x)
    got = module.get_output(0).numpy()
    assert dtypes.from_numpy(got.dtype) == dtype

    values = {name: c.read().astype(np.float64) for name, c in model.constants.items()}
    first = np.maximum(x.astype(np.float64), 0)
    y = first @ values["w1"].T + values["b1"]
    y = np.exp(y - y.max(1, keepdims=True))
    turned = (y / y.sum(1, keepdims=True) + first).T
    wanted = turned @ values["w2"]
    step = 2.0 ** -(11 if dtype == "float16" else 8)
    allowed = step * np.abs(wanted) + 1e-5
    if dtype == "bfloat16":  # a product whose weights are of bfloat16 rounds what it reads, too
        allowed += step * np.abs(turned) @ np.abs(values["w2"])
    assert (np.abs(got.astype(np.float64) - wanted) <= allowed).all()


def test_a_value_between_nodes_may_be_larger_than_16_bits_hold():
    b = gr.GraphBuilder()
    x = b.input("x", (1, 2), "float16")
    y = b.op("matmul", x, b.param("w", np.full((2, 1), 300, np.float16)), name="large")  # 120,000
    b.output(b.op("multiply", y, b.param("s", np.full((1, 1), 0.25, np.float16)), name="small"))
    module = gr.create(Model.from_builder(b), devices="cpu:0")
    module.run(x=np.full((1, 2), 200, np.float16))
    assert module.get_output(0).numpy().item() == 30000


def test_a_cast_of_the_model_rounds():
    b = gr.GraphBuilder()
    x = b.input("x", (1, 1), "float32")
    y = b.op("cast", b.op("cast", x, to="float16"), to="float32")
    b.output(b.op("matmul", y, b.param("w", np.ones((1, 1), np.float32))))
    module = gr.create(Model.from_builder(b), devices="cpu:0")
    module.run(x=np.full((1, 1), 1 + 2.0**-13, np.float32))
    assert module.get_output(0).numpy().item() == 1


def test_what_has_no_product_stays_as_it_is():
    b = gr.GraphBuilder()
    x = b.input("x", (4, 24), "float16")
    b.output(b.op("softmax", b.op("add", x, x, name="twice"), name="soft"))
    made = prepare(Model.from_builder(b), "cpu:0").model
    assert set(types_of(made)) == {"add", "softmax"}


def test_nodes_of_other_devices_stay_as_they_are():
    made = prepare(network("bfloat16"), ["cpu:0", "tt:0"], place={"d1": "tt:0"}).plan.graph
    names = dict(zip(made.names, range(len(made.names)), strict=True))
    assert made.entry_type(int(made.row_ptr[names["d1"]])).dtype == "bfloat16"
    assert "float32" in {t.dtype for t in made.types}  # d2, on the host


def test_with_bf16_weights_are_half_as_large_as_float32s():
    made = prepare(network("float16"), "cpu:0", formats={"cpu": "bf16"}).model
    assert {t.dtype for t in made.graph.types} == {"float16", "float32", "bfloat16"}
