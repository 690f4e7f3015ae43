"""Folders are layers: what one imports lies in it or below. docs/architecture.md's table has their order.

No two files, and no two parts of a folder, lead to each other in a circle. Sizes of modules and functions are
held, too.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "graph_runtime"
MODULES = sorted(PACKAGE.rglob("*.py"))
CODEGEN = sorted((ROOT / "codegen").glob("*.py"))
MOST_NAMES = 23  # in the package's root
MOST_CLIMBS = 4  # calls of a lower layer to a higher one, by name
MOST_LINES, MOST_IN_FUNCTION = 400, 50  # of a function: behind its docstring
COMPILED = "graph_runtime._core"  # only binding/core.py imports it
PLUGINS = {
    "graph_runtime.testing.plugin",
    "graph_runtime.ttnn.runner.meshes",
    "graph_runtime.ttnn.plugin",
    "graph_runtime.ttnn.runner.helpers.utility_functions",
}
MOST_FILES = 30  # in a folder


class Import(NamedTuple):
    """``target``: the module, or the name in it, with all dots; ``lazy``: inside of a function."""

    target: str
    line: int
    lazy: bool


class Source(NamedTuple):
    """What the tests ask of a module's text."""

    lines: int
    imports: tuple[Import, ...]
    functions: tuple[tuple[str, int, int], ...]  # name, first and last line of the body behind the docstring
    prints: tuple[int, ...]  # lines


def name_of(path: Path) -> str:
    """graph_runtime/plan/types.py -> graph_runtime.plan.types; a folder's own module has its name."""
    return ".".join((*package_of(path), path.stem)).removesuffix(".__init__")


def package_of(path: Path) -> tuple[str, ...]:
    """The package that a file is in. codegen/ lies at the top, and is installed as graph_runtime.codegen."""
    parts = path.relative_to(ROOT).parent.parts
    return parts if parts[0] == PACKAGE.name else (PACKAGE.name, *parts)


PATHS = {name_of(path): path for path in MODULES + CODEGEN}


def _body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.stmt:
    """The first statement that is not the docstring."""
    first, *others = function.body
    return others[0] if others and ast.get_docstring(function, clean=False) is not None else first


def _imported(node: ast.AST, path: Path) -> Iterator[str]:
    """What a node imports: by a statement, or by a string that is a module's name."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        package = package_of(path)
        base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
        full = ".".join(part for part in (base, node.module) if part)
        yield from (f"{full}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "." in node.value:
        yield from {node.value} & PATHS.keys()


@cache
def read(path: Path) -> Source:
    """A module, parsed once for all tests."""
    text = path.read_text()
    imports, functions, prints = [], [], []

    def look(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            imports.extend(Import(target, child.lineno, lazy) for target in _imported(child, path))
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append((child.name, _body(child).lineno, child.end_lineno))
            elif isinstance(child, ast.Call) and getattr(child.func, "id", "") == "print":
                prints.append(child.lineno)
            look(child, lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda))

    look(ast.parse(text), False)
    return Source(len(text.splitlines()), tuple(imports), tuple(functions), tuple(prints))


def _module(target: str) -> str | None:
    """The module that an imported name is, or is in; None for what is not ours, or is compiled."""
    if target == COMPILED:
        return None
    while target and target not in PATHS:
        target = target.rpartition(".")[0]
    return target or None


@cache
def leads_to(name: str) -> frozenset[str]:
    """The modules that one imports, wherever in it the import is."""
    return frozenset(found for i in read(PATHS[name]).imports if (found := _module(i.target))) - {name}


@cache
def layers() -> tuple[str, ...]:
    """The folders, lowest first, as the document's table says."""
    rows = re.findall(r"^\| \d+ \| ([a-z_]+)/ \|", (ROOT / "docs" / "architecture.md").read_text(), re.M)
    assert len(rows) > 10
    return tuple(rows)


def layer_of(name: str) -> str | None:
    """The folder of a module; None for the package's own."""
    return (*name.split("."), None)[1]


# **************** folders and layers ****************


def test_every_folder_is_a_layer_and_they_are_few():
    names = {path.stem if path.is_file() else path.name for path in PACKAGE.iterdir() if _is_ours(path)}
    assert len(names) <= MOST_NAMES
    assert names == set(layers()) - {"codegen"}


@pytest.mark.parametrize(
    "folder", sorted({p.parent for p in MODULES}), ids=lambda p: str(p.relative_to(ROOT))
)
def test_every_folder_says_what_it_is(folder):
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


def test_no_folder_is_a_drawer():
    """No more files than a reader can hold: a folder that has more has rooms to be found in it."""
    files = Counter(str(path.parent.relative_to(PACKAGE)) for path in MODULES)
    assert {folder: count for folder, count in files.items() if count > MOST_FILES} == {}


def _is_ours(path: Path) -> bool:
    """A module, or a folder with one: what a move left behind of caches is none."""
    return path.name != "__init__.py" and (path.suffix == ".py" or any(path.rglob("*.py")))


@pytest.mark.parametrize("path", MODULES + CODEGEN, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_go_down_the_layers(path):
    here, order = layer_of(name_of(path)), layers()
    for found in read(path).imports:
        module = _module(found.target)
        there = module and layer_of(module)
        if found.target == COMPILED:
            assert name_of(path) == "graph_runtime.binding.core", (
                f"line {found.line}: only binding/core.py imports it"
            )
        if here is None or there is None:
            continue
        assert order.index(there) <= order.index(here), f"line {found.line}: {here} imports {found.target}"
        if there == "codegen" != here:
            assert found.lazy, f"line {found.line}: codegen is imported where it is needed only"


def test_nothing_leads_to_ttnn_but_its_other_name():
    """ttnn/ is one of the system's faces: a user of it is outside of the package."""
    into = {n for n in PATHS if layer_of(n) != "ttnn" and any(layer_of(m) == "ttnn" for m in leads_to(n))}
    assert into == {"graph_runtime.compat.ttnn"}


def test_no_files_lead_to_each_other():
    assert circles({name: leads_to(name) for name in PATHS}) == []


@pytest.mark.parametrize(
    "folder", sorted({p.parent for p in MODULES}), ids=lambda p: str(p.relative_to(ROOT))
)
def test_no_parts_of_a_folder_lead_to_each_other(folder):
    prefix = ".".join(folder.relative_to(ROOT).parts)

    def part(name: str) -> str:
        return name[len(prefix) + 1 :].partition(".")[0]

    inside = [name for name in PATHS if name == prefix or name.startswith(f"{prefix}.")]
    arrows: dict[str, set[str]] = {}
    for name in inside:
        found = {part(other) for other in leads_to(name) if other in inside} - {part(name)}
        arrows.setdefault(part(name), set()).update(found)
    assert circles(arrows) == []


def circles(arrows: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """The sets of names that lead to each other (Tarjan's strongly connected components of more than one)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in arrows.get(name, ()):
            if other not in order:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in arrows:
        if name not in order:
            visit(name)
    return found


def asked(path: Path) -> tuple[str, ...]:
    """The names that a module asks of higher layers. Each must stand in the call, as a text."""
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    return tuple(
        ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func).endswith("provided")
    )


def test_what_climbs_is_few_and_its_reason_is_written():
    """base/providers.py lets a module call a higher one: the document's table has every name, the modules
    that ask and the one that answers, as the code has it."""
    top = ast.parse((PACKAGE / "__init__.py").read_text())
    (answers,) = (
        ast.literal_eval(node.value)
        for node in top.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_PROVIDERS"
    )
    askers: dict[str, list[str]] = {}
    for path in MODULES + CODEGEN:
        if "graph_runtime.base.providers" in {_module(found.target) for found in read(path).imports}:
            names = asked(path)
            assert names or layer_of(name_of(path)) is None, f"{path} imports providers and asks nothing"
            for name in names:
                askers.setdefault(name, []).append(path.relative_to(PACKAGE).with_suffix("").as_posix())
    found = {
        name: (", ".join(askers.get(name, [])), module.replace(".", "/"))
        for name, (module, _) in answers.items()
    }
    page = (ROOT / "docs" / "architecture.md").read_text()
    rows = re.findall(r"^\| `([a-z ]+)` \| ([a-z_/, ]+) \| ([a-z_/]+) \| (\S.{40,}) \|$", page, re.M)
    assert found == {name: (users, module) for name, users, module, _ in rows}
    assert askers.keys() == answers.keys()
    assert len(answers) <= MOST_CLIMBS


def test_a_name_that_is_asked_is_seen(tmp_path):
    path = tmp_path / "asks.py"
    path.write_text("from ..base import providers\nx = providers.provided('a')(provided('b').c)\n")
    assert sorted(asked(path)) == ["a", "b"]


def test_circles_are_found():
    assert circles({"a": "b", "b": "c", "c": "ad", "d": "e", "e": ""}) == [["a", "b", "c"]]


def test_the_checker_shares_no_code_with_the_passes():
    """Of planning it imports the values that it judges."""
    for name in PATHS:
        if name.startswith("graph_runtime.plan.checker"):
            used = {m.split(".")[2] for m in leads_to(name) if m.startswith("graph_runtime.plan.")}
            assert used <= {"types", "checker"}, f"{name} imports {sorted(used - {'types', 'checker'})}"


# **************** habits ****************


def test_nothing_unpickles_and_the_library_does_not_print():
    for name, path in PATHS.items():
        imported = {found.target.partition(".")[0] for found in read(path).imports}
        assert not imported & {"pickle", "marshal", "shelve"}, name
        assert not read(path).prints or layer_of(name) == "cli", f"{name} prints in {read(path).prints}"


def test_what_tests_need_is_imported_by_the_plugin_only():
    for name, path in PATHS.items():
        imported = {found.target.partition(".")[0] for found in read(path).imports}
        assert not imported & {"pytest", "hypothesis"} or name in PLUGINS, name


@pytest.mark.parametrize("path", MODULES + CODEGEN, ids=lambda p: str(p.relative_to(ROOT)))
def test_modules_and_functions_are_short(path):
    assert read(path).lines <= MOST_LINES
    for name, first, last in read(path).functions:
        assert last - first + 1 <= MOST_IN_FUNCTION, f"{name} has {last - first + 1} lines"
