"""Loops whose body is one program: its states stay in the program's memory, whatever reads and writes
them."""

from __future__ import annotations

import signal
import threading
import time

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import graph_runtime as gr  # noqa: E402
from graph_runtime.base.errors import DeviceMemoryError, GraphError  # noqa: E402
from graph_runtime.run.flows.resident import ResidentBody  # noqa: E402

INT, BOOL, FLOAT = TensorProto.INT64, TensorProto.BOOL, TensorProto.FLOAT
node = helper.make_node


def value(name, shape=None, kind=FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def model(nodes, inputs, outputs, opset=17, **constants):
    init = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, init)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def loop(nodes, states, stacked=(), condition="go", **constants):
    """A Loop over n trips at most, of states given by name and shape, that stacks other values."""
    inputs = [value("i", [], INT), value("go", [], BOOL), *(value(s, shape) for s, shape in states.items())]
    outputs = [value(condition, [], BOOL), *(value(f"{s}_", shape) for s, shape in states.items())]
    body = helper.make_graph(nodes, "body", inputs, [*outputs, *stacked])
    ins = ["n", "", *(f"{s}0" for s in states)]
    outs = [*(f"{s}_out" for s in states), *(f"all_{v.name}" for v in stacked)]
    return model(
        [node("Loop", ins, outs, "loop", body=body)],
        [value("n", [], INT), *(value(f"{s}0", shape) for s, shape in states.items())],
        [value(o) for o in outs],
        **constants,
    )


def run(module, **inputs):
    module.run(**inputs)
    return [module.get_output(i).numpy() for i in range(module.get_num_outputs())]


@pytest.fixture
def residents(monkeypatch):
    """The loops that went on in their program's memory."""
    made = []
    keep = ResidentBody.__init__
    monkeypatch.setattr(ResidentBody, "__init__", lambda self, *a: (made.append(self), keep(self, *a))[1])
    return made


@pytest.mark.parametrize("devices", ["cpu:0", ["cpu:0", "tt:0"]], ids=str)
def test_states_that_change_places_are_not_mixed_up(devices, residents):
    swap = [
        node("Add", ["a", "b"], ["b_"]),
        node("Identity", ["b"], ["a_"]),
        node("Identity", ["go"], ["on"]),
    ]
    module = gr.create(loop(swap, {"a": [2], "b": [2]}, condition="on"), devices=devices, compile=False)
    a, b = np.array([0, 1], np.float32), np.array([1, 3], np.float32)
    for n in (0, 1, 2, 3, 9, 20):
        want_a, want_b = a, b
        for _ in range(n):
            want_a, want_b = want_b, want_a + want_b
        got = run(module, n=np.array(n), a0=a, b0=b)
        np.testing.assert_allclose(got[0], want_a, rtol=0.05)
        np.testing.assert_allclose(got[1], want_b, rtol=0.05)
    assert residents


def test_a_state_that_is_rotated_around_three_places():
    turn = [node("Identity", [s], [f"{t}_"]) for s, t in ("ab", "bc", "ca")]
    shapes = {"a": [1], "b": [1], "c": [1]}
    module = gr.create(loop([*turn, node("Identity", ["go"], ["on"])], shapes, condition="on"), compile=False)
    for n in (1, 2, 3, 50):
        got = run(module, n=np.array(n), **{f"{s}0": np.array([k], np.float32) for k, s in enumerate("abc")})
        assert [int(v[0]) for v in got] == [(k - n) % 3 for k in range(3)]


def test_a_loop_ends_when_its_body_says_so_and_counts_its_trips(residents):
    nodes = [
        node("Mul", ["x", "two"], ["x_"]),
        node("ReduceMax", ["x_"], ["top"], keepdims=0),
        node("Less", ["top", "limit"], ["on"]),
        node("Cast", ["i"], ["trip"], to=FLOAT),
        node("Add", ["x_", "trip"], ["seen"]),
    ]
    stacked = [value("seen", [3]), value("trip", [])]
    constants = {"two": np.float32(2), "limit": np.float32(1000)}
    module = gr.create(loop(nodes, {"x": [3]}, stacked, "on", **constants), compile=False)
    x = np.array([1, 2, 3], np.float32)
    for _ in range(2):
        final, seen, trips = run(module, n=np.array(100), x0=x)
        assert final.max() == 1536
        assert trips.tolist() == list(range(9))
        np.testing.assert_array_equal(seen, [x * 2.0 ** (k + 1) + k for k in range(9)])
    assert residents
    first = run(module, n=np.array(100), x0=x * 1000)
    assert first[1].shape == (1, 3)


@pytest.mark.parametrize("back", [0, 1])
def test_a_scan_takes_rows_along_any_axis(back, residents):
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["s_"]), node("Mul", ["s_", "x"], ["y"])],
        "body",
        [value("s", [4]), value("x", [4])],
        [value("s_", [4]), value("y", [4])],
    )
    scan = node(
        "Scan", ["s0", "xs"], ["s1", "ys"], "scan", body=body, num_scan_inputs=1,
        scan_input_axes=[1], scan_input_directions=[back], scan_output_axes=[1],
    )  # fmt: skip
    graph = model([scan], [value("s0", [4]), value("xs", [4, "t"])], [value("s1"), value("ys")])
    module = gr.create(graph, compile=False)
    rng = np.random.default_rng(3)
    for steps in (20, 33):
        s, xs = rng.standard_normal(4).astype(np.float32), rng.standard_normal((4, steps)).astype(np.float32)
        order = xs[:, ::-1] if back else xs
        sums = s[:, None] + np.cumsum(order, axis=1)
        state, ys = run(module, s0=s, xs=xs)
        np.testing.assert_allclose(state, sums[:, -1], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(ys, sums * order, rtol=1e-4, atol=1e-5)
    assert residents


@pytest.mark.parametrize("steps", [3, 20])
@pytest.mark.parametrize("size", ["t", None])
def test_a_scan_of_opset_8_is_one_for_each_row_of_its_batch(steps, size):
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["s_"]), node("Mul", ["s_", "s_"], ["y"])],
        "body",
        [value("s", [2]), value("x", [2])],
        [value("s_", [2]), value("y", [2])],
    )
    scan = node("Scan", ["", "s0", "xs"], ["s1", "ys"], "scan", body=body, num_scan_inputs=1, directions=[1])
    shape = [3, size or steps, 2]
    graph = model([scan], [value("s0", [3, 2]), value("xs", shape)], [value("s1"), value("ys")], opset=8)
    module = gr.create(graph, compile=False)
    rng = np.random.default_rng(3)
    s, xs = (
        rng.standard_normal((3, 2)).astype(np.float32),
        rng.standard_normal((3, steps, 2)).astype(np.float32),
    )
    sums = s[:, None] + np.cumsum(xs[:, ::-1], axis=1)
    state, ys = run(module, s0=s, xs=xs)
    np.testing.assert_allclose(state, sums[:, -1], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(ys, sums**2, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "shapes", "text"),
    [
        (["n", "s0", "xs"], ([3, 2], [3, 4, 2]), "sequence_lens"),
        (["", "s0", "xs"], ([2, 2], [3, 4, 2]), "batches of several sizes"),
        (["", "s0", "xs"], ([3, 2], [3]), "steps"),
    ],
)
def test_a_scan_of_opset_8_that_does_not_fit_is_refused_with_its_node(inputs, shapes, text):
    body = helper.make_graph(
        [node("Add", ["s", "x"], ["s_"])], "body", [value("s"), value("x")], [value("s_")]
    )
    scan = node("Scan", inputs, ["s1"], "scan", body=body, num_scan_inputs=1)
    given = [value("n", [3], INT), value("s0", shapes[0]), value("xs", shapes[1])]
    with pytest.raises(gr.GraphRuntimeError, match=text) as caught:
        gr.create(model([scan], given, [value("s1")], opset=8), compile=False)
    assert "scan" in str(caught.value)


def _endless(**options):
    nodes = [node("Add", ["x", "one"], ["x_"]), node("Identity", ["go"], ["on"])]
    made = loop(nodes, {"x": [1]}, condition="on", one=np.ones(1, np.float32))
    return gr.create(made, compile=False, **options)


def test_a_loop_without_end_stops_at_the_bound_and_at_ctrl_c():
    module = _endless(most_steps=1000)
    with pytest.raises(GraphError, match="'loop' has run 1000 iterations"):
        run(module, n=np.array(2**62), x0=np.zeros(1, np.float32))
    module = _endless(most_steps=2**60)
    timer = threading.Timer(0.3, lambda: signal.raise_signal(signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(module, n=np.array(2**62), x0=np.zeros(1, np.float32))
    assert time.monotonic() - start < 5
    assert run(module, n=np.array(7), x0=np.zeros(1, np.float32))[0] == [7]


def test_results_that_the_host_has_no_room_for_end_the_loop(monkeypatch):
    from graph_runtime.run.flows import flow

    monkeypatch.setattr(flow, "host_bytes", lambda: 80_000)
    nodes = [
        node("Add", ["x", "x"], ["x_"]),
        node("Identity", ["x"], ["y"]),
        node("Identity", ["go"], ["on"]),
    ]
    module = gr.create(loop(nodes, {"x": [10]}, [value("y", [10])], "on"), compile=False)
    zeros = np.zeros(10, np.float32)
    with pytest.raises(DeviceMemoryError, match="'loop' would keep"):
        run(module, n=np.array(10_000), x0=zeros)
    assert run(module, n=np.array(100), x0=zeros)[1].shape == (100, 10)


# ---------------------------------------------------------------- a beam search in a graph


def beam_search(beams, words, most):
    """Beams over a table of word pairs: each trip keeps the best of beams * words continuations."""
    nodes = [
        node("Gather", ["table", "last"], ["pairs"], axis=0),
        node("Unsqueeze", ["score", "one"], ["column"]),
        node("Add", ["column", "pairs"], ["totals"]),
        node("Reshape", ["totals", "flat"], ["all"]),
        node("TopK", ["all", "beams"], ["score_", "best"]),
        node("Div", ["best", "words"], ["beam"]),
        node("Mod", ["best", "words"], ["last_"]),
        node("Gather", ["said", "beam"], ["kept"], axis=0),
        node("Equal", ["places", "i"], ["here"]),
        node("Unsqueeze", ["last_", "one"], ["word"]),
        node("Where", ["here", "word", "kept"], ["said_"]),
        node("Identity", ["go"], ["on"]),
    ]
    inputs = [value("i", [], INT), value("go", [], BOOL)]
    inputs += [value("score", [beams]), value("last", [beams], INT), value("said", [beams, most], INT)]
    outputs = [value("on", [], BOOL), value("score_", [beams])]
    outputs += [value("last_", [beams], INT), value("said_", [beams, most], INT)]
    body = helper.make_graph(nodes, "body", inputs, outputs)
    constants = {
        "table": np.random.default_rng(8).standard_normal((words, words)).astype(np.float32),
        "one": np.array([1]),
        "flat": np.array([-1]),
        "beams": np.array([beams]),
        "words": np.array(words),
        "places": np.arange(most),
        "score0": np.array([0] + [-100] * (beams - 1), np.float32),
        "last0": np.zeros(beams, np.int64),
        "said0": np.zeros((beams, most), np.int64),
    }
    ins, outs = ["n", "", "score0", "last0", "said0"], ["score", "last", "said"]
    ends = [value("score"), value("last", None, INT), value("said", None, INT)]
    return model([node("Loop", ins, outs, "search", body=body)], [value("n", [], INT)], ends, **constants)


@pytest.mark.parametrize("devices", ["cpu:0", ["cpu:0", "tt:0"]], ids=str)
def test_a_beam_search_finds_what_all_paths_say(devices):
    beams, words, most = 4, 9, 30
    graph = beam_search(beams, words, most)
    table = numpy_helper.to_array(graph.graph.initializer[0])
    module = gr.create(
        graph, devices=devices, place={"*": "cpu:0"} if len(devices) == 2 else {}, compile=False
    )
    for n in (1, 3, 30):
        score, last, said = np.array([0.0, -100, -100, -100]), np.zeros(4, int), np.zeros((4, most), int)
        for i in range(n):
            totals = (score[:, None] + table[last]).reshape(-1)
            best = np.argsort(-totals, kind="stable")[:beams]
            score, last, said = totals[best], best % words, said[best // words]
            said[:, i] = last
        got = run(module, n=np.array(n))
        np.testing.assert_allclose(got[0], score, rtol=1e-4)
        np.testing.assert_array_equal(got[1], last)
        np.testing.assert_array_equal(got[2], said)


@pytest.mark.slow
@pytest.mark.parametrize("buckets", [False, True], ids=["exact", "buckets"])
def test_fifty_random_sizes_equal_onnx_runtime(buckets):
    """Sequences of sizes in any order, of a loop, a beam search and a graph with open sizes."""
    ort = pytest.importorskip("onnxruntime")
    attention = [
        node("MatMul", ["x", "w"], ["k"]),
        node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        node("MatMul", ["k", "t"], ["s"]),
        node("Softmax", ["s"], ["p"], axis=-1),
        node("MatMul", ["p", "x"], ["y"]),
        node("ReduceMean", ["y"], ["m"], axes=[1]),
    ]
    w = np.random.default_rng(2).standard_normal((8, 8)).astype(np.float32)
    graph = model(attention, [value("x", ["b", "n", 8])], [value("y"), value("m")], w=w)
    search = beam_search(3, 7, 40)
    rng = np.random.default_rng(50)
    peers = [ort.InferenceSession(each.SerializeToString()) for each in (graph, search)]
    dims = {"b": [1, 4], "n": [8, 32]} if buckets else {}
    modules = [gr.create(graph, dims=dims, compile=False), gr.create(search, compile=False)]
    for _ in range(50):
        b, n = (int(v) for v in rng.integers(1, 5, 2) * (1, 8))
        feeds = [{"x": rng.standard_normal((b, n, 8)).astype(np.float32)}, {"n": np.array(n)}]
        for peer, module, given in zip(peers, modules, feeds, strict=True):
            for got, want in zip(run(module, **given), peer.run(None, given), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    if buckets:
        assert modules[0].stats()["made"] == 4


@pytest.mark.parametrize("devices", [["tt:0"], ["cpu:0", "tt:0"]], ids=str)
@pytest.mark.parametrize("swap", [False, True])
def test_states_of_tt_stay_there(devices, swap, monkeypatch):
    """From one iteration to the next no state is fetched; states that change places are right, too."""
    w = (np.random.default_rng(3).standard_normal((32, 32)) / 6).astype(np.float32)
    outs = ["b", "a_"] if swap else ["a_", "b_"]
    nodes = [node("MatMul", ["a", "w"], ["a_"]), node("Identity", ["go"], ["on"])]
    nodes += [] if swap else [node("MatMul", ["b", "w"], ["b_"])]
    body = helper.make_graph(
        nodes,
        "body",
        [value("i", [], INT), value("go", [], BOOL), value("a", [32, 32]), value("b", [32, 32])],
        [value("on", [], BOOL), *(value(name, [32, 32]) for name in outs)],
    )
    loop = node("Loop", ["n", "", "x", "y"], ["xs", "ys"], "loop", body=body)
    given = [value("n", [], INT), value("x", [32, 32]), value("y", [32, 32])]
    made = model([loop], given, [value("xs"), value("ys")], w=w)
    module = gr.create(made, devices=devices, place={"matmul": "tt:0"}, compile=False)
    a = np.eye(32, dtype=np.float32)
    b, counted, fetch = 2 * a, [], gr.Tensor.numpy
    monkeypatch.setattr(gr.Tensor, "numpy", lambda self: counted.append(self.shape) or fetch(self))
    found = run(module, n=np.array(40), x=a, y=b)
    assert counted.count((32, 32)) <= 12  # not one an iteration
    for _ in range(40):
        a, b = (b, a @ w) if swap else (a @ w, b @ w)
    for got, want in zip(found, (a, b), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-4 * np.abs(want).max())


def test_a_state_that_grows_keeps_as_many_programs_as_it_may():
    """A program for each length, of which the last stay."""
    body = helper.make_graph(
        [node("Concat", ["s", "x"], ["s_"], axis=0), node("Identity", ["go"], ["on"])],
        "body",
        [value("i", [], INT), value("go", [], BOOL), value("s", None)],
        [value("on", [], BOOL), value("s_", None)],
    )
    each = node("Loop", ["n", "", "x"], ["y"], "loop", body=body)
    made = model([each], [value("n", [], INT), value("x", ["rows", 2])], [value("y")])
    module = gr.create(made, programs=4, compile=False)
    for n, rows in ((30, 2), (30, 2), (3, 5)):
        x = np.random.default_rng(n).standard_normal((rows, 2)).astype(np.float32)
        np.testing.assert_array_equal(run(module, n=np.array(n), x=x)[0], np.tile(x, (n + 1, 1)))
        assert len(module.programs) <= 4
    assert module.programs.dropped >= 50
