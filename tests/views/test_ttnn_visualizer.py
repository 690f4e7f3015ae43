"""ttnn-visualizer's own server answers what its pages ask, with what the report has.

It runs in a process of its own, from the folder that TTNN_VISUALIZER names, whose packages are other versions
than ours: pip install --target FOLDER ttnn-visualizer. `.ci/run visualizer` does so.
"""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

import graph_runtime as gr
from graph_runtime.views.visualizer import write_report

FOLDER = os.environ.get("TTNN_VISUALIZER")
pytestmark = [
    pytest.mark.core,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not FOLDER, reason="TTNN_VISUALIZER names no folder with ttnn-visualizer"),
]

# what pages ask; {op}, {tensor} and {address} are of the first operation on the board
ASKED = [
    "/api/config",
    "/api/devices",
    "/api/report-metadata",
    "/api/report-fingerprints",
    "/api/operations",
    "/api/operations/{op}",
    "/api/operation-history",
    "/api/operation-buffers",
    "/api/operation-buffers/{op}",
    "/api/errors",
    "/api/tensors",
    "/api/tensors/{tensor}",
    "/api/buffer?address={address}&operation_id={op}",
    "/api/buffers",
    "/api/buffers?buffer_type=1",
    "/api/buffer-pages",
    "/api/buffer-pages?operation_id={op}&buffer_type=1",
    "/api/performance/device-log",
    "/api/performance/device-log/meta",
    "/api/performance/device-log/raw",
    "/api/performance/device-log/zone/matmul%20(simulated)",
    "/api/performance/perf-results",
    "/api/performance/perf-results/raw",
    "/api/performance/perf-results/report",
]
CLIENT = """
import json, logging, sys
from ttnn_visualizer.app import create_app
logging.disable(logging.CRITICAL)
folder, report, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
app = create_app({"TESTING": True, "LOCAL_DATA_DIRECTORY": folder, "REPORT_DATA_DIRECTORY": folder})
client, answers = app.test_client(), {}
paths = {"profiler_path": report} | ({"performance_path": report} if sys.argv[5:] else {})
opened = client.post("/api/instance/local-paths", json=paths)
assert opened.status_code == 200, opened.text
instance = opened.json["instance_id"]
for path in asked:
    answer = client.get(path + ("&" if "?" in path else "?") + "instanceId=" + instance)
    answers[path] = answer.status_code, answer.text
with open(sys.argv[4], "w") as file:
    json.dump(answers, file)
"""


def _report(folder: Path) -> dict[str, int]:
    b = gr.GraphBuilder()
    x = b.input("x", (300, 200), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (200, 128)), name="mm", device="tt:0")
    h = b.op("softmax", h, name="<script>alert(1)</script>", device="tt:0")
    b.output(b.op("relu", h, name="act", device="cpu:0"))
    options = gr.Options.of(layouts={"mm": "l1/height"})
    prepared = gr.prepare(gr.load_graph(b.to_json()), devices=["cpu:0", "tt:0"], options=options)
    from graph_runtime.accuracy.compare import compare_prepared  # needs the core

    report = compare_prepared(prepared)
    compared = {"local": (report.isolated, report.alone), "global": (report.accumulated, report.bound)}
    write_report(folder, prepared.plan, "net", compared)
    tensor = int(prepared.plan.graph.row_ptr[prepared.plan.graph.names.index("mm")])
    with sqlite3.connect(folder / "db.sqlite") as database:
        (op,) = database.execute(
            "SELECT operation_id FROM output_tensors WHERE tensor_id = ?", [tensor]
        ).fetchone()
        (address,) = database.execute("SELECT address FROM tensors WHERE tensor_id = ?", [tensor]).fetchone()
    database.close()
    return {"op": op, "tensor": tensor, "address": address}


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visualizer")
    told = _report(folder / "report")
    return _answered(folder, folder / "report", told, ASKED)


def _answered(folder, report, told, pages):
    """What the server answers about a report: page -> (status, text)."""
    asked = [path.format(**told) for path in pages]
    performance = ["performance"] if any("performance" in page for page in pages) else []
    environment = {
        **os.environ,
        "PYTHONPATH": str(FOLDER),
        "HOME": str(folder),
        "SECRET_KEY": "tests",
        "MPLBACKEND": "agg",
    }
    written = folder / "answers.json"
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, folder, report, json.dumps(asked), written, *performance],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-3000:]
    return dict(zip(pages, json.loads(written.read_text()).values(), strict=True))


def _json(answers, path):
    status, text = answers[path]
    assert status == 200, text
    return json.loads(text)


@pytest.mark.parametrize("path", ASKED)
def test_it_answers(answers, path):
    status, text = answers[path]
    assert status == 200, text
    assert text


def test_an_operation_has_its_tensors_buffers_and_circular_buffers(answers):
    one = _json(answers, "/api/operations/{op}")
    assert one["name"] == "matmul"
    assert [tensor["shape"] for tensor in one["inputs"]] == ["Shape([300, 200])", "Shape([200, 128])"]
    (made,) = one["outputs"]
    assert made["buffer_type"] == 1
    assert made["memory_config"]["memory_layout"] == "TensorMemoryLayout::HEIGHT_SHARDED"
    assert made["memory_config"]["shard_spec"]["orientation"] == "ROW_MAJOR"
    assert made["consumers"]
    assert made["producers"] == [one["id"]]
    assert made["comparison"]["local"]["matches"] == made["comparison"]["global"]["matches"] == 1
    assert any(buffer["address"] == made["address"] for buffer in one["buffers"])
    kinds = [node["node_type"] for node in one["device_operations"]]
    assert "circular_buffer_allocate" in kinds
    names = {argument["name"]: argument["value"] for argument in one["arguments"]}
    assert names["node"] == "mm"
    assert names["time"].startswith("simulated, ")


def test_lists_are_whole(answers):
    operations = _json(answers, "/api/operations")
    assert [one["id"] for one in operations] == list(range(1, len(operations) + 1))
    assert {one["name"] for one in operations} >= {"matmul", "softmax", "relu"}
    assert [one["id"] for one in _json(answers, "/api/operation-buffers")] == [
        one["id"] for one in operations
    ]
    assert len(_json(answers, "/api/tensors")) > len(operations)
    (device,) = _json(answers, "/api/devices")
    assert (device["num_y_cores"], device["num_x_cores"]) == (8, 8)
    assert device["worker_l1_size"] > device["cb_limit"] > 0
    chunks = _json(answers, "/api/buffer-pages?operation_id={op}&buffer_type=1")
    assert sum(chunk["num_pages"] for chunk in chunks) == 40  # tiles of 300 x 128
    assert _json(answers, "/api/report-metadata")["times"].startswith("simulated: ")


def test_the_performance_tab_says_simulated_in_every_row(answers):
    report = _json(answers, "/api/performance/perf-results/report")["report"]
    assert {row["op_code"].split(" (")[0] for row in report} >= {"matmul", "softmax"}
    assert all("(simulated)" in row["op_code"] for row in report)
    times = {row["op_code"].split(" (")[0]: row["device_time"] for row in report}
    assert float(times["matmul"]) > 0
    assert times["relu"] == ""  # on the host
    meta = _json(answers, "/api/performance/device-log/meta")
    assert meta == {"architecture": "wormhole_b0", "frequency": 1000, "max_cores": 64}
    assert _json(answers, "/api/performance/device-log/zone/matmul%20(simulated)")


CALLS = """
import numpy as np
import ttnn

device = ttnn.open_device(device_id=0)
x = ttnn.from_torch(np.ones((64, 64), np.float32), ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device,
                    memory_config=ttnn.L1_MEMORY_CONFIG)
y = ttnn.matmul(x, x, memory_config=ttnn.L1_MEMORY_CONFIG)
ttnn.deallocate(x)
ttnn.softmax(y, dim=-1)
try:
    ttnn.matmul(y, ttnn.ones((32, 32), ttnn.bfloat16, ttnn.TILE_LAYOUT, device))
except RuntimeError:
    pass
"""
REPORTED = [page for page in ASKED if "performance" not in page]


def test_the_report_of_a_script_of_ttnns_is_read(tmp_path):
    (tmp_path / "calls.py").write_text(CALLS)
    config = {"enable_fast_runtime_mode": False, "enable_logging": True, "report_name": "calls"}
    config |= {"root_report_path": str(tmp_path), "enable_detailed_buffer_report": True}
    environment = os.environ | {"TTNN_CONFIG_OVERRIDES": json.dumps(config)}
    command = [sys.executable, "-m", "graph_runtime.ttnn", "calls.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.glob("*/db.sqlite")
    with sqlite3.connect(path) as database:
        query = "SELECT operation_id FROM operations WHERE name = 'ttnn.matmul'"
        op = database.execute(query).fetchone()[0]
        query = "SELECT tensor_id, address FROM tensors NATURAL JOIN output_tensors WHERE operation_id = ?"
        tensor, address = database.execute(query, [op]).fetchone()
    database.close()
    told = {"op": op, "tensor": tensor, "address": address}
    answers = _answered(tmp_path, path.parent, told, REPORTED)
    assert all(status == 200 for status, _ in answers.values()), answers
    names = [one["name"] for one in _json(answers, "/api/operations")]
    assert names == [f"ttnn.{name}" for name in "from_torch matmul deallocate softmax ones matmul".split()]
    one = _json(answers, "/api/operations/{op}")
    assert [made["buffer_type"] for made in one["outputs"]] == [1]
    kinds = [node["node_type"] for node in one["device_operations"]]
    assert "circular_buffer_allocate" in kinds
    assert _json(answers, "/api/errors")[0]["operation_name"] == "ttnn.matmul"
    (device,) = _json(answers, "/api/devices")
    assert device["l1_num_banks"] == 64
