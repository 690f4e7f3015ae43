"""The numpy interpreter: graphs by hand against numpy written out, copies and nops, functions, and what it
refuses."""

import json

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.accuracy.interpreter import heads, interpret
from graph_runtime.base.errors import GraphError, InputError, KernelError, UnsupportedOpError
from graph_runtime.ir.graph import COPY, NOP, TensorType
from graph_runtime.testing.graphs import GraphMaker


def f32(*shape):
    return TensorType("float32", shape)


@pytest.fixture
def network():
    """x [2,3] -> relu(x @ w.T + b) -> reshape [4, 2], with w [4,3] and b [4]."""
    g = GraphMaker()
    x, w, b = g.input(f32(2, 3)), g.input(f32(4, 3)), g.input(f32(4))
    y = g.op("relu", [g.op("dense", [x, w, b])])
    return g.graph([g.op("reshape", [y], shape=[4, 2]), y])


def arrays_of(graph):
    rng = np.random.default_rng(0)
    return {
        n: rng.standard_normal(graph.entry_type(e).shape).astype(np.float32)
        for n, e in zip(graph.input_names, graph.input_eids.tolist(), strict=True)
    }


def test_a_network_is_numpy_written_out(network):
    given = arrays_of(network)
    x, w, b = given.values()
    y = np.maximum(x.astype(np.float64) @ w.T + b, 0).astype(np.float32)
    values = interpret(network, given)
    assert len(values) == network.num_entries
    reshaped, plain = heads(network, values)
    np.testing.assert_array_equal(plain, y)
    np.testing.assert_array_equal(reshaped, y.reshape(4, 2))
    for a, b in zip(values, interpret(network, list(given.values())), strict=True):
        np.testing.assert_array_equal(a, b)


def test_inputs_are_not_written(network):
    given = arrays_of(network)
    before = {n: a.copy() for n, a in given.items()}
    interpret(network, given)
    for name, array in given.items():
        np.testing.assert_array_equal(array, before[name])


def test_copies_and_nops_reinterpret_equal_bytes():
    g = GraphMaker()
    x = g.input(f32(2, 4))
    bits = g.call(COPY, [x], [TensorType("int32", (2, 4))])
    flat = g.call(NOP, [bits], [TensorType("int32", (8,))])
    same = g.call(COPY, [flat], [TensorType("int32", (8,))])
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    values = interpret(g.graph([same]), [given])
    np.testing.assert_array_equal(values[same], given.view(np.int32).ravel())


def test_a_nop_cannot_change_the_number_of_elements():
    g = GraphMaker()
    y = g.call(NOP, [g.input(f32(2, 4))], [f32(9)])
    with pytest.raises(GraphError, match=r"__nop cannot make float32\[9\] of float32\[2, 4\]"):
        interpret(g.graph([y]), [np.zeros((2, 4), np.float32)])


def test_functions_without_an_op_are_given():
    g = GraphMaker()
    y = g.call("minmax", [g.input(f32(5))], [f32(), f32()])
    graph = g.graph([y, y + 1])
    given = [np.array([3, 1, 4, 1, 5], np.float32)]
    assert heads(graph, interpret(graph, given, functions={"minmax": lambda a: (a.min(), a.max())})) == [1, 5]
    with pytest.raises(UnsupportedOpError, match=r"'minmax' has no gr\.op") as caught:
        interpret(graph, given)
    assert caught.value.got == "minmax"
    with pytest.raises(GraphError, match="has 2 outputs, its function returned 1"):
        interpret(graph, given, functions={"minmax": lambda a: a.min()})
    with pytest.raises(GraphError, match=r"the graph says float32\[\], the function made float64\[\]"):
        interpret(graph, given, functions={"minmax": lambda a: (np.float64(1), a.max())})


def test_only_functions_without_an_op_are_shown_their_arguments_flat():
    """As the runtime does it: flatten_data on a node with a gr.op changes nothing."""
    b = gr.GraphBuilder()
    x, w = b.input("x", (1, 2, 5, 5)), b.input("w", (3, 2, 3, 3))
    b.output(b.op("conv2d", x, w, name="conv"))
    b.output(b.call("total", [b.op("relu", x)], [("float32", (1,))], flatten=True))
    document = json.loads(b.to_json())
    (conv,) = [node for node in document["nodes"] if node["name"] == "conv"]
    conv["attrs"]["flatten_data"] = "1"
    graph = gr.load_graph(json.dumps(document))
    rng = np.random.default_rng(0)
    arrays = {"x": rng.random((1, 2, 5, 5), np.float32), "w": rng.random((3, 2, 3, 3), np.float32)}
    seen = []

    def total(array):
        seen.append(array.shape)
        return array.sum(keepdims=True)

    got = interpret(graph, arrays, functions={"total": total})
    assert seen == [(50,)]
    assert heads(graph, got)[0].shape == (1, 3, 3, 3)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda d: d | {"y": 1}, "no input 'y'"),
        (lambda d: {k: v for k, v in d.items() if k != "x1"}, "no value for input 'x1'"),
        (lambda d: list(d.values())[:2], "3 inputs, but 2 arrays"),
        (lambda d: d | {"x0": d["x0"].T}, r"is float32\[2, 3\], got float32\[3, 2\]"),
        (lambda d: d | {"x0": d["x0"].astype(np.float64)}, "got float64"),
    ],
)
def test_inputs_are_checked(network, change, text):
    with pytest.raises(InputError, match=text):
        interpret(network, change(arrays_of(network)))


def test_a_failing_reference_is_a_kernel_error():
    g = GraphMaker()
    y = g.op("take", [g.input(f32(3)), g.input(TensorType("int32", (1,)))])
    with pytest.raises(KernelError, match="index 7 is out of range"):
        interpret(g.graph([y]), [np.zeros(3, np.float32), np.array([7], np.int32)])
