"""Kernels that are measured: each once on a machine, and the times are there for the next process."""

import json

from graph_runtime.ir.graph import TensorType
from graph_runtime.run.tuning import Tuner

TYPES = [TensorType("float32", (2, 20, 8)), TensorType("float32", (2, 8, 33))]


def test_kernels_are_measured_once(tmp_path):
    path = tmp_path / "cache" / "kernels.json"
    tuner = Tuner(path)
    times = tuner("matmul", {"transpose_a": False}, TYPES, ["matmul", "matmul_panels"])
    assert set(times) == {"matmul", "matmul_panels"}
    assert min(times.values()) > 0
    assert Tuner(path)("matmul", {"transpose_a": False}, TYPES, ["matmul", "matmul_panels"]) == times
    assert len(json.loads(path.read_text())) == 2


def test_a_damaged_file_is_measured_anew(tmp_path):
    path = tmp_path / "kernels.json"
    path.write_text("{")
    assert Tuner(path)("matmul", {}, TYPES, ["matmul"])["matmul"] > 0
    assert len(json.loads(path.read_text())) == 1
