"""The rules that a model must obey before its memory is computed. Each rule is a pure function;
``structural`` gives the name of the first rule that is broken.

The address patterns (Tm) on the edges decide whether an op may stream: a block is made once, so it must be
read once, and blocks must be read in the order in which they are made.
"""

from __future__ import annotations

import math

from .buffers import divides
from .grid import Grid, Stream
from .op import BalanceOp, Operand, User
from .types import BlockShape


def legal_dirs(op: BalanceOp) -> tuple[str, ...]:
    """Directions in which blocks of the op may be streamed.

    A sparse matmul makes the pixels of its taps row block by row block. A consumer that reads the taps side
    by side (vslice, then hstack by the same factor) takes rows in depth-major order, which only direction R
    keeps.
    """
    if (op.kind == "reduce" and op.dim == "z") or any(map(_reads_taps, op.operands)):
        return ("R",)
    deep = any(o.shape.z > 1 for o in op.operands)
    if deep or (op.encoding is not None and op.encoding.taps > 1):
        return ("R", "C", "RZ")
    return ("R", "C")


def _reads_taps(operand: Operand) -> bool:
    if not operand.sparse or not operand.tms:
        return False
    factor = 1
    for tm in operand.tms:
        if tm.kind == "vslice":
            factor *= tm.r
        elif tm.kind == "hstack" and factor % tm.r == 0:
            factor //= tm.r
        else:
            return False
    return factor == 1


def structural(
    op: BalanceOp, grid: Grid, stream: Stream, block: BlockShape, most_t: int | None = None
) -> str | None:
    """The name of the first rule that grid, stream and blocks break, None if they break none."""
    if most_t is not None and op.is_matmul and stream.pieces > most_t:
        return "IllegalStreaming"
    if not all(_stack_fits_grid(o, grid, stream) for o in op.operands):
        return "IllegalStackForGrid"
    if stream.pieces > 1:
        operands = all(_operand_streams(op, port, stream) for port in range(len(op.operands)))
        users = all(_user_streams(op, user, stream) for user in op.users)
        if not (operands and users):
            who = "OperandAndUser" if not (operands or users) else "User" if operands else "Operand"
            return f"{who}AccessPreventsStreaming"
        if not _order_allows(op.ublock_order, stream, block):
            return "IllegalStreaming"
    if not _padding_fits(op, block):
        return "PaddingConstraintsNotSatisfied"
    return None


def _product(tms, *kinds: str) -> int:
    return math.prod(tm.r for tm in tms if tm.kind in kinds)


def _stacks(operand: Operand) -> bool:
    """Whether stacks outnumber slices, so that the reader sees several blocks as one."""
    stacked = _product(operand.tms, "hstack", "vstack")
    return stacked // _product(operand.tms, "hslice", "vslice") > 1


def _stack_fits_grid(operand: Operand, grid: Grid, stream: Stream) -> bool:
    if not _stacks(operand):
        return True
    return divides(_product(operand.tms, "hstack", "vstack"), grid.r if stream.dir == "R" else grid.c)


def _operand_streams(op: BalanceOp, port: int, stream: Stream) -> bool:
    """Whether an operand's address pattern allows ``stream``. Stacks and slices must fall on block borders. A
    matmul streams either the rows of its left operand or the columns of its right operand; it reads the other
    operand whole for every block."""
    operand = op.operands[port]
    if op.kind == "embedding":
        return False  # an embedding reads rows in any order
    if not _stacks(operand) or stream.z_major:
        return True
    tms = operand.tms
    borders = divides(_product(tms, "vstack"), _product(tms, "vslice") * stream.r) and divides(
        _product(tms, "hstack"), _product(tms, "hslice") * stream.c
    )
    side = not op.is_matmul or (port == 0 and stream.by_rows) or (port == 1 and not stream.by_rows)
    return borders and side


def _across(op: BalanceOp, kind: str, stream: Stream) -> bool:
    """Whether a slice or stack runs across the order in which ublocks are made. A reader then needs all
    blocks of a row (or column) before it can make its own first block."""
    if kind[0] == "h":
        return (op.ublock_order == "R" or stream.by_rows) and op.out.rt > 1
    return (op.ublock_order == "C" or not stream.by_rows) and op.out.ct > 1


def _user_factors(op: BalanceOp, user: User, stream: Stream) -> tuple[int, int]:
    """Pair of numbers: macro blocks to stack and macro blocks to slice before a user can start; 0 or 1: no
    blocks."""
    stacked, sliced = _product(user.tms, "hstack", "vstack"), _product(user.tms, "hslice", "vslice")
    stack = any(_across(op, tm.kind, stream) for tm in user.tms if tm.kind in ("hstack", "vstack"))
    slice_ = any(_across(op, tm.kind, stream) for tm in user.tms if tm.kind in ("hslice", "vslice"))
    return stacked // sliced * stack, sliced // stacked * slice_


def user_stack_factor(op: BalanceOp, stream: Stream) -> int:
    """Macro blocks that the output buffer must hold because a user stacks them before it starts."""
    return max((_user_factors(op, u, stream)[0] for u in op.users if u.kind == "op"), default=1) or 1


def _user_streams(op: BalanceOp, user: User, stream: Stream) -> bool:
    if user.kind == "loopback" or user.padding_nop:
        return False  # the tensor written back must have the shape that is read
    if user.kind == "output" and stream.z_major:
        return False  # the host cannot undo depth-major order
    if max(_user_factors(op, user, stream)) > 1:
        return False
    return all(_tm_streams(op, tm, stream) for tm in user.tms)


def _tm_streams(op: BalanceOp, tm, stream: Stream) -> bool:
    if tm.kind in ("hslice", "vslice", "hstack", "vstack"):
        return stream.z_major or (not _across(op, tm.kind, stream) and divides(tm.r, stream.pieces))
    if tm.kind == "transpose":
        # a single row or column of tiles has the same order either way
        return (stream.r == 1 or stream.c == 1) and 1 in (op.out.rt, op.out.ct)
    if tm.kind == "broadcast":
        return False  # a streamed block is gone before it is read again
    if tm.kind == "unpad":
        return not ((tm.r and not stream.by_rows) or (tm.c and stream.by_rows))
    return True


def _order_allows(order: str, stream: Stream, block: BlockShape) -> bool:
    if stream.by_rows == (order == "R"):
        return (
            (block.mblock[0] == 1 or stream.c == 1)
            if stream.by_rows
            else (block.mblock[1] == 1 or stream.r == 1)
        )
    return stream.c == 1 if stream.by_rows else stream.r == 1


def _padding_fits(op: BalanceOp, block: BlockShape) -> bool:
    """Whether no core makes or drops a macro block of padding alone, and padding after a stack is a multiple
    of the stacked tensor's size."""
    rows, cols = (m * u for m, u in zip(block.mblock, block.ublock, strict=True))
    tms = [tm for u in op.users for tm in u.tms if tm.kind == "unpad"]
    tms += [tm for o in op.operands for tm in o.tms if tm.kind == "pad"]
    return all(tm.r < rows and tm.c < cols for tm in tms) and all(
        _padding_after_stack(o) for o in op.operands
    )


def _padding_after_stack(operand: Operand) -> bool:
    rows, cols = operand.source_shape.rt, operand.source_shape.ct
    for stack, pad in zip(operand.tms, operand.tms[1:], strict=False):
        if pad.kind == "pad" and (
            (stack.kind == "vstack" and pad.r % rows) or (stack.kind == "hstack" and pad.c % cols)
        ):
            return False
    return True
