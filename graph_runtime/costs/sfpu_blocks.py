"""What ttnn's elementwise kernels are made of: blocks that the SFPU runs through for each tile, and programs
that go to DRAM and back.

Blocks are counted by the methods that the tables of measured ops name (range reduction, Newton steps,
degree of a polynomial): a tile runs through both sides of a condition, so both count. They are estimates from
the formulas, made with the measured times in view, not read off tt-metal's kernels. ``exp``
has the range reduction, ``recip``, ``sqrt`` and ``log1p`` their Newton steps, ``log`` exponent and cubic,
``range`` the reduction of an angle; ``poly`` is a dependent multiply-add with its constant, ``branch`` a
predicated choice, ``pass`` one more way through DST. After a bar: in 32-bit mode, where code is longer. An
op that has no line costs its transport alone, as comparisons, rounding, sums and products do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

__all__ = ["BLOCKS", "PROGRAMS", "EltwiseProgram", "blocks_of", "programs_of"]

BLOCKS = ("exp", "recip", "sqrt", "log", "log1p", "poly", "range", "branch", "pass")
PROGRAMS = ("unary", "binary", "ternary")  # by how many tensors they read
_NONE: Mapping[str, int] = MappingProxyType({})

_KERNELS = """
acos asin: sqrt poly*6 branch*2 | sqrt poly*12 branch*2
acosh: sqrt log1p poly*2 branch*2
asinh: poly*6 sqrt recip log1p branch*3 pass | poly*10 sqrt recip log1p branch*3 pass
atan: recip poly*3 branch*2 | recip poly*8 branch*2
atan2: recip poly*3 branch*4 | recip poly*8 branch*4
atanh: recip log1p branch*2
cbrt: sqrt poly*2
celu elu selu: exp branch poly
cos sin: range poly*3 | range poly*4
cosh sinh: exp recip poly*2 branch
digamma: log recip poly*12 branch*2
divide rdiv reciprocal: recip
erf erfc: poly*12 branch*3 | poly*32 recip branch*2
erfinv: log sqrt*2 poly*4 branch*2
exp: exp
exp2: exp poly
expm1: exp poly*2 branch
fmod remainder: recip poly*4 branch*4
gelu: exp poly*20 branch*3 | recip poly*32 branch*2
gelu_bw: exp poly*34 branch*3
hypot: sqrt poly*2
i0 i1: exp sqrt recip poly*20 branch*2
lgamma: recip*6 log*2 poly*14 pass*6 branch*3
log: log branch
log10 log2: log branch poly
log1p: log1p branch
log_sigmoid: exp log branch*2 pass*2
logaddexp: exp*2 log poly pass*3
logaddexp2: exp*2 log poly*3 pass*4
logit: recip log poly branch*2 pass*4
mish: exp log1p poly*6 pass*4
polygamma: recip*10 exp*2 log*2 poly*20 pass*8
pow rpow: log exp poly*6 branch*4
rsqrt: sqrt poly
sigmoid sigmoid_accurate: exp recip
silu swish: exp recip poly
softplus: poly*6 branch*2 | poly*8 exp branch*2
softshrink hardshrink: branch*2 pass
softsign: recip poly
sqrt: sqrt
tan: range poly*4 recip branch | range poly*6 recip branch
tanh: poly*6 branch | exp recip poly*2
tanhshrink: poly*7 branch pass | exp recip poly*3 pass
xielu: exp poly*8 branch*4 pass*3
xlogy: log poly branch
"""

# Ops that are several programs, one after the other, counted in ttnn's unary_backward.cpp and
# binary_backward.cpp (2026-09; cosh, sinh, erf and erfinv as they were before single programs of them were
# joined). Programs of one tensor, of two and of three, and those with a kernel of their own. A backward op
# has one more, the fill that makes its gradient.
_COMPOSITES = """
div_no_nan: unary binary divide/binary | unary*2 binary divide/binary
multigammaln: lgamma*4 unary*4 binary*3
nextafter: unary*4 binary*3
abs_bw relu_bw square_bw: unary*2 binary
acosh_bw: unary*12 rsqrt binary*6 ternary
asin_bw: unary*11 rsqrt binary*3 ternary*2
asinh_bw: unary rsqrt binary
atan_bw: unary reciprocal binary
atanh_bw: unary*7 reciprocal binary*8
clip_bw hardsigmoid_bw: unary*4 binary*2
cosh_bw: unary*9 sinh binary*3 ternary*2
digamma_bw polygamma_bw: unary*7 polygamma binary*7
erf_bw erfc_bw: unary*4 exp binary
erfinv_bw: unary*10 erfinv exp binary*3 ternary*2
exp_bw expm1_bw: unary exp binary
exp2_bw: unary*2 exp2 binary
gelu_bw: unary gelu_bw/binary
hardswish_bw: unary*5 binary*2 ternary
hypot_bw: unary reciprocal hypot/binary binary*4
leaky_relu_bw: unary*3 ternary
lgamma_bw: unary digamma binary
log10_bw log2_bw: unary*7 reciprocal binary*3 ternary
logaddexp_bw: unary*3 exp*2 reciprocal*2 binary*4
logaddexp2_bw: unary*3 rpow*2 reciprocal*2 binary*4
logiteps_bw: unary*12 reciprocal binary*4 ternary*2
max_bw min_bw: unary*5 binary*6
mul_bw: unary binary*2
multigammaln_bw: unary*4 digamma*4 binary*7
pow_bw: unary*4 binary*2
rdiv_bw: unary*9 reciprocal binary*6
reciprocal_bw: unary*8 reciprocal binary*2 ternary
relu6_bw: unary*3 binary*2
rpow_bw: unary*5 binary*2
rsqrt_bw: unary*6 rsqrt pow binary*5
selu_bw: unary*4 exp binary ternary
sin_bw: unary cos binary
sinh_bw: unary*7 cosh binary*3 ternary*2
xlogy_bw: unary*9 log reciprocal binary*8 ternary
"""


@dataclass(frozen=True, slots=True)
class EltwiseProgram:
    """``count`` programs that read tensors as ``kind`` of PROGRAMS says, each with the blocks of ``kernel``,
    "": none."""

    kind: str
    kernel: str = ""
    count: int = 1


def blocks_of(kernel: str, wide: bool) -> Mapping[str, int]:
    """How often a tile goes through each block. ``wide``: results are kept in 32 bits."""
    return _kernels().get(kernel, (_NONE, _NONE))[wide]


def programs_of(op: str, inputs: int, wide: bool) -> tuple[EltwiseProgram, ...]:
    """The programs of an op, by its name in ttnn without the underscore of those in place."""
    known = _composites().get(op)
    return (EltwiseProgram(PROGRAMS[min(max(inputs, 1), 3) - 1], op),) if known is None else known[wide]


@cache
def _kernels() -> dict[str, tuple[Mapping[str, int], Mapping[str, int]]]:
    return {name: (dict(short), dict(long)) for name, short, long in _lines(_KERNELS)}


@cache
def _composites() -> dict[str, tuple[tuple[EltwiseProgram, ...], tuple[EltwiseProgram, ...]]]:
    return {name: (_programs(short), _programs(long)) for name, short, long in _lines(_COMPOSITES)}


def _programs(words: list[tuple[str, int]]) -> tuple[EltwiseProgram, ...]:
    found = []
    for word, count in words:
        kernel, _, kind = word.partition("/")
        found.append(
            EltwiseProgram(word, "", count)
            if word in PROGRAMS
            else EltwiseProgram(kind or "unary", kernel, count)
        )
    return tuple(found)


def _lines(table: str) -> list[tuple[str, list[tuple[str, int]], list[tuple[str, int]]]]:
    """(name, words of 16 bits, words of 32 bits), each word with how often."""
    found = []
    for line in table.strip().splitlines():
        names, _, text = line.partition(":")
        sides = [[_counted(word) for word in side.split()] for side in text.split("|")]
        found += [(name, sides[0], sides[-1]) for name in names.split()]
    return found


def _counted(word: str) -> tuple[str, int]:
    name, _, count = word.partition("*")
    return name, int(count or 1)
