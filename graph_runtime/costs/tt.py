"""ns of a node on a tt board, from its work and the layouts of what it reads and writes. Dispatch comes on
top (links.dispatch_ns)."""

from __future__ import annotations

import math
from functools import lru_cache

from ..descriptors import Descriptor
from ..graph import Func, TensorType
from ..layout import DRAM, L1, TILE, Layout
from ..ops.numerics import Numerics
from .formulas import pnorm
from .grid import gemm_cycles, sharded_matmul_cycles, tile_bytes
from .links import dram_cycles
from .noc import noc_cycles
from .opmodel import op_cycles
from .types import Cost, worst
from .weights_file import load
from .work import Pass, Product, tiles_of, work_of

__all__ = ["modelled_node_cost", "tt_node_cost"]

Types = tuple[TensorType, ...]
# a macro block that shows an op's pace: handshakes of ublocks and start spread over many tiles
_PACE = {"mblock": (4, 4), "ublock": (2, 4)}
_PACE_TILES = 4 * 4 * 2 * 4
_SHARP = 8.0
_NO_FIDELITY = "HiFi4"  # what a node computes with that names none
_OPERANDS = {"add": 2, "subtract": 2, "multiply": 2, "maximum": 2}


@lru_cache(maxsize=1 << 14)
def tt_node_cost(
    func: Func, inputs: Types, outputs: Types, layouts: tuple[Layout, ...], board: Descriptor
) -> Cost:
    """ns of one kernel over the whole grid (ttnn's way). ``layouts``: of the inputs, then of the outputs."""
    work = work_of(func, inputs, outputs)
    fidelity = Numerics.of(func.attrs).fidelity or _NO_FIDELITY
    cores = board.grid[0] * board.grid[1]
    done: list[Cost] = []
    if work.product is not None:
        done.append(_product(work.product, layouts, fidelity, board))
    done += [_pass(one, layouts[-1].format, fidelity, board, cores) for one in work.passes]
    basis = worst(*(c.basis for c in done))
    cycles = sum(c.cycles for c in done)
    if work.product is None:
        start = load("grid")["unary"]["weights"]["start_dram" if layouts[0].memory == DRAM else "start_l1"]
        moved = _moved(inputs + outputs, layouts, board, cores)
        cycles = start + pnorm(_SHARP, cycles, moved.cycles)
        basis = worst(basis, moved.basis, "extrapolated")
    return Cost(cycles * 1000 / board.clock_mhz, basis, "; ".join(dict.fromkeys(c.note for c in done)))


def _pass(one: Pass, format: str, fidelity: str, board: Descriptor, cores: int) -> Cost:
    """Cycles of the busiest core for its tiles."""
    formats = (format,) * (_OPERANDS.get(one.op, 1) + 1)
    dim = "r" if one.op == "reduce" else None
    block = op_cycles(one.op, board.arch, formats=formats, fidelity=fidelity, dim=dim, **_PACE)
    return Cost(math.ceil(one.tiles / cores) * block.cycles / _PACE_TILES, block.basis, block.note)


def _moved(types: Types, layouts: tuple[Layout, ...], board: Descriptor, cores: int) -> Cost:
    """Cycles until all tensors went between their memories and the cores. Of a sharded tensor each core has
    its part."""
    in_dram = sum(_nbytes(t, at) for t, at in zip(types, layouts, strict=True) if at.memory == DRAM)
    pages = sum(
        tiles_of(t.shape)
        for t, at in zip(types, layouts, strict=True)
        if at.memory == L1 and at.shard is None
    )
    dram = dram_cycles(board, in_dram, placed=False)
    if not pages:
        return dram
    page = max(_page_bytes(at) for at in layouts if at.memory == L1)
    noc = noc_cycles(board.arch, nbytes=page, transactions=math.ceil(pages / cores))
    return Cost(pnorm(2.0, max(dram.cycles, 1e-9), noc.cycles), worst(dram.basis, noc.basis), noc.note)


def _page_bytes(layout: Layout) -> int:
    return tile_bytes(layout.format)


def _nbytes(one: TensorType, layout: Layout) -> int:
    """Bytes that are moved of a tensor: whole tiles, or its rows."""
    if layout.layout == TILE:
        return tiles_of(one.shape) * tile_bytes(layout.format)
    return one.size * tile_bytes(layout.format) // 1024


def _product(product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor) -> Cost:
    """Cycles of a product on the grid cut both ways, by rows only or by columns only, whichever is
    fastest."""
    rows, columns = board.grid
    left, out = layouts[0], layouts[-1]
    if (
        left.shard is not None
        and left.shard.kind == "height"
        and board.arch == "wormhole_b0"
        and left.format == "bf16"
        and product.batch == 1
    ):
        return _gather(
            product, sharded_matmul_cycles(product.m, product.k, product.n, left.shard.cores), board
        )
    in_l1 = left.memory == L1 and out.memory == L1
    each = Product(1, product.m, product.k, product.n)
    if product.batch > 1:  # whole products spread over the cores, each on one
        in_l1, grids = True, ((1, 1),)
        turns = math.ceil(product.batch / (rows * columns))
    else:
        grids, turns = ((rows, columns), (rows * columns, 1), (1, rows * columns)), 1
    costs = [
        gemm_cycles(
            board.arch,
            each.m,
            each.k,
            each.n,
            format=left.format,
            fidelity=fidelity,
            grid=grid,
            sharded=in_l1,
        )
        for grid in grids
    ]
    best = min(costs, key=lambda c: c.cycles)
    basis = best.basis if best is costs[0] and product.batch == 1 else worst(best.basis, "extrapolated")
    return _gather(product, Cost(best.cycles * turns, basis, best.note), board)


def _gather(product: Product, cost: Cost, board: Descriptor) -> Cost:
    """With the windows of a convolution, which the cores read from each other's L1 meanwhile."""
    if not product.gathered:
        return cost
    elements = product.m * product.k / (board.grid[0] * board.grid[1])
    reads = noc_cycles(board.arch, nbytes=2048, transactions=max(1, math.ceil(elements * 2 / 2048)))
    return Cost(
        pnorm(_SHARP, cost.cycles, reads.cycles),
        worst(cost.basis, "extrapolated"),
        f"{cost.note}, windows gathered",
    )


# ---------------------------------------------------------------- ops resident on cores


def modelled_node_cost(
    kernel_cycles: float,
    queue_bytes: tuple[int, ...],
    noc_bytes: tuple[int, ...],
    board: Descriptor,
    *,
    readers: int = 1,
) -> Cost:
    """ns of one input of an op that TT-Buda's balancer cut (its op model's ``kernel_cycles``): the kernel,
    or the slowest of its buffers. ``queue_bytes``: of one core, by buffer, that come from or go to DRAM;
    ``noc_bytes``: to or from other ops. ``readers``: cores of the epoch that use DRAM."""
    board_dram = dram_cycles(board, 1)
    share = max(2.0, readers / (board.memory(DRAM).banks / 1.5))
    dram_rate = 1.0 / board_dram.cycles / board.memory(DRAM).banks / share
    flit = board.noc.flit_bytes if board.noc else 32
    limits = [kernel_cycles, *(b / dram_rate for b in queue_bytes), *(b / (flit / 2) for b in noc_bytes)]
    basis = "fitted" if max(limits) == kernel_cycles else "extrapolated"
    return Cost(max(limits) * 1000 / board.clock_mhz, basis, "the kernel or its slowest buffer")
