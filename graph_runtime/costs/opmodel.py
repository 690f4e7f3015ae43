"""Cycles of one op on one Tensix core: the entry point of balancer and simulator.

An op whose sweep was measured on an architecture in a format goes by the formula fitted to it
(weights/core.json); any other by Buda's published weights (buda.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..base.dtypes import FORMATS
from ..base.errors import PlanError
from . import buda
from .buda import Blocking, NonZero
from .formulas import FORMULAS
from .types import Cost
from .weights_file import load

__all__ = ["attributes_of", "columns_of", "key_of", "op_cycles", "tile_cycles"]

# ops on the matrix unit, whose time depends on the fidelity
_BY_FIDELITY = ("matmul", "matmul_sparse", "depthwise", "multiply")
# nothing was measured on Blackhole; its Tensix is Wormhole's successor and Buda's weights are Wormhole's too
_STANDS_FOR = {"blackhole": "wormhole_b0"}
_RICHEST = "wormhole_b0"  # has every op; stands for an architecture that lacks one


@lru_cache(maxsize=1 << 16)
def op_cycles(
    op: str,
    arch: str,
    *,
    t: int = 1,
    mblock: tuple[int, int] = (1, 1),
    ublock: tuple[int, int] = (1, 1),
    m_k: int = 1,
    u_kt: int = 1,
    z: int = 1,
    formats: tuple[str, ...] = ("bf16",),
    fidelity: str = "HiFi4",
    l1_acc: bool = False,
    approx: bool = False,
    vector_mode: str = "rc",
    dim: str | None = None,
    nonzero: NonZero | None = None,
) -> Cost:
    """Cycles that one core takes for one input of an op of TT-Buda's ("matmul", "matmul_sparse", "depthwise",
    "exp", "add", "nop", "reduce", "splice", ...) on arch ("grayskull", "wormhole_b0", "blackhole").

    Blocking as Buda has it: ``t`` blocks streamed, ``mblock`` (rows, columns) in ublocks, ``ublock`` (rows,
    columns) in tiles, K = ``m_k`` * ``u_kt`` tiles. ``formats``: of the inputs, then the output, by names of
    dtypes.FORMATS. ``vector_mode`` "r" or "c": of each tile only the first rows or columns are computed.
    ``dim``: of a reduce, "r" or "c". ``nonzero``: of a sparse matmul.

    Cost.cycles is in device cycles. Raises PlanError for an unknown op, architecture or fidelity.
    """
    choice = _choose(op, arch, formats, fidelity, l1_acc, approx, vector_mode, dim)
    if op == "matmul_sparse" and nonzero is None:
        raise PlanError("matmul_sparse needs the counts of its nonzero tiles, ublocks and strips", op=op)
    if choice.formula is None or choice.weights is None:
        block = Blocking(t, mblock, ublock, m_k, u_kt, z, formats, fidelity, choice.attributes, nonzero)
        return Cost(buda.cycles(op, choice.arch, block), choice.basis, choice.note)
    x = columns_of(t, mblock, ublock, m_k, u_kt, z, nonzero, choice.phases)
    return Cost(float(choice.formula(choice.weights, x)), choice.basis, choice.note)


def tile_cycles(op: str, arch: str, formats: tuple[str, ...], fidelity: str = "HiFi4") -> Cost:
    """Cycles of a core for each tile at an op's usual pace: the start and the handshakes of ublocks spread
    over many tiles."""
    dim = "r" if op == "reduce" else None
    block = op_cycles(op, arch, mblock=(4, 4), ublock=(2, 4), formats=formats, fidelity=fidelity, dim=dim)
    return Cost(block.cycles / 128, block.basis, block.note)


@dataclass(frozen=True, slots=True)
class _Choice:
    """What an op goes by: a formula with fitted weights, or (weights None) Buda's own for ``arch``."""

    arch: str
    phases: int
    basis: str
    note: str
    formula: Callable[..., float] | None = None
    weights: Mapping[str, float] | None = None
    attributes: frozenset[str] = frozenset()


@lru_cache(maxsize=1 << 12)
def _choose(
    op: str,
    arch: str,
    formats: tuple[str, ...],
    fidelity: str,
    l1_acc: bool,
    approx: bool,
    vector_mode: str,
    dim: str | None,
) -> _Choice:
    """A balancer asks for thousands of blockings of one op: what does not depend on them is looked up
    once."""
    phases, instead = buda.phases(fidelity), arch
    if op not in buda.known_ops(arch) and op in buda.known_ops(_RICHEST):
        instead = _RICHEST
    key = key_of(op, formats=formats, l1_acc=l1_acc, approx=approx, vector_mode=vector_mode, dim=dim)
    found = load("core")["fits"][_STANDS_FOR.get(instead, instead)].get(op, {}).get(key)
    if found is None:
        basis = "extrapolated" if instead == arch else "assumed"
        return _Choice(
            instead,
            phases,
            basis,
            f"Buda's published weights, {instead} {op}",
            attributes=attributes_of(op, formats, l1_acc, approx, vector_mode, dim),
        )
    covered = op not in _BY_FIDELITY or fidelity in found["fidelity"]
    basis = "fitted" if covered and arch not in _STANDS_FOR else "extrapolated"
    return _Choice(
        instead,
        phases,
        basis if instead == arch else "assumed",
        f"fit to the {_STANDS_FOR.get(instead, instead)} {op} sweep, {key}",
        FORMULAS[found["formula"]],
        found["weights"],
    )


def columns_of(
    t: int = 1,
    mblock: tuple[int, int] = (1, 1),
    ublock: tuple[int, int] = (1, 1),
    m_k: int = 1,
    u_kt: int = 1,
    z: int = 1,
    nonzero: NonZero | None = None,
    phases: int = 4,
) -> dict[str, float]:
    """The blocking by the names that formulas.py has for it."""
    x: dict[str, float] = {
        "t": t,
        "mm": mblock[0],
        "mn": mblock[1],
        "rt": ublock[0],
        "ct": ublock[1],
        "mk": m_k,
        "uk": u_kt,
        "z": z,
        "f": phases,
    }
    if nonzero is not None:
        x |= {"nt": nonzero.tiles, "nu": nonzero.ublocks, "ns": nonzero.strips}
    return x


def key_of(
    op: str,
    *,
    formats: tuple[str, ...],
    l1_acc: bool = False,
    approx: bool = False,
    vector_mode: str = "rc",
    dim: str | None = None,
    **others: Any,
) -> str:
    """The name of a fit within an op: class of formats, then what else tells sweeps apart ("fp16/l1_acc")."""
    parts = [class_of(formats[-1] if op in ("matmul", "matmul_sparse") else formats[0])]
    parts += [
        word
        for word, on in (
            ("l1_acc", l1_acc),
            ("approx", approx),
            (f"dim_{dim}", dim is not None),
            (f"vector_{vector_mode}", vector_mode != "rc"),
        )
        if on
    ]
    return "/".join(parts)


def class_of(name: str) -> str:
    """The class of formats that fits speak of."""
    return FORMATS[name].fit if name in FORMATS else name


def attributes_of(
    op: str,
    formats: tuple[str, ...],
    l1_acc: bool = False,
    approx: bool = False,
    vector_mode: str = "rc",
    dim: str | None = None,
) -> frozenset[str]:
    """The attributes that Buda's weights are keyed by."""
    # int32 names the result of a matmul, the operand of an elementwise op
    integer = formats[-1] if op == "matmul" else formats[0]
    has = {
        "df_bfp": class_of(formats[0]) == "bfp",
        "df_int8": class_of(integer) == "int8",
        "df_int32": class_of(integer) == "int32",
        "l1_acc_en": l1_acc,
        "approx": approx,
        f"vector_{vector_mode}": vector_mode in ("r", "c"),
        f"dim_{dim}": dim is not None,
    }
    return frozenset(name for name, on in has.items() if on)
