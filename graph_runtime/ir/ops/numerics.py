"""How a tt device computes: math fidelity, Dst mode, fast, exact or as ttnn; and the attribute words of it.

The ops of the matrix unit (matmul, dense, conv2d, add, subtract, multiply) have ATTRS; a node's own word
comes before the caller's or the file's for the device. No word: full products, float32 sums, one rounding
at the end, as HiFi4 with a 32-bit Dst; float32 tensors are then exact, too, and are cut to what SrcA and SrcB
hold only where a fidelity or a 16-bit Dst is named. Functions of the vector unit have NUMERICS alone: as its
kernels in ttnn compute them ("ttnn"), or right to the last place. On cpu they have no effect.

C contract: a tt body of such an op (Body.numerics) reads WORDS words after the op's own:
    [0] fidelity: phases of the multiplier, 1 LoFi .. 4 HiFi4, 0 none named   [1] bits of Dst: 16 or 32
    [2] 0 fast, 1 exact, 2 fast products and ttnn's functions, sums and elementwise products
    [3] grid rows [4] grid columns [5] t [6] direction: 1 R, 2 C, 3 RZ, 4 CZ [7] mblock rows [8] columns
    [9] ublock rows [10] ublock columns, in tiles [11] u_kt: tiles of K between two spills
    [12] bytes of L1 that its buffers take on a core
[3] to [12] are the blocking that a balancer chose; all 0: the kernel chooses. A body of functions
(Body.functions) reads one word there: 1 as ttnn, else 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from ...base.errors import did_you_mean
from .registry import Attr

__all__ = [
    "ATTRS",
    "NAMES",
    "NO_WORDS",
    "NUMERICS",
    "STREAM_DIRS",
    "WORDS",
    "Numerics",
    "function_words",
    "options_error",
    "tail",
]

FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")
NUMERICS = Attr(
    "numerics",
    "str",
    "",
    "fast or bit-exact arithmetic on tt, or as ttnn's kernels; empty: the device's",
    ("", "fast", "exact", "ttnn"),
)
ATTRS = (
    Attr("fidelity", "str", "", "math fidelity on tt; empty: the device's", ("", *FIDELITIES)),
    Attr("dst", "str", "", "what sums are kept in on tt; empty: the device's", ("", "fp32", "bf16")),
    NUMERICS,
)
_ARITHMETIC = {"": 0, "fast": 0, "exact": 1, "ttnn": 2}
# read by the balancer (plan/balance) only: no word of the call says it
STREAM_DIRS = Attr(
    "stream_dirs",
    "strs",
    None,
    "directions in which blocks may be streamed on tt; default: all that are legal",
    ("R", "C", "RZ", "CZ"),
)
_CHOICES = {a.name: a.choices for a in ATTRS}
NAMES = tuple(_CHOICES)
_DIRECTIONS = {"R": 1, "C": 2, "RZ": 3, "CZ": 4}
WORDS = 13
NO_WORDS = (0, 32, 0) + (0,) * 10


@dataclass(frozen=True, slots=True)
class Numerics:
    """What is named of a node's or a device's arithmetic; "" where nothing is."""

    fidelity: str = ""
    dst: str = ""
    numerics: str = ""

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Numerics:
        """Those of a node's decoded attributes; all empty for an op without them."""
        return cls(*(attrs.get(name, "") for name in _CHOICES))

    def over(self, other: Numerics) -> Numerics:
        """These where they are named, else ``other``'s."""
        return Numerics(*(a or b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def as_dict(self) -> dict[str, str]:
        """What is named, by the names that options have."""
        return {name: value for name, value in zip(_CHOICES, astuple(self), strict=True) if value}


def options_error(options: Mapping[str, Any]) -> str | None:
    """What is wrong with {"fidelity": ..., "dst": ..., "numerics": ...}, or None."""
    for name, value in options.items():
        if name not in _CHOICES:
            return f"there is no numerics option {name!r}{did_you_mean(name, _CHOICES)}"
        known = [c for c in _CHOICES[name] if c]
        if value not in known:
            return f"{name} {value!r} is unknown{did_you_mean(value, known)}"
    return None


def tail(numerics: Numerics, model: Any = None) -> tuple[int, ...]:
    """The WORDS words. ``model``: what a balancer chose (plan/balance), None: the kernel chooses.

    A model has grid (rows, columns), t, dir, mblock, ublock, u_kt and l1_bytes.
    """
    fidelity = FIDELITIES.index(numerics.fidelity) + 1 if numerics.fidelity else 0
    words = (fidelity, 16 if numerics.dst == "bf16" else 32, _ARITHMETIC[numerics.numerics])
    if model is None:
        return words + NO_WORDS[len(words) :]
    blocking = (
        *model.grid,
        model.t,
        _DIRECTIONS.get(model.dir, 0),
        *model.mblock,
        *model.ublock,
        model.u_kt,
        model.l1_bytes,
    )
    return words + tuple(int(word) for word in blocking)


def function_words(numerics: Numerics) -> tuple[int, ...]:
    """The word of a body of functions."""
    return (int(numerics.numerics == "ttnn"),)
