"""Tests of TVM's graph executor that need no TVM compiler, by TVM's names, graphs written by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from graph_runtime.codegen.build import build_library

import graph_runtime as gr
from graph_runtime.base.config import config
from graph_runtime.base.machine.devices import of_type
from graph_runtime.ir.documents.params import save_params
from graph_runtime.plan import plan

F32 = np.float32
PAIRS = [("tt:0", "cpu:0"), ("cpu:0", "tt:0"), ("tt:0", "tt:1")]  # (d, h) of TVM's test


# **************** test_runtime_heterogeneous.py ****************


def columns(on):
    """device_index and device_id of a list of device names."""
    return {
        "device_index": [{"cpu": 1, "tt": 12}[name.split(":")[0]] for name in on],
        "device_id": [int(name.split(":")[1]) for name in on],
    }


def get_simplex_graph(document, d, h):
    a, b = document.input("A"), document.input("B")
    add = document.call("elemwise_add", a, b, name="elemwise_add", op="add", flatten=True)
    copy = document.call("__copy", add, name="__copy_add_to_sub")
    c = document.input("C")
    sub = document.call("elemwise_sub", copy, c, name="elemwise_sub", op="subtract")
    return document.json(sub, storage_id=[3, 4, 0, 1, 5, 2], dtype=[0] * 6, **columns([d] * 3 + [h] * 3))


def get_duplex_graph(document, d, h):
    a, b = document.input("A"), document.input("B")
    add0 = document.call("elemwise_add", a, b, name="elemwise_add0", op="add", flatten=True)
    copy0 = document.call("__copy", add0, name="__copy_add_to_sub")
    c = document.input("C")
    sub = document.call("elemwise_sub", copy0, c, name="elemwise_sub", op="subtract")
    copy1 = document.call("__copy", sub, name="__copy_sub_to_add")
    fourth = document.input("D")
    add1 = document.call("elemwise_add1", copy1, fourth, name="elemwise_add1", op="add")
    return document.json(
        add1, storage_id=[4, 5, 0, 1, 6, 2, 0, 7, 3], dtype=[0] * 9, **columns([d] * 3 + [h] * 3 + [d] * 3)
    )


def check_verify(graph, library, devices, inputs, want):
    mod = gr.create(graph, library, devices)
    mod.set_input(**inputs)
    mod.run()
    out = mod.get_output(0, np.empty(4, F32))
    np.testing.assert_array_equal(out, want)
    assert (mod.session.plan.origin >= 0).all()  # the file has its copies: none is added


@pytest.fixture(scope="module")
def deployed(new_document, tmp_path_factory, kernel_cache):
    """One library on disk with the kernels of all simplex and duplex graphs."""
    folder = tmp_path_factory.mktemp("deploy")
    plans = [
        plan(gr.load_graph(make(new_document(), d, h)), [h, d])
        for make in (get_simplex_graph, get_duplex_graph)
        for d, h in PAIRS
    ]
    with config(CACHE_DIR=kernel_cache):
        return build_library(plans, folder / "deploy.so")


@pytest.mark.parametrize(("d", "h"), PAIRS)
@pytest.mark.parametrize("make", [get_simplex_graph, get_duplex_graph])
def test_r14_simplex_and_duplex_data_transferring(document, deployed, tmp_path, make, d, h):
    rng = np.random.default_rng(3)
    a, b, c, e = (rng.random(4, dtype=F32) for _ in range(4))
    inputs, want = {"A": a, "B": b, "C": c}, (a + b) - c
    if make is get_duplex_graph:
        inputs, want = inputs | {"D": e}, want + e
    text = make(document, d, h)
    devices = [h, d]
    check_verify(text, None, devices, inputs, want)
    # check_load_module: the library and the graph from disk
    (tmp_path / "deploy.json").write_text(text)
    check_verify(tmp_path / "deploy.json", deployed, devices, inputs, want)


def test_r12_one_device_takes_no_list_and_no_special_case(document, packed_library):
    """TVM's four-argument create: graph, library, type and id of one device."""
    text = document.json(document.call("myadd", document.input("x")))
    for device in (of_type(1, 0), of_type("cpu"), "cpu:0", [gr.cpu(0)]):
        mod = gr.create(text, packed_library, device)
        mod.run(x=np.arange(4, dtype=F32))
        assert mod.session.plan.devices == (gr.cpu(0),)
        np.testing.assert_array_equal(mod.get_output(0).numpy(), np.arange(1, 5, dtype=F32))


# **************** test_runtime_graph.py ****************


def test_graph_simple(document, packed_library):
    a = document.input("x")
    text = document.json(document.call("myadd", a, name="add", flatten=True), storage_id=[0, 1])
    mod = gr.create(text, packed_library, gr.cpu(0))
    a = np.random.default_rng(0).random(4, dtype=F32)
    mod.run(x=a)
    np.testing.assert_array_equal(mod.get_output(0, np.empty(4, F32)), a + 1)


def test_load_unexpected_params(document, packed_library):
    a = document.input("x")
    mod = gr.create(document.json(document.call("myadd", a)), packed_library)
    new_params = {"x": np.full(4, 2, F32), "y_unknown": np.ones(1, F32)}
    with pytest.warns(UserWarning, match="'y_unknown'"):
        mod.load_params(save_params(new_params))
    mod.run()
    assert mod.get_output(0).numpy().tolist() == [3] * 4
    assert mod.get_input_info() == ({}, {})


def test_save_load_file(tmp_path):
    params = {"a": np.arange(6, dtype=F32).reshape(2, 3), "b": np.array(3, np.int64)}
    save_params(params, tmp_path / "p.params")
    loaded = gr.read_params(tmp_path / "p.params")
    assert list(loaded) == ["a", "b"]
    for name, value in params.items():
        np.testing.assert_array_equal(loaded[name], value)


# **************** test_set_input_zero_copy.py ****************


def zero_copy_equals_copy(text, library, shape=(4,)):
    values = np.random.default_rng(1).random(shape, dtype=F32)
    copied, bound = gr.create(text, library), gr.create(text, library)
    copied.run(x=values)
    mine = gr.aligned_empty(shape)
    mine[...] = values
    bound.set_input_zero_copy("x", mine)
    bound.run()
    for i in range(copied.get_num_outputs()):
        np.testing.assert_array_equal(bound.get_output(i).numpy(), copied.get_output(i).numpy())
    mine += 1
    copied.run(x=values + 1)
    bound.run()
    for i in range(copied.get_num_outputs()):
        np.testing.assert_array_equal(bound.get_output(i).numpy(), copied.get_output(i).numpy())


def test_simple_graph(document, packed_library):
    x = document.input("x")
    zero_copy_equals_copy(document.json(document.call("myadd", x)), packed_library)


def test_input_in_output(document, packed_library):
    x = document.input("x")
    zero_copy_equals_copy(document.json(document.call("myadd", x), x), packed_library)


def test_reshape_after_input(document, packed_library):
    x = document.input("x")
    reshaped = document.call("__nop", x, shape=(2, 2))
    after = document.call("myadd", reshaped, shape=(2, 2))
    text = document.json(after, reshaped, storage_id=[0, 0, 1])
    zero_copy_equals_copy(text, packed_library)


def test_zero_copy_with_a_reshape_at_both_ends(document, packed_library):
    """TVM 0.17's case (#17152): the output is a __nop."""
    x = document.input("x", (2, 2))
    first = document.call("__nop", x)
    second = document.call("myadd", first)
    last = document.call("__nop", second, shape=(2, 2))
    mod = gr.create(document.json(last, storage_id=[0, 0, 1, 1]), packed_library)
    mine, out = gr.aligned_empty((2, 2)), gr.aligned_empty((2, 2))
    mine[...] = [[1, 2], [3, 4]]
    mod.set_input_zero_copy("x", mine)
    mod.set_output_zero_copy(0, out)
    mod.run()
    assert out.tolist() == [[2, 3], [4, 5]]


# **************** relay/test_backend_graph_executor.py ****************


@pytest.mark.parametrize(
    ("dtype", "left", "right", "out"),
    [
        ("float32", (), (), ()),
        ("int32", (), (), ()),
        ("float32", (10, 5), (10, 5), (10, 5)),
        ("float32", (5, 10), (1, 10), (5, 10)),
    ],
    ids=["scalar", "scalar_int", "tensor", "broadcast"],
)
@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_add_op(document, device, dtype, left, right, out):
    x, y = document.input("x", left, dtype), document.input("y", right, dtype)
    mod = gr.create(document.json(document.call("add", x, y, op="add", shape=out, dtype=dtype)), None, device)
    rng = np.random.default_rng(0)
    a, b = (np.asarray(rng.integers(-9, 9, shape), dtype) for shape in (left, right))
    mod.run(x=a, y=b)
    np.testing.assert_array_equal(mod.get_output(0).numpy(), a + b)


def test_with_params(document):
    x, y = document.input("x", (10, 5)), document.input("y", (1, 5))
    added = document.call("add", x, y, op="add", shape=(10, 5))
    text = document.json(document.call("exp", added, op="exp", shape=(10, 5)))
    rng = np.random.default_rng(0)
    a, b = rng.random((10, 5), dtype=F32), rng.random((1, 5), dtype=F32)
    mod = gr.create(text, params={"y": b})
    assert mod.get_input_info() == ({"x": (10, 5)}, {"x": "float32"})
    mod.run(x=a)
    np.testing.assert_allclose(mod.get_output(0).numpy(), np.exp(a + b), rtol=1e-5)


def test_reshape_nop(document):
    x = document.input("x", (10, 4))
    xx = document.call("abs_like", x, op="relu", shape=(10, 4))
    y = document.call("__nop", xx, shape=(20, 2), name="reshape_nop")
    z = document.call("tanh_40", y, op="tanh", shape=(20, 2))
    u = document.call("sigmoid_40", z, op="sigmoid", shape=(20, 2))
    v = document.call("__nop", z, shape=(4, 10), name="reshape_nop")
    mod = gr.create(document.json(y, u, v, storage_id=[0, 1, 1, 2, 3, 2]))
    a = np.random.default_rng(0).standard_normal((10, 4)).astype(F32)
    mod.run(x=a)
    want = np.maximum(a, 0).reshape(20, 2)
    np.testing.assert_array_equal(mod.get_output(0).numpy(), want)
    np.testing.assert_allclose(mod.get_output(1).numpy(), 1 / (1 + np.exp(-np.tanh(want))), rtol=1e-5)
    np.testing.assert_allclose(mod.get_output(2).numpy(), np.tanh(want).reshape(4, 10), rtol=1e-5)


@pytest.mark.parametrize("device", ["cpu:0", "tt:0"])
def test_graph_executor_nested_tuples(document, device):
    """A nested tuple of inputs, flattened: heads that are inputs."""
    names = ["x", "y", "z", "w"]
    entries = [document.input(name, (2, 3)) for name in names]
    mod = gr.create(document.json(*entries), None, device)
    values = {name: np.random.default_rng(i).random((2, 3), dtype=F32) for i, name in enumerate(names)}
    mod.run(**values)
    assert mod.get_num_outputs() == 4
    for i, name in enumerate(names):
        np.testing.assert_array_equal(mod.get_output(i).numpy(), values[name])


def test_compile_return_empty_tuple(document):
    document.input("x", (16,))
    mod = gr.create(document.json())
    mod.run(x=np.zeros(16, F32))
    assert mod.get_num_outputs() == 0


def test_graph_executor_api(document):
    data, weight = document.input("data_0", (1, 1)), document.input("data_1", (1, 1))
    mod = gr.create(document.json(document.call("add_1", data, weight, op="add", shape=(1, 1))))
    assert [mod.get_input_index(name) for name in ("data_0", "data_1", "Invalid")] == [0, 1, -1]
    shapes, dtypes = mod.get_input_info()
    assert shapes == {"data_0": (1, 1), "data_1": (1, 1)}
    assert dtypes == {"data_0": "float32", "data_1": "float32"}
    assert (mod.get_num_inputs(), mod.get_num_outputs()) == (2, 1)


@pytest.mark.parametrize("end_to_end", [False, True])
def test_benchmark(document, end_to_end):
    x = document.input("x")
    mod = gr.create(document.json(document.call("exp_4", x, op="exp")))
    result = mod.benchmark(gr.cpu(), number=3, repeat=4, end_to_end=end_to_end, x=np.ones(4, F32))
    assert len(result.results) == 4
    assert result.mean > 0


def test_benchmark_result():
    result = gr.BenchmarkResult((1, 2, 2, 5))
    assert (result.mean, result.median, result.max, result.min, result.std) == (2.5, 2.0, 5, 1, 1.5)
    assert "2500.0000" in str(result)


# **************** traps of the executor, decided ****************


def test_input_info_is_right_after_a_node_of_several_outputs(document, packed_library):
    """TVM indexes the columns by node id."""
    x = document.input("x", (2, 8))
    split = document.call("myadd", x, outputs=[("float32", (2, 8)), ("float32", (7,))])
    late = document.input("late", (3,))
    mod = gr.create(document.json(late, split, [split[0], 1]), packed_library)
    assert mod.get_input_info()[0] == {"x": (2, 8), "late": (3,)}
    assert mod.get_output_info()[0] == {"late": (3,), "myadd_1:0": (2, 8), "myadd_1:1": (7,)}


def test_unknown_names_are_errors(document):
    x = document.input("data")
    mod = gr.create(document.json(document.call("exp_4", x, op="exp", name="result")))
    for call in (
        lambda: mod.set_input("dta", 0),
        lambda: mod.set_input(dta=0),
        lambda: mod.get_input("dta"),
        lambda: mod.run(dta=0),
    ):
        with pytest.raises(gr.InputError, match="did you mean 'data'"):
            call()
    with pytest.raises(gr.InputError, match="did you mean 'result'"):
        mod.get_output("reslt")
    with pytest.raises(gr.InputError, match="out of range"):
        mod.get_output(1)
    with pytest.raises(gr.InputError, match="out of range"):
        mod.set_input(-1, np.zeros(4, F32))
    with pytest.raises(gr.InputError, match="str"):
        mod.get_output(1.5)


def test_the_last_input_of_a_name_is_found(document):
    first, second = document.input("x"), document.input("x")
    mod = gr.create(document.json(document.call("sub", first, second, op="subtract")))
    mod.set_input(0, np.full(4, 10, F32))
    mod.run(x=np.full(4, 3, F32))
    assert mod.get_output(0).numpy().tolist() == [7] * 4


def test_planned_json_runs_exactly_that_plan(document, tmp_path):
    from graph_runtime.ir.documents.write import graph_to_json
    from graph_runtime.plan.record import record

    x = document.input("x", (33, 40))
    y = document.call("relu_a", x, op="relu", shape=(33, 40), name="first")
    z = document.call("tanh_a", y, op="tanh", shape=(33, 40), name="second")
    mod = gr.create(document.json(z, y), None, ["cpu:0", "tt:0"], place={"second": "tt:0"})
    planned = graph_to_json(record(mod.session.plan))
    again = gr.create(planned, None, ["cpu:0", "tt:0"])
    one, two = mod.session.plan, again.session.plan
    for name in ("did", "sid", "at_input"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    for name in ("did", "memory", "offset", "extent", "nbytes"):
        np.testing.assert_array_equal(getattr(one.storage, name), getattr(two.storage, name))
    assert [str(one.layout(e)) for e in range(one.graph.num_entries)] == [
        str(two.layout(e)) for e in range(two.graph.num_entries)
    ]
    values = np.random.default_rng(0).standard_normal((33, 40)).astype(F32)
    mod.run(x=values)
    again.run(x=values)
    for i in range(2):
        np.testing.assert_array_equal(mod.get_output(i).numpy(), again.get_output(i).numpy())
    assert json.loads(planned)["attrs"]["device_index"][1].count(12) == int((one.entry_did() == 1).sum())
