"""What bounds a kernel on a tt board: the cycles that it would take if only its arithmetic, only the NoC or
only DRAM cost time. tt.py puts the same parts together."""

from __future__ import annotations

import math

from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import DRAM, L1, Layout
from ..ir.graph import Func, TensorType
from ..ir.ops.numerics import Numerics
from ..ir.ops.work import Product, tiles_of
from .grid import gemm, gemm_columns, gemm_parts, gemm_weights, tile_bytes
from .links import dram_cycles
from .noc import noc_cycles
from .node_work import work_of
from .rates import rates_of
from .tt import NO_FIDELITY, nbytes_moved, pass_cycles

__all__ = ["tt_limits"]


def tt_limits(
    func: Func,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    layouts: tuple[Layout, ...],
    board: Descriptor,
    fidelity: str = "",
) -> dict[str, float]:
    """{"math", "NoC", "DRAM": cycles} of a node; ``layouts`` of its inputs, then of its outputs. They overlap
    on the board, so the largest of them is what bounds the node."""
    work = work_of(func, inputs, outputs)
    fidelity = Numerics.of(func.attrs).fidelity or fidelity or NO_FIDELITY
    cores = board.grid[0] * board.grid[1]
    placed = list(zip((*inputs, *outputs), layouts, strict=True))
    math_cycles = sum(
        pass_cycles(one, layouts[-1].format, fidelity, board, cores).cycles for one in work.passes
    )
    spread = [(t, at) for t, at in placed if at.memory == L1 and at.shard is None]
    if work.product is not None:
        products, strips, stored = _product(work.product, layouts, fidelity, board)
        return {"math": math_cycles + products, "NoC": strips, "DRAM": stored}
    noc = 0.0
    if spread:
        count = math.ceil(sum(tiles_of(t.shape) for t, _ in spread) / cores)
        nbytes = max(tile_bytes(at.format) for _, at in spread)
        noc = noc_cycles(board.arch, nbytes=nbytes, transactions=count, rates=rates_of(board)).cycles
    dram = dram_cycles(
        board, sum(nbytes_moved(t, at) for t, at in placed if at.memory == DRAM), placed=False
    ).cycles
    return {"math": float(math_cycles), "NoC": float(noc), "DRAM": float(dram)}


def _product(
    product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor
) -> tuple[float, float, float]:
    """Cycles of products, strips and DRAM, for the cut of the grid that is fastest."""
    rows, columns = board.grid
    cores = rows * columns
    sharded = product.whole or (layouts[0].memory == L1 and layouts[-1].memory == L1)
    weights, found = gemm_weights(board.arch, rates_of(board)), []
    for grid in ((1, 1),) if product.whole else ((rows, columns), (cores, 1), (1, cores)):
        x = gemm_columns(
            m=product.m,
            k=product.k,
            n=product.n,
            format=layouts[0].format,
            fidelity=fidelity,
            grid=grid,
            sharded=sharded,
            tuned=True,
        )
        found.append((float(gemm(weights, x)), tuple(map(float, gemm_parts(weights, x)[:3]))))
    turns = product.turns(cores) if product.whole else 1
    products, strips, dram = min(found)[1]
    return products * turns, strips * turns, dram * turns
