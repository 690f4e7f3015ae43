"""ns of a node on a tt board, from its work and the layouts of what it reads and writes. Dispatch comes on
top (links.dispatch_ns)."""

from __future__ import annotations

import math
from functools import lru_cache

from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import DRAM, L1, TILE, Layout
from ..ir.graph import Func, TensorType
from ..ir.ops import registry
from ..ir.ops.numerics import Numerics
from ..ir.ops.work import Pass, Product, tiles_of
from .eltwise import eltwise_cycles
from .formulas import pnorm
from .grid import gemm_cycles, sharded_matmul_cycles, tile_bytes
from .links import dram_cycles
from .noc import noc_cycles
from .node_work import work_of
from .opmodel import tile_cycles
from .rates import rates_of
from .types import Cost, worst
from .weights_file import load

__all__ = ["NO_FIDELITY", "modelled_node_cost", "nbytes_moved", "pass_cycles", "tt_node_cost"]

Types = tuple[TensorType, ...]
_SHARP = 8.0
NO_FIDELITY = "HiFi4"  # what a node computes with that names none
_OPERANDS = {"add": 2, "subtract": 2, "multiply": 2, "maximum": 2}


@lru_cache(maxsize=1 << 14)
def tt_node_cost(
    func: Func,
    inputs: Types,
    outputs: Types,
    layouts: tuple[Layout, ...],
    board: Descriptor,
    fidelity: str = "",
) -> Cost:
    """ns of one kernel over the whole grid (ttnn's way). ``layouts``: of the inputs, then of the outputs.
    ``fidelity``: of a func that names none, "": the default."""
    if (found := _elementwise(func, inputs, outputs, layouts, board)) is not None:
        return found
    work = work_of(func, inputs, outputs)
    fidelity = Numerics.of(func.attrs).fidelity or fidelity or NO_FIDELITY
    cores = board.grid[0] * board.grid[1]
    done: list[Cost] = []
    if work.product is not None:
        done.append(_product(work.product, layouts, fidelity, board))
    done += [pass_cycles(one, layouts[-1].format, fidelity, board, cores) for one in work.passes]
    basis = worst(*(c.basis for c in done), "fitted" if work.known else "assumed")
    cycles = sum(c.cycles for c in done)
    if work.product is None:
        start = load("grid")["unary"]["weights"]["start_dram" if layouts[0].memory == DRAM else "start_l1"]
        moved = _moved(inputs + outputs, layouts, board, cores)
        cycles = start + pnorm(_SHARP, cycles, moved.cycles)
        basis = worst(basis, moved.basis, "extrapolated")
    return Cost(cycles * 1000 / board.clock_mhz, basis, "; ".join(dict.fromkeys(c.note for c in done)))


def _elementwise(
    func: Func, inputs: Types, outputs: Types, layouts: tuple[Layout, ...], board: Descriptor
) -> Cost | None:
    """ns of an op that is one of ttnn's programs: elementwise, nothing fused to it, floats in tiles that are
    interleaved in DRAM. None for any other. Inputs that broadcast have few tiles, and do not count."""
    op = registry.get(func.op or "")
    if op is None or op.kind != "elementwise" or board.stack != "ttnn" or func.attrs.get(op.program):
        return None
    plain = all(at.memory == DRAM and at.layout == TILE and at.shard is None for at in layouts)
    if not plain or len({at.format for at in layouts}) > 1:
        return None
    tiles = tiles_of(outputs[0].shape)
    cost = eltwise_cycles(
        next(iter(op.ttnn), op.name),
        board.arch,
        tiles=tiles,
        inputs=sum(tiles_of(t.shape) == tiles for t in inputs),
        format=layouts[-1].format,
        cores=board.grid[0] * board.grid[1],
        clock_mhz=board.clock_mhz,
        rates=rates_of(board),
    )
    return Cost(cost.cycles * 1000 / board.clock_mhz, cost.basis, cost.note)


def pass_cycles(one: Pass, format: str, fidelity: str, board: Descriptor, cores: int) -> Cost:
    """Cycles of the busiest core for its tiles."""
    tile = tile_cycles(one.op, board.arch, (format,) * (_OPERANDS.get(one.op, 1) + 1), fidelity)
    return Cost(one.turns(cores) * tile.cycles, tile.basis, tile.note)


def _moved(types: Types, layouts: tuple[Layout, ...], board: Descriptor, cores: int) -> Cost:
    """Cycles until all tensors went between their memories and the cores. Of a sharded tensor each core has
    its part."""
    placed = list(zip(types, layouts, strict=True))
    dram = dram_cycles(board, sum(nbytes_moved(t, at) for t, at in placed if at.memory == DRAM), placed=False)
    spread = [(t, at) for t, at in placed if at.memory == L1 and at.shard is None]
    if not spread:
        return dram
    pages = math.ceil(sum(tiles_of(t.shape) for t, _ in spread) / cores)
    nbytes = max(tile_bytes(at.format) for _, at in spread)
    noc = noc_cycles(board.arch, nbytes=nbytes, transactions=pages, rates=rates_of(board))
    return Cost(pnorm(2.0, dram.cycles, noc.cycles), worst(dram.basis, noc.basis), noc.note)


def nbytes_moved(one: TensorType, layout: Layout) -> int:
    """Bytes that are moved of a tensor: whole tiles, or its rows."""
    if layout.layout == TILE:
        return tiles_of(one.shape) * tile_bytes(layout.format)
    return one.size * tile_bytes(layout.format) // 1024


def _product(product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor) -> Cost:
    """Cycles of a product, with the windows of a convolution, which the cores read from each other's L1
    meanwhile."""
    cost = _spread(product, layouts, fidelity, board)
    if not product.gathered:
        return cost
    nbytes = 2 * product.m * product.k / (board.grid[0] * board.grid[1])
    count = math.ceil(nbytes / 2048)
    reads = noc_cycles(board.arch, nbytes=2048, transactions=count, rates=rates_of(board))
    basis = worst(cost.basis, "extrapolated")
    return Cost(pnorm(_SHARP, cost.cycles, reads.cycles), basis, f"{cost.note}, windows gathered")


def _spread(product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor) -> Cost:
    """The grid cuts both sides, or the rows only, or the columns only, whichever is fastest; a shard says
    it. Of a batch each core takes whole products."""
    left, (rows, columns) = layouts[0], board.grid
    cores, rates = rows * columns, rates_of(board)
    shard = left.shard if left.shard is not None and left.shard.kind == "height" else None
    if shard is not None and (board.arch, left.format, product.batch) == ("wormhole_b0", "bf16", 1):
        return sharded_matmul_cycles(product.m, product.k, product.n, shard.cores, rates_of(board))

    def cut(grid: tuple[int, int], in_l1: bool) -> Cost:
        return gemm_cycles(
            board.arch,
            product.m,
            product.k,
            product.n,
            format=left.format,
            weight=layouts[1].format if layouts[1].layout == TILE else None,
            out=layouts[-1].format if layouts[-1].layout == TILE else None,
            fidelity=fidelity,
            grid=grid,
            sharded=in_l1,
            rates=rates,
        )

    if product.whole:
        one, turns = cut((1, 1), True), product.turns(cores)
        return Cost(one.cycles * turns, worst(one.basis, "extrapolated"), f"{one.note}, {turns} in turn")
    in_l1 = left.memory == L1 and layouts[-1].memory == L1
    both, *others = (cut(grid, in_l1) for grid in ((rows, columns), (cores, 1), (1, cores)))
    best = min((both, *others), key=lambda c: c.cycles)
    return best if best is both else Cost(best.cycles, worst(best.basis, "extrapolated"), best.note)


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
    channels = board.memory(DRAM).banks
    share = max(2.0, readers / (channels / 1.5))
    dram_rate = 1.0 / dram_cycles(board, 1).cycles / channels / share
    flit = board.noc.flit_bytes if board.noc else 32
    limits = [kernel_cycles, *(b / dram_rate for b in queue_bytes), *(b / (flit / 2) for b in noc_bytes)]
    basis = "fitted" if max(limits) == kernel_cycles else "extrapolated"
    return Cost(max(limits) * 1000 / board.clock_mhz, basis, "the kernel or its slowest buffer")
