"""The pages that teach: their commands run as they stand, and the index of errors has every error."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from xml.etree import ElementTree

import pytest

from graph_runtime.base import errors
from graph_runtime.base.options import Options
from graph_runtime.cli import _CODES

ROOT = Path(__file__).resolve().parents[2]
PAGES = ("start", "howto", "commands")
GALLERY = ROOT / "examples" / "gallery"
EXAMPLES = sorted(p.stem for p in GALLERY.glob("*.py") if p.stem not in ("make", "picture"))
NEEDS = {
    "onnx": ("onnx", "onnxruntime"),
    "torch": ("torch",),
    "torchao": ("torch", "torchao"),
}  # by the word behind a block's language


def _blocks(language: str) -> list:
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
        for at, (word, code) in enumerate(
            re.findall(rf"^```{language} ?(\w*)\n(.*?)^```$", text, re.M | re.S)
        ):
            if word != "install":  # the step `install` does
                found.append(pytest.param(word, code, id=f"{page}-{at}"))
    return found


def _environment(folder: Path, cache: str) -> dict[str, str]:
    """A folder as a checkout is to a reader, with graph-runtime and python on the path."""
    made = shutil.ignore_patterns("out", "__pycache__")
    for name in ("examples", "tests/golden/tvm"):
        shutil.copytree(ROOT / name, folder / name, ignore=made)
    tools = folder / "bin"
    tools.mkdir()
    for name, code in (("graph-runtime", "-c 'from graph_runtime.cli import main; main()'"), ("python", "")):
        (tools / name).write_text(f'#!/bin/sh\nexec {sys.executable} {code} "$@"\n')
        (tools / name).chmod(0o755)
    return {**os.environ, "GR_CACHE_DIR": cache, "PATH": f"{tools}:{os.environ['PATH']}"}


@pytest.mark.slow
@pytest.mark.parametrize(("word", "script"), _blocks("sh"))
def test_commands_run(word, script, tmp_path, kernel_cache):
    for package in NEEDS.get(word, ()):
        pytest.importorskip(package)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=_environment(tmp_path, kernel_cache),
        timeout=110,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("word", "code"), _blocks("python"))
def test_snippets_run(word, code, tmp_path, kernel_cache):
    for package in NEEDS.get(word, ()):
        pytest.importorskip(package)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=_environment(tmp_path, kernel_cache),
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


def _rows() -> dict[str, tuple[str, str, str]]:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| (.+) \| (\d) \|$", text, re.M)
    return {name: (meaning, remedy, code) for name, meaning, remedy, code in rows}


def test_the_index_has_every_error_with_its_exit_code():
    types = {
        name: kind
        for name in errors.__all__
        if isinstance(kind := getattr(errors, name), type) and issubclass(kind, errors.GraphRuntimeError)
    }
    codes = {
        name: str(next((code for wanted, code in _CODES if issubclass(kind, wanted)), 2))
        for name, kind in types.items()
    }
    assert {name: row[2] for name, row in _rows().items()} == codes
    assert all(len(meaning) > 15 and len(remedy) > 15 for meaning, remedy, _ in _rows().values())


def test_the_index_names_flags_and_commands_that_exist():
    text = " ".join(" ".join(row) for row in _rows().values())
    flags = set(re.findall(r"(--[a-z][a-z-]*)", text))
    named = {flag.name for one in fields(Options) for flag in one.metadata["flags"]}
    known = {f"--{no}{name}" for name in named for no in ("", "no-")}
    for path in (ROOT / "graph_runtime" / "cli").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        known |= set(re.findall(r"--[a-z][a-z-]*", source))
    assert flags - known == set()


# **************** pictures ****************


def test_the_overview_is_the_plan_of_today(tmp_path):
    drawn = tmp_path / "overview.svg"
    subprocess.run([sys.executable, ROOT / "examples" / "overview.py", drawn], check=True)
    assert drawn.read_text() == (ROOT / "docs" / "overview.svg").read_text()


def test_the_gallery_shows_every_example_with_its_question():
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"\(gallery/(\w+)\.svg\)", page)) == EXAMPLES
    assert sorted(path.stem for path in (ROOT / "docs" / "gallery").iterdir()) == EXAMPLES
    assert len(EXAMPLES) == 10
    for name in EXAMPLES:
        question = ast.get_docstring(ast.parse((GALLERY / f"{name}.py").read_text(encoding="utf-8")))
        assert question in page


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_draws_the_picture_of_the_page(name, tmp_path, kernel_cache):
    """But for the numbers and lengths of the bars, which are predictions for this machine's host."""
    drawn = tmp_path / "drawn.svg"
    done = subprocess.run(
        [sys.executable, GALLERY / f"{name}.py", "--picture", drawn],
        cwd=tmp_path,
        env={**os.environ, "GR_CACHE_DIR": kernel_cache},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    shown = ElementTree.parse(ROOT / "docs" / "gallery" / f"{name}.svg")
    found = ElementTree.parse(drawn)
    assert _texts(found) == _texts(shown)
    assert len(list(found.iter())) == len(list(shown.iter()))


def _texts(drawing) -> list[str]:
    """What is written in a drawing, without values."""
    written = (element.text or "" for element in drawing.iter("{http://www.w3.org/2000/svg}text"))
    return [text for text in written if not re.fullmatch(r"[\d.,e+-]+", text)]
