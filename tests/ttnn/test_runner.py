"""python -m graph_runtime.ttnn, and the pytest plugin: what each outcome of a test is reported as."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from graph_runtime.base.errors import DeviceMemoryError
from graph_runtime.ttnn import plugin
from graph_runtime.ttnn.errors import Unsupported

ROOT = Path(__file__).parents[2]
CASES = """
import pytest
import ttnn
from models.common.utility_functions import skip_for_blackhole
from tests.ttnn.utils_for_testing import assert_with_pcc, assert_equal
from tracy import signpost
from tracy.process_model_log import run_device_profiler

torch = pytest.importorskip("torch")

def put(device, x, dtype=ttnn.bfloat16):
    return ttnn.from_torch(x, dtype=dtype, layout=ttnn.TILE_LAYOUT, device=device)

@skip_for_blackhole()
@pytest.mark.parametrize("device_params", [{"l1_small_size": 8192}], indirect=True)
@pytest.mark.parametrize("op", [ttnn.exp, ttnn.gelu])
def test_passes(device, op):
    x = torch.rand(3, 40)
    assert_with_pcc(ttnn.get_golden_function(op)(x), op(put(device, x)), 0.999)

def test_is_declined(device):
    ttnn.all_to_all_dispatch(put(device, torch.rand(2, 2)))

def test_is_declined_though_it_expects_an_error(device):
    with pytest.raises(RuntimeError):
        ttnn.conv3d_of_nothing if hasattr(ttnn, "conv3d_of_nothing") else ttnn.cdist()

def test_is_wrong(device):
    assert_equal(torch.zeros(2, 2), put(device, torch.ones(2, 2)))

def test_finds_no_room(device):
    x = ttnn.zeros((8192, 8192), ttnn.float32, ttnn.TILE_LAYOUT, device)
    ttnn.neg(x, memory_config=ttnn.L1_MEMORY_CONFIG)

def test_finds_no_room_as_it_expects(device):
    with pytest.raises(RuntimeError, match="Out of Memory"):
        test_finds_no_room(device)

@pytest.mark.requires_grid_size((99, 99))
def test_needs_more_cores(device):
    pass

@pytest.mark.parametrize("mesh_device", [2], indirect=True)
def test_needs_more_chips(mesh_device):
    pass

def test_needs_several_boards(pcie_mesh_device):
    pass

def test_reads_a_profile():
    signpost("start")
    run_device_profiler("command", "folder")
"""


def python(*command, cwd):
    return subprocess.run([sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_outcomes_are_told_apart(tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "test_cases.py").write_text(CASES)
    done = python(
        "-m", "pytest", "-p", "graph_runtime.ttnn", "-rs", "-q", "-p", "no:cacheprovider", cwd=tmp_path
    )
    assert "2 failed, 3 passed, 6 skipped" in done.stdout, done.stdout[-3000:]
    assert "test_is_wrong" in done.stdout
    assert (
        "unsupported: ttnn.all_to_all_dispatch is not supported: it exchanges values between chips"
        in done.stdout
    )
    assert "unsupported: ttnn.cdist" in done.stdout
    assert "unsupported: tracy.process_model_log.run_device_profiler is not supported" in done.stdout
    assert "needs 4 devices, the machine has 1" in done.stdout


class _Report:
    outcome, longrepr = "failed", ""


class _Test:
    location = ("file.py", 1, "test")


class _Call:
    """A test that raised ``error``."""

    def __init__(self, error):
        self.excinfo = type("excinfo", (), {"value": error})


@pytest.mark.parametrize("declined", [False, True])
def test_a_ring_of_errors_is_gone_through_once(declined):
    first, second = DeviceMemoryError("no room"), ValueError("refused")
    first.__context__, second.__cause__ = second, first
    raised = RuntimeError("about both")
    raised.__cause__ = first
    if declined:
        second.__cause__ = Unsupported("declined", op="ttnn.none")
        second.__cause__.__context__ = first
    report = plugin.pytest_runtest_makereport(_Test, _Call(raised))
    next(report)
    with pytest.raises(StopIteration) as done:
        report.send(_Report())
    assert done.value.value.outcome == ("skipped" if declined else "failed")


def test_a_script_runs_with_its_arguments_on_a_board(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, ttnn, ttnn.types\nd = ttnn.open_device(device_id=0)\n"
        "x = ttnn.ones((2, 2), device=d, layout=ttnn.TILE_LAYOUT)\n"
        "print(sys.argv[1:], ttnn.get_arch_name(), x[0, 1].item())\n"
    )
    done = python("-m", "graph_runtime.ttnn", "--board", "p150", "script.py", "--x", "1", cwd=tmp_path)
    assert done.stdout.strip() == "['--x', '1'] blackhole 1.0", done.stderr
    for command, text in (
        (("nothing.py",), "no file nothing.py"),
        (("--board", "n151", "script.py"), "did you mean"),
    ):
        failed = python("-m", "graph_runtime.ttnn", *command, cwd=tmp_path)
        assert failed.returncode == 2
        assert text in failed.stderr


def test_the_table_of_the_page_is_made_from_the_functions():
    assert python("tests/tools/ttnn_functions.py", "--check", cwd=ROOT).returncode == 0


def test_what_a_function_accepts_is_printed():
    done = python("-m", "graph_runtime.ttnn", "--accepts", "ttnn.topk", cwd=ROOT)
    assert "ttnn.topk accepts\n- " in done.stdout, done.stderr
    assert "- input_tensor: BFLOAT16, BFLOAT8_B, FLOAT32\n" in done.stdout
    done = python("-m", "graph_runtime.ttnn", "--accepts", "topkk", cwd=ROOT)
    assert done.returncode == 2
    assert "no function of ttnn 'topkk' (did you mean 'topk'?)" in done.stderr


def test_the_example_runs():
    done = python("-m", "graph_runtime.ttnn", "examples/ttnn/add_and_project.py", cwd=ROOT)
    assert "correlation with numpy: 0.999" in done.stdout, done.stderr


def test_the_example_of_a_mesh_runs():
    script = "examples/ttnn/tensor_parallel.py"
    done = python("-m", "graph_runtime.ttnn", "--board", "t3000", script, cwd=ROOT)
    assert "8 chips, [PlacementReplicate()]" in done.stdout, done.stderr
    assert float(done.stdout.split("numpy: ")[1]) > 0.999
