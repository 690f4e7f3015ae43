"""Cycles of one op on one Tensix core: the entry point of balancer and simulator."""

from __future__ import annotations

from . import buda
from .buda import Block, NonZero
from .types import Cost

__all__ = ["op_cycles"]


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
    block = Block(t, tuple(mblock), tuple(ublock), m_k, u_kt, z, tuple(formats), fidelity,
                  _attributes(op, formats, l1_acc, approx, vector_mode, dim), nonzero)
    return Cost(buda.cycles(op, arch, block), "extrapolated", f"Buda's published weights, {arch} {op}")


def _attributes(op, formats, l1_acc, approx, vector_mode, dim) -> frozenset[str]:
    """The attributes that Buda's weights are keyed by."""
    # int32 names the result of a matmul, the operand of an elementwise op
    integer = formats[-1] if op == "matmul" else formats[0]
    found = {
        "df_bfp": formats[0].startswith("bfp"),
        "df_int8": integer in ("int8", "uint8"),
        "df_int32": integer in ("int32", "uint32"),
        "l1_acc_en": l1_acc,
        "approx": approx,
        f"vector_{vector_mode}": vector_mode in ("r", "c"),
        f"dim_{dim}": dim is not None,
    }
    return frozenset(name for name, on in found.items() if on)
