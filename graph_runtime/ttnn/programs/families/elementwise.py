"""Card programs of elementwise calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....costs import factories
from ....costs.factories import CardProgram
from ..call import Call, operand


def _unary(call: Call) -> CardProgram:
    return factories.unary(call.first, call.made)


def _binary(call: Call) -> CardProgram:
    b = operand(call.inputs[1]) if len(call.inputs) > 1 else None
    return factories.binary(call.first, b, call.made)


MODULES: dict[str, Callable[[Call], Any]] = {  # module of operations/elementwise -> card program of a call
    "unary": _unary,
    "binary": _binary,
    "ternary": lambda call: factories.ternary([operand(x) for x in call.inputs[:3]], call.made),
}
TABLE: dict[str, Callable[[Call], Any]] = {
    "typecast": _unary,
}
