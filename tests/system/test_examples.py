"""Every example runs without arguments, from any folder, and says what it should."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def _run(script: str, folder: Path, cache: str) -> str:
    environment = {**os.environ, "GR_CACHE_DIR": cache}
    command = [sys.executable, EXAMPLES / script]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("script", ["simplex.py", "duplex.py"])
def test_transfers_on_every_pair_from_memory_and_disk(script, tmp_path, kernel_cache):
    lines = re.findall(r"add on (\S+) +subtract on (\S+) +from (\w+)", _run(script, tmp_path, kernel_cache))
    pairs = [("cpu:0", "tt:0"), ("tt:0", "cpu:0"), ("tt:0", "tt:1")]
    assert lines == [(*pair, where) for pair in pairs for where in ("memory", "disk")]


def test_handcrafted(tmp_path, kernel_cache):
    assert "every arrangement agrees with numpy" in _run("handcrafted.py", tmp_path, kernel_cache)


@pytest.mark.slow
def test_digits(tmp_path, kernel_cache):
    out = _run("digits/run.py", tmp_path, kernel_cache)
    share = {name: float(value) for name, value in re.findall(r"^(\w+) .* ([\d.]+)% of 360 right", out, re.M)}
    assert set(share) == {"cpu", "tt", "mixed"}
    assert min(share.values()) >= 97
    assert share["cpu"] - share["tt"] <= 0.5
    assert "conv2d" in out


def test_digits_are_the_published_ones():
    """1797 images; the class counts are those of the UCI page's test set."""
    with np.load(EXAMPLES / "digits" / "digits.npz") as data:
        assert data["images"].shape == (1797, 8, 8)
        assert data["images"].max() == 16
        assert np.bincount(data["labels"]).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert (EXAMPLES / "digits" / "digits.npz").stat().st_size < 100_000
    assert (EXAMPLES / "digits" / "params.bin").stat().st_size < 1_000_000


def test_graph_json_is_what_network_py_writes(tmp_path):
    """The committed graph.json and the script that makes it agree."""
    script, written = EXAMPLES / "digits" / "network.py", tmp_path / "graph.json"
    assert subprocess.run([sys.executable, script, written], check=False).returncode == 0
    assert written.read_bytes() == (EXAMPLES / "digits" / "graph.json").read_bytes()
