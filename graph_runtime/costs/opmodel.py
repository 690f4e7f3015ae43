"""Cycles of one op on one Tensix core: the entry point of balancer and simulator.

If an op was measured on an architecture in a format, its cycles come from the formula fitted to these
measurements (weights/core.json); else from Buda's published weights (buda.py).
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

# ops on the matrix unit, whose time depends on the fidelity
_BY_FIDELITY = ("matmul", "matmul_sparse", "depthwise", "multiply")
# Blackhole was not measured; its Tensix core is the successor of Wormhole's, and Buda's weights for both are
# the same
_STANDS_FOR = {"blackhole": "wormhole_b0"}
_RICHEST = "wormhole_b0"  # its weights have every op: it stands for architectures that lack one


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
    """Cycles of one core for one input of a TT-Buda op ("matmul", "matmul_sparse", "depthwise", "exp", "add",
    "nop", "reduce", "splice", ...) on arch ("grayskull", "wormhole_b0", "blackhole").

    Blocking is as in Buda: ``t`` blocks are streamed, ``mblock`` is (rows, columns) in ublocks, ``ublock`` is
    (rows, columns) in tiles, K is ``m_k`` * ``u_kt`` tiles. ``formats``: formats of the inputs, then of the
    output, named as in dtypes.FORMATS. ``vector_mode``: "r" or "c" if only the first rows or columns of each
    tile are computed. ``dim``: dimension of a reduce, "r" or "c". ``nonzero``: the counts of a sparse matmul.

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
    """Cycles of a core per tile of an op that runs on so many tiles that its start and the handshakes of
    ublocks hardly count."""
    dim = "r" if op == "reduce" else None
    block = op_cycles(op, arch, mblock=(4, 4), ublock=(2, 4), formats=formats, fidelity=fidelity, dim=dim)
    return Cost(block.cycles / 128, block.basis, block.note)


@dataclass(frozen=True, slots=True)
class _Choice:
    """Model of an op: a formula with fitted weights, or, if weights are None, Buda's own model for
    ``arch``."""

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
    """The model of an op, cached, because a balancer asks for thousands of blockings of one op."""
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
    """The blocking under the names that formulas.py uses."""
    (mm, mn), (rt, ct) = mblock, ublock
    x: dict[str, float] = dict(t=t, mm=mm, mn=mn, rt=rt, ct=ct, mk=m_k, uk=u_kt, z=z, f=phases)
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
    """The name of a fit within an op: the class of its formats, then the attributes that distinguish
    measurements, as in "fp16/l1_acc"."""
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
    """The class of formats to which a format belongs, in the words of the fits' names."""
    return FORMATS[name].fit if name in FORMATS else name


def attributes_of(
    op: str,
    formats: tuple[str, ...],
    l1_acc: bool = False,
    approx: bool = False,
    vector_mode: str = "rc",
    dim: str | None = None,
) -> frozenset[str]:
    """The attributes of an op that select Buda's weights."""
    # int32 is the result of a matmul, but the operand of an elementwise op
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
