"""Arithmetic of tt devices, and its attribute words: math fidelity, Dst mode, and numerics (fast, exact,
ttnn).

The ops of the matrix unit (matmul, dense, conv2d, add, subtract, multiply) have ATTRS. A node's own choice
has precedence over that of the caller or the file for the device. Without any choice products are full, sums
float32, and results rounded once at the end, as with HiFi4 and a 32-bit Dst. Products of float32 tensors are
then exact, too: operands are cut to the width of SrcA and SrcB only if a fidelity or a 16-bit Dst is chosen.

Functions of the vector unit have only NUMERICS: they are computed as by ttnn's kernels ("ttnn"), or right to
the last place. On cpu none of these attributes has an effect.

C contract: a tt body of such an op (Body.numerics) reads WORDS words after the op's own:
    [0]         fidelity: phases of the multiplier, 1 LoFi .. 4 HiFi4, 0 none chosen
    [1]         bits of Dst: 16 or 32
    [2]         0 fast, 1 exact, 2 fast products, but functions, sums and elementwise products as in ttnn
    [3] [4]     rows and columns of the grid
    [5]         t
    [6]         direction: 1 R, 2 C, 3 RZ, 4 CZ
    [7] [8]     rows and columns of an mblock
    [9] [10]    rows and columns of a ublock, in tiles
    [11]        u_kt: tiles of K between two spills
    [12]        bytes of L1 that the op's buffers take on a core
[3] to [12] are the blocking that a balancer chose; if all are 0, the kernel chooses. A body of functions
(Body.functions) reads a single word instead of all these: 1 for functions as in ttnn, else 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from ...base.errors import did_you_mean
from .registry import Attr

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
# attribute that only the balancer (plan/balance) reads; it is no word of the call
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
    """The arithmetic chosen for a node or a device; a field is "" if it is not chosen."""

    fidelity: str = ""
    dst: str = ""
    numerics: str = ""

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Numerics:
        """The choices in a node's decoded attributes; all "" for an op without these attributes."""
        return cls(*(attrs.get(name, "") for name in _CHOICES))

    def over(self, other: Numerics) -> Numerics:
        """These choices; fields not chosen are taken from ``other``."""
        return Numerics(*(a or b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def as_dict(self) -> dict[str, str]:
        """{option name: value} of the fields that are chosen."""
        return {name: value for name, value in zip(_CHOICES, astuple(self), strict=True) if value}


def options_error(options: Mapping[str, Any]) -> str | None:
    """What is wrong with {"fidelity": ..., "dst": ..., "numerics": ...}, as text; None if nothing is."""
    for name, value in options.items():
        if name not in _CHOICES:
            return f"there is no numerics option {name!r}{did_you_mean(name, _CHOICES)}"
        known = [c for c in _CHOICES[name] if c]
        if value not in known:
            return f"{name} {value!r} is unknown{did_you_mean(value, known)}"
    return None


def tail(numerics: Numerics, model: Any = None) -> tuple[int, ...]:
    """The WORDS attribute words. ``model``: the blocking chosen by the balancer (plan/balance); None: the
    kernel chooses.

    A model has the fields grid (rows, columns), t, dir, mblock, ublock, u_kt and l1_bytes.
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
    """The one attribute word of a body of functions."""
    return (int(numerics.numerics == "ttnn"),)
