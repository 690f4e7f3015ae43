"""Networks of published tables: predictions stay near what was published, graphs are what they say."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import graph_runtime as gr
from graph_runtime.ir.ops import registry

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "silicon"


@pytest.fixture
def networks(monkeypatch):
    """The benchmark's module of networks."""
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "bench"))
    import models

    return models


def test_predictions_are_near_what_was_published():
    script = ROOT / "tests" / "bench" / "bench_models.py"
    done = subprocess.run(
        [sys.executable, str(script), "--data", str(GOLDEN)], capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    rows = [line for line in lines if "ratio" in line]
    assert {"ResNet-50 224", "BERT-Large", "MobileNet-v2 224"} <= {row["model"] for row in rows}
    assert all(sum(row["basis"].values()) == pytest.approx(1, abs=0.01) for row in rows)
    assert all(0.5 <= row["ratio"] <= 2 for row in rows)
    assert lines[-1]["all"]["rows"] == len(rows)
    assert lines[-1]["without"] == {"Stable Diffusion 1.4 512": "no group norm"}


@pytest.mark.parametrize(
    ("model", "parameters", "tflops"),
    [
        ("ResNet50", 25.6e6, 8.2e-3),
        ("MobileNetV2", 3.5e6, 0.6e-3),
        ("VoVNet-V2", 24.6e6, 14.2e-3),
        ("HRNet-V2", 128e6, 57.9e-3),
        ("Inception-v4", 42.7e6, 12.3e-3),
        ("BERT-Large", 303e6, 0.246),
        ("ViT-Base", 86.6e6, 35.1e-3),
    ],
)
def test_networks_have_the_size_that_their_authors_state(networks, model, parameters, tflops):
    """Parameters and operations of one input, to a tenth (operations twice the multiplications)."""
    graph = gr.load_graph(networks.graph_of(model, 1)())
    sizes = [graph.entry_type(int(eid)).size for eid in graph.input_eids.tolist()]
    assert sum(sizes) - sizes[0] == pytest.approx(parameters, rel=0.1)
    products = 0.0
    for nid in range(graph.num_nodes):
        node = graph.node(nid)
        if node.op in ("conv2d", "matmul", "dense"):
            op = registry.require(node.op)
            products += op.flops(list(node.input_types), list(node.output_types), node.func.attrs)
    assert products / 1e12 == pytest.approx(tflops, rel=0.1)
