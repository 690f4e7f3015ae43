"""The public surface: public modules state their names, and pages and examples use no others."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# docs/index.md lists them; costs, plan, plan.placing and rewrite serve what users bring of their own
PUBLIC = [
    "graph_runtime",
    "graph_runtime.compat.onnx_backend",
    "graph_runtime.compat.onnxruntime",
    "graph_runtime.compat.ttnn",
    "graph_runtime.compat.tvm",
    "graph_runtime.compat.tvm.contrib",
    "graph_runtime.compat.tvm.contrib.debugger",
    "graph_runtime.compat.tvm.contrib.graph_executor",
    "graph_runtime.compat.tvm.contrib.graph_runtime",
    "graph_runtime.costs",
    "graph_runtime.eager",
    "graph_runtime.errors",
    "graph_runtime.plan",
    "graph_runtime.plan.placing",
    "graph_runtime.rewrite",
    "graph_runtime.runtime",
    "graph_runtime.study",
    "graph_runtime.testing",
    "graph_runtime.torch",
]


def _module(name: str):
    if name in (
        "graph_runtime.torch",
        "graph_runtime.compat.onnx_backend",
        "graph_runtime.compat.onnxruntime",
    ):
        pytest.importorskip(name.rpartition(".")[2].removesuffix("_backend").removesuffix("runtime"))
    return importlib.import_module(name)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_module_states_names_that_it_has(name):
    module = _module(name)
    assert len(set(module.__all__)) == len(module.__all__)
    assert [one for one in module.__all__ if not hasattr(module, one)] == []


def test_the_index_lists_the_public_modules():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    roots = {
        ".".join(name.split(".")[: 3 if ".compat." in name or ".plan." in name else 2]) for name in PUBLIC
    }
    assert [name for name in sorted(roots) if f"`{name}`" not in text] == []


# **************** pages and examples ****************


def _sources() -> Iterator[tuple[str, str]]:
    for page in sorted(
        {*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")}
    ):
        blocks = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
        for at, block in enumerate(blocks):
            yield f"{page.relative_to(ROOT)}[{at}]", block
    for file in sorted((ROOT / "examples").rglob("*.py")):
        yield str(file.relative_to(ROOT)), file.read_text(encoding="utf-8")


SOURCES = dict(_sources())


@pytest.mark.parametrize("source", SOURCES)
def test_pages_and_examples_use_public_names_only(source):
    assert private_uses(SOURCES[source]) == []


def private_uses(text: str) -> list[str]:
    """The names of graph_runtime in Python text that no public module states."""
    tree, found, alias = ast.parse(text), [], {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for item in node.names:
                if item.name.split(".")[0] == "graph_runtime":
                    found += [] if item.name in PUBLIC else [item.name]
                    alias[item.asname or "graph_runtime"] = item.name if item.asname else "graph_runtime"
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "graph_runtime":
            for item in node.names:
                full = f"{node.module}.{item.name}"
                if full in PUBLIC:
                    alias[item.asname or item.name] = full
                elif node.module not in PUBLIC or item.name not in _module(node.module).__all__:
                    found.append(full)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in alias:
            full = f"{alias[node.value.id]}.{node.attr}"
            stated = alias[node.value.id] in PUBLIC and node.attr in _module(alias[node.value.id]).__all__
            if not stated and full not in PUBLIC and node.attr != "__version__":
                found.append(full)
    return found


def test_a_private_use_is_seen():
    assert private_uses("from graph_runtime.plan.record import record") == [
        "graph_runtime.plan.record.record"
    ]
    assert private_uses("import graph_runtime as gr\ngr.base.config") == ["graph_runtime.base"]
    assert private_uses("import graph_runtime.binding.core") == ["graph_runtime.binding.core"]
    assert (
        private_uses("import graph_runtime as gr\nfrom graph_runtime import eager\ngr.create(eager.add)")
        == []
    )
