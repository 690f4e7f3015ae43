"""How many words functions take: a new one belongs into a value that travels whole, as Options does."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# their signatures are those of other systems
FOREIGN = {"compat", "eager", "jax", "torch", "ttnn"}
MOST = 8  # parameters, without self and cls
LONGER = 32  # functions that have more; this number may only fall


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    given = function.args
    names = [one.arg for one in [*given.posonlyargs, *given.args, *given.kwonlyargs]]
    return len([name for name in names if name not in ("self", "cls")])


def test_functions_with_many_parameters_become_fewer():
    found = []
    for path in sorted([*(ROOT / "graph_runtime").rglob("*.py"), *(ROOT / "codegen").rglob("*.py")]):
        if path.relative_to(ROOT).parts[1] in FOREIGN:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and _parameters(node) > MOST:
                found.append(f"{path.relative_to(ROOT)}: {node.name} has {_parameters(node)}")
    assert len(found) <= LONGER, "\n".join(found)
    assert len(found) == LONGER, f"there are {len(found)} now: LONGER is to say so"
