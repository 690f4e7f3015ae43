"""Nodes and graphs that few files have, against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import GraphError, UnsupportedOpError  # noqa: E402
from graph_runtime.compat import onnxruntime as compat  # noqa: E402

RNG = np.random.default_rng(11)


def _f(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


HEADS = {n: _f(1, 2, 4, 8) for n in "qkv"}
HALVES = {n: a.astype(np.float16) for n, a in HEADS.items()}
LOW = np.where(np.tril(np.ones((4, 4))) > 0, 0, np.finfo(np.float32).min)
PAIR = {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1}
VOLUME = {"x": _f(1, 4, 3, 2, 3), "w": _f(4, 3, 2, 3, 2), "b": _f(6)}
UNEVEN = {"dilations": [2, 1, 3], "strides": [1, 2, 2], "pads": [1, 0, 3, 0, 1, 0]}
EACH = {"x": _f(2, 3, 4)} | {n: RNG.random((3, 4)).astype(np.float32) + 0.5 for n in "sbmv"}

# name: (opset, op, inputs, attributes, outputs)
CASES = {
    "a window larger than the image": (12, "MaxPool", {"x": _f(1, 2, 1, 3)}, PAIR, 1),
    "its places": (12, "MaxPool", {"x": _f(1, 2, 1, 3)}, PAIR, 2),
    "its mean": (19, "AveragePool", {"x": _f(1, 2, 1, 3)}, PAIR, 1),
    "its mean of padding": (19, "AveragePool", {"x": _f(1, 2, 1, 3)}, PAIR | {"count_include_pad": 1}, 1),
    "a padded one": (12, "MaxPool", {"x": _f(1, 2, 1, 3)}, PAIR | {"pads": [0, 1, 0, 1]}, 1),
    "one dimension": (
        12,
        "MaxPool",
        {"x": _f(1, 2, 2)},
        {"kernel_shape": [4], "strides": [3], "ceil_mode": 1},
        1,
    ),
    "three dimensions": (
        12,
        "MaxPool",
        {"x": _f(1, 2, 1, 3, 2)},
        {"kernel_shape": [2, 2, 3], "strides": [2, 2, 2], "ceil_mode": 1},
        1,
    ),
    "holes": (
        12,
        "MaxPool",
        {"x": _f(1, 2, 4, 3)},
        {"kernel_shape": [3, 2], "strides": [3, 3], "dilations": [2, 2], "ceil_mode": 1},
        1,
    ),
    "a mask of halves": (23, "Attention", HEADS | {"m": _f(4, 4, dtype=np.float16)}, {}, 1),
    "a mask of doubles": (23, "Attention", HEADS | {"m": _f(4, 4, dtype=np.float64)}, {"is_causal": 1}, 1),
    "a mask of integers": (23, "Attention", HEADS | {"m": np.tril(np.ones((4, 4), np.int64))}, {}, 1),
    "a wider mask": (23, "Attention", HALVES | {"m": _f(4, 4)}, {"softcap": 5.0}, 1),
    "a low wider mask": (23, "Attention", HALVES | {"m": LOW.astype(np.float32)}, {}, 1),
    "groups of volumes": (11, "ConvTranspose", VOLUME, {"group": 2}, 1),
    "dilated volumes": (11, "ConvTranspose", VOLUME | {"b": _f(3)}, UNEVEN, 1),
    "both": (11, "ConvTranspose", VOLUME, UNEVEN | {"group": 2, "output_padding": [0, 1, 1]}, 1),
    "lengths of extremes": (18, "ReduceL2", {"x": np.int32([[2**31 - 1, 3], [-(2**31), 4]])}, {}, 1),
    "lengths of wide extremes": (13, "ReduceL2", {"x": np.array([[2**62, 3], [4, 5]])}, {"axes": [1]}, 1),
    "logarithms of extremes": (
        13,
        "ReduceLogSum",
        {"x": np.int32([[2**31 - 1, 9], [3, 4]])},
        {"axes": [1]},
        1,
    ),
    "no lower bound": (10, "Clip", {"x": np.float32([-np.inf, np.inf, np.nan, 1])}, {"max": 0.5}, 1),
    "no bound": (7, "Clip", {"x": np.float32([-np.inf, np.inf, np.nan, 1])}, {}, 1),
    "statistics of each element": (7, "BatchNormalization", EACH, {"spatial": 0, "epsilon": 1e-3}, 1),
}


def _peer(proto, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = proto.SerializeToString()
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_as_onnxruntime(kit, case, constant):
    opset, op, inputs, attrs, count = CASES[case]
    code, outputs = onnx.helper.np_dtype_to_tensor_dtype, [f"y{i}" for i in range(count)]
    feeds = {n: a for n, a in inputs.items() if not constant or n in "xq"}
    weights = {n: a for n, a in inputs.items() if n not in feeds}
    given = {n: (code(a.dtype), a.shape) for n, a in feeds.items()}
    proto = kit.make([(op, list(inputs), outputs, attrs)], given, outputs, weights, opset=opset)
    first = next(iter(inputs.values()))
    for info, kind in zip(proto.graph.output, (code(first.dtype), kit.INT64), strict=False):
        info.type.tensor_type.elem_type = kind
    bound = 4e-3 if first.dtype == np.float16 else 2e-5
    for found, wanted in zip(kit.run(kit.load(proto), feeds), _peer(proto, feeds), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=bound, atol=bound)


@pytest.mark.parametrize("shape", [(2,), ("n",)])
@pytest.mark.parametrize("names", ["yy", "zyz", "xzx", "yxcycx"])
def test_an_output_may_be_listed_twice(kit, names, shape):
    nodes = [("Relu", ["x"], ["y"]), ("Add", ["y", "c"], ["z"])]
    proto = kit.make(nodes, {"x": shape}, names, {"c": np.float32([5, 6])})
    for info in proto.graph.output:
        info.type.tensor_type.elem_type = kit.FLOAT
    feeds = {"x": np.float32([-1, 2])}
    wanted = _peer(proto, feeds)
    np.testing.assert_equal(kit.run(kit.load(proto, dims={} if shape == (2,) else {"n": 2}), feeds), wanted)
    session = compat.InferenceSession(proto.SerializeToString())
    assert [output.name for output in session.get_outputs()] == list(names)
    for _ in range(2):
        np.testing.assert_equal(session.run(None, feeds), wanted)
    np.testing.assert_equal(session.run([names[-1], names[-1]], feeds), [wanted[-1], wanted[-1]])


def _sparse(indices, shape=(2, 3), values=(3.0, 4.0), name="w"):
    kept = onnx.numpy_helper.from_array(np.array(values, np.float32), name)
    at = onnx.numpy_helper.from_array(np.array(indices, np.int64), "at")
    return onnx.helper.make_sparse_tensor(kept, at, shape)


def _with_sparse(kit, sparse, where):
    """y = x + w, w sparse: an initialiser of the graph (and an input, too) or of a branch, or a Constant."""
    helper, add = onnx.helper, ("Add", ["x", "w"], ["y"])
    if where == "branch":
        info = helper.make_tensor_value_info("y", kit.FLOAT, [2, 3])
        nodes = [helper.make_node(*add)]
        branches = {
            f"{which}_branch": helper.make_graph(nodes, which, [], [info], sparse_initializer=[sparse])
            for which in ("then", "else")
        }
        proto = kit.make([("If", ["c"], ["y"], branches)], {"x": (2, 3), "c": (kit.BOOL, ())}, "y")
    elif where == "node":
        proto = kit.make([("Constant", [], ["w"], {"sparse_value": sparse}), add], {"x": (2, 3)}, "y")
    else:
        inputs = {"x": (2, 3)} | ({"w": (2, 3)} if where == "input" else {})
        proto = kit.make([add], inputs, "y")
        proto.graph.sparse_initializer.append(sparse)
    proto.graph.output[0].type.tensor_type.elem_type = kit.FLOAT
    return proto


@pytest.mark.parametrize("indices", [[1, 4], [[0, 1], [1, 2]]])
@pytest.mark.parametrize("where", ["graph", "input", "node", "branch"])
def test_sparse_tensors_are_dense_ones(kit, where, indices):
    proto, feeds = _with_sparse(kit, _sparse(indices), where), {"x": _f(2, 3)}
    if where == "branch":
        feeds["c"] = np.array(True)
    module = gr.create(proto)
    module.run(**feeds)
    wanted = feeds["x"].copy()
    wanted.flat[1] += 3
    wanted.flat[4 if indices == [1, 4] else 5] += 4
    np.testing.assert_equal(module.get_output(0).numpy(), wanted)
    if where != "input":
        np.testing.assert_equal(_peer(proto, feeds), [wanted])


@pytest.mark.parametrize(
    ("sparse", "text"),
    [
        (_sparse([1, 6]), "an index outside of"),
        (_sparse([[0, 1], [-1, 2]]), "an index outside of"),
        (_sparse([1]), "indices of 2 values are"),
        (_sparse([[0], [1]]), "indices of 2 values are"),
        (_sparse([1, 2], shape=(2, -3)), "has the shape"),
        (_sparse([1, 2], shape=(2**20, 2**20)), "made dense"),
    ],
)
def test_sparse_tensors_that_are_none(kit, sparse, text):
    with pytest.raises(GraphError, match=text):
        gr.create(_with_sparse(kit, sparse, "graph")).run(x=_f(2, 3))


def test_ops_of_one_machine_are_refused_with_the_way_out(kit):
    """ONNX Runtime makes such files where the processor has AVX; this one is made by hand."""
    proto = kit.make([("Relu", ["x"], ["y"])], {"x": (1, 8, 2, 2)}, "y")
    proto.graph.node[0].domain = "com.microsoft.nchwc"
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft.nchwc", 1))
    for read in (kit.load, gr.create):
        with pytest.raises(UnsupportedOpError, match=r"the file from before that.*ORT_ENABLE_EXTENDED"):
            read(proto)


BEYOND = np.array([np.nan, np.inf, -np.inf, 1e20, -1e20, -1.5], np.float32)
NAN = np.array([[[[np.nan, 1, 2, 3], [4, np.nan, 6, 7]]]], np.float32)
ROWS = np.array([[np.inf, 1], [np.nan, 1], [-np.inf] * 2, [-np.inf, 1]])
OPEN = {
    "floats beyond int32": ("Cast", BEYOND, {"to": 6}, [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), -1]),
    "floats beyond uint8": ("Cast", BEYOND, {"to": 2}, [0, 255, 0, 255, 0, 0]),
    "NaN in a window": ("MaxPool", NAN, {"kernel_shape": [2, 2]}, [[[[np.nan, np.nan, 7]]]]),
    "NaN in all": ("GlobalMaxPool", NAN, {}, [[[[np.nan]]]]),
    "rows of infinities": ("LogSoftmax", ROWS, {"axis": 1}, [[np.nan] * 2] * 3 + [[-np.inf, 0]]),
}


@pytest.mark.parametrize("case", OPEN)
def test_values_that_onnx_leaves_open(kit, case):
    """ONNX Runtime's depend on the machine, or on where a NaN is (docs/onnx.md)."""
    op, x, attributes, wanted = OPEN[case]
    given = {"x": (onnx.helper.np_dtype_to_tensor_dtype(x.dtype), x.shape)}
    (found,) = kit.run(kit.load(kit.make([(op, ["x"], ["y"], attributes)], given, "y")), {"x": x})
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", ["int64", "uint64", "uint32"])
def test_maxima_of_integers_that_int32_does_not_hold_are_refused(kit, dtype):
    """They wrapped. ONNX has no such MaxPool, and ONNX Runtime refuses the file."""
    given = {"x": (onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), (1, 1, 2, 2))}
    proto = kit.make([("MaxPool", ["x"], ["y"], {"kernel_shape": [2, 2]})], given, "y")
    proto.graph.output[0].CopyFrom(onnx.ValueInfoProto(name="y"))
    with pytest.raises(UnsupportedOpError, match="cast to float64"):
        kit.load(proto)
