"""Models whose sizes or values a run finds, against ONNX Runtime's rules as numpy says them."""

from __future__ import annotations

import threading

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import (  # noqa: E402
    GraphError,
    InputError,
    SessionBusyError,
    UnsupportedOpError,
)
from graph_runtime.run.flows import specializations  # noqa: E402
from graph_runtime.run.flows.flow_module import FlowModule  # noqa: E402

RNG = np.random.default_rng(7)
WEIGHT = RNG.standard_normal((8, 8)).astype(np.float32)
DEVICES = ["cpu:0", ["cpu:0", "tt:0"]]


def value(name, shape=None, kind=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, **constants):
    init = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(
        nodes, "g", inputs, [o if not isinstance(o, str) else value(o) for o in outputs], init
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def node(op, inputs, outputs, **attrs):
    return helper.make_node(op, inputs, outputs, f"{op}_{outputs[0]}", **attrs)


def open_sizes(**options):
    nodes = [node("MatMul", ["x", "w"], ["y"]), node("Relu", ["y"], ["z"])]
    return gr.create(model(nodes, [value("x", ["n", 8])], ["z"], w=WEIGHT), compile=False, **options)


def values_of(module):
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


# ---------------------------------------------------------------- sizes


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_a_size_is_whatever_a_run_brings(devices):
    module = open_sizes(devices=devices)
    assert isinstance(module, FlowModule)
    for n in (3, 1, 0, 7, 3, 1):
        x = RNG.standard_normal((n, 8)).astype(np.float32)
        module.run(x=x)
        np.testing.assert_allclose(values_of(module)[0], np.maximum(x @ WEIGHT, 0), rtol=0.02, atol=0.02)
    assert module.programs.made == 4


def test_the_least_recently_used_program_is_dropped_and_made_again():
    module = open_sizes(programs=2)
    for n in (1, 2, 1, 3, 1, 2):
        module.run(x=np.ones((n, 8), np.float32))
        np.testing.assert_allclose(values_of(module)[0], np.maximum(np.ones((n, 8)) @ WEIGHT, 0), rtol=1e-5)
    kept = module.programs
    assert len(kept) == len(module.flow.steps) == 2
    assert kept.made == kept.dropped + 2
    assert kept.made <= 5


def test_programs_of_several_sizes_share_their_constants():
    module = open_sizes()
    kept = []
    for n in (4, 5):
        module.run(x=np.ones((n, 8), np.float32))
    for each in module.programs.modules():
        graph = each.session.graph
        at = [i for i, name in enumerate(graph.input_names) if name != "x"]
        kept.append({each.get_input(i).numpy().ctypes.data for i in at})
    assert len(kept) == 2
    assert kept[0] == kept[1]


def test_a_new_size_computes_no_large_constant_again(monkeypatch):
    w, scale = RNG.standard_normal((200, 200)).astype(np.float32), RNG.standard_normal(200).astype(np.float32)
    nodes = [node("Exp", ["scale"], ["e"]), node("Mul", ["w", "e"], ["v"]), node("MatMul", ["x", "v"], ["y"])]
    module = gr.create(model(nodes, [value("x", ["n", 200])], ["y"], w=w, scale=scale), compile=False)
    hashed, one = [], specializations.digest
    monkeypatch.setattr(specializations, "digest", lambda array: hashed.append(array.nbytes) or one(array))
    for n in (16, 24, 40):
        x = RNG.standard_normal((n, 200)).astype(np.float32)
        module.run(x=x)
        np.testing.assert_allclose(values_of(module)[0], x @ (w * np.exp(scale)), rtol=1e-4, atol=1e-4)
    assert module.programs.made == 3
    assert sum(nbytes >= w.nbytes for nbytes in hashed) == 1


def test_what_does_not_fit_is_an_input_error_and_the_next_run_works():
    nodes = [node("Add", ["x", "y"], ["z"])]
    module = gr.create(model(nodes, [value("x", ["n", 2]), value("y", ["n", 2])], ["z"]), compile=False)
    good = np.ones((3, 2), np.float32)
    with pytest.raises(InputError, match="inputs without a value: y"):
        module.run(x=good)
    for wrong, text in (
        ({"x": good, "y": np.ones((2, 2), np.float32)}, "n"),
        ({"x": np.ones((3, 5), np.float32), "y": good}, "x"),
        ({"x": np.ones(3, np.float32), "y": good}, "float32"),
        ({"x": good, "y": good.astype(complex)}, "complex128"),
        ({"x": good, "zz": good}, "there is no input 'zz'"),
    ):
        with pytest.raises(InputError, match=text):
            module.run(**wrong)
        module.run(x=good, y=good)
        assert (values_of(module)[0] == 2).all()
    with pytest.raises(AttributeError, match=r"no 'benchmark': .* module.programs.modules"):
        module.benchmark()
    assert (module.run_async(x=good, y=good).outputs[0].numpy() == 2).all()


def test_a_second_thread_is_refused():
    body = helper.make_graph(
        [node("Identity", ["c"], ["c2"]), node("Sin", ["s"], ["s2"])],
        "b",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s", [4])],
        [value("c2", [], TensorProto.BOOL), value("s2", [4])],
    )
    proto = model(
        [node("Loop", ["n", "", "x"], ["y"], body=body)],
        [value("n", [], TensorProto.INT64), value("x", [4])],
        ["y"],
    )
    module = gr.create(proto, compile=False)
    module.set_input(n=np.array(50_000), x=np.ones(4, np.float32))
    thread = threading.Thread(target=module.run)
    thread.start()
    try:
        while not module._lock.locked() and thread.is_alive():
            pass
        with pytest.raises(SessionBusyError):
            module.run()
    finally:
        thread.join()


# ---------------------------------------------------------------- values


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_a_shape_that_a_run_computes(devices):
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("Mul", ["s", "two"], ["twice"]),
        node("Reshape", ["e", "twice"], ["r"]),
        node("Neg", ["r"], ["y"]),
    ]
    inputs = [value("x", [4, 6]), value("s", [2], TensorProto.INT64)]
    module = gr.create(model(nodes, inputs, ["y"], two=np.array([2, 1])), None, devices, compile=False)
    x = RNG.standard_normal((4, 6)).astype(np.float32)
    for shape in ((6, 2), (2, 6), (6, 2), (1, 12)):
        module.run(x=x, s=np.array(shape))
        wanted = -np.exp(x).reshape(shape[0] * 2, shape[1])
        np.testing.assert_allclose(values_of(module)[0], wanted, rtol=0.02)
    assert "twice" in module.describe()
    with pytest.raises(GraphError):
        module.run(x=x, s=np.array([5, 5]))
    module.run(x=x, s=np.array([6, 2]))
    np.testing.assert_allclose(values_of(module)[0], -np.exp(x).reshape(12, 2), rtol=0.02)


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_a_branch_that_a_run_chooses(devices):
    yes = helper.make_graph([node("Exp", ["x"], ["t"])], "yes", [], [value("t")])
    inner = helper.make_graph(
        [node("NonZero", ["x"], ["p"]), node("Cast", ["p"], ["f"], to=1)], "in", [], [value("f")]
    )
    other = helper.make_graph([node("MatMul", ["x", "w"], ["m"])], "out", [], [value("m")])
    nest = [
        node("Less", ["s", "low"], ["c2"]),
        node("If", ["c2"], ["o2"], then_branch=inner, else_branch=other),
    ]
    no = helper.make_graph(nest, "no", [], [value("o2")])
    nodes = [
        node("ReduceSum", ["x"], ["s"], keepdims=0),
        node("Greater", ["s", "zero"], ["c"]),
        node("If", ["c"], ["y"], then_branch=yes, else_branch=no),
        node("Add", ["y", "one"], ["z"]),
    ]
    constants = {"w": WEIGHT, "zero": np.float32(0), "low": np.float32(-100), "one": np.float32(1)}
    module = gr.create(model(nodes, [value("x", ["n", 8])], ["z"], **constants), None, devices, compile=False)
    x = np.abs(RNG.standard_normal((3, 8))).astype(np.float32)
    for scale in (1, -1, -1000, 1, -1, -1000):
        module.run(x=x * scale)
        if scale == 1:
            wanted = np.exp(x)
        else:
            wanted = x * scale @ WEIGHT if scale == -1 else np.array(np.nonzero(x), np.float32)
        np.testing.assert_allclose(values_of(module)[0], wanted + 1, rtol=0.05, atol=0.1)


# ---------------------------------------------------------------- sizes that a run finds


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_positions_parts_and_different_values(devices):
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("NonZero", ["r"], ["where"]),
        node("Transpose", ["where"], ["rows"]),
        node("GatherND", ["r", "rows"], ["found"]),
        node("Greater", ["x", "zero"], ["positive"]),
        node("Reshape", ["positive", "flat"], ["holds"]),
        node("Compress", ["x", "holds"], ["same"]),
        node("Unique", ["where"], ["u", "first", "inverse", "counts"]),
        node("Gather", ["u", "inverse"], ["back"]),
    ]
    outputs = ["found", "same", "u", "counts", "back"]
    proto = model(nodes, [value("x", ["n", 5])], outputs, zero=np.float32(0), flat=np.array([-1]))
    module = gr.create(proto, None, devices, compile=False)
    for n in (4, 9, 4):
        for x in (RNG.standard_normal((n, 5)).astype(np.float32), -np.ones((n, 5), np.float32)):
            module.run(x=x)
            found, same, u, counts, back = values_of(module)
            np.testing.assert_allclose(found, x[x > 0], rtol=0.01)
            np.testing.assert_array_equal(same, x[x > 0])
            where = np.array(np.nonzero(x > 0))
            wanted, times = np.unique(where, return_counts=True)
            np.testing.assert_array_equal(u, wanted)
            np.testing.assert_array_equal(counts, times)
            np.testing.assert_array_equal(back, where.reshape(-1))


def test_boxes_and_what_is_read_by_them():
    nodes = [
        node("NonMaxSuppression", ["b", "s", "most", "iou", "least"], ["chosen"]),
        node("Gather", ["chosen", "two"], ["index"], axis=1),
        node("Reshape", ["index", "flat"], ["i"]),
        node("Squeeze", ["b", "axis"], ["boxes"]),
        node("Gather", ["boxes", "i"], ["y"]),
    ]
    constants = {
        "most": np.array([20]),
        "iou": np.float32([0.5]),
        "least": np.float32([0.3]),
        "two": np.array([2]),
        "flat": np.array([-1]),
        "axis": np.array([0]),
    }
    proto = model(nodes, [value("b", [1, "n", 4]), value("s", [1, 1, "n"])], ["chosen", "y"], **constants)
    module = gr.create(proto, compile=False)
    for n in (50, 8):
        for _ in range(3):
            low = RNG.uniform(0, 10, (n, 2))
            boxes = np.concatenate([low, low + RNG.uniform(0.5, 5, (n, 2))], 1).astype(np.float32)
            scores = RNG.uniform(0, 1, n).astype(np.float32)
            module.run(b=boxes[None], s=scores[None, None])
            chosen, y = values_of(module)
            kept = chosen[:, 2]
            assert (np.diff(scores[kept]) <= 0).all()
            assert (scores[kept] > 0.3).all()
            assert len(kept)
            np.testing.assert_array_equal(y, boxes[kept])


# ---------------------------------------------------------------- loops


def _loop(outputs, extra=(), **constants):
    body = helper.make_graph(
        [
            node("MatMul", ["s", "w"], ["a"]),
            node("Tanh", ["a"], ["s2"]),
            node("ReduceMax", ["s2"], ["top"], keepdims=0),
            node("Less", ["top", "limit"], ["c2"]),
            node("Identity", ["s2"], ["row"]),
            *extra,
        ],
        "body",
        [value("i", [], TensorProto.INT64), value("c", [], TensorProto.BOOL), value("s")],
        [value("c2", [], TensorProto.BOOL), value("s2"), value("row")],
    )
    inputs = [value("x", ["n", 8]), value("trips", [], TensorProto.INT64), value("limit", [])]
    return model(
        [node("Loop", ["trips", "", "x"], outputs, body=body)], inputs, outputs, w=WEIGHT, **constants
    )


@pytest.mark.parametrize("devices", DEVICES, ids=str)
def test_a_loop_whose_end_a_run_finds(devices):
    module = gr.create(_loop(["last", "rows"]), None, devices, compile=False)
    x = (RNG.standard_normal((3, 8)) * 0.1).astype(np.float32)
    for trips, limit in ((1, 2.0), (40, 2.0), (40, 0.5), (7, 2.0)):
        module.run(x=x, trips=np.array(trips), limit=np.float32(limit))
        state, rows = x, []
        while len(rows) < trips:
            state = np.tanh(state @ WEIGHT)
            rows.append(state)
            if not state.max() < limit:
                break
        last, stacked = values_of(module)
        assert stacked.shape == (len(rows), 3, 8)
        if devices == "cpu:0":
            np.testing.assert_allclose(stacked, np.stack(rows), rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(last, state, rtol=1e-3, atol=1e-4)
    module.run(x=x, trips=np.array(0), limit=np.float32(1))
    np.testing.assert_array_equal(values_of(module)[0], x)
    assert values_of(module)[1].shape[0] == 0


def test_a_loop_that_does_not_end_is_an_error_and_the_next_run_works():
    module = gr.create(_loop(["last", "rows"]), compile=False, most_steps=50)
    x = np.zeros((3, 8), np.float32)
    with pytest.raises(GraphError, match=r"has run 50 iterations .* most_steps") as caught:
        module.run(x=x, trips=np.array(10**9), limit=np.float32(1))
    assert caught.value.node == "Loop_last"
    module.run(x=x, trips=np.array(3), limit=np.float32(1))
    assert values_of(module)[1].shape == (3, 3, 8)


def test_a_state_that_grows_is_a_program_for_each_size_and_a_sequence_keeps_all_of_them():
    body = helper.make_graph(
        [
            node("Concat", ["s", "one"], ["s2"], axis=0),
            node("SequenceInsert", ["q", "s2"], ["q2"]),
            node("Identity", ["c"], ["c2"]),
        ],
        "body",
        [
            value("i", [], TensorProto.INT64),
            value("c", [], TensorProto.BOOL),
            value("s"),
            helper.make_tensor_sequence_value_info("q", TensorProto.FLOAT, None),
        ],
        [
            value("c2", [], TensorProto.BOOL),
            value("s2"),
            helper.make_tensor_sequence_value_info("q2", TensorProto.FLOAT, None),
        ],
    )
    nodes = [
        node("SequenceConstruct", ["x"], ["q0"]),
        node("Loop", ["trips", "", "x", "q0"], ["y", "q"], body=body),
        node("SequenceAt", ["q", "at"], ["z"]),
        node("ConcatFromSequence", ["q"], ["all"], axis=0),
    ]
    inputs = [value("x", ["n"]), value("trips", [], TensorProto.INT64), value("at", [], TensorProto.INT64)]
    module = gr.create(model(nodes, inputs, ["y", "z", "all"], one=np.ones(1, np.float32)), compile=False)
    for trips, at in ((3, 1), (5, -1), (3, 0)):
        module.run(x=np.float32([5, 6]), trips=np.array(trips), at=np.array(at))
        rows = [np.float32([5, 6] + [1] * k) for k in range(trips + 1)]
        y, z, joined = values_of(module)
        np.testing.assert_array_equal(y, rows[-1])
        np.testing.assert_array_equal(z, rows[at])
        np.testing.assert_array_equal(joined, np.concatenate(rows))


def test_parts_of_a_sequence_are_erased_and_counted():
    nodes = [
        node("SplitToSequence", ["x", "sizes"], ["q"]),
        node("SequenceErase", ["q", "at"], ["less"]),
        node("SequenceErase", ["less"], ["least"]),
        node("SequenceLength", ["least"], ["count"]),
        node("ConcatFromSequence", ["least"], ["y"], axis=0),
    ]
    inputs = [value("x", ["n"]), value("sizes", ["k"], TensorProto.INT64), value("at", [], TensorProto.INT64)]
    module = gr.create(model(nodes, inputs, ["y", "count"]), compile=False)
    x = np.arange(6, dtype=np.float32)
    for at in (0, -1, 1):
        sizes = np.array([1, 2, 3])
        module.run(x=x, sizes=sizes, at=np.array(at))
        parts = [part.tolist() for part in np.split(x, [1, 3])]
        del parts[at]
        y, count = values_of(module)
        assert y.tolist() == [v for part in parts[:-1] for v in part]
        assert count == len(parts) - 1


def test_an_input_that_nothing_reads_may_be_of_any_type():
    inputs = [value("x", [4]), value("like", [3], TensorProto.FLOAT16)]
    module = gr.create(
        model([node("Relu", ["x"], ["y"])], inputs, ["y"]), None, ["tt:0", "cpu:0"], compile=False
    )
    module.run(x=np.float32([-1, 2, 3, -4]), like=np.ones(3, np.float16))
    np.testing.assert_array_equal(module.get_output(0).numpy(), np.float32([0, 2, 3, 0]))


def test_a_scan_as_long_as_its_input():
    body = helper.make_graph(
        [node("Add", ["s", "x_"], ["s2"]), node("Mul", ["s2", "x_"], ["y_"])],
        "body",
        [value("s"), value("x_")],
        [value("s2"), value("y_")],
    )
    nodes = [node("Scan", ["s0", "x"], ["last", "rows"], body=body, num_scan_inputs=1)]
    module = gr.create(
        model(nodes, [value("s0", [4]), value("x", ["n", 4])], ["last", "rows"]), compile=False
    )
    for n in (3, 30, 100):
        x, s = RNG.standard_normal((n, 4)).astype(np.float32), np.ones(4, np.float32)
        module.run(s0=s, x=x)
        sums = np.cumsum(np.concatenate([s[None], x]), 0, dtype=np.float32)[1:]
        last, rows = values_of(module)
        np.testing.assert_allclose(last, sums[-1], rtol=1e-3, atol=1e-4)
        np.testing.assert_allclose(rows, sums * x, rtol=1e-3, atol=1e-4)
    assert module.programs.made <= 1 + 2  # long ones share the body


# ---------------------------------------------------------------- bad input


def test_an_op_that_nobody_knows_is_refused_before_a_run():
    proto = model([node("NonZero", ["x"], ["p"]), node("Exotic", ["p"], ["y"])], [value("x", ["n"])], ["y"])
    with pytest.raises(UnsupportedOpError, match="no converter for Exotic"):
        gr.create(proto, compile=False)


def _body(nodes, inputs, outputs):
    return helper.make_graph([node(*each) for each in nodes], "body", inputs, outputs)


INT, BOOL = TensorProto.INT64, TensorProto.BOOL
STEP = [value("i", [], INT), value("c", [], BOOL), value("s")]
MADE = [value("c2", [], BOOL), value("s2")]
SAME = [("Identity", ["c"], ["c2"]), ("Neg", ["s"], ["s2"])]
SUM = ([("Add", ["s", "part"], ["s2"])], [value("s"), value("part")], [value("s2"), value("s2")])


@pytest.mark.parametrize(
    ("op", "inputs", "outputs", "attrs", "text"),
    [
        ("Loop", "n,,x", "y", {"body": (SAME, STEP, MADE[:1])}, "outputs of its body"),
        ("Loop", "n,,x", "y", {"body": (SAME, [*STEP, value("t")], MADE)}, "inputs of its body"),
        ("Loop", "n,,x", "y,z", {"body": (SAME, STEP, MADE)}, "has 2 outputs, but takes 1 at most"),
        ("Loop", "n", "y", {"body": (SAME, STEP, MADE)}, "needs a trip count"),
        ("Loop", "n,,x", "y", {}, "has no graph 'body'"),
        ("Loop", "empty,,x", "y", {"body": (SAME, STEP, MADE)}, "the trip count must be one value, it has 0"),
        (
            "Loop",
            "n,,x",
            "y",
            {"body": ([("Greater", ["s", "s"], ["c2"]), SAME[1]], STEP, MADE)},
            "the condition that its body makes must be one value, it has 4",
        ),
        ("If", "c0", "y", {}, "has no graph 'then_branch'"),
        (
            "If",
            "holds",
            "y",
            {"then_branch": ([("Neg", ["x"], ["s2"])], [], MADE[1:])},
            "graph 'else_branch'",
        ),
        ("Scan", "x", "y", {"body": SUM, "num_scan_inputs": 5}, "num_scan_inputs is 5, but it has 1 inputs"),
        ("Scan", "r,x2", "y,z", {"body": SUM}, "num_scan_inputs is 0"),
        ("Scan", "r,x2", "y,z,u", {"body": SUM, "num_scan_inputs": 1}, "has 3 outputs, but takes 2 at most"),
        (
            "Scan",
            "r,x2",
            "y",
            {"body": SUM, "num_scan_inputs": 1, "scan_input_axes": [7]},
            "axis 7 is out of",
        ),
        (
            "Scan",
            "r,x2",
            "y",
            {"body": SUM, "num_scan_inputs": 1, "scan_input_directions": [1, 1]},
            "2 values of",
        ),
        ("SequenceAt", "x,n", "y", {}, "must be a sequence"),
        ("OptionalGetElement", "q", "y", {}, "has no value"),
        ("Reshape", "x,r", "y", {}, "ill-formed|must be int64|shape"),
    ],
)
def test_a_malformed_control_node_is_a_typed_error(op, inputs, outputs, attrs, text):
    attrs = {key: _body(*each) if isinstance(each, tuple) else each for key, each in attrs.items()}
    nodes = [
        node("Optional", [], ["q"]),
        helper.make_node(op, inputs.split(","), outputs.split(","), "it", **attrs),
    ]
    feed = {
        "n": np.array(3),
        "empty": np.zeros(0, np.int64),
        "c0": np.array(True),
        "holds": np.array(False),
        "x": np.ones(4, np.float32),
        "x2": np.ones((40, 3), np.float32),
        "r": np.ones(3, np.float32),
    }
    kinds = {"int64": INT, "bool": BOOL, "float32": TensorProto.FLOAT}
    given = [value(k, [f"{k}{i}" for i in range(v.ndim)], kinds[v.dtype.name]) for k, v in feed.items()]
    with pytest.raises((GraphError, UnsupportedOpError), match=text):
        gr.create(model(nodes, given, outputs.split(",")[:1]), compile=False).run(**feed)


def test_a_loop_whose_results_fill_the_host_is_stopped(monkeypatch):
    body = _body([("Identity", ["c"], ["c2"]), ("Concat", ["s", "s"], ["s2"])], STEP, MADE)
    body.node[1].attribute.append(helper.make_attribute("axis", 0))
    nodes = [node("Loop", ["n", "", "x"], ["y"], body=body)]
    module = gr.create(model(nodes, [value("n", [], INT), value("x", ["k"])], ["y"]), compile=False)
    monkeypatch.setattr(type(module.flow), "most_bytes", 1 << 20)
    x = np.ones(4, np.float32)
    with pytest.raises(gr.DeviceMemoryError, match=r"would keep .* B of results and states") as caught:
        module.run(n=np.array(60), x=x)
    assert caught.value.node == "Loop_y"
    module.run(n=np.array(3), x=x)
    assert values_of(module)[0].shape == (32,)


def test_branches_may_name_their_values_alike():
    def branch(op):
        inner = helper.make_graph([node(op, ["x"], ["k"])], "i", [], [value("k")])
        nested = node("If", ["c"], ["j"], then_branch=inner, else_branch=inner)
        return helper.make_graph([nested, node("Neg", ["j"], ["t"])], "b", [], [value("t")])

    nodes = [
        node("If", ["c"], ["y"], then_branch=branch("Exp"), else_branch=branch("Relu")),
        node("If", ["c"], ["z"], then_branch=branch("Abs"), else_branch=branch("Sin")),
        node("Sub", ["y", "z"], ["d"]),
    ]
    module = gr.create(
        model(nodes, [value("x", ["n"]), value("c", [], TensorProto.BOOL)], ["d"]), compile=False
    )
    x = np.float32([-1, 0.5, 2])
    for c in (True, False):
        module.run(x=x, c=np.array(c))
        wanted = np.abs(x) - np.exp(x) if c else np.sin(x) - np.maximum(x, 0)
        np.testing.assert_allclose(values_of(module)[0], wanted, rtol=1e-5, atol=1e-6)


def test_create_converts_each_node_once(monkeypatch):
    """Of a model that a run completes: what can be converted before is, and the flow takes it over."""
    from graph_runtime.frontends.onnx.importer import Importer

    counted, convert = [], Importer.convert_node
    nodes = [
        node("Sin", ["x"], ["s"]),
        node("Cos", ["s"], ["c"]),
        node("NonZero", ["c"], ["p"]),
        node("Transpose", ["p"], ["q"]),
        node("Exp", ["s"], ["e"]),
    ]
    outputs = [value("q", None, INT), value("e", [2, 3])]

    def counting(self, each, scope, path, prefix=""):
        found = convert(self, each, scope, path, prefix)
        counted.extend([each.op_type] if not any(v is None or type(v) is object for v in found) else [])
        return found

    monkeypatch.setattr(Importer, "convert_node", counting)
    module = gr.create(model(nodes, [value("x", [2, 3])], outputs), compile=False)
    x = RNG.standard_normal((2, 3)).astype(np.float32)
    module.run(x=x)
    np.testing.assert_array_equal(values_of(module)[0], np.argwhere(np.cos(np.sin(x))))
    np.testing.assert_allclose(values_of(module)[1], np.exp(np.sin(x)), rtol=1e-5)
    assert sorted(counted) == ["Cos", "Exp", "NonZero", "Sin", "Transpose"]
    assert module.programs.made == 2


def test_pins_go_to_the_programs_that_have_their_nodes(tmp_path):
    """A pin that names nothing in any specialization is warned of, once."""
    nodes = [
        node("MatMul", ["x", "w"], ["first"]),
        node("NonZero", ["first"], ["p"]),
        node("Cast", ["p"], ["q"], to=TensorProto.FLOAT),
        node("MatMul", ["v", "q"], ["second"]),
    ]
    made = model(nodes, [value("x", [2, 8])], ["second"], w=WEIGHT, v=np.ones((3, 2), np.float32))
    pins = {"MatMul_first": "tt:0", "second": "tt:0", "third": "tt:0"}
    module = gr.create(made, devices=["cpu:0", "tt:0"], place=pins, compile=False)
    x = np.ones((2, 8), np.float32)
    with pytest.warns(UserWarning, match="named by third$"):
        module.run(x=x)
    module.run(x=x)
    places = {
        name: str(program.session.plan.devices[did])
        for program in module.programs.modules()
        for name, did in zip(program.session.graph.names, program.session.plan.did.tolist(), strict=True)
    }
    assert places["MatMul_first"] == places["second"] == "tt:0"
    wanted = values_of(module)[0]
    loaded = gr.load(module.save(tmp_path / "net.bundle", ["cpu:0", "tt:0"]))
    loaded.run(x=x)
    np.testing.assert_array_equal(values_of(loaded)[0], wanted)


def test_an_empty_sequence_alone_is_an_output():
    y = onnx.helper.make_tensor_sequence_value_info("y", onnx.TensorProto.FLOAT, None)
    graph = onnx.helper.make_graph([onnx.helper.make_node("SequenceEmpty", [], ["y"])], "g", [], [y])
    opset = [onnx.helper.make_opsetid("", 17)]
    module = gr.create(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8))
    module.run()
    assert module.get_output("y") == []


def _shared(op, *shapes, made=("n", 3), **attrs):
    """y = op(a, b), whose dimensions have names that both use."""
    infos = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        for name, shape in zip("aby", (*shapes, made), strict=True)
    ]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op, ["a", "b"], ["y"], **attrs)], "g", infos[:2], infos[2:]
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("n", [(1, 4), (4, 1), (4, 4), (2, 4)])
@pytest.mark.parametrize(
    ("op", "b", "made", "attrs"),
    [
        ("Add", ("n", 3), ("n", 3), {}),
        ("MatMul", (3, "n"), ("n", "n"), {}),
        ("Concat", ("n", 3), ("n", 3), {"axis": 0}),
    ],
)
def test_a_dimension_of_two_inputs_may_have_two_sizes_as_with_onnx_runtime(n, op, b, made, attrs):
    theirs = pytest.importorskip("onnxruntime")
    model = _shared(op, ("n", 3), b, made=made, **attrs)
    rng = np.random.default_rng(0)
    shapes = [[n[i] if size == "n" else size for size in shape] for i, shape in enumerate((("n", 3), b))]
    given = {name: rng.random(shape, np.float32) for name, shape in zip("ab", shapes, strict=True)}
    module = gr.create(model, compile=False)
    if op == "Add" and n == (2, 4):
        with pytest.raises(gr.InputError, match=r"dimension 'n' is 2 in 'a' and 4 in 'b': .*Add"):
            module.run(**given)
        return
    module.run(**given)
    session = theirs.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(module.get_output(0).numpy(), session.run(None, given)[0], rtol=1e-6)


def test_a_dimension_that_the_caller_bound_has_that_size():
    module = gr.create(_shared("Add", ("n", "m"), ("n", "m"), made=("n", "m")), dims={"n": 4})
    with pytest.raises(
        gr.InputError, match=r"input 'b' is float32\[4, 'm'\].*dimension 'n' \(axis 0\) has another"
    ):
        module.run(a=np.ones((4, 3), np.float32), b=np.ones((1, 3), np.float32))


def test_buckets_are_of_dimensions_with_one_size():
    module = gr.create(_shared("Add", ("n", 3), ("n", 3)), dims={"n": (4, 8)})
    module.run(a=np.ones((1, 3), np.float32), b=np.ones((4, 3), np.float32))
    assert module.get_output(0).shape == (4, 3)
    assert module.stats()["exact_runs"] == 1
    assert "dimension 'n' has several sizes" in str(module.stats()["reasons"])
