"""Parameters: reading and writing TVM's binary format. tensor_files.py reads ``.npz`` and ``.safetensors``.

    u64 0xF7E58D4F05049CB7; u64 reserved; vec<str> names; u64 count; count arrays in the order of the names
    array: u64 0xDD5E40F096B4A13F; u64 reserved; int32 device_type, device_id, ndim; u8 code, u8 bits, u16
           lanes; ndim x int64 shape; int64 bytes of data; data (little endian)

A file is memory-mapped: arrays are read-only views of it, and bytes are read only when used. TVM accepts a
truncated last array, and drops lanes when it writes; here both are errors.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, ParamsError
from ...base.files.mapped import as_path, map_file, name_parts
from ...base.files.writing import write_whole

MAGIC = (0xF7E58D4F05049CB7).to_bytes(8, "little")
_ARRAY_MAGIC = 0xDD5E40F096B4A13F
_CPU = 1
_ARRAY_HEADER = 40
_MOST_DIMS = 32
MARKED = (".npz", ".safetensors")  # extensions by which a format is recognised


def read_params(
    source: bytes | bytearray | memoryview | str | os.PathLike[str] | Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """{name: array} from TVM's binary (bytes or a path), or from a mapping of names to arrays.
    artifacts/prepare.py also reads other files and bundles.

    Arrays of a file are read-only views of the mapped file. Raises ParamsError, with ``offset`` in bytes, for
    truncated or malformed data and for a dtype without an array form."""
    if isinstance(source, Mapping):
        return {str(name): np.asarray(value) for name, value in source.items()}
    if isinstance(source, (bytes, bytearray, memoryview)):
        return _read_tvm(memoryview(source).cast("B"), "params")
    path = as_path(source, "a parameter file")
    data = map_params(path)
    return name_arrays(data, _read_tvm(data, str(path)))


def name_arrays(data: memoryview, found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The arrays ``found``, unchanged. Registers which bytes of the file each array has, for the code that
    explains page faults."""
    first = np.frombuffer(data, np.uint8).ctypes.data
    begins = {name: array.ctypes.data - first for name, array in found.items() if array.nbytes}
    name_parts(
        data,
        # arrays outside of ``data`` were unpacked, so they have no bytes of the file
        {n: (begin, begin + found[n].nbytes) for n, begin in begins.items() if 0 <= begin < len(data)},
    )
    return found


def map_params(path: Path) -> memoryview:
    """The bytes of a file of parameters. Raises ParamsError."""
    try:
        return map_file(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the path
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
            ".safetensors are recognised by their file names, and raw values of a bundle are read with "
            "bundle.json beside them"
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
    """The array at the cursor, as a read-only view. ``name``: the array's name in errors."""
    what = f"parameter {name!r}"
    if cursor.u64(f"magic of {what}") != _ARRAY_MAGIC:
        raise cursor.error(f"{what} does not begin with the magic number of an array")
    cursor.u64("reserved word")
    device_type = cursor.signed(4, f"device of {what}")
    cursor.signed(4, f"device of {what}")
    if device_type != _CPU:
        text = f"Invalid DLTensor device: can only save as CPU tensor; {what} says device type {device_type}"
        raise cursor.error(text)
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
            f"{what} has type code {code} with {lanes} lanes: only scalars of int, uint, float, bfloat have "
            "an array form"
        )
    try:
        return dtypes.to_numpy(dtypes.canonical(f"{kinds[code]}{bits}"))
    except DocumentError as error:
        raise cursor.error(f"{what}: {error}") from None


def save_params(params: Mapping[str, Any], path: str | os.PathLike[str] | None = None) -> bytes:
    """TVM's binary of parameters, sorted by name, so that equal parameters give equal bytes. ``path``: also
    write the bytes there. Raises ParamsError for a dtype that the format cannot hold, WriteError."""
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


# **************** records of unknown origin ****************


class Cursor:
    """A position in little-endian bytes. ``fail(message, offset)``: makes the exception that a bad read
    raises."""

    __slots__ = ("_data", "_end", "_fail", "offset")

    offset: int

    def __init__(self, data: memoryview, fail: Callable[[str, int], Exception]):
        self._data, self._end, self._fail, self.offset = data, len(data), fail, 0

    def error(self, message: str) -> Exception:
        """The exception for a fault at the current position, for the caller to raise."""
        return self._fail(message, self.offset)

    @property
    def left(self) -> int:
        """Bytes that can still be read."""
        return self._end - self.offset

    def limit(self, nbytes: int, what: str) -> None:
        """Let the readable bytes end ``nbytes`` after the current position."""
        if nbytes > self.left:
            raise self.error(f"{what} says it has {nbytes} bytes, {self.left} are left")
        self._end = self.offset + nbytes

    def take(self, nbytes: int, what: str) -> memoryview:
        """The next ``nbytes`` bytes, as a view. ``what``: names the bytes in errors, here and in the other
        methods."""
        if nbytes > self.left:
            raise self.error(f"truncated in {what}: it needs {nbytes} bytes, {self.left} are left")
        view = self._data[self.offset : self.offset + nbytes]
        self.offset += nbytes
        return view

    def unsigned(self, nbytes: int, what: str) -> int:
        """The next ``nbytes`` bytes as an unsigned integer."""
        return int.from_bytes(self.take(nbytes, what), "little")

    def signed(self, nbytes: int, what: str) -> int:
        """The next ``nbytes`` bytes in two's complement."""
        return int.from_bytes(self.take(nbytes, what), "little", signed=True)

    def u64(self, what: str) -> int:
        """The next eight bytes as an unsigned integer."""
        return self.unsigned(8, what)

    def count(self, least_bytes: int, what: str) -> int:
        """A number of items, stored as a u64, of at least ``least_bytes`` each. Raises before anything is
        allocated if the remaining bytes are too few for so many items."""
        n = self.u64(what)
        if n * least_bytes > self.left:
            self.offset -= 8
            raise self.error(f"{what} is {n}, more than fits in the {self.left} bytes that are left")
        return n

    def text(self, what: str) -> str:
        """A text, stored as a u64 length and UTF-8 bytes."""
        raw = self.take(self.count(1, f"length of the {what}"), what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError:
            self.offset -= len(raw)
            raise self.error(f"the {what} is not UTF-8") from None

    def texts(self, what: str, behind: int = 0) -> list[str]:
        """Texts, stored as a u64 count and so many texts. ``behind``: least number of bytes per text that
        must follow the last text."""
        return [self.text(what) for _ in range(self.count(8 + behind, f"number of {what}"))]

    def finished(self, what: str) -> None:
        """Raise the cursor's exception if bytes are left."""
        if self.left:
            raise self.error(f"{self.left} bytes are left after {what}")


def view(cursor: Cursor, data: memoryview, dtype: np.dtype, shape: tuple[int, ...], what: str) -> np.ndarray:
    """A read-only array over bytes. Raises the cursor's error, about ``what``, for a shape that numpy does
    not allow, and for bools whose bytes are not 0 or 1."""
    try:
        array = np.ndarray(shape, dtype, data)
    except ValueError as error:
        raise cursor.error(f"{what} of shape {list(shape)}: {error}") from None
    if dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise cursor.error(f"{what} is bool and holds bytes other than 0 and 1")
    array.flags.writeable = False
    return array
