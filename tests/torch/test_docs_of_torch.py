"""The examples of docs/torch.md, and the README's with torch, run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
ROOT = Path(__file__).resolve().parents[2]
CODES = [
    code
    for page, mark in (("docs/torch.md", ""), ("README.md", " torch"))
    for code in re.findall(rf"^```python{mark}\n(.*?)^```$", (ROOT / page).read_text("utf-8"), re.M | re.S)
]


@pytest.mark.parametrize("code", CODES, ids=range(len(CODES)))
def test_examples_run_as_they_stand(code, tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    said = [
        line for line in done.stderr.splitlines() if not line.startswith("USDT:")
    ]  # torch's profiler does
    assert (done.returncode, said) == (0, [])
    assert done.stdout
