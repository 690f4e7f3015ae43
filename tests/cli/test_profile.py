"""run --profile and GR_DEBUG=2: tables by node and by op; run --against: the first node that differs."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import cli
from graph_runtime.base.config import config
from graph_runtime.binding import core
from graph_runtime.plan import plan
from graph_runtime.run.peak import Peak, machine_peak
from graph_runtime.views import node_rates
from graph_runtime.views.node_rates import op_totals, op_totals_text, work_of

PEAK = Peak(2.0, 4.0, 8.0, ((1 << 10, 1.0), (1 << 20, 0.5)))


def _command(capsys, *args):
    with pytest.raises(SystemExit) as stopped:
        cli.main([str(arg) for arg in args])
    return stopped.value.code or 0, *capsys.readouterr()


def _graph():
    b = gr.GraphBuilder()
    x, w = b.input("x", (64, 128), "float32"), b.input("w", (32, 128), "float32")
    b.output(b.op("relu", b.op("relu", b.op("dense", x, w))))
    return b


def _product():
    b = gr.GraphBuilder()
    b.output(b.op("dense", b.input("x", (64, 128)), b.param("w", np.ones((32, 128), np.float32))))
    return b


def _windows():
    b = gr.GraphBuilder()
    w = b.param("w", np.ones((32, 32, 3, 3), np.float32))
    b.output(b.op("conv2d", b.input("x", (1, 32, 32, 32)), w, pads=(1, 1, 1, 1)))
    return b


def test_totals_are_those_of_the_nodes():
    planned = plan(_graph().build(), ["cpu:0"])
    nids = [nid for nid in range(planned.graph.num_nodes) if planned.graph.func_id[nid] >= 0]
    rows = op_totals(planned, dict(zip(nids, (1000.0, 300.0, 700.0), strict=True)))
    assert [(row["op"], row["count"], row["us"]) for row in rows] == [("dense", 1, 1.0), ("relu", 2, 1.0)]
    assert sum(row["share"] for row in rows) == pytest.approx(1)
    assert rows[0]["gflop_per_s"] == pytest.approx(2 * 64 * 128 * 32 / 1000)
    assert rows[0]["gb_per_s"] == pytest.approx(4 * (64 * 128 + 32 * 128 + 64 * 32) / 1000)
    text = op_totals_text(rows, PEAK.as_dict())
    assert text.splitlines()[1].split()[:4] == ["dense", "cpu:0", "1", "1.0"]
    assert text.splitlines()[-1].startswith("this machine: 2 GFLOP/s in float32, 4 in bf16, 8 in int8")


def test_a_row_says_how_near_a_node_is_to_what_the_machine_can_do(monkeypatch):
    monkeypatch.setattr(node_rates, "machine_peak", lambda: PEAK)
    session = gr.create(_graph()).session
    nids = [nid for nid in range(session.graph.num_nodes) if session.graph.func_id[nid] >= 0]
    flops, nbytes = 2 * 64 * 128 * 32, 4 * 64 * 32 * 2  # of the product, of a relu
    times = 4 * flops / 2.0, nbytes / 0.5, 10 * nbytes / 0.5
    rows = node_rates.node_rates(session.program, dict(zip(nids, times, strict=True)))
    assert sorted(row["of_peak"] for row in rows) == pytest.approx([0.1, 0.25, 1.0])
    assert next(row for row in rows if row["op"] == "dense")["gflop_per_s"] == pytest.approx(0.5)
    assert {row["kernel"].rpartition("/")[0] for row in rows} == {"cpu/dense", "cpu/relu"}


@pytest.mark.parametrize(
    ("graph", "formats", "share"),
    [(_product, {}, 0.25), (_product, {"cpu": "bf16"}, 0.125), (_windows, {}, 0.0625)],
)
def test_the_share_is_of_the_instructions_that_a_node_takes(monkeypatch, graph, formats, share):
    """Products of bfloat16 have a peak of their own; Winograd's tiles make a fourth of the products."""
    monkeypatch.setattr(node_rates, "machine_peak", lambda: PEAK)
    session = gr.create(graph(), fuse=True, compile=False, formats=formats).session
    node = max(range(session.graph.num_nodes), key=lambda nid: work_of(session.graph.node(nid))[0] or 0)
    took = 4 * work_of(session.graph.node(node))[0] / PEAK.gflop_per_s
    rows = node_rates.node_rates(session.program, {node: took})
    assert [row["of_peak"] for row in rows] == [pytest.approx(share)]


def test_what_is_small_is_moved_at_the_rate_of_a_cache():
    assert [PEAK.moved(n) for n in (0, 1 << 10, 1 << 11, 1 << 30)] == [1.0, 1.0, 0.5, 0.5]


@pytest.mark.parametrize("threads", [1, 2])
def test_the_peak_of_this_machine(threads):
    before = core.pool_threads()
    core.pool_set_threads(threads)
    try:
        peak = machine_peak()
    finally:
        core.pool_set_threads(before)
    assert 0 < peak.gflop_per_s <= min(peak.bf16_gflop_per_s, peak.int8_gflop_per_s) < 1e6
    rates = [rate for _, rate in peak.moves]
    assert rates == sorted(rates, reverse=True)
    assert peak.gb_per_s == rates[-1] > 0
    assert peak.as_dict()["gb_per_s"] == peak.gb_per_s


@pytest.mark.parametrize(("name", "shown"), [("a.so", "a.so"), ("0" * 64 + ".so", "000000000000....so")])
def test_the_name_of_a_library_is_cut_where_it_is_a_hash(name, shown):
    kernel = SimpleNamespace(name="f", origin=f"/cache/{name}")
    assert node_rates._named(kernel) == f"f in {shown}"


def test_a_simulated_device_has_no_share_of_this_machine():
    session = gr.create(_graph(), None, "tt:0").session
    rows = node_rates.node_rates(session.program, {nid: 1000.0 for nid in session.program.nid.tolist()})
    assert {row["of_peak"] for row in rows if row["device"] == "tt:0"} == {None}
    assert all(row["kernel"] for row in rows)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "graph.json").write_text(_graph().to_json())
    return tmp_path


@pytest.mark.parametrize("debug", [False, True])
def test_a_run_ends_with_the_table(folder, capsys, debug):
    args = ["run", "graph.json", "--input", "x=random", "--input", "w=random"]
    if debug:
        with config(DEBUG="2"):
            code, _, text = _command(capsys, *args)
    else:
        code, text, _ = _command(capsys, *args, "--profile")
    assert code == 0
    head = next(line for line in text.splitlines() if line.startswith("op "))
    assert head.split() == ["op", "device", "count", "us", "share", "gflop_per_s", "gb_per_s"]
    assert "relu" in text
    assert "this machine: " in text


def test_profile_as_json(folder, capsys):
    code, out, _ = _command(
        capsys, "run", "graph.json", "--input", "x=random", "--input", "w=random", "--profile", "--json"
    )
    found = json.loads(out)["profile"]
    assert code == 0
    assert {row["op"]: row["count"] for row in found["ops"]} == {"dense": 1, "relu": 2}
    assert sorted(row["op"] for row in found["nodes"]) == ["dense", "relu", "relu"]
    assert all(row["of_peak"] > 0 and row["kernel"] for row in found["nodes"])
    assert found["machine"]["gb_per_s"] > 0


# ---------------------------------------------------------------- bisection


def _chain(ops):
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    nodes = [helper.make_node(op, [f"v{i}"], [f"v{i + 1}"], name=f"node{i}") for i, op in enumerate(ops)]
    nodes.append(helper.make_node("Relu", ["v0"], ["unused"]))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("v0", 1, [16])],
        [helper.make_tensor_value_info(f"v{len(ops)}", 1, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


_OPS = ["Sigmoid", "Tanh", "Neg", "Exp", "Sqrt", "Abs", "Softplus", "Tanh", "Neg"]


@pytest.mark.parametrize("wrong", [*range(len(_OPS)), None])
def test_bisection_finds_the_node_that_was_changed(tmp_path, wrong):
    onnx = pytest.importorskip("onnx")
    from onnx.reference import ReferenceEvaluator

    from graph_runtime.accuracy.bisection import first_difference

    path, x = tmp_path / "net.onnx", np.linspace(-1, 1, 16, dtype="float32")
    onnx.save(_chain(_OPS), path)

    def run(proto):
        with np.errstate(all="ignore"):
            return ReferenceEvaluator(proto).run(None, {"v0": x})

    def other(proto):
        changed = onnx.ModelProto.FromString(proto.SerializeToString())
        for node in changed.graph.node:
            if node.name == f"node{wrong}":
                node.op_type = "Sin"
        return run(changed)

    found = first_difference(path, run, other, 1e-9)
    if wrong is None:
        assert found is None
        return
    assert (found.node, found.op, found.nodes) == (f"node{wrong}", _OPS[wrong], len(_OPS))
    assert found.looked_at <= 5
    assert found.nmse > 1e-9


def test_against_names_the_first_node_that_differs(tmp_path, monkeypatch, capsys):
    """The other runtime is told to take Softplus for Relu."""
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    from graph_runtime.accuracy import against

    real = against._RUNTIMES["onnxruntime"]

    def wrong(source, path, inputs):
        proto = onnx.load(source) if isinstance(source, str) else source
        changed = onnx.ModelProto.FromString(proto.SerializeToString())
        for node in changed.graph.node:
            node.op_type = "Relu" if node.op_type == "Softplus" else node.op_type
        return real(changed, path, inputs)

    monkeypatch.setitem(against._RUNTIMES, "onnxruntime", wrong)
    path = tmp_path / "net.onnx"
    onnx.save(_chain(_OPS), path)
    code, out, _ = _command(
        capsys, "run", path, "--input", "v0=random", "--against", "onnxruntime", "--no-compile"
    )
    assert code == 1
    assert "first node that differs: node6 (Softplus)" in out
