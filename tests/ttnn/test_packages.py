"""Packages of others that import ttnn, as PyPI has them, in environments of their own. ``PACKAGES=FOLDER``
names the folder in which these are made and kept. They take gigabytes: torch-ttnn needs a torch of 2025."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = os.environ.get("PACKAGES", "")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER, reason="PACKAGES names no folder for environments"),
    pytest.mark.timeout(3600),
]
SMI = """#!/bin/sh
[ "$1" = -r ] && exit 0
echo '{"device_info": [{"board_info": {"board_type": "n150", "board_id": "1"}}]}'
"""
TORCH_TTNN = """
import json, sys, torch, torchvision, ttnn, torch_ttnn
from tests.utils import calculate_accuracy
from transformers import BertConfig, BertForQuestionAnswering

torch.manual_seed(0)
if sys.argv[1] == "resnet":
    model = torchvision.models.get_model("resnet18", weights=None)
    given = {"x": torch.rand(1, 3, 224, 224, dtype=torch.bfloat16)}
else:
    sizes = dict(hidden_size=256, num_hidden_layers=2, num_attention_heads=4, intermediate_size=1024)
    model = BertForQuestionAnswering(BertConfig(**sizes, attn_implementation="eager"))
    mask = torch.ones(1, 128, dtype=torch.int64)
    mask[:, 100:] = 0
    ids = torch.randint(0, 1000, (1, 128))
    given = dict(input_ids=ids, attention_mask=mask, token_type_ids=torch.zeros_like(ids))
model = model.to(torch.bfloat16).eval()
option = torch_ttnn.TorchTtnnOption(
    device=ttnn.open_device(device_id=0, l1_small_size=65536), load_params_once=True, metrics_path="metrics"
)
with torch.no_grad():
    wanted = model(**given)
    got = torch.compile(model, backend=torch_ttnn.backend, options=option)(**given)
targets = [str(node.target) for graph in option._out_fx_graphs for node in graph.nodes]
rest = [target for target in targets if "aten." in target]
print()
print(json.dumps([float(calculate_accuracy(wanted, got)), rest]))
"""
SYMBIOTE = """
import json, torch, ttnn
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM
from tt_symbiote import compatibility, register_modules, set_device
from tt_symbiote.modules.ttnn_linear import TTNNLinear

torch.manual_seed(0)
mesh = ttnn.open_mesh_device(mesh_shape=ttnn.MeshShape(1, 1))
sizes = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4)
sizes["vocab_size"] = 1000
model = LlamaForCausalLM(LlamaConfig(**sizes)).to(torch.bfloat16).eval()
ids = torch.randint(0, 1000, (1, 32))
with torch.no_grad():
    wanted = model(ids, use_cache=False).logits
    register_modules(model, {nn.Linear: TTNNLinear}, model_config=None)
    set_device(model, mesh)
    got = model(ids, use_cache=False).logits.to_torch
rows = torch.stack([x.flatten().float() for x in (wanted, got)])
print()
print(json.dumps([torch.corrcoef(rows)[0, 1].item(), compatibility.report(model)["summary"]]))
"""


def wheel() -> Path:
    """This package's wheel, built once for all environments: the build takes minutes."""
    folder = Path(FOLDER) / "wheel"
    if not list(folder.glob("*.whl")):
        words = ("wheel", "-q", "--no-deps", "-w", folder, ROOT)
        subprocess.run([sys.executable, "-m", "pip", *words], check=True)
    return next(folder.glob("*.whl"))


def made(name: str, *installs: str) -> Path:
    """The scripts' folder of an environment with this package, its ttnn, and what pip installs: the words of
    each call."""
    folder = Path(FOLDER) / name
    scripts = folder / "bin"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        for words in (f"{wheel()}", *installs):
            subprocess.run([scripts / "pip", "install", "-q", *words.split()], check=True)
        subprocess.run([scripts / "python", "-m", "graph_runtime.ttnn", "--install"], check=True)
        (folder / "ready").touch()
    return scripts


def said(scripts: Path, folder: Path, *words: str) -> str:
    """The output of a program of the environment, run in ``folder``. It must end well."""
    there = os.environ | {
        "PATH": f"{scripts}:{os.environ['PATH']}",
        "MESH_DEVICE": "N150",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [scripts / words[0], *words[1:]], cwd=folder, env=there, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("model", ["resnet", "bert"])
def test_torch_ttnn_compiles_networks(tmp_path, model):
    era = "torch==2.7.1 torchvision==0.22.1 transformers==4.51.3 numpy<2 pandas<3 requests pytest"
    scripts = made("torch_ttnn", f"{era} torch-ttnn==0.5.6")
    (tmp_path / "script.py").write_text(TORCH_TTNN)
    accuracy, rest = json.loads(said(scripts, tmp_path, "python", "script.py", model).splitlines()[-1])
    assert accuracy > 0.99
    assert rest == []


def test_tt_symbiote_runs_a_llama(tmp_path):
    scripts = made("tt_symbiote", "torch==2.14.1 tt-symbiote==0.1.6")
    (tmp_path / "script.py").write_text(SYMBIOTE)
    correlation, summary = json.loads(said(scripts, tmp_path, "python", "script.py").splitlines()[-1])
    assert correlation > 0.999
    assert (summary["runtime_successes"], summary["runtime_fallbacks"]) == (15, 0)


def test_tt_check_finds_a_board_ready(tmp_path):
    """tt-smi, which resets and lists cards, is a script that says what it would."""
    scripts = made("tt_check", "torch==2.14.1 tqdm", "--no-deps --ignore-requires-python tt-check==0.1.3")
    (scripts / "tt-smi").write_text(SMI)
    (scripts / "tt-smi").chmod(0o755)
    words = ("python", "-m", "tt_check.cli", "--json", "--runs", "2", "--prefill-rows", "128")
    found = json.loads(said(scripts, tmp_path, *words))
    assert [mode["pcc"] > 0.999 for mode in found["mlp"]] == [True, True]


def test_tt_perf_report_reads_a_report(tmp_path):
    scripts = made("tt_perf_report", "tt-perf-report==1.4.1")
    digits = ROOT / "examples" / "digits"
    words = [
        "run",
        f"{digits}/graph.json",
        "--params",
        f"{digits}/params.bin",
        "--device",
        "cpu:0",
        "--device",
    ]
    words += ["tt:0", "--place", "conv*=tt:0", "--input", "image=random", "--visualizer", str(tmp_path)]
    said(scripts, tmp_path, "graph-runtime", *words)
    text = said(
        scripts, tmp_path, "tt-perf-report", "ops_perf_results_simulated.csv", "--no-color", "--no-summary"
    )
    assert "conv2d (simulated)" in text
