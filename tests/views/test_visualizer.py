"""Reports for ttnn-visualizer: the database has the plan's rows, every time is said to be simulated."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.cli import main
from graph_runtime.plan import plan
from graph_runtime.views.visualizer import write_report

pytestmark = pytest.mark.core

HOSTILE = "'); DROP TABLE operations; -- <script>"
LAYOUTS = {"mm": "l1/height", HOSTILE: "l1"}


def network():
    b = gr.GraphBuilder()
    x = b.input("x", (300, 200), device="cpu:0")
    h = b.op("matmul", x, b.input("w", (200, 128)), name="mm", device="tt:0")
    h = b.op("softmax", h, name=HOSTILE, device="tt:0")
    b.output(b.op("relu", h, name="act", device="cpu:0"))
    return b.to_json()


@pytest.fixture(scope="module")
def prepared():
    options = gr.Options.of(layouts=LAYOUTS)
    return gr.prepare(gr.load_graph(network()), devices=["cpu:0", "tt:0"], options=options)


@pytest.fixture
def written(prepared, tmp_path):
    write_report(tmp_path, prepared.plan, "net")
    with sqlite3.connect(tmp_path / "db.sqlite") as database:
        yield prepared.plan, tmp_path, database
    database.close()


def rows(database, text, *values):
    return database.execute(text, values).fetchall()


def test_operations_are_the_events_of_a_simulated_run(written):
    planned, _, database = written
    timeline = gr.simulate(planned)
    names = [planned.graph.names[nid] for nid in sorted(timeline.nid.tolist())]
    assert [name for (name,) in rows(database, "SELECT name FROM nodes ORDER BY operation_id")] == names
    (total,) = rows(database, "SELECT sum(duration) FROM operations")[0]
    assert total == pytest.approx(int(timeline.duration.sum()) / 1e9)
    times = rows(database, "SELECT value FROM operation_arguments WHERE name = 'time'")
    assert len(times) == len(names)
    assert all(text.startswith("simulated, ") for (text,) in times)
    assert dict(rows(database, "SELECT * FROM report_metadata"))["times"].startswith("simulated: ")


def test_an_input_that_comes_to_a_board_is_no_operation(tmp_path):
    digits = Path(__file__).parents[2] / "examples" / "digits"
    command = ["run", str(digits / "graph.json"), "--params", str(digits / "params.bin"), "--device", "cpu:0"]
    command += ["--device", "tt:0", "--place", "conv*=tt:0", "--input", "image=random"]
    with pytest.raises(SystemExit) as ended:
        main([*command, "--visualizer", str(tmp_path)])
    assert not ended.value.code
    with sqlite3.connect(tmp_path / "db.sqlite") as database:
        names = {name for (name,) in rows(database, "SELECT name FROM nodes")}
    database.close()
    assert "conv1" in names
    assert "image" not in names


def test_tensors_have_the_places_of_the_plan(written):
    planned, _, database = written
    eid = int(planned.graph.row_ptr[planned.graph.names.index("mm")])
    (row,) = rows(database, "SELECT * FROM tensors WHERE tensor_id = ?", eid)
    assert row[1:4] == ("Shape([300, 128])", "DataType.FLOAT32", "Layout.TILE")
    shard, l1 = planned.layout(eid).shard, planned.devices[1].descriptor.memory("l1")
    assert f"shape={{{shard.shape[0]}, {shard.shape[1]}}}" in row[4]
    assert "HEIGHT_SHARDED,buffer_type=BufferType::L1" in row[4]
    assert (row[5], row[7]) == (0, 1)
    assert l1.base <= row[6] < row[6] + planned.storage.extent[planned.sid[eid]] <= l1.bank_bytes
    on_host = rows(
        database, "SELECT device_id, address FROM tensors WHERE memory_config LIKE '%SYSTEM_MEMORY%'"
    )
    assert on_host
    assert set(on_host) == {(None, None)}


def test_pages_are_those_of_the_simulated_device(written):
    """Payload bytes by bank, as the device counts those that a copy of the tensor moves."""
    from graph_runtime.simulation.charges import page_banks

    planned, _, database = written
    board = planned.devices[1].descriptor
    for name in ("mm", HOSTILE):
        eid = int(planned.graph.row_ptr[planned.graph.names.index(name)])
        (number,) = rows(database, "SELECT operation_id FROM output_tensors WHERE tensor_id = ?", eid)[0]
        (address,) = rows(database, "SELECT address FROM tensors WHERE tensor_id = ?", eid)[0]
        found = rows(
            database,
            "SELECT bank_id, core_y, core_x, page_address, page_size FROM buffer_pages "
            "WHERE operation_id = ? AND address = ?",
            number,
            address,
        )
        wanted = page_banks(planned.layout(eid), planned.graph.entry_type(eid), board)
        counted = Counter()
        for bank, y, x, at, nbytes in found:
            counted[bank] += nbytes
            assert bank == y * board.grid[1] + x
            assert address <= at < at + nbytes <= address + planned.storage.extent[planned.sid[eid]]
        assert [counted[bank] for bank in range(len(wanted))] == wanted.tolist()
        assert len({(bank, at) for bank, _, _, at, _ in found}) == len(found)


def test_buffers_are_what_lies_on_boards_while_an_operation_runs(written):
    planned, _, database = written
    for (did, index), peak in planned.peak.items():
        memory = planned.devices[did].descriptor.memories[index]
        if planned.devices[did].descriptor.on_host or not peak:
            continue
        kind = {"dram": 0, "l1": 1}[memory.name]
        held = rows(
            database,
            "SELECT max(address + max_size_per_bank) - min(address) FROM buffers WHERE buffer_type = ? "
            "GROUP BY operation_id",
            kind,
        )
        assert max(held)[0] == peak


def test_circular_buffers_are_in_the_captured_graph(written):
    planned, _, database = written
    nid = planned.graph.names.index("mm")
    (number,) = rows(database, "SELECT operation_id FROM nodes WHERE unique_id = ?", nid)[0]
    (text,) = rows(database, "SELECT captured_graph FROM captured_graph WHERE operation_id = ?", number)[0]
    nodes = json.loads(text)
    (circular,) = [n["params"] for n in nodes if n["node_type"] == "circular_buffer_allocate"]
    assert int(circular["size"]) == planned.circular[nid] > 0
    assert circular["core_range_set"].startswith("{[(x=0,y=0) - (x=")
    (buffer,) = [n["params"] for n in nodes if n["node_type"] == "buffer_allocate"]
    assert (
        int(buffer["size"]) // int(buffer["num_cores"])
        == planned.storage.extent[planned.sid[planned.graph.row_ptr[nid]]]
    )
    assert [n["connections"] for n in nodes] == [[i + 1] for i in range(len(nodes) - 1)] + [[]]


def test_every_row_of_the_performance_files_says_that_it_is_simulated(written):
    planned, folder, _ = written
    timeline = gr.simulate(planned)
    with (folder / "ops_perf_results_simulated.csv").open(newline="") as file:
        results = list(csv.DictReader(file))
    assert len(results) == len(timeline)
    assert all(row["OP CODE"].endswith(" (simulated)") for row in results)
    assert all("'times': 'simulated, " in row["ATTRIBUTES"] for row in results)
    took = {row["OP CODE"]: row["DEVICE KERNEL DURATION [ns]"] for row in results}
    at = int(np.flatnonzero(timeline.nid == planned.graph.names.index("mm"))[0])
    assert int(took["matmul (simulated)"]) == timeline.duration[at] - timeline.dispatch[at]
    head, _, *log = (folder / "profile_log_device.csv").read_text().splitlines()
    assert "simulated" in head
    assert log
    assert all("(simulated)" in line for line in log)


def test_a_run_that_is_compared_has_comparison_records(tmp_path):
    path, folder = tmp_path / "net.json", tmp_path / "report"
    path.write_text(network())
    with pytest.raises(SystemExit) as end:
        main(
            [
                "run",
                str(path),
                "--device",
                "cpu:0",
                "--device",
                "tt:0",
                "--compare",
                "--visualizer",
                str(folder),
            ]
        )
    assert end.value.code in (None, 0)
    with sqlite3.connect(folder / "db.sqlite") as database:
        for table in ("local_tensor_comparison_records", "global_tensor_comparison_records"):
            found = rows(database, f"SELECT matches, desired_pcc, actual_pcc FROM {table}")
            assert len(found) == 3
            assert all(matches == 1 and actual >= wanted > 0.9 for matches, wanted, actual in found)
    database.close()


def test_a_second_report_replaces_the_first(prepared, tmp_path):
    for name in ("one", "two"):
        write_report(tmp_path / "made" / "here", prepared.plan, name)
    assert json.loads((tmp_path / "made/here/config.json").read_bytes())["report_name"] == "two (simulated)"
    assert sorted(p.name for p in (tmp_path / "made/here").iterdir()) == [
        "config.json",
        "db.sqlite",
        "ops_perf_results_simulated.csv",
        "profile_log_device.csv",
    ]


def test_what_is_refused(tmp_path, prepared):
    graph = gr.load_graph(network().replace('"device_index"', '"dropped"'))
    with pytest.raises(gr.InputError, match="no device here is a board; add --device tt:0"):
        write_report(tmp_path / "none", plan(graph, ["cpu:0"]), "net")
    assert not (tmp_path / "none").exists()
    (tmp_path / "file").write_text("x")
    with pytest.raises(gr.WriteError, match="cannot write"):
        write_report(tmp_path / "file", prepared.plan, "net")
