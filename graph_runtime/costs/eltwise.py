"""Device cycles of ttnn's elementwise ops over a whole grid, tensors interleaved in DRAM.

Tiles are dealt out evenly to all cores. A reader waits for the tiles of all operands, then passes them on; a
writer waits for its tile; both buffer two tiles. So each tile costs a wait and the time of its bytes, at
rates of the ttnn program; with more operands a tile has more bytes to move. Meanwhile the SFPU runs through
the kernel's blocks. Transport and SFPU overlap, less so with shallower buffers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

from ..base.dtypes import FORMATS
from ..base.errors import PlanError
from .grid import tile_bytes
from .rates import FITTED, BoardRates
from .types import Cost
from .weights_file import load

BLOCKS = ("exp", "recip", "sqrt", "log", "log1p", "poly", "range", "branch", "pass")
PROGRAMS = ("unary", "binary", "ternary")  # ttnn programs, named by the number of tensors that they read
_NONE: Mapping[str, int] = MappingProxyType({})

# Blocks of each op's kernel, by the methods that the tables of measured ops name (range reduction, Newton
# steps, degree of a polynomial). A tile runs both sides of a condition, so both count. Counts are estimates
# from the formulas, made with the measured times in view, not taken from tt-metal's kernels. ``exp`` includes
# its range reduction, ``recip``, ``sqrt`` and ``log1p`` their Newton steps, ``log`` the exponent and a cubic.
# ``range`` is the reduction of an angle, ``poly`` a dependent multiply-add with its constant, ``branch`` a
# predicated choice, ``pass`` one more way through DST. Counts after a bar are for the 32-bit mode, where code
# is longer. An op without a line, such as comparisons, rounding, sums and products, costs its transport only.
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

# Ops made of several successive ttnn programs, counted in ttnn's unary_backward.cpp and binary_backward.cpp
# (2026-09; cosh, sinh, erf and erfinv as they were before each became a single ttnn program). A line has the
# numbers of ttnn programs that read one, two and three tensors, and then the ttnn programs that have a kernel
# of their own. A backward op has one more ttnn program: the fill that makes its gradient.
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
    """Equal ttnn programs of an op. ``count``: their number. ``kind``: a word of PROGRAMS, which tells how
    many tensors each of them reads. ``kernel``: the name of their blocks; "" if they have no blocks."""

    kind: str
    kernel: str = ""
    count: int = 1


def blocks_of(kernel: str, wide: bool) -> Mapping[str, int]:
    """{block: number of times that a tile goes through it} for a kernel. ``wide``: whether results are kept
    in 32 bits."""
    return _kernels().get(kernel, (_NONE, _NONE))[wide]


def eltwise_programs(op: str, inputs: int, wide: bool) -> tuple[EltwiseProgram, ...]:
    """The ttnn programs of an op. ``op``: the op's name in ttnn, without the underscore of in-place ops."""
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
    """(name, blocks for 16 bits, blocks for 32 bits) of each line of a table, where blocks are (name,
    count)."""
    found = []
    for line in table.strip().splitlines():
        names, _, text = line.partition(":")
        sides = [[_counted(word) for word in side.split()] for side in text.split("|")]
        found += [(name, sides[0], sides[-1]) for name in names.split()]
    return found


def _counted(word: str) -> tuple[str, int]:
    name, _, count = word.partition("*")
    return name, int(count or 1)


Values = Mapping[str, Any]
_STANDS_FOR = {"grayskull": "wormhole_b0"}
_CLOCK = {"wormhole_b0": 1000, "blackhole": 1350}  # MHz of the measured boards
_CORES = {"wormhole_b0": 64, "blackhole": 130}
_ALONE = 0.1  # least share of the full-grid time per byte: links limit a few cores, too


def program_ns(w: Values, x: Values, eltwise_program: EltwiseProgram) -> float:
    """ns that one core takes per tile of a ttnn program; the time of the blocks and the time of the transport
    overlap."""
    arch = x["arch"]
    moved = w["transport"][arch][eltwise_program.kind]
    transport = moved["wait"] + x["bytes"] * moved["per_byte"] * x["busy"] / x["dram"]
    if x["in_place"]:
        transport *= w["in_place"]
    counts = blocks_of(eltwise_program.kernel, x["wide"])
    slots = sum(
        count * w["blocks"]["wide" if x["wide"] else "narrow"][name] for name, count in counts.items()
    )
    compute = slots * w["pace"][arch] * 1000 / _CLOCK[arch]
    sharp = w["sharp"][arch]
    least, most = sorted((transport, compute))
    return most * (1 + (least / most) ** sharp) ** (1 / sharp)


def eltwise(w: Values, x: Values) -> float:
    """ns of an op: the sum, over its ttnn programs, of the start and the time of the busiest core's tiles."""
    return sum(p.count * (w["start"] + program_ns(w, x, p) * x["turns"]) for p in x["eltwise_programs"])


def eltwise_columns(
    op: str,
    arch: str,
    *,
    tiles: int,
    inputs: int = 1,
    format: str = "bf16",
    in_place: bool = False,
    cores: int = 0,
    rates: BoardRates = FITTED,
) -> dict[str, Any]:
    """The ``x`` of eltwise(); parameters and errors as in eltwise_cycles."""
    known = _STANDS_FOR.get(arch, arch)
    if known not in _CLOCK:
        raise PlanError(f"there are no elementwise kernels of architecture {arch!r}", got=arch)
    cores = cores or _CORES[known]
    wide = tile_bytes(format) > 2048 and FORMATS[format].kind == "float"
    return {
        "arch": known,
        "eltwise_programs": eltwise_programs(op.removesuffix("_"), inputs, wide),
        "wide": wide,
        "bytes": tile_bytes(format),
        "in_place": in_place or op.endswith("_"),
        "turns": math.ceil(tiles / cores),
        "busy": max(min(tiles, cores) / _CORES[known], _ALONE),
        "dram": rates.dram,
    }


@lru_cache(maxsize=1 << 14)
def eltwise_cycles(
    op: str,
    arch: str,
    *,
    tiles: int,
    inputs: int = 1,
    format: str = "bf16",
    in_place: bool = False,
    cores: int = 0,
    clock_mhz: int = 0,
    rates: BoardRates = FITTED,
) -> Cost:
    """Device cycles of an elementwise op by its name in ttnn ("gelu", "add_", "asin_bw").

    ``tiles``: number of tiles of the result. ``inputs``: number of tensors of that size that the op reads.
    ``format``: format of all tensors. ``cores``, ``clock_mhz``: number of cores and clock of the board; 0:
    number of cores and clock of the measured board. Raises PlanError for an architecture without Tensix cores
    and for an unknown format.
    """
    x = eltwise_columns(
        op, arch, tiles=tiles, inputs=inputs, format=format, in_place=in_place, cores=cores, rates=rates
    )
    clock = clock_mhz or _CLOCK[x["arch"]]
    ns = eltwise(load("eltwise")["weights"], x)
    basis = "fitted" if arch == x["arch"] and format in ("bf16", "f32") else "extrapolated"
    if arch != x["arch"]:
        basis = "assumed"
    return Cost(ns * clock / 1000, basis, f"ttnn's {op} by blocks")
