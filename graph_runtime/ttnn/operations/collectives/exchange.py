"""The steps of a collective over a group of chips: copies over the links, and sums on the chips. All of them
are queued work of the chips; no value goes through the host.

A group is a list of the chips' tensors, in order. A sum goes along the line of chips from both of its ends
to the chip that keeps it, or once around a ring, and each chip on the way adds its own part: each addition
rounds to the tensors' dtype, which is the format on the wire (assumed: the release does so, in chunks).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...devices import kernels
from ...devices.mesh_device import MeshDevice
from ...memory.configs import MemoryConfig
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor
from ..results import target


def sent(part: Tensor, chip: MeshDevice) -> Tensor:
    """The tensor on another chip, at the place and in the shards that it has on its own."""
    if part._device is chip:
        return part
    handle = kernels.sent(part._handle, chip.chip)
    made = Tensor.of(handle, part.dtype, part.layout, part._config, chip, part._padding, part.tile)
    made._more = part._more
    return made


def gathered(
    parts: Sequence[Tensor],
    chip: MeshDevice,
    dim: int,
    config: MemoryConfig | None = None,
    into: Tensor | None = None,
) -> Tensor:
    """The parts of all chips, one after another along a dimension, on one of the chips."""
    here = [sent(part, chip) for part in parts]
    own = next(part for part in here if part._device is chip)
    shape = list(own.shape)
    shape[dim] = sum(part.shape[dim] for part in here)
    goal = target(own, config, into).resharded()
    return goal.run("concatenate", [part._handle for part in here], {"axis": dim}, tuple(shape))


def piece(part: Tensor, dim: int, at: int, count: int, config: MemoryConfig | None = None) -> Tensor:
    """Piece number ``at`` of ``count`` equal pieces of a dimension, on the tensor's chip."""
    size = part.shape[dim] // count
    shape = [size if d == dim else whole for d, whole in enumerate(part.shape)]
    attrs = {"starts": (at * size,), "ends": ((at + 1) * size,), "axes": (dim,)}
    goal = target(part, config).resharded()
    return goal.run("slice", [part._handle], attrs, tuple(shape))


def added(a: Tensor, b: Tensor) -> Tensor:
    made: Tensor = OPERATIONS["add"](a, b)
    return made


def summed(parts: Sequence[Tensor], keeper: int, ring: bool) -> Tensor:
    """The sum of all chips' tensors on the chip of number ``keeper``."""
    count = len(parts)
    if ring:
        ways = [[(keeper + 1 + step) % count for step in range(count - 1)]]
    else:
        ways = [list(range(keeper)), list(range(count - 1, keeper, -1))]
    total = parts[keeper]
    for way in ways:
        coming: Tensor | None = None
        for at in way:
            own = parts[at]
            coming = own if coming is None else added(own, sent(coming, _chip(own)))
        if coming is not None:
            total = added(total, sent(coming, _chip(total)))
    return total


def total_on(chip: MeshDevice, parts: Sequence[Tensor], config: MemoryConfig | None = None) -> Tensor:
    """The sum of all chips' tensors on one of them, which gets all and adds them in their order."""
    total = sent(parts[0], chip)
    for part in parts[1:]:
        total = added(total, sent(part, chip))
    return total if config is None else target(total, config).wrap(total._handle)


def scattered(
    parts: Sequence[Tensor], dim: int, ring: bool, config: MemoryConfig | None = None
) -> list[Tensor]:
    """For each chip the sum of its piece of a dimension."""
    count = len(parts)
    made = []
    for keeper in range(count):
        pieces = [piece(part, dim, keeper, count) for part in parts]
        total = summed(pieces, keeper, ring)
        made.append(total if config is None else target(total, config).wrap(total._handle))
    return made


def _chip(part: Tensor) -> Any:
    return part._device
