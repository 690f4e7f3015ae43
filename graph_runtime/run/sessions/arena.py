"""Memory of intermediate values, shared by sessions that never run at the same time.

    arena = Arena()
    Session(plan, arena=arena)     as often as there are programs

Inputs, outputs and copies made when an input is set stay in each session's own memory. The arena is as large
as its largest session needs; when a larger session joins, the values of the others move before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol
from weakref import WeakSet, WeakValueDictionary

import numpy as np

from ...base.machine.layout import L1
from ...binding.programs.slots import values_of
from ...plan.types import Plan
from ..device_handles import DeviceHandle

_Key = tuple[DeviceHandle, int]  # a memory of a device


class ArenaBlock(Protocol):
    """A region of a device's memory, given back when no object refers to it."""

    extent: int
    addr: int


class ArenaUser(Protocol):
    """A user of an arena: the Bound of a session. Bound explains these methods."""

    @property
    def handles(self) -> Sequence[DeviceHandle]: ...
    def new_region(self, key: tuple[int, int], extent: int) -> ArenaBlock: ...
    def new_scratch(self, extent: int) -> np.ndarray: ...
    def follow(self, blocks: Mapping[_Key, ArenaBlock]) -> None: ...
    def use_scratch(self, scratch: np.ndarray) -> None: ...


class Arena:
    """Blocks of memory, which live as long as the last session that uses them."""

    def __init__(self) -> None:
        self._blocks: WeakValueDictionary[_Key, ArenaBlock] = WeakValueDictionary()
        self._users: WeakSet[ArenaUser] = WeakSet()
        self._scratch = np.empty(0, np.uint8)

    def scratch_for(self, bound: ArenaUser, extent: int) -> np.ndarray:
        """Scratch memory for the kernels of a session that is being bound. Raises DeviceMemoryError."""
        if self._scratch.size < extent:
            self._scratch = bound.new_scratch(extent)
            for user in self._users:
                user.use_scratch(self._scratch)
        return self._scratch

    def join(
        self, bound: ArenaUser, extents: Mapping[tuple[int, int], int]
    ) -> dict[tuple[int, int], ArenaBlock]:
        """The blocks for a session that needs ``extents``, {(did, memory): bytes}. From now on the session's
        values move when another session needs larger blocks. Raises DeviceMemoryError, and then nothing has
        moved."""
        needed = {key: extent for key, extent in extents.items() if extent}
        grown = {}
        for (did, memory), extent in needed.items():
            key = bound.handles[did], memory
            block = self._blocks.get(key)
            if block is None or block.extent < extent:
                grown[key] = bound.new_region((did, memory), extent)
        self._blocks.update(grown)
        for user in self._users - {bound} if grown else ():
            user.follow(self._blocks)
        self._users.add(bound)
        bound.use_scratch(self._scratch)
        return {(did, memory): self._blocks[bound.handles[did], memory] for did, memory in needed}


def passing(plan: Plan) -> np.ndarray:
    """bool [entries]: whether the entry's value is not used after a run, and does not lie in L1, where
    circular buffers need room."""
    graph = plan.graph
    maker = graph.entry_nid
    stays = (graph.func_id[maker] < 0) | plan.at_input[maker]
    stays[graph.outputs] = True
    in_l1 = np.array([layout.memory == L1 for layout in plan.layouts], bool)
    stays |= in_l1[plan.layout_id]
    value = values_of(plan)
    return ~np.isin(value, value[stays])
