"""The blocks of a device's memories, and giving back idle blocks."""

from __future__ import annotations

from typing import NamedTuple

from ...binding.core import ffi, lib
from ..device_handles import DeviceHandle

_KINDS = {
    lib.GR_BLOCK_RESERVED: "reserved",
    lib.GR_BLOCK_HELD: "held",
    lib.GR_BLOCK_QUEUED: "queued",
    lib.GR_BLOCK_IDLE: "idle",
}


class Block(NamedTuple):
    """A block of memory: ``addr``; ``extent`` in bytes (per bank); ``holder``: the name under which it was
    first allocated. ``kind``: "reserved" (taken by DeviceHandle.alloc), "held" (by the owner of its Buffer),
    "queued" (needed by queued work only) or "idle" (kept for reuse)."""

    addr: int
    extent: int
    kind: str
    holder: str


def blocks(handle: DeviceHandle, memory: int) -> list[Block]:
    """All blocks of memory number ``memory``, by address; the sum of their extents is the allocated
    memory."""
    room = 256
    while True:
        out = ffi.new("gr_block[]", room)
        count = lib.gr_device_blocks(handle.pointer, memory, out, room)
        if count <= room:
            return [
                Block(b.addr, b.extent, _KINDS[b.state], ffi.string(b.holder).decode(errors="replace"))
                for b in out[0:count]
            ]
        room = 2 * count


def let_go(handle: DeviceHandle) -> None:
    """Give back the idle blocks: at once those that no queued work needs, all others when their queued work
    is over."""
    lib.gr_buffers_let_go(handle.pointer)
