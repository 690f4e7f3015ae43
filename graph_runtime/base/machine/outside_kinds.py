"""Boards and device kinds of other packages: descriptors, and the C of a kind's own.

A package names a module under the entry point ``graph_runtime.devices``; it is imported when a kind, a board
or a device type is asked for that no descriptor of this package has, and calls add_devices().
"""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import DeviceError, DocumentError
from .descriptors import Descriptor, boards, read_descriptor
from .devices import dl_kinds, kernels_of

__all__ = ["add_devices", "code_of"]

_code: dict[str, Path] = {}  # kind -> its C file


def add_devices(folder: str | os.PathLike[str]) -> list[str]:
    """Add the boards of a folder, one descriptor a file that ends in .json; their names. The C of a kind that
    this package does not have, a vtable with GR_REGISTER_DEVICE, is the file <kind>.c beside them, compiled
    when a device of that kind is first opened.

    Raises DeviceError for a folder without descriptors, for one that cannot be read or that says a board, a
    kind's number or a kind's kernels as another has them, and for a new kind without C.
    """
    folder = Path(folder)
    files = sorted(folder.glob("*.json"))
    if not files:
        raise DeviceError(
            f"{folder} has no descriptor of a device, a file that ends in .json", got=str(folder)
        )
    made = [_read(file) for file in files]
    before = {d.kind for d in boards().values()} - set(_code)
    for file, descriptor in zip(files, made, strict=True):
        _check(file, descriptor, made)
        source = folder / f"{descriptor.kind}.c"
        if descriptor.kind not in before and _code.setdefault(descriptor.kind, source) != source:
            text = f"{file}: kind {descriptor.kind} is that of {_code[descriptor.kind]}"
            raise DeviceError(text, got=descriptor.kind)
    for descriptor in made:
        boards()[descriptor.name] = descriptor
    for known in (dl_kinds, kernels_of):
        known.cache_clear()
    return [descriptor.name for descriptor in made]


def _read(file: Path) -> Descriptor:
    try:
        return read_descriptor(file.read_bytes())
    except (OSError, ValueError, DocumentError) as error:
        raise DeviceError(f"cannot read device {file}: {error}", got=str(file)) from None
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        text = f"{file} is no descriptor of a device: {error}; schemas/device.schema.json says what is"
        raise DeviceError(text, got=str(file)) from None


def _check(file: Path, descriptor: Descriptor, beside: list[Descriptor]) -> None:
    others = [d for d in boards().values() if d.name != descriptor.name or _is_other(d, descriptor)]
    kinds = {d.kind: d for d in others}
    for other in (*others, *(d for d in beside if d is not descriptor)):
        if other.name == descriptor.name:
            raise DeviceError(f"{file}: there is a device {other.name} already", got=other.name)
        if not other.test_only and (other.kind == descriptor.kind) != (other.dl_type == descriptor.dl_type):
            text = (
                f"{file}: kind {descriptor.kind} has dl_type {descriptor.dl_type}, and {other.name}, of kind "
                f"{other.kind}, has {other.dl_type}: one number a kind"
            )
            raise DeviceError(text, got=descriptor.dl_type)
    own = file.parent / f"{descriptor.kind}.c"
    if descriptor.kind not in kinds and not own.exists():
        raise DeviceError(f"{file}: kind {descriptor.kind} has no C: {own.name} beside it", got=str(own))


def _is_other(known: Descriptor, descriptor: Descriptor) -> bool:
    """Whether it is more than the same file read again."""
    return known != descriptor


def code_of(kind: str) -> Path | None:
    """The C file of a kind that another package brought; None for this package's."""
    return _code.get(kind)
