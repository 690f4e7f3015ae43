"""Bits of elements: encode rounds floats to the codes of a format of 8 or 4 bits, bitcast reinterprets bits.

C contract of encode: args are x, out uint8. Attribute words:
    [0]         bits of the fraction
    [1]         bias of the exponent
    [2] .. [5]  codes, without the sign bit: of the largest number, of larger numbers, of infinity, of NaN
    [6]         number of the sign bit, -1 for a format that has powers of two only
    [7]         whether the format has a -0
    [8]         rounding: 0 nearest, 1 up, 2 down
C contract of bitcast: args are x, out; no attribute words.

Source of the rules: ONNX's Cast. A tie goes to the even code. With saturation, numbers that are too large and
infinity become the largest number; without it they become infinity, or NaN in formats without infinity. A
format of powers of two (e8m0) holds the magnitude of a number; magnitudes that are too small become the least
number of the format.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..cases import case
from ..registry import REQUIRED, Attr, define

_ROUNDINGS = ("nearest", "up", "down")


@dataclass(frozen=True, slots=True)
class SmallFloat:
    """A float format of at most 8 bits. ``digits``: bits of the fraction; ``bias``: bias of the exponent.
    ``most``, ``infinite``, ``nan``: codes, without the sign bit, of the largest number, infinity and NaN; 0
    if the format has no infinity or no NaN. ``sign``: number of the sign bit, -1 for a format without a sign.
    """

    digits: int
    bias: int
    most: int
    infinite: int
    nan: int
    sign: int
    negative_zero: bool = True

    @property
    def over(self) -> int:
        """The code of numbers that are too large, if such numbers are not saturated."""
        return self.infinite or self.nan or self.most

    @property
    def codes(self) -> int:
        """Number of codes."""
        return 256 if self.sign in (7, -1) else 1 << (self.sign + 1)

    def values(self) -> np.ndarray:
        """float32 [codes]: the number that each code means."""
        code = np.arange(self.codes)
        if self.sign < 0:
            found = np.ldexp(1.0, code - self.bias)
        else:
            size = code & ((1 << self.sign) - 1)
            exponent, fraction = size >> self.digits, size & ((1 << self.digits) - 1)
            whole = fraction + np.where(exponent > 0, 1 << self.digits, 0)
            found = np.ldexp(whole * 1.0, np.maximum(exponent, 1) - self.bias - self.digits)
            found = np.where(self.infinite and size == self.infinite, np.inf, found)
            found = np.where((size > self.most) & ~np.isinf(found), np.nan, found)
            found = np.where(code >> self.sign & 1, -found, found)
        if self.nan:
            found = np.where(code == self.nan, np.nan, found)
        return np.asarray(found, np.float32)


CODES = {
    "float8_e4m3fn": SmallFloat(3, 7, 0x7E, 0, 0x7F, 7),
    "float8_e4m3fnuz": SmallFloat(3, 8, 0x7F, 0, 0x80, 7, negative_zero=False),
    "float8_e5m2": SmallFloat(2, 15, 0x7B, 0x7C, 0x7E, 7),
    "float8_e5m2fnuz": SmallFloat(2, 16, 0x7F, 0, 0x80, 7, negative_zero=False),
    "float4_e2m1fn": SmallFloat(1, 1, 0x7, 0, 0, 3),
    "float8_e8m0fnu": SmallFloat(0, 127, 0xFE, 0, 0xFF, -1),
}


# ---------------------------------------------------------------- encode


def _infer(inputs, attrs):
    (x,) = inputs
    rules.one_dtype("encode", inputs, rules.FLOATS)
    if attrs["rounding"] != "nearest" and CODES[attrs["format"]].sign >= 0:
        rules.fail("encode", f"rounding {attrs['rounding']!r} is for powers of two, not {attrs['format']}")
    return [TensorType("uint8", x.shape)]


def _encode(arrays, attrs):
    """The code of the nearest value, found by search in a sorted table."""
    (x,), kind = arrays, CODES[attrs["format"]]
    if kind.sign < 0:
        return [_power(x.astype(np.float32), attrs)]
    wide, table = rules.wide(x), kind.values().astype(np.float64)[: kind.most + 1]
    size = np.abs(wide)
    step = float(table[-1] - table[-2])
    great = size >= table[-1] + step / 2  # a tie above the largest number: as if a next code existed
    if kind.most % 2 == 0:
        great = size > table[-1] + step / 2
    near = np.clip(np.searchsorted(table, size), 1, kind.most)
    below, above = size - table[near - 1], table[near] - size
    lower = (below < above) | ((below == above) & (near % 2 == 1))
    code = np.where(lower, near - 1, near)
    code = np.where(great, kind.most if attrs["saturate"] else kind.over, code)
    if kind.infinite and not attrs["saturate"]:
        code = np.where(np.isinf(size), kind.infinite, code)
    nan = np.isnan(wide)
    code = np.where(nan, kind.nan, code)
    signed = np.signbit(wide) & (code != kind.nan if not kind.negative_zero else True)
    signed &= (code != 0) | kind.negative_zero
    return [(code | np.where(signed, 1 << kind.sign, 0)).astype(np.uint8)]


def _power(x: np.ndarray, attrs: dict[str, Any]) -> np.ndarray:
    """Codes of float32 x in a format of powers of two: the exponent of x, plus one if x is rounded up."""
    fraction, exponent = np.frexp(np.abs(x).astype(np.float64))
    whole = fraction * 2 > 1  # not a power of two
    code = np.where(x == 0, 0, np.clip(exponent.astype(np.int64) - 1 + 127, 0, 254))
    tiny = np.abs(x) < 2.0**-126
    up = {"up": whole | (tiny & (x != 0)), "down": np.zeros(x.shape, bool)}.get(attrs["rounding"])
    if up is None:
        up = np.where(tiny, np.abs(x) > 2.0**-127, fraction * 2 >= 1.5)
    code = np.where(tiny, 0, code) + up
    code = np.minimum(code, 254 if attrs["saturate"] else 255)
    return np.where(np.isfinite(x), code, 255).astype(np.uint8)


def _words(inputs, outputs, attrs):
    kind, saturate = CODES[attrs["format"]], attrs["saturate"]
    over = kind.most if saturate else kind.over
    ends = (int(kind.negative_zero), _ROUNDINGS.index(attrs["rounding"]))
    return [kind.digits, kind.bias, kind.most, over, over, kind.nan, kind.sign, *ends]


define(
    "encode",
    "codes of a float format of 8 or 4 bits, one a byte",
    (1, 1),
    _infer,
    _encode,
    lambda i, o, a: 8 * o[0].size,
    attrs=(
        Attr("format", "str", REQUIRED, "the float format", tuple(CODES)),
        Attr("saturate", "bool", True, "numbers that are too great become the greatest one"),
        Attr("rounding", "str", "nearest", "rounding, of formats of powers of two alone", _ROUNDINGS),
    ),
    words=_words,
    bodies=rules.bodies("encode", rules.FLOATS),
    kind="windows",
    pace={"cpu": "scalar"},
    cases=tuple(
        case(
            f"{name}_{t}_{saturate}",
            (7, 33),
            {"format": name, "saturate": saturate},
            make=("normal",),
            nmse=rules.EXACT,
            dtype=t,
        )
        for name in CODES
        for t in rules.FLOATS
        for saturate in (True, False)
    )
    + tuple(
        case(how, (64,), {"format": "float8_e8m0fnu", "rounding": how}, nmse=rules.EXACT)
        for how in _ROUNDINGS
    ),
)


# ---------------------------------------------------------------- bitcast


def _bitcast_infer(inputs, attrs):
    (x,), to = inputs, attrs["to"]
    rules.one_dtype("bitcast", inputs, rules.ALL)
    if to not in dtypes.BY_DTYPE or dtypes.parse(to).itemsize != dtypes.parse(x.dtype).itemsize:
        rules.fail("bitcast", f"an element of {x.dtype} has another size than one of {to}", got=to)
    return [TensorType(to, x.shape)]


# each dtype, with the next dtype of its size
_PAIRS = [
    (a, same[(i + 1) % len(same)])
    for size in (1, 2, 4, 8)
    for same in [[d for d in rules.ALL if dtypes.parse(d).itemsize == size]]
    for i, a in enumerate(same)
]


def _bitcast(arrays, attrs):
    made = np.ascontiguousarray(arrays[0]).view(dtypes.to_numpy(attrs["to"])).reshape(arrays[0].shape)
    return [made.view(np.uint8).astype(bool) if attrs["to"] == "bool" else made.copy()]


define(
    "bitcast",
    "the same bits as elements of another dtype; as bool, whether any bit is set",
    (1, 1),
    _bitcast_infer,
    _bitcast,
    attrs=(Attr("to", "str", REQUIRED, "the dtype, of the same size"),),
    bodies=rules.bodies("bitcast", rules.ALL, suffix=rules.by_bytes),
    kind="windows",
    pace={"cpu": "simple"},
    cases=tuple(case(f"{a}_{b}", (a, (5, 36)), {"to": b}, nmse=rules.EXACT) for a, b in _PAIRS),
)
