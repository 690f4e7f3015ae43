"""Wishes about layouts: {"conv*": "l1/block[4x8]"}.

A wish is one or more words with slashes between them, in any order. Each word changes one part of a layout:
the memory (dram, l1), the layout (row_major, tile), the format (bf16, ...), or the sharding
(shards.read_wish, or "interleaved"). str(Layout) is a wish, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..base.dtypes import FORMATS, ROWS
from ..base.errors import PlanError, all_there_are, did_you_mean
from ..base.machine.devices import Descriptor
from ..base.machine.layout import DRAM, L1, ROW_MAJOR, TILE, Layout, matrix, shard_fault
from ..base.machine.shards import KINDS, ShardWish, read_wish, resolve
from ..ir.graph import TensorType

_INTERLEAVED = "interleaved"
_WORDS = (DRAM, L1, ROW_MAJOR, TILE, _INTERLEAVED, *KINDS, *FORMATS)


@dataclass(frozen=True, slots=True)
class Wish:
    """The parts of one wish. A part that is None leaves that part of the tensor's layout unchanged."""

    text: str
    memory: str | None = None
    layout: str | None = None
    format: str | None = None
    shard: ShardWish | None = None
    interleaved: bool = False


def read_wishes(wishes: Mapping[str, str]) -> dict[str, Wish]:
    """{glob: the parts of its wish}. Raises PlanError for an unknown word, and for a value that is no mapping
    from globs."""
    if not isinstance(wishes, Mapping) or not all(isinstance(glob, str) for glob in wishes):
        raise PlanError(f"layouts are {{'names': 'memory/layout/...'}}, got {wishes!r}", got=wishes)
    return {glob: _read(text) for glob, text in wishes.items()}


def _read(text: str) -> Wish:
    said: dict[str, Any] = {}  # {field of Wish: value}
    for word in str(text).split("/"):
        kinds = [
            name
            for name, values in (
                ("memory", (DRAM, L1)),
                ("layout", (ROW_MAJOR, TILE)),
                ("format", FORMATS),
                ("interleaved", (_INTERLEAVED,)),
            )
            if word in values
        ]
        if kinds:
            name = kinds[0]
        elif word.split("[")[0] in KINDS:
            name = "shard"
        else:
            raise PlanError(
                f"layout {text!r}: unknown word {word!r}{all_there_are(word, _WORDS)}; write "
                f"words between slashes, as l1/tile/bf16/height[8x1]",
                got=word,
                wanted=list(_WORDS),
            )
        if name in said:
            raise PlanError(f"layout {text!r} says the {name} twice", got=text)
        said[name] = read_wish(word) if name == "shard" else name == _INTERLEAVED or word
    if said.get("shard") and (said.get("memory") == DRAM or _INTERLEAVED in said):
        raise PlanError(f"layout {text!r}: shards lie in l1, and are not interleaved", got=text)
    return Wish(text, **said)


def wished(type_: TensorType, layout: Layout, wish: Wish, descriptor: Descriptor) -> Layout:
    """The layout that results when a wish changes ``layout``, the layout of a type on a device. Raises
    PlanError for an impossible result, or DeviceError for a memory that the device lacks."""
    made = _merged(type_, layout, wish, descriptor)
    reason = _fault(type_, made, descriptor)
    if reason:
        raise PlanError(f"{made}: {reason}", got=str(made))
    return made


def _merged(type_: TensorType, layout: Layout, wish: Wish, descriptor: Descriptor) -> Layout:
    """The layout changed by a wish. A sharding puts the tensor in l1 unless the wish names a memory, a block
    format puts it in tiles unless the wish names a layout."""
    memory = descriptor.memory(wish.memory or (L1 if wish.shard else layout.memory)).name
    fmt = wish.format or layout.format
    block = FORMATS[fmt].shared_exponent
    tiled = wish.layout or (TILE if block else layout.layout)
    if block and tiled == ROW_MAJOR and wish.format is None:
        fmt = ROWS
    made = Layout(memory, tiled, fmt)
    if wish.shard:
        shard = resolve(wish.shard, *matrix(made, type_.shape), tiled == TILE, descriptor.grid)
        return Layout(memory, tiled, fmt, shard)
    kept = memory == layout.memory and tiled == layout.layout and not wish.interleaved
    return Layout(memory, tiled, fmt, layout.shard) if kept else made


def _fault(type_: TensorType, layout: Layout, descriptor: Descriptor) -> str | None:
    if layout.layout not in descriptor.layouts:
        return f"{descriptor.kind} has no layout {layout.layout} (it has {', '.join(descriptor.layouts)})"
    if layout.format not in descriptor.formats:
        known = descriptor.formats
        return f"{descriptor.kind} stores no {layout.format}{did_you_mean(layout.format, known)}"
    if layout.layout == ROW_MAJOR and FORMATS[layout.format].shared_exponent:
        return f"{layout.format} exists in tiles only"
    return shard_fault(layout, type_.shape, descriptor.memory(layout.memory), descriptor.grid)
