"""Parameters: TVM's binary, read and written; ``.npz`` and ``.safetensors``, read.

    u64 0xF7E58D4F05049CB7; u64 reserved; vec<str> names; u64 count; count arrays in the order of the names
    array: u64 0xDD5E40F096B4A13F; u64 reserved; int32 device_type, device_id, ndim; u8 code, u8 bits, u16
           lanes; ndim x int64 shape; int64 bytes of data; data (little endian)

A file is memory-mapped: arrays are read-only views of it, and bytes are read only when used. TVM
accepts a file whose last array is cut, and drops lanes when it writes: both are errors here.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.cursor import Cursor
from ...base.errors import DocumentError, ParamsError, as_path
from ...base.files.mapped import map_file, name_parts
from ...base.files.writing import write_whole
from .tensor_files import read_npz, read_safetensors, view

__all__ = ["MAGIC", "MARKED", "read_array", "read_params", "save_params"]

MAGIC = (0xF7E58D4F05049CB7).to_bytes(8, "little")
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_ARRAY_HEADER = 40
_MOST_DIMS = 32
MARKED = (".npz", ".safetensors")  # names that tell what a file is


def read_params(
    source: bytes | bytearray | memoryview | str | os.PathLike[str] | Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Parameters by name, from TVM's binary (bytes or a path), ``.npz``, ``.safetensors`` (paths), or a
    mapping, which is taken as it is. artifacts/parameters.py reads those of bundles, too.

    Arrays of a file are read-only views of the mapped file (compressed ``.npz`` members: copies). Raises
    ParamsError, with ``offset`` in bytes, for what is truncated, malformed or of a dtype that has no array
    form.
    """
    if isinstance(source, Mapping):
        return {str(name): np.asarray(value) for name, value in source.items()}
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read_tvm(memoryview(source).cast("B"), "params")
    path = as_path(source, "a parameter file")
    data = _map(path)
    return _named(data, _read_marked(data, path) if path.suffix in MARKED else _read_tvm(data, str(path)))


def _named(data: memoryview, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays, and what lies where in the file's bytes is known to the code that explains a fault."""
    first = np.frombuffer(data, np.uint8).ctypes.data
    begins = {name: array.ctypes.data - first for name, array in found.items() if array.nbytes}
    name_parts(
        data,
        {
            name: (begin, begin + found[name].nbytes)
            for name, begin in begins.items()
            if 0 <= begin < len(data)
        },
    )  # others were unpacked
    return found


def _read_marked(data: memoryview, path: Path) -> dict[str, np.ndarray]:
    cursor = Cursor(
        data,
        lambda message, offset: ParamsError(
            f"cannot read parameters {path}: {message} (byte {offset})", offset=offset
        ),
    )
    return read_npz(cursor) if path.suffix == ".npz" else read_safetensors(cursor)


def _map(path: Path) -> memoryview:
    try:
        return map_file(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise ParamsError(f"cannot read parameters {path}: {reason}", got=str(path)) from None


# **************** TVM's binary ****************


def _read_tvm(data: memoryview, where: str) -> dict[str, np.ndarray]:
    cursor = Cursor(
        data, lambda message, offset: ParamsError(f"{where}: {message} (byte {offset})", offset=offset)
    )
    if bytes(cursor.take(8, "magic number")) != MAGIC:
        cursor.offset = 0
        raise cursor.error(
            "this is no TVM parameter file: it does not begin with b7 9c 04 05 4f 8d e5 f7; .npz and "
            ".safetensors are "
            "told by their file names, and raw values of a bundle are read with bundle.json beside them"
        )
    cursor.u64("reserved word")
    names = cursor.texts("parameter names", _ARRAY_HEADER)
    if cursor.count(_ARRAY_HEADER, "number of arrays") != len(names):
        raise cursor.error(f"the number of arrays is not that of the names, {len(names)}")
    params: dict[str, np.ndarray] = {}
    for name in names:
        if name in params:
            raise cursor.error(f"parameter {name!r} stands twice")
        params[name] = read_array(cursor, name)
    if cursor.left:
        warnings.warn(f"{where}: {cursor.left} bytes after the last parameter were ignored", stacklevel=3)
    return params


def read_array(cursor: Cursor, name: str) -> np.ndarray:
    """One array record at the cursor, as a read-only view. ``name`` is for errors."""
    what = f"parameter {name!r}"
    if cursor.u64(f"magic of {what}") != _ARRAY_MAGIC:
        raise cursor.error(f"{what} does not begin with the magic number of an array")
    cursor.u64("reserved word")
    device_type = cursor.signed(4, f"device of {what}")
    cursor.signed(4, f"device of {what}")
    if device_type != _CPU:
        raise cursor.error(
            f"Invalid DLTensor device: can only save as CPU tensor; {what} says device type {device_type}"
        )
    ndim = cursor.signed(4, f"rank of {what}")
    if not 0 <= ndim <= _MOST_DIMS:
        raise cursor.error(f"{what} has rank {ndim}, at most {_MOST_DIMS} are possible")
    dtype = _dtype(cursor, what)
    shape = tuple(cursor.signed(8, f"shape of {what}") for _ in range(ndim))
    nbytes = cursor.signed(8, f"size of {what}")
    if any(d < 0 for d in shape) or math.prod(shape) * dtype.itemsize != nbytes:
        raise cursor.error(f"{what} is {dtype.name}{list(shape)} and says it has {nbytes} bytes")
    return view(cursor, cursor.take(nbytes, f"data of {what}"), dtype, shape, what)


def _dtype(cursor: Cursor, what: str) -> np.dtype:
    code, bits, lanes = cursor.unsigned(1, what), cursor.unsigned(1, what), cursor.unsigned(2, what)
    kinds = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
    if lanes != 1 or code not in kinds:
        raise cursor.error(
            f"{what} has type code {code} with {lanes} lanes: only scalars of int, uint, float, bfloat "
            "have an array form"
        )
    try:
        return dtypes.to_numpy(dtypes.canonical(f"{kinds[code]}{bits}"))
    except DocumentError as error:
        raise cursor.error(f"{what}: {error}") from None


def save_params(params: Mapping[str, Any], path: str | os.PathLike[str] | None = None) -> bytes:
    """TVM's binary of parameters, names sorted, so that equal parameters give equal bytes; written to
    ``path`` too if one is given.

    Raises ParamsError for a dtype that the format cannot hold, WriteError.
    """
    names = sorted(params)
    parts = [MAGIC, bytes(8), len(names).to_bytes(8, "little")]
    for name in names:
        raw = name.encode()
        parts += [len(raw).to_bytes(8, "little"), raw]
    parts.append(len(names).to_bytes(8, "little"))
    for name in names:
        parts += _array_record(name, np.asarray(params[name]))
    data = b"".join(parts)
    if path is not None:
        write_whole(path, data)
    return data


def _array_record(name: str, array: np.ndarray) -> list[bytes]:
    try:
        dtype = dtypes.parse(dtypes.from_numpy(array.dtype))
    except DocumentError as error:
        raise ParamsError(f"parameter {name!r}: {error}", got=str(array.dtype)) from None
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    head = (
        np.array([_CPU, 0, array.ndim], "<i4").tobytes()
        + bytes([dtype.code, dtype.bits])
        + (1).to_bytes(2, "little")
    )
    return [
        _ARRAY_MAGIC.to_bytes(8, "little"),
        bytes(8),
        head,
        np.array(array.shape, "<i8").tobytes(),
        array.nbytes.to_bytes(8, "little"),
        np.ascontiguousarray(little).tobytes(),
    ]
