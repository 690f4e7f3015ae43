"""Steps: the card programs of an operation that runs several, and the tensors that it holds between them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ....base.dtypes import FORMATS
from ....base.machine.layout import DRAM, TILE
from ..buffers import CardOperand, CardProgram, CardStage, CircularBuffer, HeldTensor, ceil_div, round_up

L1_ALIGNED = 16


class UnknownForm(Exception):
    """Raised if no factory here covers a form of an operation."""


@dataclass(frozen=True)
class Board:
    """What a factory asks of a board: ``cores`` that compute, ``banks`` of L1, ``room`` bytes of a core's L1
    that a card program's buffers may take, all ``l1`` bytes of it, and ``dram_aligned``, the alignment of
    DRAM in bytes."""

    cores: int
    banks: int
    room: int
    l1: int
    dram_aligned: int = 32
    blackhole: bool = False

    def aligned(self, memory: str) -> int:
        """Alignment in bytes of pages in a memory."""
        return self.dram_aligned if memory == DRAM else L1_ALIGNED

    def page(self, x: CardOperand) -> int:
        """Bytes from a page of a tensor to the next one in its bank."""
        return round_up(x.page, self.aligned(x.memory))

    def nbytes(self, x: CardOperand) -> int:
        """Bytes of L1 that a tensor takes on each core that holds a part of it."""
        if not x.on_l1:
            return 0
        if x.sharded:
            return self.page(x) * (x.shard_tiles if x.layout == TILE else x.shard[0])
        return self.page(x) * ceil_div(pages(x), self.banks)


def pages(x: CardOperand) -> int:
    """Number of pages of an interleaved tensor."""
    if x.layout == TILE:
        return math.prod(x.matrix)
    return math.prod(x.shape[:-1])


def element_size(x: CardOperand) -> int:
    """Bytes of an element as ttnn counts them: one for an element of a block format."""
    return FORMATS[x.format].itemsize or 1


def padded(x: CardOperand) -> tuple[int, ...]:
    """The shape of a tensor with the padding of its tiles."""
    if x.layout != TILE:
        return x.shape
    *rest, rows, cols = (1, *x.shape) if len(x.shape) < 2 else x.shape
    return (*rest, round_up(rows, 32), round_up(cols, 32))


def opened(name: str, *sizes: tuple[str, int, int]) -> CardProgram:
    """A card program of buffers (name, pages, bytes of a page)."""
    return CardProgram.of(name, [CircularBuffer(*size) for size in sizes])


class Steps:
    """Card programs of one call, in order. ``result``: the call's result; the other tensors that a step makes
    belong to the operation, which frees them after its last step unless ``free`` is called."""

    def __init__(self, board: Board, result: CardOperand):
        self.board, self.result = board, result
        self.stages: list[CardStage] = []
        self._held: list[tuple[CardOperand, HeldTensor]] = []
        self._made = False

    def run(self, ran: CardProgram, made: CardOperand | None) -> Any:
        """Add a card program that writes ``made``; None if it writes a tensor in place. Returns made."""
        self._made |= made is self.result
        if made is not None and made is not self.result and made.on_l1:
            name = f"{ran.name} result"
            others = sum(held.name.startswith(name) for _, held in self._held)
            name += f" {others + 1}" if others else ""
            self._held.append((made, HeldTensor(name, self.board.nbytes(made))))
        held = tuple(tensor for _, tensor in self._held)
        self.stages.append(CardStage(ran, held, last=self._made))
        return made

    def hold(self, x: CardOperand) -> None:
        """Hold a tensor that the host writes, from now on."""
        if x.on_l1:
            self._held.append((x, HeldTensor("tensor of the host", self.board.nbytes(x))))

    def free(self, *tensors: CardOperand) -> None:
        """Free tensors that earlier steps made; other tensors are left alone."""
        gone = [id(x) for x in tensors]
        self._held = [(x, held) for x, held in self._held if id(x) not in gone]

    def settle(self, x: CardOperand) -> None:
        """Take a tensor that a step made for the result, which is the same memory in another shape."""
        found = [held for made, held in self._held if made is x]
        self.free(x)
        for at, stage in enumerate(self.stages):
            if any(held in stage.held for held in found):
                rest = tuple(held for held in stage.held if held not in found)
                self.stages[at] = replace(stage, held=rest, last=True)

    @contextmanager
    def alone(self, kept: CardOperand) -> Iterator[None]:
        """Free what the steps of the block make, except ``kept``."""
        before = len(self._held)
        yield
        self._held[before:] = [pair for pair in self._held[before:] if pair[0] is kept]
