"""The layout that a type has on a device where the caller gives none, and the formats callers ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base.dtypes import FORMATS, ROWS, TILED, format_of
from ..base.errors import PlanError, did_you_mean
from ..base.machine.descriptors import Descriptor
from ..base.machine.devices import HOST_KERNELS, Device, kernels_of
from ..base.machine.layout import ROW_MAJOR, TILE, Layout, host_layout
from ..ir.graph import TensorType

__all__ = ["choose", "holds", "read_formats"]

_LEAST_FILL = 32  # tile where at least 1/32 of its elements are real
_TILE_SIZE = 32 * 32


def choose(type_: TensorType, device: Descriptor, fmt: str | None) -> tuple[Layout, str]:
    """The layout of a type in a device's first memory, and the sentence that says why. ``fmt``: format of
    floats, None: by dtype.

    Raises PlanError for a dtype that the device cannot hold.
    """
    native = format_of(type_.dtype)
    if device.on_host:
        return host_layout(type_.dtype), "host memory"
    memory = device.memories[0].name
    if native is None or not holds(type_, device):
        nearest = " or ".join(native.narrower) if native else ""
        raise PlanError(
            f"{device.kind} holds no {type_.dtype}: " + (f"use {nearest}" if nearest else "keep it on cpu")
        )
    if TILE not in device.layouts:
        return Layout(memory, ROW_MAJOR, native.name), f"row-major: {device.kind} has no other layout"
    if type_.dtype not in TILED:
        return Layout(memory, ROW_MAJOR, native.name), "row-major: integers and bools are indices and masks"
    stored = fmt or native.name
    rows = stored if FORMATS[stored].itemsize else ROWS
    if len(type_.shape) < 2:
        return Layout(memory, ROW_MAJOR, rows), "row-major: fewer than two dimensions"
    if _fill(type_.shape) * _LEAST_FILL < 1:
        return Layout(memory, ROW_MAJOR, rows), f"row-major: tiles would be less than 1/{_LEAST_FILL} full"
    return Layout(memory, TILE, stored), f"tiled: the matrix form that {device.kind} kernels work on"


def holds(type_: TensorType, device: Descriptor) -> bool:
    """Whether a device can hold values of a dtype."""
    native = format_of(type_.dtype)
    return device.on_host or (native is not None and native.name in device.formats)


def read_formats(devices: Sequence[Device], formats: Mapping[str, str]) -> list[str | None]:
    """The format of floats on each device, None: by dtype. ``formats``: device or kind -> format; a device's
    own entry wins.

    Raises PlanError for a name that is not in the list, and for a format that it does not have.
    """
    kinds = [d.kind for d in devices]
    for name, fmt in formats.items():
        owners = [d for d in devices if name in (d.kind, str(d))]
        if not owners:
            raise PlanError(
                f"format {name}={fmt}: no such device or kind in the list"
                f"{did_you_mean(name, [*dict.fromkeys(kinds), *map(str, devices)])}",
                got=name,
            )
        known = [f for f in owners[0].descriptor.formats if FORMATS[f].kind == "float"]
        if owners[0].descriptor.layouts == (ROW_MAJOR,):
            raise PlanError(
                f"format {name}={fmt}: {name} stores tensors in their own dtype; cast them in the graph"
                + _of_weights(owners[0]),
                got=fmt,
                device=name,
            )
        if fmt not in known:
            raise PlanError(
                f"{name} has no float format {fmt!r}{did_you_mean(fmt, known)}",
                got=fmt,
                wanted=known,
                device=name,
            )
    return [formats.get(str(d), formats.get(d.kind)) for d in devices]


def _of_weights(device: Device) -> str:
    if kernels_of(device.kind) != HOST_KERNELS:
        return ""
    return (
        " (bf16 of a host is for weights of products, where a model is rewritten: an ONNX file, or with fuse)"
    )


def _fill(shape: tuple[int, ...]) -> float:
    """The share of real elements in the 32x32 tiles of the last two dimensions."""
    rows, cols = shape[-2:]
    tiles = max(-(-rows // 32), 1) * max(-(-cols // 32), 1)
    return rows * cols / (tiles * _TILE_SIZE)
