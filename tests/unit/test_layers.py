"""The layer table of docs/architecture.md is the rule: an import goes down it, never up. Sizes of modules and
functions too."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "graph_runtime"
MODULES = sorted(PACKAGE.rglob("*.py"))
CODEGEN = sorted((ROOT / "codegen").glob("*.py"))
MOST_LINES, MOST_IN_FUNCTION = 400, 50  # the width of lines is ruff's (pyproject.toml)
TOP = 6
COMPILED = "_core"  # only core.py imports it
# modules that are allowed to be longer, and why
LONGER = {"core.py": 520}


@cache
def layers() -> dict[str, int]:
    """Module or package name -> layer number, as the document's table says."""
    rows = re.findall(r"^\| L(\d) \| ([^|]*) \|", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    table = {
        name.rstrip("/"): int(layer)
        for layer, names in rows
        for name in re.sub(r"\([^)]*\)", "", names).replace("`", "").split()
    }
    assert len(table) > 15
    return table


def name_of(path: Path) -> str:
    """The name that the table has: a module of the package, or the sub-package that it stands in."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


class Source(NamedTuple):
    """What the tests ask of a module's text."""

    lines: int
    imports: list[ast.Import | ast.ImportFrom]
    functions: list[tuple[str, int, int]]  # name, first and last line of the body behind the docstring
    prints: list[int]  # lines


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """The first statement that is not the docstring."""
    first, *others = function.body
    return others[0] if others and ast.get_docstring(function, clean=False) is not None else first


@cache
def read(path: Path) -> Source:
    """A module, parsed once for all tests."""
    text = path.read_text()
    found = Source(len(text.splitlines()), [], [], [])
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.imports.append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.functions.append((node.name, _body(node).lineno, node.end_lineno))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "print":
            found.prints.append(node.lineno)
    return found


def imports(path: Path) -> list[tuple[ast.stmt, str]]:
    """(statement, first name below the package) of every import of graph_runtime, wherever it stands; codegen
    too."""
    package = (
        ("graph_runtime", *path.parent.relative_to(PACKAGE).parts)
        if path.is_relative_to(PACKAGE)
        else ("codegen",)
    )
    found = []
    for node in read(path).imports:
        if isinstance(node, ast.Import):
            found += [(node, alias.name) for alias in node.names]
        else:
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            full = f"{base}.{node.module}".strip(".") if node.module else base
            found += [(node, full if full != "graph_runtime" else f"{full}.{a.name}") for a in node.names]
    return [(node, full) for node, full in found if full.split(".")[0] in ("graph_runtime", "codegen")]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_the_table(path):
    table, name = layers(), name_of(path)
    assert name == "__init__" or name in table, f"add {name} to the layer table of docs/architecture.md"
    here = table.get(name, TOP)
    for node, full in imports(path):
        if full.startswith("codegen"):
            assert here >= 4, f"line {node.lineno}: codegen is called from above planning"
            assert _is_lazy(path, node), f"line {node.lineno}: codegen is imported where it is needed only"
            continue
        target = full.split(".")[1] if "." in full else "__init__"
        if target == COMPILED:
            assert name == "core", f"line {node.lineno}: only core.py imports {COMPILED}"
        elif target in table:
            assert table[target] <= here, (
                f"line {node.lineno}: {name} (L{here}) imports {target} (L{table[target]})"
            )


def _is_lazy(path: Path, statement: ast.stmt) -> bool:
    return any(first <= statement.lineno <= last for _, first, last in read(path).functions)


@pytest.mark.parametrize("path", CODEGEN, ids=lambda p: str(p.relative_to(ROOT)))
def test_codegen_imports_up_to_planning(path):
    table = layers()
    for node, full in imports(path):
        target = full.split(".")[1] if full.startswith("graph_runtime.") else None
        assert target is None or table.get(target, 0) <= 2, f"line {node.lineno}: codegen imports {full}"


def test_the_checker_shares_no_code_with_the_passes():
    """Of planning it imports the values that it judges."""
    for path in sorted((PACKAGE / "plan" / "checker").glob("*.py")):
        used = {full.split(".")[2] for _, full in imports(path) if full.startswith("graph_runtime.plan.")}
        assert used <= {"types", "checker"}, f"{path.name} imports {sorted(used - {'types', 'checker'})}"


def test_nothing_unpickles_and_the_library_does_not_print():
    for path in MODULES:
        names = {a.name for n in read(path).imports if isinstance(n, ast.Import) for a in n.names}
        assert not names & {"pickle", "marshal", "shelve"}, path.name
        prints = read(path).prints
        assert not prints or name_of(path) == "cli", f"{path.name} prints in line {prints}"


@pytest.mark.parametrize("path", MODULES + CODEGEN, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_are_short(path):
    assert read(path).lines <= LONGER.get(path.name, MOST_LINES)
    for name, first, last in read(path).functions:
        assert last - first + 1 <= MOST_IN_FUNCTION, f"{name} has {last - first + 1} lines"
