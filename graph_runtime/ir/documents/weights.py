"""The parameter file of a bundle: raw values one after the other, each at a multiple of 64 bytes, so that the
file is mapped and used in place. bundle.json has the place of each value.

    {key: TensorType} --lay_out--> {key: Slot}      then write_values streams, map_values maps
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, ParamsError
from ...base.files.mapped import map_opened, open_file
from ...base.progress import Count, uncounted
from ..graph import TensorType

ALIGNMENT = 64


class Slot(NamedTuple):
    """The place of a parameter: its ``type``, and its ``offset`` in bytes from the beginning of the file."""

    type: TensorType
    offset: int

    @property
    def end(self) -> int:
        """The first byte after the parameter."""
        return self.offset + self.type.nbytes


class Sink(Protocol):
    """A writable file, or an object that hashes the bytes written."""

    def write(self, data: Any, /) -> Any: ...


def type_of(value: Any) -> TensorType:
    """The type of an array or a Constant, without reading its values. Raises ParamsError for a dtype that
    graphs do not have."""
    if isinstance(getattr(value, "type", None), TensorType):
        return value.type
    array = np.asarray(value)
    try:
        return TensorType(dtypes.from_numpy(array.dtype), array.shape)
    except DocumentError as error:
        raise ParamsError(str(error), got=str(array.dtype)) from None


def lay_out(types: Mapping[str, TensorType]) -> tuple[dict[str, Slot], int]:
    """({key: Slot} in the given order, size of the file in bytes)."""
    slots, end = {}, 0
    for key, type_ in types.items():
        begin = -(-end // ALIGNMENT) * ALIGNMENT
        slots[key] = Slot(type_, begin)
        end = slots[key].end
    return slots, end


def write_values(
    sink: Sink, slots: Mapping[str, Slot], values: Mapping[str, Any], tell: Count = uncounted
) -> None:
    """Write parameters, holding one in memory at a time. ``values``: an array or a Constant for each slot.
    ``tell`` is called with (parameters written, parameters in total). Raises ParamsError if the array read
    from a Constant has another type than the Constant, and what reading raises."""
    at = 0
    for done, (key, slot) in enumerate(slots.items()):
        tell(done, len(slots))
        array = _read(key, slot.type, values[key])
        sink.write(bytes(slot.offset - at))
        sink.write(array.reshape(-1).view(np.uint8).data)
        at = slot.end
        del array
    tell(len(slots), len(slots))


def _read(key: str, type_: TensorType, value: Any) -> np.ndarray:
    """The value as a C-contiguous little-endian array."""
    array = np.asarray(value.read() if hasattr(value, "read") else value)
    wanted = dtypes.to_numpy(type_.dtype)
    if array.shape != type_.shape or array.dtype.newbyteorder("=") != wanted.newbyteorder("="):
        text = f"parameter {key!r} is {type_}, its source gives {array.dtype.name}{list(array.shape)}"
        raise ParamsError(text, got=str(array.dtype), wanted=str(type_))
    return np.ascontiguousarray(array.astype(wanted.newbyteorder("<"), copy=False))


# **************** reading ****************


def check_slots(slots: Mapping[str, Slot], size: int, where: str) -> None:
    """Raise ParamsError for a parameter that is not aligned, or not within a file of ``size`` bytes."""
    for key, slot in slots.items():
        if slot.end > size:
            text = f"{where}: parameter {key!r} ({slot.type}) ends at byte {slot.end}, the file has {size}"
            raise ParamsError(text, offset=slot.offset, got=slot.end, wanted=size)
        if slot.offset % ALIGNMENT:
            raise ParamsError(
                f"{where}: parameter {key!r} begins at byte {slot.offset}, which is no "
                f"multiple of {ALIGNMENT}",
                offset=slot.offset,
            )


def map_values(
    file: Path,
    begin: int,
    size: int,
    slots: Mapping[str, Slot],
    keys: Iterable[str],
    sha256: str | None = None,
) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """(arrays, identity). arrays: {key: array} over bytes ``begin`` to ``begin + size`` of a file, mapped
    privately. identity: numbers that identify the file and its last change; another file, or changed
    contents, have other numbers. ``sha256``: hash that the bytes must have; if it is given, the bytes are
    read into memory instead of mapped.

    Mapped bytes are read only when used, and processes share equal pages; writes to an array change this
    mapping, never the file. Raises ParamsError for an unreadable or changed file."""
    keys = list(keys)
    try:
        with open_file(file) as opened:
            now = os.fstat(opened.fileno())
            data = map_opened(
                opened,
                file,
                begin,
                size,
                private=True,
                mapped=sha256 is None,
                parts={key: (slots[key].offset, slots[key].end) for key in keys},
            )
    except OSError as error:
        text = f"cannot read {file}: {error.strerror or error}"
        raise ParamsError(text, got=str(file), offset=begin) from None
    if sha256 is not None:
        import hashlib  # takes 3 ms, and few graphs need it

        if (got := hashlib.sha256(data).hexdigest()) != sha256:
            text = f"{file} was changed: its sha256 is {got}, the bundle says {sha256}"
            raise ParamsError(text, got=got, wanted=sha256)
    which = now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns
    return {key: _view(data, key, slots[key]) for key in keys}, which


def _view(data: memoryview, key: str, slot: Slot) -> np.ndarray:
    try:
        array = np.ndarray(slot.type.shape, dtypes.to_numpy(slot.type.dtype), data[slot.offset : slot.end])
    except ValueError as error:  # numpy cannot hold a dimension so large, even with a 0 in the shape
        raise ParamsError(f"parameter {key!r} ({slot.type}): {error}", offset=slot.offset) from None
    if array.dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise ParamsError(f"parameter {key!r} is bool and holds bytes other than 0 and 1", offset=slot.offset)
    return array
