"""The tests' folders are the package's, and what is in those of the unit tests needs no compiled core."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OF_C = {"native", "kernels"}  # native/core, native/kernels
UNIT = ("accuracy", "base", "codegen", "costs", "ir", "plan", "rewrite", "simulation", "testing", "views")
OF_THE_PROJECT = {"system", "fuzz", "soak", "bench", "golden", "tools"}


def folders(root: Path) -> set[str]:
    return {str(file.parent.relative_to(root)) for file in root.rglob("*.py")} - {"."}


def test_a_part_of_the_package_has_its_tests_in_the_folder_of_its_name():
    tests, parts = folders(ROOT / "tests"), folders(ROOT / "graph_runtime") | {"codegen"}
    own = {folder for folder in tests if folder.split("/")[0] not in OF_C | OF_THE_PROJECT}
    assert own - parts == set()
    assert {part.split("/")[0] for part in parts} - {folder.split("/")[0] for folder in own} == set()
    table = (ROOT / "tests" / "README.md").read_text("utf-8")
    said = {line.split("|")[1].strip() for line in table.splitlines() if line.startswith("|")}
    named = {name for names in said for name in names.split(", ")}
    assert named - {"folder", "---"} == {folder.split("/")[0] for folder in tests} | {"golden"}


@pytest.mark.slow
def test_unit_tests_need_no_compiled_core():
    """Nor does what they start: tests/tools/no_core takes it from every Python under it. Of the folders a run
    takes one of SAMPLE (1: all), drawn by SEED."""
    part = int(os.environ.get("SAMPLE", "1"))
    chosen = random.Random(int(os.environ.get("SEED", "0"))).sample(UNIT, -(-len(UNIT) // part))
    env = os.environ | {"PYTHONPATH": str(ROOT / "tests" / "tools" / "no_core")}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "unit and not slow",
        *([f"tests/{folder}" for folder in sorted(chosen)] if part > 1 else ["tests"]),
    ]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-3000:]
    counted = int(done.stdout.splitlines()[-1].split(" passed")[0].split()[-1])
    assert counted > (2000 if part == 1 else 10), done.stdout[-300:]
    assert "skipped" not in done.stdout.splitlines()[-1]
