"""The layout that a type has on a device where nobody says another."""
from __future__ import annotations

from ..descriptors import Descriptor
from ..dtypes import FORMATS, format_of
from ..errors import PlanError
from ..graph import TensorType
from ..layout import HOST, ROW_MAJOR, TILE, Layout

__all__ = ["choose"]

_LEAST_FILL = 32                                          # tile where at least 1/32 of its elements are real
_TILE_SIZE = 32 * 32
_NEAREST = {"float64": "float32", "float16": "float32 or bfloat16", "int64": "int32", "uint64": "uint32"}
_FLOATS = ("float32", "bfloat16")


def choose(type_: TensorType, device: Descriptor, fmt: str | None) -> tuple[Layout, str]:
    """The layout of a type in a device's first memory, and the sentence that says why. ``fmt``: format of
    floats, None: by dtype.

    Raises PlanError for a dtype that the device cannot hold.
    """
    native = format_of(type_.dtype)
    if device.on_host:
        return Layout(HOST, ROW_MAJOR, native.name if native else type_.dtype), "host memory"
    memory = device.memories[0].name
    if native is None or native.name not in device.formats:
        nearest = _NEAREST.get(type_.dtype)
        raise PlanError(f"{device.kind} holds no {type_.dtype}: "
                        + (f"use {nearest}" if nearest else "keep it on cpu"))
    if TILE not in device.layouts:
        return Layout(memory, ROW_MAJOR, native.name), f"row-major: {device.kind} has no other layout"
    if type_.dtype not in _FLOATS:
        return Layout(memory, ROW_MAJOR, native.name), "row-major: integers and bools are indices and masks"
    stored = fmt or native.name
    rows = stored if FORMATS[stored].itemsize else "bf16"
    if len(type_.shape) < 2:
        return Layout(memory, ROW_MAJOR, rows), "row-major: fewer than two dimensions"
    if _fill(type_.shape) * _LEAST_FILL < 1:
        return Layout(memory, ROW_MAJOR, rows), f"row-major: tiles would be less than 1/{_LEAST_FILL} full"
    return Layout(memory, TILE, stored), f"tiled: the matrix form that {device.kind} kernels work on"


def _fill(shape: tuple[int, ...]) -> float:
    """The share of real elements in the 32x32 tiles of the last two dimensions."""
    rows, cols = shape[-2:]
    tiles = max(-(-rows // 32), 1) * max(-(-cols // 32), 1)
    return rows * cols / (tiles * _TILE_SIZE)
