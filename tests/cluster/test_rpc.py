"""A script for TVM's RPC, moved by its import: upload, load_module, devices of the session, executors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.base.config import config
from graph_runtime.cluster.graphs import connecting
from graph_runtime.cluster.graphs.fleet import ThreadFleet
from graph_runtime.compat import tvm
from graph_runtime.compat.tvm.contrib import graph_executor

GRAPH = {
    "nodes": [
        {"op": "null", "name": "x", "inputs": []},
        {
            "op": "tvm_op",
            "name": "y",
            "inputs": [[0, 0, 0]],
            "attrs": {"func_name": "myadd", "num_inputs": "1", "num_outputs": "1", "flatten_data": "0"},
        },
    ],
    "arg_nodes": [0],
    "heads": [[1, 0, 0]],
    "attrs": {
        "dltype": ["list_str", ["float32", "float32"]],
        "shape": ["list_shape", [[4], [4]]],
        "storage_id": ["list_int", [0, 1]],
    },
    "node_row_ptr": [0, 1, 2],
}


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    made = connecting.Cluster(ThreadFleet(("node0", "node1"), tmp_path / "bundles"), deadline=20)
    monkeypatch.setattr(connecting, "_current", made)
    with config(TRUST_DIR=str(tmp_path / "trust")):
        yield made
    made.close()


def test_a_script_runs_on_a_node(cluster: Any, packed_library: str) -> None:
    remote = tvm.rpc.connect("node1")
    remote.upload(packed_library)
    library = remote.load_module(Path(packed_library).name)
    dev = remote.cpu(0)
    assert str(dev) == "node1/cpu:0"
    module = graph_executor.create(json.dumps(GRAPH), library, dev)
    assert list(cluster.fleet._members) == ["node1"]
    x = np.arange(4, dtype=np.float32)
    module.set_input("x", x)
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), x + 1)
    module.run(x=tvm.nd.array(2 * x))
    np.testing.assert_array_equal(module.get_output(0).asnumpy(), 2 * x + 1)
    assert module.module.time_evaluator("run", dev, number=1)().mean > 0


def test_what_a_node_is_not_asked(cluster: Any) -> None:
    with pytest.raises(gr.DeviceError, match=r"no node 'node7'"):
        tvm.rpc.connect("node7")
    remote = tvm.rpc.connect("node0")
    assert str(remote.ext_dev(1)) == "node0/tt:1"
    with pytest.raises(NotImplementedError, match="runs graphs only"):
        remote.get_function("myadd")
    with pytest.raises(NotImplementedError, match="cluster of Ray"):
        tvm.rpc.connect_tracker("0.0.0.0", 9190)


def test_without_a_cluster_the_way_is_named() -> None:
    with pytest.raises(gr.ClusterError, match=r"gr\.cluster\.connect"):
        tvm.rpc.connect("node1")
