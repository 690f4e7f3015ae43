"""Card programs of calls that look elements up by their indices."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ....costs import factories
from ....costs.factories import CardProgram
from ..call import Call, operand


def _embedded(call: Call) -> CardProgram:
    many = math.prod(call.first.shape) > call.cores
    return factories.embedded(operand(call.inputs[1]), call.made, many)


TABLE: dict[str, Callable[[Call], Any]] = {
    "embedding": _embedded,
}
