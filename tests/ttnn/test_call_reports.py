"""CONFIG.enable_logging writes the database that ttnn-visualizer reads; enable_comparison_mode compares."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

from graph_runtime.compat import ttnn
from graph_runtime.views.visualizer.tables import SCHEMA

pytestmark = pytest.mark.core


@pytest.fixture
def settings():
    kept = dict(vars(ttnn.CONFIG))
    ttnn.CONFIG.enable_fast_runtime_mode = False
    yield ttnn.CONFIG
    vars(ttnn.CONFIG).update(kept)


@pytest.fixture
def report(settings, tmp_path):
    """A reader of the database's rows, of what is called from now on."""
    settings.root_report_path, settings.report_name, settings.enable_logging = tmp_path, "run", True

    def rows(query):
        with sqlite3.connect(settings.report_path / "db.sqlite") as database:
            found = database.execute(query).fetchall()
        database.close()
        return found

    return rows


def test_operations_have_their_tensors_buffers_and_places(report, settings, device):
    settings.enable_detailed_buffer_report = settings.enable_graph_report = True
    settings.enable_detailed_tensor_report = True
    x = ttnn.from_torch(
        np.ones((64, 32), np.float32),
        ttnn.bfloat16,
        layout=ttnn.TILE_LAYOUT,
        device=device,
        memory_config=ttnn.L1_MEMORY_CONFIG,
    )
    y = ttnn.add(x, 1.0, memory_config=ttnn.L1_MEMORY_CONFIG)
    address = y.buffer_address()
    ttnn.deallocate(x)
    with pytest.raises(RuntimeError):
        ttnn.add(x, y)
    settings.enable_logging = False
    ttnn.exp(y)  # is not in the report
    assert report("SELECT name FROM operations") == [
        ("ttnn.from_torch",),
        ("ttnn.add",),
        ("ttnn.deallocate",),
        ("ttnn.add",),
    ]
    assert report("SELECT name, value FROM operation_arguments WHERE operation_id = 2")[1] == ("1", "1.0")
    assert report("SELECT operation_id, tensor_id FROM input_tensors WHERE operation_id = 2") == [
        (2, x.tensor_id)
    ]
    made = report(f"SELECT * FROM tensors WHERE tensor_id = {y.tensor_id}")[0]
    assert made[1:4] == ("Shape([64, 32])", "DataType.BFLOAT16", "Layout.TILE")
    assert "BufferType::L1" in made[4]
    assert made[5:] == (0, address, 1, 4096)
    held = report("SELECT operation_id, COUNT(*) FROM buffers GROUP BY operation_id")
    assert held == [(1, 1), (2, 2), (3, 1), (4, 1)]
    pages = report(
        f"SELECT page_size, buffer_type FROM buffer_pages WHERE operation_id = 3 AND address = {address}"
    )
    assert pages == [(2048, 1)] * 2
    lifetime = "producer_operation_id, last_use_operation_id, deallocate_operation_id"
    assert report(f"SELECT {lifetime} FROM tensor_lifetime WHERE tensor_id = {x.tensor_id}") == [(1, 4, 3)]
    nodes = json.loads(report("SELECT captured_graph FROM captured_graph WHERE operation_id = 2")[0][0])
    assert {"function_start", "buffer_allocate", "tensor"} <= {node["node_type"] for node in nodes}
    assert report("SELECT COUNT(*) FROM nodes WHERE operation_id = 2") == [(len(nodes),)]
    assert report("SELECT operation_id, error_type FROM errors") == [(4, "RuntimeError")]
    assert __file__ in report("SELECT path FROM source_files")[0]
    assert "test_operations_have" in report("SELECT stack_trace FROM stack_traces")[0][0]
    kept = ttnn.load_tensor(settings.report_path / "tensors" / f"{y.tensor_id}.tensorbin")
    assert (kept.to_numpy() == 2).all()
    tables = {name for (name,) in report("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == set(SCHEMA)


def test_fast_runtime_mode_and_no_name_write_nothing(report, settings, device):
    for fast, name in ((True, "run"), (False, None)):
        settings.enable_fast_runtime_mode, settings.report_name = fast, name
        ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=device)
    settings.report_name = "run"
    assert not settings.report_path.exists()


def test_a_file_of_settings_is_read_and_its_report_lies_at_one_place(tmp_path):
    config = {"enable_fast_runtime_mode": False, "enable_logging": True, "report_name": "a b"}
    (tmp_path / "vis.setup").write_text(json.dumps(config | {"root_report_path": str(tmp_path)}))
    code = (
        "from graph_runtime.compat import ttnn\nprint(ttnn.CONFIG.report_path)\n"
        "ttnn.ones((32, 32), layout=ttnn.TILE_LAYOUT, device=ttnn.open_device(device_id=0))\n"
    )
    environment = os.environ | {"TTNN_CONFIG_PATH": str(tmp_path / "vis.setup")}
    paths = set()
    for _ in range(2):  # the second replaces the first
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        paths.add(done.stdout.strip())
    (path,) = paths
    with sqlite3.connect(f"{path}/db.sqlite") as database:
        assert database.execute("SELECT COUNT(*) FROM operations").fetchone() == (1,)
    database.close()


def test_a_golden_function_takes_the_keywords_that_place_a_result():
    """A comparison hands on those of the call; torch's functions would refuse them."""
    from graph_runtime.ttnn.golden.functions import _IGNORED
    from graph_runtime.ttnn.operations.bodies import PLACES
    from graph_runtime.ttnn.operations.neutral import NEUTRAL

    assert {*PLACES, *NEUTRAL} - _IGNORED == set()
    torch = pytest.importorskip("torch")
    x = torch.tensor([-0.5, 2.0])
    golden = ttnn.get_golden_function(ttnn.relu6)
    assert golden(x, memory_config=ttnn.L1_MEMORY_CONFIG, output_tensor=None, sub_core_grids=None)[1] == 2


def test_results_are_compared_with_golden_functions(settings, device, monkeypatch, capsys):
    pytest.importorskip("torch")
    settings.enable_comparison_mode = True
    x = ttnn.from_torch(
        np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64), layout=ttnn.TILE_LAYOUT, device=device
    )
    ttnn.softmax(ttnn.exp(x), dim=-1)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(ttnn.exp, "_golden", lambda t: -t)
    ttnn.exp(x)
    assert (
        "ttnn.exp: Comparing output tensor 0 against CPU LOCAL failed: pcc is -0." in capsys.readouterr().err
    )
    settings.comparison_mode_should_raise_exception = True
    with pytest.raises(RuntimeError, match=r"should be >=0\.9999"):
        ttnn.exp(x)
