"""estimate, and the files that --trace and --html write."""

from __future__ import annotations

import json

import pytest

import graph_runtime as gr
from graph_runtime.cli import main
from graph_runtime.plan import plan


@pytest.fixture
def graph_file(tmp_path):
    b = gr.GraphBuilder()
    x = b.input("x", (64, 128), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (128, 64)), name="mm", device="tt:0")
    b.output(b.op("softmax", h, name="sm", device="cpu:0"))
    path = tmp_path / "net.json"
    path.write_text(b.to_json())
    return path


def call(*args) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in args])
    return end.value.code or 0


def data_of(page) -> dict:
    block = page.read_text().partition('id="data">')[2].partition("</script>")[0]
    return json.loads(block)


def test_estimate_prints_what_simulate_says(graph_file, capsys):
    assert call("estimate", graph_file, "--device", "cpu:0", "--device", "tt:0=n150", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    planned = gr.simulate(_planned(graph_file))
    assert told["latency_ns"] == planned.latency_ns
    assert sum(told["basis_shares"].values()) == pytest.approx(1)
    assert {"mm", "sm"} <= {row["name"] for row in told["nodes"]}


def _planned(path):
    return plan(gr.load_graph(path), ["cpu:0", "tt:0=n150"])


def test_estimate_as_text_and_its_files(graph_file, tmp_path, capsys):
    trace, page = tmp_path / "t.json", tmp_path / "p.html"
    assert (
        call(
            "estimate",
            graph_file,
            "--device",
            "cpu:0",
            "--device",
            "tt:0=p150",
            "--runs",
            "3",
            "--input",
            "x",
            "--untraced",
            "--trace",
            trace,
            "--html",
            page,
        )
        == 0
    )
    out = capsys.readouterr().out
    for word in ("latency", "throughput", "critical path", "basis of times", "tt:0 compute", "tt:0 copy_in"):
        assert word in out
    assert json.loads(trace.read_bytes())["traceEvents"]
    assert page.read_text().startswith("<!DOCTYPE html>")


def test_run_writes_real_times_and_plan_a_page(graph_file, tmp_path, capsys):
    trace, page = tmp_path / "t.json", tmp_path / "p.html"
    devices = ("--device", "cpu:0", "--device", "tt:0")
    assert (
        call(
            "run",
            graph_file,
            *devices,
            "--input",
            "x=random",
            "--input",
            "w=random",
            "--trace",
            trace,
            "--html",
            page,
        )
        == 0
    )
    slices = [e for e in json.loads(trace.read_bytes())["traceEvents"] if e["ph"] == "X"]
    assert {e["args"]["basis"] for e in slices} == {"measured"}
    assert {"mm", "sm"} <= {e["name"] for e in slices}
    labels = [line["label"] for line in data_of(page)["plans"][0]["timelines"]]
    assert labels == ["measured", "simulated"]
    assert call("plan", graph_file, *devices, "--html", page) == 0
    assert data_of(page)["plans"][0]["answers"]["placement"]["devices"][1]["nodes"] == 1


def test_an_unknown_input_is_one_line(graph_file, capsys):
    assert call("estimate", graph_file, "--input", "y") == 2
    assert "no input 'y'" in capsys.readouterr().err
