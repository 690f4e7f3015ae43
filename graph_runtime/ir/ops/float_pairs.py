"""Functions of two and three floats that broadcast.

C contract: args are the inputs, then the output, which may be written over any of them. Attribute words: of a
triple its float attribute, the bits of a double. 16-bit floats are computed in float32 and rounded once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import rules
from .pointwise import binary


def _pair(name: str, doc: str, compute: Any, like: tuple[str, str], **more: Any) -> None:
    """An op of two floats. ``like``: its paces."""
    binary(
        name,
        doc,
        lambda a, b, attrs: compute(a, b),
        rules.TT_FLOATS,
        rules.FLOATS,
        nmse=rules.ROUNDED,
        pace=like,
        **more,
    )


# ---------------------------------------------------------------- two inputs

_pair(
    "hypot",
    "sqrt(a * a + b * b), which overflows only where the result does",
    np.hypot,
    ("function", "sqrt"),
    flops=4,
    torch="hypot",
)
_pair(
    "logaddexp2",
    "log2(2^a + 2^b), which overflows only where the result does",
    np.logaddexp2,
    ("function", "log"),
    flops=8,
    torch="logaddexp2",
)
_pair(
    "logaddexp",
    "log(exp(a) + exp(b)), which overflows only where the result does",
    np.logaddexp,
    ("function", "log"),
    flops=8,
    torch="logaddexp",
)
