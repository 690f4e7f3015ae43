"""What a file may grow to while it is read. A few hundred bytes can stand for a million nodes (functions that
call functions, loops that are unrolled) and for gigabytes of constants, so each kind of growth has a bound in
proportion to the file, with an allowance for small files.
"""

from __future__ import annotations

from ...base.errors import GraphError

__all__ = ["CONSTANT", "Budget"]

# (allowance, for each byte of the file; and for large files an allowance, for each byte), the lesser of both:
# so that 10 MB take 5 s at most, and small files as little memory as they have bytes. And why:
_STEPS = 10_000, 1 / 20, 110_000, 1 / 128  # nodes converted, of bodies each time: 25 us and 900 bytes each
_NODES = 65_536, 1 / 24, 200_000, 1 / 128  # nodes emitted: 15 us; an LSTM of 4096 steps is 50,000
_BYTES = 32 << 20, 8  # of constants made and folded, all of them together
_FLOPS = 1 << 27, 256  # of folding: numpy's references do 10^8 to 10^9 a second
_FOLDS = 8192, 1 / 512  # 60 us each, however small
_KIND = 4  # nodes that a call counts as which no node made before
CONSTANT = 2  # steps that a constant counts as, by its memory


class Budget:
    """Bounds for a file of ``size`` bytes; what is used up is taken off."""

    def __init__(self, size: int):
        self.size = size
        self.steps, self.nodes, self.bytes, self.flops, self.folds = _bounds(size)

    def grow(self, size: int) -> None:
        """Take ``size`` bytes more into account, of weights in other files."""
        more = [new - old for new, old in zip(_bounds(self.size + size), _bounds(self.size), strict=True)]
        self.size += size
        self.steps += more[0]
        self.nodes += more[1]
        self.bytes += more[2]
        self.flops += more[3]
        self.folds += more[4]

    def step(self, count: int, what: str) -> None:
        """``count`` nodes are converted. Raises GraphError."""
        self.steps -= count
        if self.steps < 0:
            raise GraphError(
                f"{what}: functions, loops and nodes of a file of {self.size} bytes stand for more "
                f"than {_allowed(self.size, _STEPS)} nodes",
                got=what,
            )

    def node(self, op: str) -> None:
        """A node is emitted. Raises GraphError."""
        self._emit(1, op)

    def kind(self, op: str) -> None:
        """A call is made that no node makes yet: its function has memory of its own. Raises GraphError."""
        self._emit(_KIND, op)

    @property
    def is_spent(self) -> bool:
        """Whether the file has been refused for its size: there is no sense in going on."""
        return self.nodes < 0 or self.steps < 0

    def _emit(self, count: int, op: str) -> None:
        self.nodes -= count
        if self.nodes < 0:
            raise GraphError(
                f"the model of {self.size} bytes unrolls to more than {_allowed(self.size, _NODES)} ops "
                f"(the first of a kind counts as {_KIND + 1})",
                op=op,
            )

    def room(self, nbytes: int, what: str) -> None:
        """A constant of ``nbytes`` is made now. Raises GraphError, before anything is allocated."""
        self.bytes -= nbytes
        if self.bytes < 0:
            raise GraphError(
                f"{what}: the constants that a model of {self.size} bytes makes are more than "
                f"{_BYTES[0] + self.size * _BYTES[1]} bytes",
                got=nbytes,
            )

    def fits(self, nbytes: int, what: str) -> None:
        """So many bytes are used for a moment. Raises GraphError, before anything is allocated."""
        if nbytes > self.bytes:
            raise GraphError(
                f"{what}: it takes {nbytes} bytes while it is read; of what a model of "
                f"{self.size} bytes may take, {self.bytes} are left",
                got=nbytes,
            )

    def may_fold(self, nbytes: int, flops: int) -> bool:
        """Whether an op may be computed now; what may not stays an op."""
        if nbytes > self.bytes or flops > self.flops or not self.folds:
            return False
        self.folds -= 1
        self.bytes -= nbytes
        self.flops -= flops
        return True


def _allowed(size: int, row: tuple[float, ...]) -> int:
    return min(int(row[i] + size * row[i + 1]) for i in range(0, len(row), 2))


def _bounds(size: int) -> list[int]:
    return [_allowed(size, row) for row in (_STEPS, _NODES, _BYTES, _FLOPS, _FOLDS)]
