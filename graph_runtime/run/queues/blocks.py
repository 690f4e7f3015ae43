"""What a device's memories hold, block by block, and giving back what is kept idle."""

from __future__ import annotations

from typing import NamedTuple

from ...binding.core import ffi, lib
from ..device_handles import DeviceHandle

__all__ = ["Block", "blocks", "let_go"]

_KINDS = {
    lib.GR_BLOCK_RESERVED: "reserved",
    lib.GR_BLOCK_HELD: "held",
    lib.GR_BLOCK_QUEUED: "queued",
    lib.GR_BLOCK_IDLE: "idle",
}


class Block(NamedTuple):
    """``addr``, ``extent`` bytes (per bank), ``holder``: what asked for it first. ``kind``: "reserved" by
    DeviceHandle.alloc, "held" by the owner of its Buffer, "queued": queued work alone needs it, "idle": kept
    to be used again."""

    addr: int
    extent: int
    kind: str
    holder: str


def blocks(handle: DeviceHandle, memory: int) -> list[Block]:
    """All blocks of memory number ``memory``, by address: they add up to what is allocated there."""
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
    """Give back what is kept idle: at once, or when no queued work needs it."""
    lib.gr_buffers_let_go(handle.pointer)
