"""Which files say something about a data format, a device kind, a board or a command: those that define it,
and those that only name it.

    python tests/tools/entry_files.py [format|kind|board|command] [NAME...]      without names: all of them

A file defines something about an entry where it has a row or a key of its name, branches on its name, or has
C code for it; a file of data that is its entry does, too. A file that gives its name to a call, as a default
or in an example, only names it. A page has a row of it where a table's line begins with its name.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from pathlib import Path

from op_files import ROOT, Names, python_files

from graph_runtime.base import dtypes
from graph_runtime.base.machine import devices

# {kind of entry: files and folders that say other things by the same words}
_OTHER_WORDS = {
    "format": (
        "graph_runtime/ir/ops/registry.py",  # kinds of attributes: "bool"
        "graph_runtime/ir/ops/numerics.py",  # what Dst holds: "bf16"
        "graph_runtime/frontends/stablehlo/",  # what MLIR calls its types, which graphs take or refuse
    ),
    "kind": (
        "graph_runtime/ir/ops/",  # bodies and paces, which are the op's
        "graph_runtime/torch/",  # a front end of one kind, which torch calls "tt", beside torch's own "cpu"
    ),
    "board": (
        "graph_runtime/costs/",  # architectures, which are named after a board
        "graph_runtime/plan/balance/limits.py",
    ),
    "command": ("graph_runtime/",),  # functions have the names of what they do
}
_C = {
    "format": r"\bGR_{}\b",
    "kind": r'\.kind = "{}"',
    "board": r"\b{}\b",
    "command": r"(?!)",
}


class Entries(Names):
    """As op_files.Names, with several spellings of one entry, and branches on anything."""

    def __init__(self, spellings: dict[str, str]):
        super().__init__(set(spellings))
        self.spellings = spellings

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._inside += 1
        self.generic_visit(node)
        self._inside -= 1

    def visit_Compare(self, node: ast.Compare) -> None:
        for part in (node.left, *node.comparators):
            self._strings(part)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method == "startswith":  # a branch on a part of a name
            for name in self.known:
                for text in (n.value for n in ast.walk(node) if isinstance(n, ast.Constant)):
                    if isinstance(text, str) and len(text) > 1 and name.startswith(text):
                        self._add(name, True)
        super().visit_Call(node)

    def _add(self, name: str, defines: bool) -> None:
        super()._add(self.spellings[name], defines)


def entries() -> dict[str, dict[str, tuple[str, ...]]]:
    """{kind of entry: {name: its spellings}}."""
    from graph_runtime.cli.app import COMMANDS

    boards = devices.boards()
    words = {own.name: dtype for dtype, own in dtypes.BY_DTYPE.items()}
    return {
        "format": {name: (name, words[name]) if name in words else (name,) for name in dtypes.FORMATS},
        "kind": {d.kind: (d.kind,) for d in boards.values()},
        "board": {d.board: (d.board,) for d in boards.values() if d.simulated},
        "command": {name: (name,) for name in COMMANDS},
    }


def count(kind: str) -> dict[str, tuple[list[str], list[str]]]:
    """{entry of the kind: (files that define it, files that name it)}."""
    table = entries()[kind]
    spellings = {word: name for name, words in table.items() for word in words}
    defined: dict[str, set[str]] = {name: set() for name in table}
    named: dict[str, set[str]] = {name: set() for name in table}
    for path, tree in python_files():
        if not path.startswith(_OTHER_WORDS[kind] or ("-",)):
            found = Entries(spellings)
            found.visit(tree)
            for name, defines in found.found.items():
                (defined if defines else named)[name].add(path)
    for path in sorted((ROOT / "native").rglob("*.[ch]")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
        for name in table:
            if re.search(_C[kind].format(_c_name(name) if kind == "format" else name), text):
                defined[name].add(path.relative_to(ROOT).as_posix())
    for path in _data(kind):
        for name in _described(kind, path) & set(table):
            defined[name].add(path.relative_to(ROOT).as_posix())
    return {name: (sorted(defined[name]), sorted(named[name] - defined[name])) for name in table}


def _c_name(name: str) -> str:
    """As in enum gr_format: INT8 is I8, UINT8 U8."""
    return name.upper().replace("UINT", "U").replace("INT", "I")


def _data(kind: str) -> list[Path]:
    if kind == "command":
        return sorted((ROOT / "graph_runtime/cli").glob("*.py"))
    return sorted((ROOT / "schemas/devices").glob("*.json")) if kind in ("kind", "board") else []


def _described(kind: str, path: Path) -> set[str]:
    """The entries that a file of data is; of commands, those that a module is or has in a table."""
    if kind != "command":
        return {json.loads(path.read_text())[kind]}
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple | ast.List | ast.Set | ast.Dict):
            rows = node.value.keys if isinstance(node.value, ast.Dict) else node.value.elts
            words = (row.value for row in rows if isinstance(row, ast.Constant))
            names = {word.rstrip("_") for word in words if isinstance(word, str)}
            found |= names & {path.stem} if ast.unparse(node.targets[0]) == "__all__" else names
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", nargs="?", choices=("format", "kind", "board", "command"))
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    for kind in (given.kind,) if given.kind else ("format", "kind", "board", "command"):
        for name, (defines, names) in count(kind).items():
            if given.names and name not in given.names:
                continue
            print(f"{kind} {name}: {len(defines)} define it, {len(names)} name it")
            if given.names:
                print("".join(f"    {p}\n" for p in defines) + "".join(f"    ({p})\n" for p in names), end="")


if __name__ == "__main__":
    main()
