"""The debug executor: section 5.3 of the conformance list, then what TVM's does wrong."""

import json
import subprocess
import time

import numpy as np
import pytest

import graph_runtime as gr
import graph_runtime.compat.tvm as tvm
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.compat.tvm.contrib.debugger import debug_executor
from graph_runtime.compat.tvm_files.debugger import create_debug
from graph_runtime.compat.tvm_files.library import load_module
from graph_runtime.views.profile import Report

SLOW_ADD = r"""
#include <unistd.h>
typedef union { long i; void *p; } value;
typedef struct { float *data; } tensor;              /* only the first field is looked at */
int myadd(value *args) {
  tensor *x = args[0].p, *y = args[1].p;
  usleep(MICROSECONDS);
  for (int i = 0; i < 4; ++i) y->data[i] = x->data[i] + 1;
  return 0;
}
int halves(value *args) {
  tensor *x = args[0].p, *a = args[1].p, *b = args[2].p;
  for (int i = 0; i < 2; ++i) a->data[i] = x->data[i], b->data[i] = x->data[2 + i];
  return 0;
}
"""
MYADD = {"num_inputs": "1", "num_outputs": "1", "flatten_data": "1", "func_name": "myadd"}
GRAPH = json.dumps(
    {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "tvm_op", "name": "add", "inputs": [[0, 0, 0]], "attrs": MYADD},
        ],
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[4], [4]]],
            "dltype": ["list_str", ["float32"] * 2],
            "storage_id": ["list_int", [0, 1]],
        },
    }
)


@pytest.fixture(scope="module")
def myadd(tmp_path_factory):
    """myadd(microseconds that it takes) -> library"""
    folder = tmp_path_factory.mktemp("debug")

    def build(microseconds):
        source, out = folder / f"{microseconds}.c", folder / f"{microseconds}.so"
        source.write_text(SLOW_ADD.replace("MICROSECONDS", str(microseconds)))
        subprocess.run(["gcc", "-shared", "-fPIC", str(source), "-o", str(out)], check=True)
        return out

    return build


def test_end_to_end_graph_simple(myadd, capsys):
    mod = debug_executor.create(GRAPH, tvm.runtime.load_module(myadd(250_000)), tvm.cpu(0))
    folder = mod.debug_datum.path
    assert folder.name == "_tvmdbg_device_CPU_0"
    assert [p.name for p in folder.iterdir()] == ["_tvmdbg_graph_dump.json"]
    dump = json.loads((folder / "_tvmdbg_graph_dump.json").read_text())
    assert set(dump) == {"nodes", "arg_nodes", "node_row_ptr", "heads", "attrs"}
    assert dump["nodes"][1] | {"attrs": 0} == {
        "op": "myadd",
        "name": "add",
        "inputs": ["x"],
        "shape": [4],
        "attrs": 0,
    }
    assert dump["nodes"][0]["op"] == "param"
    assert dump["nodes"][1]["attrs"]["T"] == "type: float32"

    a = np.random.default_rng(0).random(4, "f4")
    mod.run(number=1, x=a)
    lines = mod.debug_datum.get_debug_result().split("\n")
    assert capsys.readouterr().out == mod.debug_datum.get_debug_result() + "\n"
    cells = [[cell.strip() for cell in line.split("  ") if cell] for line in lines]
    assert cells[0] == [
        "Node Name",
        "Ops",
        "Time(us)",
        "Time(%)",
        "Shape",
        "Inputs",
        "Outputs",
        "Measurements(us)",
    ]
    assert cells[2][:2] == ["add", "myadd"]
    assert 0.25e6 < float(cells[2][2]) < 250e6  # a unit mistake would be 1000 times off
    assert cells[3][:3] == ["Total_time", "-", cells[2][2]]
    trace = json.loads((folder / "_tvmdbg_execution_trace.json").read_text())
    assert trace["displayTimeUnit"] == "ns"
    events = trace["traceEvents"]
    assert [e["ph"] for e in events] == ["B", "E", "B", "E"]
    assert [e["name"] for e in events] == ["x", "x", "add", "add"]
    assert {(e["pid"], e["tid"]) for e in events} == {(1, 1)}
    assert events[0]["ts"] == 0
    assert events[3]["ts"] - events[2]["ts"] == pytest.approx(float(cells[2][2]), abs=0.01)
    tensors = read_params(folder / "output_tensors.params")
    assert sorted(tensors) == ["add____topo-index:1____output-num:0", "x____topo-index:0____output-num:0"]
    np.testing.assert_array_equal(tensors["add____topo-index:1____output-num:0"], a + 1)
    np.testing.assert_array_equal(mod.get_output(0).numpy(), a + 1)
    mod.exit()
    assert not folder.exists()
    assert not folder.parent.exists()


def test_run_single_node(myadd):
    mod = debug_executor.create(GRAPH, myadd(20_000), [gr.cpu(0)])
    nodes = mod.debug_datum.get_graph_nodes()
    assert [node["op"] for node in nodes] == ["param", "myadd"]
    assert mod.run_individual_node(0, number=1).mean == 0
    one = mod.run_individual_node(1, number=1)
    assert one.mean > 0.02
    three = mod.run_individual_node(1, number=1, repeat=3)
    assert len(three.results) == 3
    assert sum(three.results) > sum(one.results)
    start = time.monotonic()
    mod.run_individual_node(1, min_repeat_ms=100)
    assert time.monotonic() - start >= 0.1
    start = time.monotonic()
    mod.run_individual_node(1, repeat=2, min_repeat_ms=20, cooldown_interval_ms=200)
    every = time.monotonic() - start
    assert every >= 2 * (0.02 + 0.2)
    start = time.monotonic()
    mod.run_individual_node(1, repeat=2, min_repeat_ms=20, cooldown_interval_ms=200, repeats_to_cooldown=2)
    assert 2 * 0.02 + 0.2 <= time.monotonic() - start
    with pytest.raises(tvm.TVMError, match="out of range"):
        mod.run_individual_node(2)
    mod.exit()


def split_graph():
    """x[4] split into two, the parts added to p: node 2 is the fourth entry."""
    split = {"num_inputs": "1", "num_outputs": "2", "flatten_data": "0", "func_name": "halves"}
    add = {"num_inputs": "2", "num_outputs": "1", "flatten_data": "0", "func_name": "plus", "gr.op": "add"}
    return json.dumps(
        {
            "nodes": [
                {"op": "null", "name": "x", "inputs": []},
                {"op": "tvm_op", "name": "split", "inputs": [[0, 0, 0]], "attrs": split},
                {"op": "null", "name": "p", "inputs": []},
                {"op": "tvm_op", "name": "sum", "inputs": [[1, 1, 0], [2, 0, 0]], "attrs": add},
            ],
            "arg_nodes": [0, 2],
            "node_row_ptr": [0, 1, 3, 4, 5],
            "heads": [[3, 0, 0], [1, 0, 0]],
            "attrs": {
                "shape": ["list_shape", [[4, 1], [2, 1], [2, 1], [2, 1], [2, 1]]],
                "dltype": ["list_str", ["float32"] * 5],
                "storage_id": ["list_int", list(range(5))],
            },
        }
    )


def test_multiple_output(tmp_path, myadd):
    """Shapes and results are found by entry: TVM's debug_get_output takes the node number for one."""
    mod = debug_executor.create(split_graph(), myadd(0), gr.cpu(0), dump_root=tmp_path)
    assert mod.debug_datum.get_graph_nodes()[2]["shape"] == [2, 1]
    x, p = np.arange(4, dtype="f4").reshape(4, 1), np.full((2, 1), 10, "f4")
    mod.run(number=1, min_repeat_ms=0, x=x, p=p)
    np.testing.assert_array_equal(mod.get_output(0).numpy(), x[2:] + p)
    np.testing.assert_array_equal(mod.debug_get_output("p"), p)
    tensors = read_params(mod.dump_path / "output_tensors.params")
    np.testing.assert_array_equal(tensors["split____topo-index:1____output-num:1"], x[2:])
    mod.execute_node(1)
    np.testing.assert_array_equal(mod.get_node_output(1, 1), x[2:])
    with pytest.raises(gr.InputError, match="2 results"):
        mod.get_node_output(1, 2)
    (tmp_path / "mine").write_text("")
    mod.exit()
    assert [p.name for p in tmp_path.iterdir()] == ["mine"]  # only what it wrote is removed


def test_nodes_run_one_by_one(tvm_library, golden_dir):
    folder = golden_dir / "mlp"
    io = np.load(folder / "io.npz")
    mod = create_debug(folder / "graph.json", tvm_library("LLVM"), params=folder / "params.bin")
    for key in io:
        if key.startswith("in:"):
            mod.set_input(key[3:], io[key])
    last = mod.num_nodes - 1
    mod.execute_node(last)
    np.testing.assert_allclose(mod.get_node_output(last, 0), io["output0"], rtol=1e-5, atol=1e-6)
    with pytest.raises(gr.InputError, match="call execute_node"):
        mod.get_node_output(last - 1)
    middle = mod.debug_get_output(last - 2)
    mod.run()
    mod.execute_node(last - 2)  # a run leaves no node as the one executed last
    np.testing.assert_array_equal(mod.get_node_output(last - 2), middle)
    times = mod["run_individual"](2, repeat=3)
    assert len(times) == mod.num_nodes
    assert {len(row) for row in times} == {3}
    assert times[0] == [0.0] * 3
    mod.run()
    np.testing.assert_allclose(mod.get_output(0).numpy(), io["output0"], rtol=1e-5, atol=1e-6)


def test_debug_graph_executor(tvm_library, blobs, golden_dir, tmp_path):
    """5.4: debug_create of a single-file library, raw and in TVM's wrapper."""
    library = load_module(tvm_library("LLVM", blob=blobs.model("mlp")))
    io = np.load(golden_dir / "mlp" / "io.npz")
    inputs = {key[3:]: io[key] for key in io if key.startswith("in:")}
    raw = library["debug_create"]("default", gr.cpu(0))
    for name, value in inputs.items():
        raw["set_input"](name, value)
    raw["run"]()
    np.testing.assert_allclose(raw["get_output"](0).numpy(), io["output0"], rtol=1e-5, atol=1e-6)
    wrapped = debug_executor.GraphModuleDebug(raw, [gr.cpu(0)], library["get_graph_json"](), tmp_path)
    wrapped.set_input(**inputs)
    wrapped.run(number=1, min_repeat_ms=0)
    np.testing.assert_allclose(wrapped.get_output(0).numpy(), io["output0"], rtol=1e-5, atol=1e-6)
    with pytest.raises(gr.LibraryError, match="single model"):
        library["debug_create"]("other", gr.cpu(0))


def test_profile(tvm_library, golden_dir):
    folder = golden_dir / "mlp"
    mod = create_debug(
        folder / "graph.json", tvm_library("LLVM"), params=folder / "params.bin", unset_inputs="allow"
    )
    report = mod["profile"]()
    table = report.table()
    for word in ("tvmgen_default_fused_nn_softmax", "Total", "Hash", "Executor: Graph", "float32[1, 10]"):
        assert word in table
    assert report.csv().splitlines()[0].startswith("Name,Duration (us)")
    again = Report.from_json(report.json())
    assert again.table() == table
    kinds = {unit for call in json.loads(report.json())["calls"] for value in call.values() for unit in value}
    assert kinds == {"microseconds", "count", "percent", "string"}
