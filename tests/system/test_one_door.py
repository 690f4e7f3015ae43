"""A source is looked at in one place: artifacts/door.py asks what it is, and no other module does.

Which error a model raises says by its class what is missing, not by the class's name.
"""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOOR = "graph_runtime/artifacts/door.py"
PREDICATES = {"is_onnx", "is_stablehlo", "is_model_file"}


def modules_with(*words):
    """{path: tree} of the modules that have one of these words."""
    for path in (*(ROOT / "graph_runtime").rglob("*.py"), *(ROOT / "codegen").glob("*.py")):
        text = path.read_text()
        if any(word in text for word in words):
            yield path.relative_to(ROOT).as_posix(), ast.parse(text)


def test_only_the_door_asks_what_a_source_is():
    asked = {}
    for name, tree in modules_with(*PREDICATES):
        if name.startswith("graph_runtime/frontends/"):
            continue
        for node in ast.walk(tree):
            word = getattr(node, "id", getattr(node, "attr", getattr(node, "name", None)))
            if word in PREDICATES:
                asked.setdefault(name, []).append(f"{word}, line {node.lineno}")
    assert asked.keys() == {DOOR}, asked


def test_no_module_compares_the_name_of_an_errors_class():
    found = [
        f"{name}:{node.lineno}"
        for name, tree in modules_with("__name__")
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare)
        and ast.unparse(node.left).endswith("__name__")
        and any(isinstance(c, ast.Constant) and str(c.value).endswith("Error") for c in node.comparators)
    ]
    assert found == []
