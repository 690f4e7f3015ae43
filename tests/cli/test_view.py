"""view, and --html of commands that others test."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cli import main


@pytest.fixture
def graph_file(tmp_path):
    b = gr.GraphBuilder()
    x = b.input("x", (64, 128), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (128, 64)), name="mm", device="tt:0")
    b.output(b.op("softmax", h, name="sm", device="cpu:0"))
    path = tmp_path / "net.json"
    path.write_text(b.to_json())
    return path


DEVICES = ("--device", "cpu:0", "--device", "tt:0")


def call(*args) -> int:
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in args])
    return end.value.code or 0


def data_of(page) -> dict:
    return json.loads(page.read_text().partition('id="data">')[2].partition("</script>")[0])


def test_two_plans_a_trace_and_a_comparison(graph_file, tmp_path, capsys):
    other, trace, page = tmp_path / "other.json", tmp_path / "run.json", tmp_path / "page.html"
    assert call("plan", graph_file, *DEVICES, "--place", "sm=tt:0", "-o", other) == 0
    assert call("view", graph_file, other, *DEVICES, "-o", page) == 0
    rows = {row["name"]: row for row in data_of(page)["moved"]["rows"]}
    assert rows["sm"]["device"] == ["cpu:0", "tt:0"]
    capsys.readouterr()
    given = ("--input", "x=random", "--input", "w=random")
    assert (
        call("run", graph_file, *DEVICES, *given, "--trace", trace, "--compare", "--json", "--html", page)
        == 0
    )
    printed = tmp_path / "compared.json"
    printed.write_text(capsys.readouterr().out)
    (found,) = data_of(page)["plans"]
    assert [row["name"] for row in found["accuracy"]["nodes"]] == ["mm", "sm"]
    runs = dict.fromkeys(found["tensors"]["run"])
    assert list(runs) == ["this run", "added up", "alone"]
    assert call("view", graph_file, trace, *DEVICES, "-o", page) == 0
    assert [line["label"] for line in data_of(page)["plans"][0]["timelines"]] == ["simulated", "trace"]
    assert call("view", graph_file, printed, *DEVICES, "-o", page) == 0
    assert data_of(page)["plans"][0]["accuracy"]["ok"] is True
    assert set(data_of(page)["plans"][0]["tensors"]["name"]) == {"mm", "sm"}
    for alone in (trace, printed):
        assert call("view", alone, "-o", page) == 0
        assert data_of(page)["plans"][0]["graph"]["tree"] is None


def test_a_run_alone_has_numbers_of_its_inputs_and_outputs(graph_file, tmp_path):
    page, made = tmp_path / "page.html", tmp_path / "made.npz"
    given = ("--input", "x=random", "--input", "w=random")
    assert call("run", graph_file, *DEVICES, *given, "--html", page, "-o", made) == 0
    (found,) = data_of(page)["plans"]
    t = found["tensors"]
    assert t["name"] == ["x", "w", "sm"]
    (value,) = np.load(made).values()
    assert t["max"][2] == pytest.approx(float(value.max()), rel=1e-5)
    assert t["size"] == [64 * 128, 128 * 64, 64 * 64]


def test_parameters_are_constants_of_the_plan(graph_file, tmp_path, capsys):
    page, params = tmp_path / "page.html", tmp_path / "params.npz"
    np.savez(params, w=np.zeros((128, 64), np.float32))
    assert call("view", graph_file, *DEVICES, "--params", params, "-o", page) == 0
    graph = data_of(page)["plans"][0]["graph"]
    kind = dict(zip(graph["nodes"]["name"], graph["nodes"]["kind"], strict=True))
    assert [graph["kinds"][kind[name]] for name in ("x", "w")] == ["input", "constant"]
    capsys.readouterr()
    assert call("view", graph_file, *DEVICES, "--params", tmp_path / "none.npz", "-o", page) == 2
    assert "none.npz" in capsys.readouterr().err


def test_parameters_of_a_model_of_open_sizes_are_its_own(tmp_path, capsys):
    onnx = pytest.importorskip("onnx")
    ends = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 4]) for name in "xy"]
    node = onnx.helper.make_node("Exp", ["x"], ["y"], name="e")
    graph = onnx.helper.make_graph([node], "g", ends[:1], ends[1:])
    path, params = tmp_path / "open.onnx", tmp_path / "params.npz"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]), path)
    np.savez(params, w=np.zeros(3))
    assert call("view", path, "--params", params, "-o", tmp_path / "page.html") == 2
    assert "open.onnx is a model of open sizes" in capsys.readouterr().err


def test_a_plan_that_does_not_fit_has_its_page(tmp_path, capsys):
    b = gr.GraphBuilder()
    x = b.input("x", (8192, 1024), device="tt:0")
    big = [b.op(op, x, name=f"big{at}", device="tt:0") for at, op in enumerate(("relu", "exp", "tanh"))]
    for one, two in ((0, 1), (1, 2), (2, 0)):
        b.output(b.op("add", big[one], big[two], device="tt:0"))
    graph, page = tmp_path / "big.json", tmp_path / "big.html"
    graph.write_text(b.to_json())
    for command in (("plan", "--html"), ("estimate", "--html"), ("view", "-o")):
        page.unlink(missing_ok=True)
        name, flag = command
        assert call(name, graph, "--device", "tt:0", "--layout", "big*=l1", flag, page) == 3
        assert "big" in data_of(page)["plans"][0]["problem"]
    assert "error: " in capsys.readouterr().err


def test_bad_uses_are_one_line(graph_file, tmp_path, capsys):
    assert call("view", graph_file) == 2
    assert "-o page.html" in capsys.readouterr().err
    bad = tmp_path / "bad.json"
    bad.write_text('{"traceEvents": [3]}')
    assert call("view", bad, "-o", tmp_path / "p.html") == 2
    assert "traceEvents[0]" in capsys.readouterr().err
    assert call("view", tmp_path / "none.json", "-o", tmp_path / "p.html") == 2


@contextmanager
def served(*args):
    """The command and the port that it says; killed at the end if it runs on."""
    with subprocess.Popen(
        [sys.executable, "-m", "graph_runtime.cli", "view", *map(str, args), "--serve"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            line = child.stdout.readline()
            found = re.search(r"^http://127\.0\.0\.1:(\d+)/", line)
            assert found, (line, child.poll())
            yield child, int(found[1])
        finally:
            child.kill()


def fetched(port: int, path: str, host: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", path, headers={"Host": host})
        got = connection.getresponse()
        return got.status, dict(got.getheaders()), got.read()
    finally:
        connection.close()


@pytest.mark.timeout(90)
def test_serve_shows_the_page_until_ctrl_c(graph_file, capsys):
    with served(graph_file, *DEVICES) as (child, port):
        status, headers, body = fetched(port, "/", f"127.0.0.1:{port}")
        assert status == 200
        assert headers["Content-Type"] == "text/html; charset=utf-8"
        assert headers["Content-Length"] == str(len(body))
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        (plan,) = json.loads(body.decode().partition('id="data">')[2].partition("</script>")[0])["plans"]
        assert {"mm", "sm"} < set(plan["graph"]["nodes"]["name"])
        assert fetched(port, "/", "evil.example")[0] == 403
        assert fetched(port, "/../../etc/passwd", "localhost")[0] == 404
        assert call("view", graph_file, *DEVICES, "--serve", "--port", port) == 2
        assert f"--port {port}" in capsys.readouterr().err
        with socket.create_connection(("127.0.0.1", port)):  # asks nothing, and does not hold the end up
            child.send_signal(signal.SIGINT)
            out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (0, "", "")
    with pytest.raises(OSError, match="refused"):
        fetched(port, "/", "localhost")
