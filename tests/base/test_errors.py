"""Errors and the frames that have them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import graph_runtime

pytestmark = pytest.mark.unit

PACKAGE = Path(graph_runtime.__file__).parent


def test_no_function_raises_an_error_that_it_has_by_a_name():
    """It would be in a circle with its frame. errors.afresh makes another, errors.throw lets go of it;
    Python itself lets go of what ``except .. as`` names."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found += [f"{path.relative_to(PACKAGE)}:{line}" for line in raised_by_name(function)]
    assert not found


def raised_by_name(function) -> list[int]:
    let_go = {n.name for n in ast.walk(function) if isinstance(n, ast.ExceptHandler)}
    let_go |= {
        t.id
        for n in ast.walk(function)
        if isinstance(n, ast.Delete)
        for t in n.targets
        if isinstance(t, ast.Name)
    }
    return [
        n.lineno
        for n in ast.walk(function)
        if isinstance(n, ast.Raise)
        and isinstance(n.exc, ast.Name)
        and n.exc.id not in let_go
        and not n.exc.id.lstrip("_")[0].isupper()
    ]
