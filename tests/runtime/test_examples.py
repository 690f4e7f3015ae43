"""The examples of program stitching move exactly the bytes that their texts promise."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "stitching"


def figures(script: str, folder: Path) -> dict[str, tuple[int, int]]:
    """{what: (measured, expected)} that a script prints."""
    done = subprocess.run(
        [sys.executable, FOLDER / script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"^(.*): ([\d,]+) \(expected ([\d,]+)\)$", done.stdout, re.M)
    return {what: (int(got.replace(",", "")), int(wanted.replace(",", ""))) for what, got, wanted in found}


WEIGHTS, BATCHES = 4 * 2 * 64 * 128, 4 * 100 * 32 * 64


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        (
            "weights.py",
            {
                "host to device, bytes": WEIGHTS + BATCHES,
                "host to device, copies": 102,
                "device to host, bytes": 4 * 32 * 64,
                "conversions at submit": 0,
            },
        ),
        (
            "decoder.py",
            {
                "host to device, bytes": 4 * (3 * 64 * 64 + 2 * 64 * 64 + 64 * 96 + 64 * (64 + 2 * 64)),
                "device to host, bytes": 4 * 64 * 96,
                "hidden states converted at submit": 64,
            },
        ),
        (
            "training.py",
            {
                "host to device, bytes": 4 * (32 + 40 * 64 * 32 + 40 * 64),
                "device to host, bytes: the losses": 4 * 40,
                "address of the weights, moved by": 0,
            },
        ),
        (
            "double_buffer.py",
            {
                "host to device, bytes": 4 * 8 * 512 * 512,
                "device to host, bytes": 4 * 8 * 512,
                "results that differ from those step by step": 0,
            },
        ),
        ("fork_join.py", {"copies to the host": 1, "copies to the device": 1}),
    ],
)
def test_traffic(script, wanted, tmp_path):
    assert figures(script, tmp_path) == {what: (value, value) for what, value in wanted.items()}
