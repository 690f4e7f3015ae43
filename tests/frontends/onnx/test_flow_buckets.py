"""Models of open sizes with buckets: a program of larger sizes serves a run where that is proven."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import InputError  # noqa: E402
from graph_runtime.run.flows.flow_module import FlowModule  # noqa: E402

RNG = np.random.default_rng(11)
W = RNG.standard_normal((4, 4)).astype(np.float32)


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, **constants):
    init = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, [value(o) for o in outputs], init)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def attention():
    """softmax(x w (x w)^T) x over rows n, of b sequences; and the mean of the rows."""
    make = helper.make_node
    nodes = [
        make("MatMul", ["x", "w"], ["k"]),
        make("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        make("MatMul", ["k", "t"], ["s"]),
        make("Softmax", ["s"], ["p"], axis=-1),
        make("MatMul", ["p", "x"], ["y"]),
        make("ReduceMean", ["y"], ["m"], axes=[1], keepdims=0),
    ]
    return model(nodes, [value("x", ["b", "n", 4])], ["y", "m"], w=W)


def expected(x):
    k = x @ W
    s = k @ k.transpose(0, 2, 1)
    e = np.exp(s - s.max(-1, keepdims=True))
    y = e / e.sum(-1, keepdims=True) @ x
    return y, y.mean(1)


def garbage(dtype):
    return np.nan if dtype.kind == "f" else 10**9


@pytest.mark.parametrize("devices", ["cpu:0", ["cpu:0", "tt:0"]], ids=str)
def test_few_programs_serve_many_sizes_and_padding_may_be_nan(devices):
    module = gr.create(attention(), devices=devices, dims={"b": [1, 4], "n": [4, 16]}, compile=False)
    assert isinstance(module, FlowModule)
    module._bucketed.fill = garbage
    close = 1e-5 if devices == "cpu:0" else 0.05
    sizes = [(1, 1), (3, 2), (4, 16), (2, 7), (1, 5), (3, 2)]
    for b, n in sizes:
        x = RNG.standard_normal((b, n, 4)).astype(np.float32)
        module.run(x=x)
        for i, want in enumerate(expected(x)):
            got = module.get_output(i).numpy()
            assert got.shape == want.shape
            np.testing.assert_allclose(got, want, rtol=close, atol=close)
    stats = module.stats()
    assert stats["programs"] == stats["made"] == 4
    assert (stats["bucket_runs"], stats["exact_runs"]) == (len(sizes), 0)
    assert stats["padded"] == _padded(sizes)


def cached():
    """Rows x [b, n] attend to what is behind them, past [b, p], and to themselves; mask [b, p + n] hides."""
    make, two = helper.make_node, numpy_helper.from_array(np.array([2], np.float32))
    nodes = [
        make("Concat", ["past", "x"], ["keys"], axis=1),
        make("Transpose", ["keys"], ["t"], perm=[0, 2, 1]),
        make("MatMul", ["x", "t"], ["s"]),
        make("Shape", ["mask"], ["total"], start=1, end=2),
        make("ConstantOfShape", ["total"], ["twos"], value=two),
        make("Mul", ["mask", "twos"], ["m"]),
        make("Unsqueeze", ["m", "one"], ["bias"]),
        make("Add", ["s", "bias"], ["scores"]),
        make("Softmax", ["scores"], ["p"], axis=-1),
        make("MatMul", ["p", "keys"], ["y"]),
    ]
    inputs = [value("x", ["b", "n", 4]), value("past", ["b", "p", 4]), value("mask", ["b", "p + n"])]
    return model(nodes, inputs, ["y", "keys"], one=np.array([1]))


def test_a_dimension_that_is_named_as_a_sum_goes_by_its_parts():
    module = gr.create(cached(), dims={"n": [1, 4], "p": [8, 32]}, compile=False)
    module._bucketed.fill = garbage
    for n, p in ((3, 5), (1, 1), (1, 20), (4, 32), (1, 7)):
        x, past = (RNG.standard_normal((2, size, 4)).astype(np.float32) for size in (n, p))
        mask = np.where(RNG.random((2, p + n)) < 0.3, -1e4, 0).astype(np.float32)
        module.run(x=x, past=past, mask=mask)
        keys = np.concatenate([past, x], 1)
        scores = x @ keys.transpose(0, 2, 1) + 2 * mask[:, None]
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        want = weights / weights.sum(-1, keepdims=True) @ keys
        np.testing.assert_allclose(module.get_output("y").numpy(), want, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(module.get_output("keys").numpy(), keys)
    stats = module.stats()
    assert (stats["bucket_runs"], stats["exact_runs"], stats["made"]) == (5, 0, 4), stats["reasons"]


def test_a_sum_is_but_a_name_where_sizes_are_others():
    nodes = [helper.make_node("Add", ["x", "one"], ["y"]), helper.make_node("Add", ["z", "one"], ["w"])]
    inputs = [value("x", ["n"]), value("z", ["n + 1"])]
    made = model(nodes, inputs, ["y", "w"], one=np.float32(1))
    module = gr.create(made, dims={"n": [8]}, compile=False)
    module._bucketed.fill = garbage
    for n, more in ((3, 4), (3, 7), (2, 3)):
        x, z = np.ones(n, np.float32), np.ones(more, np.float32)
        module.run(x=x, z=z)
        for i, given in enumerate((x, z)):
            np.testing.assert_array_equal(module.get_output(i).numpy(), given + 1)
    stats = module.stats()
    assert (stats["bucket_runs"], stats["exact_runs"]) == (2, 1)
    assert "named n + 1" in str(stats["reasons"])


def _padded(sizes):
    full = [((1 if b == 1 else 4), (4 if n <= 4 else 16)) for b, n in sizes]
    return sum(4 * (B * N - b * n) for (B, N), (b, n) in zip(full, sizes, strict=True))


def test_sizes_above_all_buckets_and_of_nothing_are_exact():
    module = gr.create(attention(), dims={"b": [2], "n": [4]}, compile=False)
    for b, n in ((3, 2), (2, 5), (2, 4), (1, 3)):
        x = RNG.standard_normal((b, n, 4)).astype(np.float32)
        module.run(x=x)
        np.testing.assert_allclose(module.get_output(0).numpy(), expected(x)[0], rtol=1e-5, atol=1e-5)
    stats = module.stats()
    assert (stats["bucket_runs"], stats["exact_runs"], stats["made"]) == (2, 2, 3)
    assert stats["reasons"] == {
        "b=3, n=2": "there is no bucket of b for 3",
        "b=2, n=5": "there is no bucket of n for 5",
    }


def test_what_padding_would_reach_runs_at_its_exact_size_and_says_so():
    make = helper.make_node
    nodes = [
        make("Shape", ["x"], ["shape"], start=0, end=1),
        make("Cast", ["shape"], ["n"], to=TensorProto.FLOAT),
        make("Mul", ["x", "n"], ["y"]),
        make("Slice", ["x", "last", "end", "axis"], ["z"]),
    ]
    ints = {"last": np.array([-1]), "end": np.array([2**40]), "axis": np.array([0])}
    module = gr.create(
        model(nodes, [value("x", ["n", 2])], ["y", "z"], **ints), dims={"n": [8]}, compile=False
    )
    for n in (3, 5, 3):
        x = RNG.standard_normal((n, 2)).astype(np.float32)
        module.run(x=x)
        np.testing.assert_allclose(module.get_output(0).numpy(), x * n, rtol=1e-6)
        np.testing.assert_array_equal(module.get_output(1).numpy(), x[-1:])
    stats = module.stats()
    assert (stats["bucket_runs"], stats["exact_runs"], stats["made"]) == (0, 3, 2)
    assert set(stats["reasons"]) == {"n=3", "n=5"}
    assert all("slice of axis 0" in reason for reason in stats["reasons"].values())


def test_counted_values_and_block_formats_have_no_buckets():
    counted = model([helper.make_node("NonZero", ["x"], ["y"])], [value("x", ["n", 2])], ["y"])
    module = gr.create(counted, dims={"n": [8]}, compile=False)
    module.run(x=np.array([[0, 1]], np.float32))
    assert module.get_output(0).numpy().tolist() == [[0], [1]]
    assert "only a run finds" in module.stats()["reasons"]["n=1"]
    blocks = gr.create(
        attention(), devices=["tt:0", "cpu:0"], dims={"n": [8]}, formats={"tt": "bfp8_b"}, compile=False
    )
    blocks.run(x=np.ones((1, 3, 4), np.float32))
    assert "bfp8_b" in next(iter(blocks.stats()["reasons"].values()))


@pytest.mark.parametrize(
    ("dims", "text"),
    [
        ({"bb": [1, 8]}, "no dimension 'bb'.*did you mean 'b'"),
        ({"n": [0, 8]}, "positive sizes"),
        ({"n": []}, "positive sizes"),
        ({"n": [1, -8]}, "whole number|positive"),
        ({"n": ["8"]}, "whole number|positive"),
    ],
    ids=str,
)
def test_buckets_that_cannot_be_are_refused_when_the_model_is_opened(dims, text):
    with pytest.raises(InputError, match=text):
        gr.create(attention(), dims=dims, compile=False)


def convolutions(stride=1, pads=(2, 2)):
    """Two convolutions along the steps of b sequences, and the mean and the greatest of the steps."""
    make = helper.make_node
    kernels = [RNG.standard_normal(shape).astype(np.float32) / 3 for shape in ((6, 4, 3), (6, 1, 4), (6,))]
    nodes = [
        make("Conv", ["x", "k"], ["a"], pads=list(pads), dilations=[2], strides=[stride]),
        make("Relu", ["a"], ["r"]),
        make("Conv", ["r", "d", "bias"], ["c"], pads=[3, 0], group=6),
        make("Sigmoid", ["c"], ["y"]),
        make("GlobalAveragePool", ["y"], ["mean"]),
        make("GlobalMaxPool", ["y"], ["most"]),
        make("ReduceMean", ["c"], ["m"], axes=[2], keepdims=0),
    ]
    made = model(nodes, [value("x", ["b", 4, "n"])], ["y", "mean", "most", "m"])
    for name, array in zip(("k", "d", "bias"), kernels, strict=True):
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    return made


def outputs(module, **inputs):
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@pytest.mark.parametrize("devices", ["cpu:0", ["cpu:0", "tt:0"]], ids=str)
def test_convolutions_along_a_padded_axis_read_zeros_behind_what_is_real(devices):
    made = convolutions()
    exact = gr.create(made, compile=False)
    module = gr.create(made, devices=devices, dims={"b": [1, 4], "n": [8, 32]}, compile=False)
    module._bucketed.fill = garbage
    for b, n in ((1, 8), (1, 5), (3, 17), (2, 1), (4, 32), (1, 5)):
        x = RNG.standard_normal((b, 4, n)).astype(np.float32)
        for got, want in zip(outputs(module, x=x), outputs(exact, x=x), strict=True):
            assert got.shape == want.shape
            close = 1e-5 if devices == "cpu:0" else 0.05
            np.testing.assert_allclose(got, want, rtol=close, atol=close)
    assert module.stats()["bucket_runs"] == 6, module.stats()
    assert module.stats()["made"] <= 4


@pytest.mark.parametrize("wrong", [{"stride": 2}, {"pads": (0, 0)}, {"pads": (4, 2)}], ids=str)
def test_convolutions_that_make_another_number_of_steps_run_at_their_size(wrong):
    made = convolutions(**wrong)
    module, exact = gr.create(made, dims={"n": [16]}, compile=False), gr.create(made, compile=False)
    x = RNG.standard_normal((2, 4, 11)).astype(np.float32)
    for got, want in zip(outputs(module, x=x), outputs(exact, x=x), strict=True):
        np.testing.assert_array_equal(got, want)
    assert module.stats()["exact_runs"] == 1
    assert "makes another number of elements of axis" in next(iter(module.stats()["reasons"].values()))
