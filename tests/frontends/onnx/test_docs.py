"""The page of ONNX ops is made from the converters."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("onnx")

ROOT = Path(__file__).resolve().parents[3]


def test_table_of_onnx_ops_is_current():
    done = subprocess.run([sys.executable, str(ROOT / "tests/tools/onnx_table.py"), "--check"], check=False)
    assert done.returncode == 0, "docs/onnx-ops.md is out of date: run python tests/tools/onnx_table.py"


def test_at_least_90_ops_are_listed():
    rows = [line for line in (ROOT / "docs/onnx-ops.md").read_text().splitlines() if line.startswith("| ")]
    assert len(rows) - 1 >= 90


def test_page_has_ops_of_any_domain(monkeypatch):
    from graph_runtime.frontends.onnx import context

    monkeypatch.syspath_prepend(str(ROOT / "tests/tools"))
    tool = importlib.import_module("onnx_table")
    monkeypatch.setattr(context, "_TABLE", dict(context.table()))
    context.function("SlopeBelow", domain="com.example", limits="not of bools")(lambda x, slope: x * slope)
    monkeypatch.setattr(tool, "table", context.table)
    assert "\n## com.example\n" in tool.page()
    assert "| SlopeBelow | not of bools |" in tool.page()
