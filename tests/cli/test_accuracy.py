"""graph-runtime accuracy: of ops, of a model, thresholds, search, pages."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime import cli


def _command(capsys, *args):
    with pytest.raises(SystemExit) as stopped:
        cli.main(["accuracy", *map(str, args)])
    return stopped.value.code or 0, *capsys.readouterr()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """net.json: two products and a function, with its weights in w.npz."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    b = gr.GraphBuilder(device="tt:0")
    x, w, v = (
        b.input(name, shape) for name, shape in (("x", (64, 128)), ("w", (128, 128)), ("v", (128, 32)))
    )
    b.output(b.op("matmul", b.op("tanh", b.op("matmul", x, w, name="first"), name="<tanh>"), v, name="last"))
    (tmp_path / "net.json").write_text(b.to_json())
    shapes = {"w": (128, 128), "v": (128, 32)}
    np.savez("w.npz", **{k: (rng.standard_normal(s) / 8).astype(np.float32) for k, s in shapes.items()})
    return tmp_path


def test_ops_side_by_side(capsys, tmp_path):
    page = tmp_path / "ops.html"
    code, out, _ = _command(capsys, "exp", "relu", "--as", "bf16", "--as", "bfp8_b", "--json", "--html", page)
    found = json.loads(out)["ops"]
    assert code == 0
    assert [(row["op"], row["precision"]) for row in found] == [
        ("exp", "bf16"),
        ("exp", "bfp8_b"),
        ("relu", "bf16"),
        ("relu", "bfp8_b"),
    ]
    assert found[0]["max_ulp"] <= 0.5 < found[1]["max_ulp"]
    assert found[0]["specials"]["inf"] == "inf"
    assert sum(found[0]["histogram"].values()) == found[0]["points"]
    text = page.read_text()
    assert "Histograms of ULP" in text
    assert "<script" not in text


def test_flags_say_the_precision_of_ops(capsys):
    code, out, _ = _command(capsys, "relu", "--format", "tt=bfp8_b", "--dst", "tt=bf16", "--json")
    assert code == 0
    assert json.loads(out)["ops"][0]["precision"] == "bfp8_b/dst=bf16"


def test_a_model(capsys, folder):
    args = ("net.json", "--params", "w.npz", "--as", "bf16", "--as", "bfp4_b/LoFi", "--html", "a.html")
    code, out, _ = _command(capsys, *args, "--json")
    found = json.loads(out)["precisions"]
    assert code == 0
    assert [[row["name"] for row in one["alone"]] for one in found] == [["first", "<tanh>", "last"]] * 2
    plain, coarse = (one["outputs"][0] for one in found)
    assert plain["correlation"] > 0.9999 > coarse["correlation"]
    assert found[0]["latency_ns"] > found[1]["latency_ns"]
    assert len(plain["worst"]) == 5
    page = (folder / "a.html").read_text()
    assert "&lt;tanh&gt;" in page
    assert "<tanh>" not in page
    assert "1 - PCC along the nodes" in page
    code, text, _ = _command(capsys, *args)
    assert code == 0
    assert "bfp4_b/LoFi: added up" in text


def test_thresholds_give_the_exit_code(capsys, folder):
    limits = {"outputs": {"*": {"pcc": 0.9}}, "ops": {"exp": {"max_ulp": 0.5}}}
    (folder / "limits.json").write_text(json.dumps(limits))
    model = ("net.json", "--params", "w.npz", "--thresholds", "limits.json")
    assert _command(capsys, *model, "--as", "bf16")[0] == 0
    assert _command(capsys, "exp", "--thresholds", "limits.json", "--as", "bf16")[0] == 0
    code, text, _ = _command(capsys, "exp", "--thresholds", "limits.json", "--as", "bfp8_b")
    assert code == 1
    assert "MISSED ops exp (bfp8_b): max_ulp is" in text
    (folder / "limits.json").write_text('{"outputs": {"*": {"pcc": 0.9999999}}}')
    code, out, _ = _command(capsys, *model, "--as", "bf16", "--json")
    assert code == 1
    assert len(json.loads(out)["missed"]) == 1


def test_search_writes_a_plan_that_runs(capsys, folder):
    args = ("net.json", "--params", "w.npz", "--as", "bf16", "--search", "pcc=0.99", "-o", "found.json")
    code, out, _ = _command(capsys, *args, "--json")
    found = json.loads(out)["search"]
    assert code == 0
    assert found["ok"]
    assert found["chosen"]
    assert found["value"] >= 0.99
    assert found["latency_ns"] < found["latency_before_ns"]
    # the file bears the formats and fidelities: run as it is, it has the value that was reported
    code, out, _ = _command(capsys, "found.json", "--params", "found.params", "--json")
    again = json.loads(out)["precisions"][0]
    assert code == 0
    assert again["outputs"][0]["correlation"] == pytest.approx(found["value"], abs=1e-9)
    assert again["latency_ns"] == pytest.approx(found["latency_ns"], rel=1e-6)
    assert _command(capsys, *args[:-2], "--search", "pcc=0.99999999")[0] == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("exq",), "did you mean 'exp'"),
        (("nofile.onnx",), "no file nofile.onnx"),
        (("exp", "--as", "bfp8"), "did you mean 'bfp8_b'"),
        (("exp", "--search", "pcc=0.9"), "--search is for models"),
        (("exp", "--layout", "x=l1"), "is for models"),
        (("exp", "--device", "tt:0", "--device", "cpu:0"), "give one --device"),
        (("net.json", "--search", "pcc"), "measure and its limit"),
        (("net.json", "-o", "x.json"), "need --search"),
        (("net.json", "--input", "y=random"), "no such input"),
        (("net.json", "--as", "bfp8_b", "--device", "cpu:0"), "simulated devices"),
        (("net.json", "--as", "bf16", "--device", "cpu:0"), "for weights of products"),
        (("net.json", "net.json"), "no op to sweep"),
        (("net.json", "--thresholds", "none.json"), "none.json"),
    ],
)
def test_bad_usage_is_one_line(capsys, folder, args, said):
    code, _, text = _command(capsys, *args)
    assert code == 2
    assert said in text
    assert len(text.strip().splitlines()) == 1


def test_what_runs_where_is_not_left_to_a_policy(capsys, tmp_path, monkeypatch):
    """A policy would put a small model on the host, whose exactness was not asked for."""
    monkeypatch.chdir(tmp_path)
    b = gr.GraphBuilder()
    x = b.input("x", (40, 64))
    b.output(b.op("exp", b.op("cast", b.op("cast", x, to="int64", name="host"), to="float32"), name="far"))
    (tmp_path / "net.json").write_text(b.to_json())
    for devices in ((), ("--device", "cpu:0", "--device", "tt:1")):
        code, out, _ = _command(capsys, "net.json", "--as", "bf16", *devices, "--json")
        where = {row["name"]: row["device"] for row in json.loads(out)["precisions"][0]["alone"]}
        assert code == 0
        assert where["host"] == "cpu:0"
        assert where["far"] == ("tt:1" if devices else "tt:0")
    code, _, text = _command(
        capsys, "net.json", "--as", "bf16", "--device", "cpu:0", "--device", "tt:0", "--place", "*=cpu:0"
    )
    assert code == 2
    assert "all nodes run on a host" in text
