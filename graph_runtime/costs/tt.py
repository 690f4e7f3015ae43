"""ns of a node on a tt board, from its work and the layouts of its inputs and outputs; and the bounds of a
node, which are its cycles if only arithmetic, only the NoC or only DRAM took time. Dispatch is not included
(links.dispatch_ns)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import DRAM, L1, TILE, Layout
from ..ir.graph import Func, TensorType
from ..ir.ops import registry
from ..ir.ops.numerics import Numerics
from ..ir.ops.steps import Step
from ..ir.ops.work import Pass, Product, Work, tiles_of
from .eltwise import eltwise_cycles
from .formulas import pnorm
from .grid import gemm, gemm_columns, gemm_cycles, gemm_parts, gemm_weights, sharded_matmul_cycles, tile_bytes
from .links import dram_cycles
from .noc import noc_cycles
from .opmodel import tile_cycles
from .rates import rates_of
from .types import Cost, worst
from .weights_file import load


def work_of(func: Func, inputs: tuple[TensorType, ...], outputs: tuple[TensorType, ...]) -> Work:
    """The work of a node; the work of its epilogue comes last. The tensors of a function that only a library
    knows, or of an op registered from outside, count as passing through the cores once, and ``known`` is
    False."""
    op = registry.get(func.op or "")
    own = None if op is None else _own(op, inputs, outputs, func.attrs)
    if op is None or own is None:
        return Work(passes=tuple(Pass("nop", tiles_of(t.shape)) for t in outputs), known=False)
    return replace(own, passes=own.passes + _steps(func.attrs.get(op.program, ()), outputs[0]))


def _own(
    op: registry.Op, inputs: Sequence[TensorType], outputs: Sequence[TensorType], attrs: registry.Attrs
) -> Work | None:
    if op.work is not None:
        return op.work(inputs, outputs, attrs)
    made, read = tiles_of(outputs[0].shape), tiles_of(inputs[0].shape) if inputs else 0
    if op.kind == "elementwise":
        return Work(passes=(Pass(vector_op(op.name), made),))
    if op.kind == "movement":
        return Work(passes=(Pass("nop", made),))
    if op.kind == "reduction":
        return Work(passes=(Pass("reduce", read), Pass("multiply", made)))
    if op.kind == "windows":
        # a tile of taps by channels is reduced for each output pixel
        n, c, *pixels = outputs[0].shape
        return Work(passes=(Pass("reduce", n * math.prod(pixels) * math.ceil(c / 32)),))
    return None


def vector_op(op: str) -> str:
    """The op of costs.op_cycles at whose rate an elementwise op runs; "nop" if the elementwise op names
    none."""
    entry = registry.get(op)
    return "nop" if entry is None else entry.pace.get("tt", "nop")


def _steps(steps: Sequence[Step], out: TensorType) -> tuple[Pass, ...]:
    """The passes of steps (ir/ops/steps.py): for each step a pass over the whole output, at the rate of the
    step's op."""
    found: tuple[Pass, ...] = ()
    for name, reads, _ in steps:
        own = _own(registry.require(name), (out,) * len(reads), (out,), {})
        found += (Pass("nop", tiles_of(out.shape)),) if own is None else own.passes
    return found


Types = tuple[TensorType, ...]
_SHARP = 8.0
NO_FIDELITY = "HiFi4"  # fidelity of a node that names none
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
    """ns of one kernel that runs on the whole grid, as ttnn's do. ``layouts``: layouts of the inputs, then of
    the outputs. ``fidelity``: math fidelity of a func that names none; "": the default fidelity."""
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
    """ns of an op that consists of elementwise ttnn programs and has no fused ops, on tensors of floats in
    tiles, interleaved in DRAM; None for any other op. Inputs that broadcast have few tiles and are not
    counted."""
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
    """Cycles of the busiest core for its tiles of a pass."""
    tile = tile_cycles(one.op, board.arch, (format,) * (_OPERANDS.get(one.op, 1) + 1), fidelity)
    return Cost(one.turns(cores) * tile.cycles, tile.basis, tile.note)


def _moved(types: Types, layouts: tuple[Layout, ...], board: Descriptor, cores: int) -> Cost:
    """Cycles until all tensors have moved between their memories and the cores. Of a sharded tensor each core
    moves its own part."""
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
    """Number of bytes moved for a tensor: the bytes of its whole tiles, or, without tiles, of its rows."""
    if layout.layout == TILE:
        return tiles_of(one.shape) * tile_bytes(layout.format)
    return one.size * tile_bytes(layout.format) // 1024


def _product(product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor) -> Cost:
    """Cycles of a product. The cycles of a convolution include the windows that cores read from each other's
    L1 meanwhile."""
    cost = _spread(product, layouts, fidelity, board)
    if not product.gathered:
        return cost
    nbytes = 2 * product.m * product.k / (board.grid[0] * board.grid[1])
    count = math.ceil(nbytes / 2048)
    reads = noc_cycles(board.arch, nbytes=2048, transactions=count, rates=rates_of(board))
    basis = worst(cost.basis, "extrapolated")
    return Cost(pnorm(_SHARP, cost.cycles, reads.cycles), basis, f"{cost.note}, windows gathered")


def _spread(product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor) -> Cost:
    """Cycles of a product that the grid cuts along both sides, only along rows, or only along columns,
    whichever is fastest. A sharded operand decides the cut instead. In a batch each core computes whole
    products."""
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


def modelled_node_cost(
    kernel_cycles: float,
    queue_bytes: tuple[int, ...],
    noc_bytes: tuple[int, ...],
    board: Descriptor,
    *,
    readers: int = 1,
) -> Cost:
    """ns of one input of an op that TT-Buda's balancer cut: the time of its kernel or of its slowest buffer,
    whichever is longer. ``kernel_cycles``: cycles of the kernel, from the op model. ``queue_bytes``: bytes
    that one core moves from or to DRAM, by buffer. ``noc_bytes``: bytes that one core moves from or to other
    ops, by buffer. ``readers``: number of cores of the epoch that use DRAM."""
    channels = board.memory(DRAM).banks
    share = max(2.0, readers / (channels / 1.5))
    dram_rate = 1.0 / dram_cycles(board, 1).cycles / channels / share
    flit = board.noc.flit_bytes if board.noc else 32
    limits = [kernel_cycles, *(b / dram_rate for b in queue_bytes), *(b / (flit / 2) for b in noc_bytes)]
    basis = "fitted" if max(limits) == kernel_cycles else "extrapolated"
    return Cost(max(limits) * 1000 / board.clock_mhz, basis, "the kernel or its slowest buffer")


def tt_limits(
    func: Func,
    inputs: tuple[TensorType, ...],
    outputs: tuple[TensorType, ...],
    layouts: tuple[Layout, ...],
    board: Descriptor,
    fidelity: str = "",
) -> dict[str, float]:
    """{"math", "NoC", "DRAM": cycles} of a node. The three overlap on the board, so that the largest bounds
    the node. ``layouts``: layouts of the node's inputs, then of its outputs."""
    work = work_of(func, inputs, outputs)
    fidelity = Numerics.of(func.attrs).fidelity or fidelity or NO_FIDELITY
    cores = board.grid[0] * board.grid[1]
    placed = list(zip((*inputs, *outputs), layouts, strict=True))
    math_cycles = sum(
        pass_cycles(one, layouts[-1].format, fidelity, board, cores).cycles for one in work.passes
    )
    spread = [(t, at) for t, at in placed if at.memory == L1 and at.shard is None]
    if work.product is not None:
        products, strips, stored = _product_limits(work.product, layouts, fidelity, board)
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


def _product_limits(
    product: Product, layouts: tuple[Layout, ...], fidelity: str, board: Descriptor
) -> tuple[float, float, float]:
    """Cycles of products, of strips on the NoC and of DRAM, for the cut of the product that is fastest."""
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
