"""The README's code blocks run as they stand there, and its commands are those of .ci/run."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+) ?(\w*)\n(.*?)^```$", README, re.M | re.S)


def _blocks(language: str, word: str = "") -> list[str]:
    return [text for found, mark, text in BLOCKS if (found, mark) == (language, word)]


def test_every_block_is_known():
    assert {(language, word) for language, word, _ in BLOCKS} == {
        ("sh", "install"),
        ("sh", "onnx"),
        ("sh", "ttnn"),
        ("sh", ""),
        ("python", "torch"),
        ("text", ""),
    }


def test_it_fits_two_screens():
    assert len(README.splitlines()) <= 120


def test_a_graph_in_ten_lines(capsys):
    """The blocks of docs/start.md on a graph of your own, one after another, as a reader types them."""
    start = (ROOT / "docs" / "start.md").read_text(encoding="utf-8")
    namespace = {}
    part = start.split("## You write the graph yourself")[1]
    for code in re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S):
        exec(compile(code, "start.md", "exec"), namespace)
    printed = capsys.readouterr().out
    assert np.array2string(np.full(10, 0.1, np.float32)) in printed
    assert "[4.0, 4.0, 4.0]" in printed
    assert namespace["counted"].count("d2h") == 0


def _shell(script: str, folder: Path, cache: str) -> str:
    """What a block prints in a folder that has the examples, with graph-runtime and python on the path."""
    made = shutil.ignore_patterns("out", "__pycache__")
    for name in ("examples", "tests/golden/tvm"):
        shutil.copytree(ROOT / name, folder / name, ignore=made)
    tools = folder / "bin"
    tools.mkdir()
    for name, code in (("graph-runtime", "-c 'from graph_runtime.cli import main; main()'"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {code} "$@"\n')
        (tools / name).chmod(0o755)
    environment = {**os.environ, "GR_CACHE_DIR": cache, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=folder,
        env=environment,
        timeout=100,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("script", _blocks("sh"))
def test_shell_blocks(script, tmp_path, kernel_cache):
    assert _shell(script, tmp_path, kernel_cache)


@pytest.mark.slow
def test_a_script_for_ttnn(tmp_path, kernel_cache):
    (script,) = _blocks("sh", "ttnn")
    assert "correlation with numpy: 0.99" in _shell(script, tmp_path, kernel_cache)


def test_ci_runs_what_the_readme_says():
    """.ci/run installs into a folder of its own; what it installs and runs is the README's."""
    ci = (ROOT / ".ci" / "run").read_text()
    example, tests = _blocks("sh", "install")
    assert "pip install -e . && .venv/bin/python examples/digits/run.py" in example
    assert "examples/digits/run.py" in ci
    assert "install -e '.[test]'" in tests
    assert "install -q -e '.[test]'" in ci


def test_command_table_is_the_command_line():
    command = [sys.executable, "-c", "from graph_runtime.cli import main; main()", "--help"]
    help_text = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "200"}
    ).stdout
    listed = re.findall(r"^\| `(\w+)` \|", COMMANDS, re.M)
    assert listed
    assert sorted(listed) == sorted(re.findall(r"^│ (\w+) ", help_text.split("Commands")[1], re.M))
