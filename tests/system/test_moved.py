"""Import paths of earlier versions lead to the modules at their new places."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import graph_runtime as gr
from graph_runtime.base.moved import MOVED

TRY = """
import importlib, sys, warnings
warnings.simplefilter("error")
import graph_runtime
old, new = sys.argv[1:]
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found = importlib.import_module(old)
assert found is importlib.import_module(new), found
print(*[f"{w.category.__name__}: {w.message}" for w in told], sep="\\n")
"""


def lead(old: str, new: str) -> list[str]:
    """What was warned of, in a process that imports the old name first."""
    done = subprocess.run([sys.executable, "-c", TRY, old, new], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("old", sorted(MOVED))
def test_every_new_place_is_there(old):
    if old == "onnx_backend":
        pytest.importorskip("onnx")
    importlib.import_module(f"graph_runtime.{MOVED[old]}")


@pytest.mark.parametrize(
    ("old", "new"), [("documents.params", "ir.documents.params"), ("comparison.compare", "accuracy.compare")]
)
def test_an_old_path_leads_to_the_same_module_and_says_where_it_is(old, new):
    parent = f"graph_runtime.{old.partition('.')[0]} is now graph_runtime.{new.rpartition('.')[0]}"
    module = f"graph_runtime.{old} is now graph_runtime.{new}"
    assert lead(f"graph_runtime.{old}", f"graph_runtime.{new}") == [
        f"DeprecationWarning: {parent}",
        f"DeprecationWarning: {module}",
    ]


@pytest.mark.parametrize(
    ("old", "new"), [("run.numerics", "run.oracle"), ("testing.numerics", "testing.operands")]
)
def test_a_module_that_moved_within_its_folder_is_found(old, new):
    assert lead(f"graph_runtime.{old}", f"graph_runtime.{new}") == [
        f"DeprecationWarning: graph_runtime.{old} is now graph_runtime.{new}"
    ]


def test_errors_have_two_names_and_nothing_is_said():
    assert lead("graph_runtime.errors", "graph_runtime.base.errors") == [""]
    assert gr.errors.InputError is gr.InputError


def test_what_never_was_is_not_found():
    with pytest.raises(ModuleNotFoundError, match=r"graph_runtime\.nothing"):
        importlib.import_module("graph_runtime.nothing")
