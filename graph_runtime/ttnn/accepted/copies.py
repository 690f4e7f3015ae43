"""What the copies of operations/movement accept."""

from __future__ import annotations

from ..memory.values import TILE_SIZE, BufferType, Layout
from .movement import alignment, on_device
from .rules import SHARDED, Given, Operand, Rule, accepts

_MOVES = "ttnn/cpp/ttnn/operations/data_movement/"


def _narrowed(given: Given) -> str:
    x, rank = given.input_tensor, len(given.input_tensor.shape)
    axis = given.dim % max(rank, 1)
    for side, at in (("width", rank - 1), ("height", rank - 2)):
        whole = given.start % TILE_SIZE == 0 and given.length % TILE_SIZE == 0
        if axis == at and x.layout is Layout.TILE and not whole:
            return (
                f"Narrowing on {side} for TILE layout requires start and length to be multiples of "
                f"TILE_{side.upper()} ({TILE_SIZE}), got start {given.start} and length {given.length}"
            )
    dram, align = x.memory_config().buffer_type is BufferType.DRAM, alignment(x)
    if axis == rank - 1 and x.layout is Layout.ROW_MAJOR and given.start % align:
        return (
            f"Narrowing on width for ROW_MAJOR layout requires start ({given.start}) to be aligned to "
            f"buffer alignment ({align})"
        )
    if dram and not x.is_sharded() and any(size != 1 for size in x.shape[:axis]):
        return (
            f"Narrowing on dimension {axis} for DRAM INTERLEAVED tensors requires all preceding dimensions "
            "to be trivial (size 1)."
        )
    return ""


accepts(
    "narrow",
    Rule(
        "TILE: whole tiles; ROW_MAJOR: rows begin at the memory's alignment; interleaved DRAM: the "
        "dimensions before dim are 1",
        _narrowed,
    ),
    source=_MOVES + "narrow/narrow.cpp",
)


def _as_sharded(given: Given) -> str:
    x, config = given.input, given.memory_config
    if config is None or config.is_sharded() is x.is_sharded():
        return ""
    return "Clone: mixed sharded/interleaved layout not currently supported"


accepts(
    "clone",
    Rule("the result is sharded if the input is", _as_sharded),
    source=_MOVES + "clone/device/clone_device_operation.cpp",
)
accepts(
    "fill_implicit_tile_padding",
    Operand("tensor", layouts="TILE", text="FillPad should only be used for tile layout"),
    source=_MOVES + "fill_pad/device/fill_pad_device_operation.cpp",
)


def _alike(given: Given) -> str:
    a, b = given.input_a, given.input_b
    if a.layout is not b.layout:
        return (
            f"Input tensor layout (Layout::{a.layout.name}) must equal output tensor layout "
            f"(Layout::{b.layout.name})"
        )
    rows = a.layout is Layout.ROW_MAJOR and a.dtype is not b.dtype
    return "Only tile layout supports dtype conversion" if rows else ""


accepts(
    "copy",
    Rule("one layout; in ROW_MAJOR one dtype", _alike),
    source=_MOVES + "copy/device/copy_device_operation.cpp",
)


def _kind_of_rows(given: Given) -> str:
    x, kind = given.tensor, given.dtype
    still = x.memory_config() == given.memory_config
    rows = on_device(x) and x.layout is Layout.ROW_MAJOR and kind not in (None, x.dtype)
    return "Only tile layout supports dtype conversion" if rows and not still else ""


accepts(
    "to_memory_config",
    Rule("dtype: the tensor's own in ROW_MAJOR", _kind_of_rows),
    source=_MOVES + "copy/device/copy_device_operation.cpp",
)
accepts(
    "reshard",
    Operand("input_tensor", memories=SHARDED, text="input must be sharded"),
    Rule(
        "the result is sharded",
        lambda given: "" if given.memory_config.is_sharded() else "output must be sharded",
    ),
    source=_MOVES + "sharded/reshard/device/reshard_device_operation.cpp",
)
