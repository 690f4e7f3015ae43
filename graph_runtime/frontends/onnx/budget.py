"""Bounds on the growth of a file while it is read. A few hundred bytes can expand to a million nodes
(functions that call functions, loops that are unrolled) or to gigabytes of constants, so each kind of growth
is limited to an allowance plus a share of the file's size.
"""

from __future__ import annotations

from ...base.errors import GraphError

# A bound is allowance + factor * bytes of the file. If a second pair (allowance, factor) follows, the smaller
# of the two bounds holds; it limits large files. A file of 10 MB then takes 5 s at most, and a small file
# little memory.
_STEPS = 10_000, 1 / 20, 110_000, 1 / 128  # nodes converted, per iteration of a body: 25 us, 900 bytes each
_NODES = 65_536, 1 / 24, 200_000, 1 / 128  # nodes emitted: 15 us each; an LSTM of 4096 steps emits 50,000
_BYTES = 32 << 20, 8  # bytes of all constants that are created or folded
_FLOPS = 1 << 27, 256  # flops of folded ops: numpy's references do 10^8 to 10^9 a second
_FOLDS = 8192, 1 / 512  # number of folded ops: at least 60 us each
_KIND = 4  # additional nodes that the first call of a kind counts as
CONSTANT = 2  # number of steps that a constant counts as, because of its memory


class Budget:
    """The remaining part of each bound, for a file of ``size`` bytes."""

    def __init__(self, size: int):
        self.size = size
        self.steps, self.nodes, self.bytes, self.flops, self.folds = _bounds(size)

    def grow(self, size: int) -> None:
        """Raise the bounds for ``size`` more bytes, of weights in other files."""
        more = [new - old for new, old in zip(_bounds(self.size + size), _bounds(self.size), strict=True)]
        self.size += size
        self.steps += more[0]
        self.nodes += more[1]
        self.bytes += more[2]
        self.flops += more[3]
        self.folds += more[4]

    def step(self, count: int, what: str) -> None:
        """Count ``count`` nodes as converted. ``what``: name of the node in errors. Raises GraphError beyond
        the bound."""
        self.steps -= count
        if self.steps < 0:
            raise GraphError(
                f"{what}: functions, loops and nodes of a file of {self.size} bytes expand to more "
                f"than {_allowed(self.size, _STEPS)} nodes",
                got=what,
            )

    def node(self, op: str, count: int = 1) -> None:
        """Count ``count`` nodes as emitted. Raises GraphError beyond the bound."""
        self.nodes -= count
        if self.nodes < 0:
            raise GraphError(
                f"the model of {self.size} bytes unrolls to more than {_allowed(self.size, _NODES)} ops "
                f"(the first of a kind counts as {_KIND + 1})",
                op=op,
            )

    def kind(self, op: str) -> None:
        """Count a call of a new kind, whose function takes memory of its own. Raises GraphError beyond the
        bound."""
        self.node(op, _KIND)

    @property
    def is_spent(self) -> bool:
        """Whether a bound has been exceeded, so that reading on is useless."""
        return self.nodes < 0 or self.steps < 0

    def room(self, nbytes: int, what: str) -> None:
        """Count a constant of ``nbytes`` before it is created. ``what``: name of the node in errors. Raises
        GraphError beyond the bound."""
        self.bytes -= nbytes
        if self.bytes < 0:
            raise GraphError(
                f"{what}: the constants that a model of {self.size} bytes creates take more than "
                f"{_BYTES[0] + self.size * _BYTES[1]} bytes",
                got=nbytes,
            )

    def fits(self, nbytes: int, what: str) -> None:
        """Check that ``nbytes`` may be allocated for a short time. Raises GraphError if not."""
        if nbytes > self.bytes:
            raise GraphError(
                f"{what}: it takes {nbytes} bytes while it is read, but a model of "
                f"{self.size} bytes may take only {self.bytes} more",
                got=nbytes,
            )

    def may_fold(self, nbytes: int, flops: int) -> bool:
        """Whether an op may be computed now. Such an op is counted; any other op stays an op of the graph."""
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
