"""There is one Session and one Tensor: GraphModule, gr.runtime and gr.eager only give them other names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "graph_runtime"
ADAPTERS = [
    PACKAGE / "run" / "module.py",
    *sorted((PACKAGE / "runtime").glob("*.py")),
    *sorted((PACKAGE / "eager").glob("*.py")),
]
# what only Session, Tensor and those below them may touch
INSIDE = {
    "core",
    "buffer",
    "template",
    "batches",
    "bind",
    "slots",
    "assembly",
    "submission",
    "lower",
    "program",
}


def _is_private(node: ast.AST) -> bool:
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.endswith("__"):
        return False
    return not (isinstance(node.value, ast.Name) and node.value.id in ("self", "np"))


@pytest.mark.parametrize("path", ADAPTERS, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_adapters_use_public_names_only(path):
    tree = ast.parse(path.read_text())
    imported = {
        (node.module or "").rpartition(".")[2]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.level
    }
    imported |= {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.module
        for alias in node.names
    }
    assert not imported & INSIDE, f"imports {sorted(imported & INSIDE)}"
    private = [f"line {node.lineno}: .{node.attr}" for node in ast.walk(tree) if _is_private(node)]
    assert not private


def test_runtime_has_no_state_and_no_logic():
    tree = ast.parse((PACKAGE / "runtime" / "__init__.py").read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            assert [t.id for t in statement.targets] == ["__all__"]
        assert not isinstance(statement, (ast.ClassDef, ast.AnnAssign, ast.AugAssign))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert len(functions) > 25
    for function in functions:
        _, *body = function.body  # the docstring, then a branch for None at most
        assert len(body) <= 2, function.name
        nodes = [node for statement in body for node in ast.walk(statement)]
        assert not any(isinstance(n, (ast.For, ast.While, ast.Try, ast.With, ast.Global)) for n in nodes)


def test_runtime_exports_what_it_lists():
    import graph_runtime.runtime as rt

    assert [name for name in rt.__all__ if not hasattr(rt, name)] == []
    assert len(set(rt.__all__)) == len(rt.__all__)
