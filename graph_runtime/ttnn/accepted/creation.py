"""What operations of operations/creation accept."""

from __future__ import annotations

from .rules import Given, Rule, accepts

_COUNTED = "BFLOAT16 FLOAT32 UINT16 UINT32 INT32"


def _counted(given: Given) -> str:
    kind = given.dtype
    return "" if kind is None or kind.name in _COUNTED.split() else "Unsupported dtype"


accepts(
    "arange",
    Rule(f"dtype: {_COUNTED.replace(' ', ', ')}", _counted),
    source="ttnn/cpp/ttnn/operations/creation/creation.cpp",
)
