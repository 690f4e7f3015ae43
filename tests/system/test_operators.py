"""Mathematics is written with a Value's operators and methods: `a * b`, not `emitter.op("multiply", a, b)`.

The ops that Value has something for are found by calling it.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from graph_runtime.ir.value import Value, where

PACKAGE = Path(__file__).resolve().parents[2] / "graph_runtime"
ROOMS = ("compositions", "frontends", "rewrite", "torch", "ttnn")  # folders that are done
EMITTERS = {"w"}  # functions that emit the op that they are given by name, as `x.op` and `ctx.op` do
NO_OPERATORS = {"op", "emit", "scalar", "full_like"}


class Recorder(Value):
    """A value that notes which ops its operators and methods emit, and with which attributes."""

    def __init__(self, dtype: str, ops: dict[str, set[str]]):
        self._dtype, self.ops = dtype, ops

    @property
    def dtype(self) -> str:
        return self._dtype

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> Recorder:
        self.ops.setdefault(op, set()).update(attrs)
        return self


def spelled() -> dict[str, set[str]]:
    """{op that Value has an operator or method for: the attributes that it takes there}"""
    ops: dict[str, set[str]] = {}
    for x in (Recorder("float32", ops), Recorder("bool", ops)):
        for name, method in vars(Value).items():
            if not inspect.isfunction(method) or name in NO_OPERATORS:
                continue
            if name.startswith("_") and not name.endswith("__"):
                continue
            needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
            if name != "__getitem__":  # its parts are moves
                method(x, *[x] * (len(needed) - 1))
        where(x, x, x)
    return ops


SPELLED = spelled()


def prefix_calls(source: str) -> Iterator[str]:
    """Calls by name of ops that Value has an operator or method for."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
            continue
        called = node.func
        if not (
            (isinstance(called, ast.Attribute) and called.attr == "op")
            or (isinstance(called, ast.Name) and called.id in EMITTERS)
        ):
            continue
        op, attrs = node.args[0].value, {keyword.arg for keyword in node.keywords}
        if op in SPELLED and attrs <= SPELLED[op]:
            yield f"line {node.lineno}: {ast.unparse(node)}"


def test_ops_that_values_spell() -> None:
    assert {"multiply", "where", "less", "logical_or", "bitwise_or", "cast", "sum", "sigmoid"} <= set(SPELLED)
    assert SPELLED["sum"] == {"axes", "keepdims"}
    assert not {"slice", "softmax", "reshape"} & set(SPELLED)


@pytest.mark.parametrize(
    "line",
    ['ctx.op("add", a, b)', 'w("where", c, a, b)', 'x.op("sum", axes=[1])', 'self.e.op("cast", x, to=t)'],
)
def test_prefix_forms_are_found(line: str) -> None:
    assert list(prefix_calls(f"y = {line}"))


@pytest.mark.parametrize("line", ['ctx.op("matmul", a, b, transpose_b=True)', 'x.op("softmax", axis=-1)'])
def test_other_ops_are_not(line: str) -> None:
    assert not list(prefix_calls(f"y = {line}"))


@pytest.mark.parametrize("room", ROOMS)
def test_mathematics_is_in_infix(room: str) -> None:
    found = [
        f"{path.relative_to(PACKAGE)} {call}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for call in prefix_calls(path.read_text())
    ]
    assert not found, "\n".join(found)
