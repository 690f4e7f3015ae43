"""gr.eager gives numpy's names to what single/ does: no state, no threads, no own way to memory or to C."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import graph_runtime
from graph_runtime.run.tensors import operators

MODULES = sorted((Path(graph_runtime.__file__).parent / "eager").glob("*.py"))
ALLOWED = (
    "base.dtypes",
    "base.errors",
    "base.machine.devices",
    "ir.graph",
    "ir.ops",
    "run.single",
    "run.tensors.journal",
    "run.tensors.operators",
    "run.tensors.spec",
    "run.tensors.tensor",
)
OUTSIDE = {"__future__", "builtins", "collections", "dataclasses", "math", "numpy", "operator", "typing"}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert {alias.name.split(".")[0] for alias in node.names} <= OUTSIDE
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module.split(".")[0] in OUTSIDE
        elif isinstance(node, ast.ImportFrom) and node.level == 2:
            names = [f"{node.module}.{alias.name}." for alias in node.names]
            assert all(name.startswith(tuple(f"{ok}." for ok in ALLOWED)) for name in names), (
                f"line {node.lineno}"
            )


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_state(path):
    """Nothing is assigned in modules but constants and tables, and no function changes them."""
    tree = ast.parse(path.read_text())
    tables = {
        target.id
        for node in tree.body
        if isinstance(node, (ast.Assign, ast.AnnAssign))
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name)
    }
    for function in (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.Lambda))):
        for node in ast.walk(function):
            assert not isinstance(node, (ast.Global, ast.Nonlocal)), f"line {node.lineno}"
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, (ast.Store, ast.Del)):
                assert getattr(node.value, "id", None) not in tables, f"line {node.lineno}"


def test_type_checkers_see_every_operator():
    """What eager puts into Tensor when it is first used is declared in the class that it is put into."""
    tree = ast.parse(Path(operators.__file__).read_text())
    (base,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    declared = {node.name for node in ast.walk(base) if isinstance(node, ast.FunctionDef)}
    assert declared == {*operators.METHODS, *operators.PROPERTIES}
