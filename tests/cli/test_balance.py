"""graph-runtime plan --policy: every policy on whole networks, the table of docs/balancer.md, and a graph for
each reason of the balancer's that a graph can give."""

from __future__ import annotations

import importlib.util
import json
import os
import re
from pathlib import Path

import pytest

from graph_runtime import cli
from graph_runtime.ir.builder import GraphBuilder
from graph_runtime.plan.balance import BALANCER_POLICIES, REASONS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "balancer.md").read_text()
BOARDS = ("e150", "n150", "p150")
MODELS = sorted(Path(os.environ.get("BALANCED_MODELS", "no such folder")).glob("*.onnx"))


def bench():
    script = ROOT / "tests" / "bench" / "bench_balance.py"
    spec = importlib.util.spec_from_file_location("bench_balance", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def command(capsys):
    """command(*args) -> (exit code, stdout, stderr)"""

    def run(*args):
        with pytest.raises(SystemExit) as stopped:
            cli.main([*map(str, args)])
        return stopped.value.code or 0, *capsys.readouterr()

    return run


@pytest.mark.parametrize(
    "name", ["resnet50", "mobile", "mlp", pytest.param("encoder", marks=pytest.mark.slow)]
)
def test_the_page_has_what_the_command_says(name, tmp_path):
    script = bench()
    assert script.table_row(script.written(name, tmp_path)) in PAGE.splitlines()
    assert script.planned(tmp_path / f"{name}.json", "e150", "random")["cycles"] > 0


@pytest.mark.slow
@pytest.mark.skipif(not MODELS, reason="BALANCED_MODELS names no folder of ONNX files")
@pytest.mark.parametrize("file", MODELS, ids=lambda file: file.stem)
@pytest.mark.parametrize("board", BOARDS)
def test_models_plan_with_every_policy(file, board):
    script = bench()
    for policy in BALANCER_POLICIES:
        assert (script.planned(file, board, policy) != {}) == (board == "e150")


@pytest.mark.parametrize("policy", BALANCER_POLICIES)
def test_a_board_without_ops(command, tmp_path, policy):
    """A board that placing left empty, and a graph that runs on no core at all."""
    b = GraphBuilder()
    b.output(b.op("relu", b.input("x", (64, 64)), name="y", device="tt:1"))
    (tmp_path / "net.json").write_text(b.to_json())
    boards = ("--device", "tt:0=e150", "--device", "tt:1=e150")
    code, out, err = command("plan", tmp_path / "net.json", *boards, "--policy", policy)
    assert (code, err) == (0, "")
    assert f"tt:0, policy {policy}: 0 cycles (0.000 ms) for one input in 0 epochs" in out
    assert re.search(rf"tt:1, policy {policy}: [1-9]\d* cycles", out)


# **************** reasons ****************


def product(b: GraphBuilder, m: int, k: int, n: int):
    return b.op("matmul", b.input("x", (m, k), "bfloat16"), b.param("w", (k, n), "bfloat16"), name="y")


def reader_turns(b):
    b.output(b.op("matmul", b.param("v", (96, 160), "bfloat16"), product(b, 128, 64, 160), transpose_b=True))


def two_outputs_overflow(b):
    b.output(product(b, 12544, 128, 64))


def little_left(b):
    b.output(b.op("take", b.param("t", (32, 4416), "float32"), b.input("i", (1,), "int32"), name="y", axis=0))


def two_gigabytes(b):
    b.output(product(b, 32, 32768, 32768))


GRAPHS = {
    "UserAccessPreventsStreaming": reader_turns,
    "InputBufferAllocationFailure": two_outputs_overflow,
    "L1UsageOverMaxLimit": little_left,
    "ExceededDramChannelCapacity": two_gigabytes,
}


def explained(command, tmp_path, build) -> dict:
    b = GraphBuilder()
    build(b)
    (tmp_path / "net.json").write_text(b.to_json())
    _, out, _ = command("plan", tmp_path / "net.json", "--device", "tt:0=e150", "--explain", "y", "--json")
    return json.loads(out)["counts"]["reasons"]


@pytest.mark.parametrize("reason", GRAPHS)
def test_a_graph_for_each_reason(command, tmp_path, reason):
    assert explained(command, tmp_path, GRAPHS[reason])[reason] > 0


def test_the_page_names_the_reasons_that_no_graph_gives():
    """Those that only a caller of enumerate_models can give."""
    rows = PAGE[PAGE.index("No graph gives") : PAGE.index("## 4.")]
    assert set(re.findall(r"^\| `(\w+)` \|", rows, re.M)) == set(REASONS) - set(GRAPHS)
