"""Cycles of one op on one Tensix core, by the formulas and weights that TT-Buda published
(perf_lib/op_model). Buda's own balancer used these numbers; here they serve for ops that were not measured.
Formulas fitted to measurements are in opmodel.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..base.dtypes import FORMATS
from ..base.errors import PlanError, did_you_mean
from .weights_file import load

ARCHES = ("grayskull", "wormhole_b0", "blackhole")
PHASES = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}
_CEILING = 1 << 30
_SPARSE_HIFI = {"LoFi": 1.0, "HiFi2": 1.0, "HiFi3": 1.2, "HiFi4": 1.7}


@dataclass(frozen=True, slots=True)
class NonZero:
    """Counts of nonzero tiles, ublocks and strips in the whole left operand of a sparse matmul."""

    tiles: int
    ublocks: int
    strips: int


@dataclass(frozen=True, slots=True)
class Blocking:
    """Work of one core for one input. ``t``: number of blocks streamed. ``mblock``: (rows, columns) of a
    block in ublocks; ``ublock``: (rows, columns) of a ublock in tiles. ``m_k`` x ``u_kt``: number of tiles of
    the inner dimension. ``z``: depth that reduce_z reduces. ``formats``: formats of the inputs, then of the
    output."""

    t: int = 1
    mblock: tuple[int, int] = (1, 1)
    ublock: tuple[int, int] = (1, 1)
    m_k: int = 1
    u_kt: int = 1
    z: int = 1
    formats: tuple[str, ...] = ("bf16",)
    fidelity: str = "HiFi4"
    attributes: frozenset[str] = field(default_factory=frozenset)
    nonzero: NonZero | None = None

    @property
    def ublocks(self) -> int:
        """Number of ublocks of one macro block."""
        return self.mblock[0] * self.mblock[1]

    @property
    def ublock_tiles(self) -> int:
        return self.ublock[0] * self.ublock[1]

    @property
    def tiles(self) -> int:
        """Number of output tiles of one macro block."""
        return self.ublocks * self.ublock_tiles


def phases(fidelity: str) -> int:
    """Number of multiplier phases of a math fidelity: 1 (LoFi) to 4. Raises PlanError for an unknown name."""
    if fidelity not in PHASES:
        text = f"unknown fidelity {fidelity!r}{did_you_mean(fidelity, PHASES)}"
        raise PlanError(text, got=fidelity, wanted=list(PHASES))
    return PHASES[fidelity]


def known_ops(arch: str) -> tuple[str, ...]:
    """Ops that have published weights. Raises PlanError for an unknown architecture."""
    return tuple(_arch(arch))


def cycles(op: str, arch: str, block: Blocking) -> int:
    """Cycles that one core takes for one input, truncated to int as in Buda.

    Raises PlanError for an op, architecture or fidelity that has no weights.
    """
    table = _arch(arch)
    if op not in table:
        raise PlanError(
            f"no published cycles for op {op!r} on {arch}{did_you_mean(op, table)}", op=op, got=op
        )
    weights = _most_specific(table[op], block.attributes)
    model = {"matmul": _matmul, "depthwise": _matmul, "matmul_sparse": _sparse}.get(op, _streamed)
    return int(min(max(model(op, arch, block, weights), 0), _CEILING))


def _arch(arch: str) -> dict[str, Any]:
    table = load("buda")["params"]
    if arch not in table:
        raise PlanError(
            f"unknown architecture {arch!r}{did_you_mean(arch, table)}", got=arch, wanted=list(table)
        )
    return table[arch]


def _most_specific(keys: dict[str, dict[str, float]], attributes: Iterable[str]) -> dict[str, float]:
    """The weights under the key ("base", "approx/vector_r", ...) with the most attributes of the op."""
    has = set(attributes)
    parts = {key: set() if key == "base" else set(key.split("/")) for key in keys}
    return keys[max((k for k, p in parts.items() if p <= has), key=lambda k: len(parts[k]))]


def _matmul(op: str, arch: str, b: Blocking, w: dict[str, float]) -> float:
    n, tiles, phase = b.m_k * b.ublocks, b.ublock_tiles, phases(b.fidelity)
    if "m_k_weight" in w:  # Grayskull has three weights for a matmul
        math = n * b.u_kt * tiles * w["tile_weight"] * phase
        return b.t * ((b.m_k - 1) * w["m_k_weight"] + n * w["ublock_weight"] + math)
    rt, ct = b.ublock
    return b.t * (
        n * b.u_kt * tiles * phase * w["math_tiles_weight"]
        + (b.m_k - 1) * b.tiles * w["math_dest_spill_weight"]
        + n * w["unpack_ublocks_weight"]
        + n * b.u_kt * rt * (1 + ct) * w["unpack_tiles_weight"]
    )


def _streamed(op: str, arch: str, b: Blocking, w: dict[str, float]) -> float:
    """Cycles of unary, binary, reduce and splice ops: a cost per ublock and per tile."""
    binary = op in ("add", "subtract", "multiply")
    made = FORMATS[b.formats[-1]]
    wide = made.itemsize if binary and made.kind == "float" and made.itemsize else 1
    each = b.ublocks * w["ublock_weight"] + b.tiles * w["tile_weight"] * wide + w.get("z_weight", 0.0)
    return b.t * (b.z if "z_weight" in w else 1) * each


def _sparse(op: str, arch: str, b: Blocking, w: dict[str, float]) -> float:
    if b.nonzero is None:
        raise PlanError("matmul_sparse needs the counts of its nonzero tiles, ublocks and strips", op=op)
    made, lofi = FORMATS[b.formats[-1]].fit, b.fidelity == "LoFi"
    if arch == "wormhole_b0" and ((made == "bfp" and lofi) or (made == "fp16" and not lofi)):
        return _sparse_v2(b, w, b.nonzero)
    return _sparse_v1(b, w, b.nonzero)


def _sparse_v1(b: Blocking, w: dict[str, float], nz: NonZero) -> float:
    (mm, mn), (rt, ct) = b.mblock, b.ublock
    ublocks = nz.tiles / (b.t * rt * ct)
    sub = max(b.t * b.m_k * mm, ublocks)
    reload_one = w["reload_wait_pop"] + w["reload"] * ct * rt
    math = nz.tiles * mn * ct * w["tile_weight"] * phases(b.fidelity)
    reload = (sub * w["reload_config"] + ublocks * reload_one) * mn
    if b.m_k > 1:
        reload += mm * b.t * reload_one * mn
    pack = w["pack_wait_push"] * (sub - ublocks) * mn + w["pack"] * 2 * b.t * mn * mm * ct * rt
    decode = (
        nz.tiles * w["nz_tile_decode"] * (2 + mn) + sub * w["ublock_decode"] + ublocks * w["nz_ublock_decode"]
    )
    return math + reload + pack + decode


def _sparse_v2(b: Blocking, w: dict[str, float], nz: NonZero) -> float:
    (mm, mn), (rt, ct) = b.mblock, b.ublock
    math, reload, pack = _sparse_weights(b)
    return (
        nz.strips * mm * w["v2_ublock_decode"]
        + nz.ublocks * w["v2_nz_ublock_decode"]
        + nz.strips * w["v2_nz_strip_decode"]
        + int(nz.tiles * mn * ct * math * _SPARSE_HIFI[b.fidelity])
        + (b.m_k > 1) * nz.ublocks * mn * ct * rt * reload
        + b.t * mn * mm * ct * rt * pack
    )


def _sparse_weights(b: Blocking) -> tuple[float, float, float]:
    """Per-tile weights of (u_rt, u_ct, u_kt); a shape without weights uses the weights of the next smaller
    shape, where u_kt is reduced first."""
    table = load("buda")["sparse"]["lofi" if b.fidelity == "LoFi" else "hifi2"]
    keys = [tuple(map(int, key.split(","))) for key in table]
    below = [k for k in keys if k[0] <= b.ublock[0] and k[1] <= b.ublock[1] and k[2] <= b.u_kt]
    best = max(below, key=lambda k: (k[0] * k[1], k))
    return tuple(table[",".join(map(str, best))])
