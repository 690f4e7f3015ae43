"""What a file may grow to while it is read. A few hundred bytes can stand for a million nodes (functions that
call functions, loops that are unrolled) and for gigabytes of constants, so each kind of growth has a bound in
proportion to the file, with an allowance for small files.
"""

from __future__ import annotations

from ...base.errors import GraphError

__all__ = ["Budget"]

# (allowance, for each byte of the file), and why:
_STEPS = 10_000, 1 / 8  # nodes converted, of bodies each time: 60 us each; a node is 20 bytes or more
_NODES = 65_536, 1 / 8  # nodes emitted, some 700 bytes of memory each: an LSTM of 4096 steps is 50,000
_BYTES = 32 << 20, 8  # of constants made and folded, all of them together
_FLOPS = 1 << 27, 256  # of folding: numpy's references do 10^8 to 10^9 a second


class Budget:
    """Bounds for a file of ``size`` bytes; what is used up is taken off."""

    steps: int
    nodes: int
    bytes: int
    flops: int

    def __init__(self, size: int):
        self.size = size
        self.steps, self.nodes, self.bytes, self.flops = (
            allowed + int(size * each) for allowed, each in (_STEPS, _NODES, _BYTES, _FLOPS)
        )

    def step(self, count: int, what: str) -> None:
        """``count`` nodes are converted. Raises GraphError."""
        self.steps -= count
        if self.steps < 0:
            raise GraphError(
                f"{what}: functions and loops of a file of {self.size} bytes stand for more "
                f"than {_STEPS[0] + int(self.size * _STEPS[1])} nodes",
                got=what,
            )

    def node(self, op: str) -> None:
        """A node is emitted. Raises GraphError."""
        self.nodes -= 1
        if self.nodes < 0:
            raise GraphError(
                f"the model of {self.size} bytes unrolls to more than "
                f"{_NODES[0] + int(self.size * _NODES[1])} ops",
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
        if nbytes > self.bytes or flops > self.flops:
            return False
        self.bytes -= nbytes
        self.flops -= flops
        return True
