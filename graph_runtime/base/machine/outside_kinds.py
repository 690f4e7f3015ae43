"""Boards and device kinds of other packages: their descriptors and C files.

A package names a module of its own under the entry point ``graph_runtime.devices``. That module calls
add_devices(); it is imported when a kind, a board or a device type is asked for that graph_runtime does not
have."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import DeviceError
from .descriptors import Descriptor, boards, outside_code, read_file
from .devices import dl_kinds, kernels_of


def add_devices(folder: str | os.PathLike[str]) -> list[str]:
    """Add the boards of a folder, one descriptor in each file that ends in .json, and return their names. A
    kind that graph_runtime does not have needs C code, a vtable with GR_REGISTER_DEVICE, in the file <kind>.c
    of the folder; the file is compiled when a device of that kind is first opened. Raises DeviceError for a
    folder without descriptors, for a descriptor that cannot be read, for a board, a kind's number or a kind's
    kernels that contradict another descriptor, and for a new kind without C."""
    folder = Path(folder)
    files = sorted(folder.glob("*.json"))
    if not files:
        text = f"{folder} has no descriptor of a device, a file that ends in .json"
        raise DeviceError(text, got=str(folder))
    made = [read_file(file, "device") for file in files]
    before = {d.kind for d in boards().values()} - set(outside_code)
    for file, descriptor in zip(files, made, strict=True):
        _check(file, descriptor, made)
        source = folder / f"{descriptor.kind}.c"
        if descriptor.kind not in before and outside_code.setdefault(descriptor.kind, source) != source:
            text = f"{file}: kind {descriptor.kind} is that of {outside_code[descriptor.kind]}"
            raise DeviceError(text, got=descriptor.kind)
    for descriptor in made:
        boards()[descriptor.name] = descriptor
    for known in (dl_kinds, kernels_of):
        known.cache_clear()
    return [descriptor.name for descriptor in made]


def _check(file: Path, descriptor: Descriptor, beside: list[Descriptor]) -> None:
    others = [d for d in boards().values() if d.name != descriptor.name or d != descriptor]
    kinds = {d.kind: d for d in others}
    for other in (*others, *(d for d in beside if d is not descriptor)):
        if other.name == descriptor.name:
            raise DeviceError(f"{file}: there is a device {other.name} already", got=other.name)
        if not other.test_only and (other.kind == descriptor.kind) != (other.dl_type == descriptor.dl_type):
            text = (
                f"{file}: kind {descriptor.kind} has dl_type {descriptor.dl_type}, and {other.name}, of kind "
                f"{other.kind}, has {other.dl_type}: give the kind one number"
            )
            raise DeviceError(text, got=descriptor.dl_type)
    own = file.parent / f"{descriptor.kind}.c"
    if descriptor.kind not in kinds and not own.exists():
        raise DeviceError(f"{file}: kind {descriptor.kind} has no C: {own.name} beside it", got=str(own))
