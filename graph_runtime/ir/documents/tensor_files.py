"""Tensors that others write: numpy's .npy and .npz, and .safetensors, read from a mapped file. Nothing is
unpickled or evaluated."""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import dtypes
from ...base.cursor import Cursor
from ...base.errors import DocumentError
from ...base.files.zip_size import most_members
from ...base.json_text import parse_json

if TYPE_CHECKING:
    import zipfile

__all__ = ["NPY", "read_npy", "read_npz", "read_safetensors", "view"]


def view(cursor: Cursor, data: memoryview, dtype: np.dtype, shape: tuple[int, ...], what: str) -> np.ndarray:
    """A read-only array over bytes. Raises the cursor's error, about ``what``, for a shape numpy cannot have
    and for bytes that are no bools."""
    try:
        array = np.ndarray(shape, dtype, data)
    except ValueError as error:
        raise cursor.error(f"{what} of shape {list(shape)}: {error}") from None
    if dtype == np.bool_ and (array.view(np.uint8) > 1).any():
        raise cursor.error(f"{what} is bool and holds bytes other than 0 and 1")
    array.flags.writeable = False
    return array


# ---------------------------------------------------------------- .safetensors

_SAFE = {f.safetensors: dtype for dtype, f in dtypes.BY_DTYPE.items() if f.safetensors}


def read_safetensors(cursor: Cursor) -> dict[str, np.ndarray]:
    """u64 length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, then the data, covered
    without gap or overlap."""
    header = _header(cursor)
    data = cursor.take(cursor.left, "data")
    found, spans = {}, []
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, shape, (begin, end) = _entry(cursor, name, entry)
        if not 0 <= begin <= end <= len(data) or end - begin != math.prod(shape) * dtype.itemsize:
            raise cursor.error(
                f"parameter {name!r} of {dtype} {list(shape)} cannot lie at bytes {begin} to {end} of "
                f"{len(data)}"
            )
        spans.append((begin, end, name))
        found[name] = view(cursor, data[begin:end], dtype, shape, f"parameter {name!r}")
    at = 0
    for begin, end, name in sorted(spans):
        if begin != at:
            raise cursor.error(
                f"parameter {name!r} begins at byte {begin} of the data, the one before it ends at {at}"
            )
        at = end
    if at != len(data):
        raise cursor.error(f"{len(data) - at} bytes of data belong to no parameter")
    return found


def _header(cursor: Cursor) -> dict[str, Any]:
    text = cursor.take(cursor.count(1, "length of the header"), "the header")
    try:
        header = parse_json(bytes(text), "the header")
    except DocumentError as error:
        raise cursor.error(f"malformed .safetensors header: {error}") from None
    if not isinstance(header, dict):
        raise cursor.error("malformed .safetensors header: it is no object")
    return header


def _entry(cursor: Cursor, name: str, entry: Any) -> tuple[np.dtype, tuple[int, ...], tuple[int, int]]:
    def whole(value: Any) -> bool:
        return isinstance(value, list) and all(type(v) is int and 0 <= v < 2**62 for v in value)

    if (
        not isinstance(entry, dict)
        or not whole(entry.get("shape"))
        or not whole(entry.get("data_offsets"))
        or len(entry["data_offsets"]) != 2
        or len(entry["shape"]) > 32
    ):
        raise cursor.error(f"parameter {name!r}: its entry must have dtype, shape and data_offsets")
    dtype = entry.get("dtype")
    if not isinstance(dtype, str) or dtype not in _SAFE:
        raise cursor.error(
            f"parameter {name!r}: dtype {str(dtype)[:40]!r} is not supported; use one of {', '.join(_SAFE)}"
        )
    return dtypes.to_numpy(_SAFE[dtype]), tuple(entry["shape"]), tuple(entry["data_offsets"])


# ---------------------------------------------------------------- .npy, .npz

NPY = b"\x93NUMPY"  # how a .npy begins
# The one form in which numpy writes it. np.dtype evaluates what has commas and brackets, so it is given a
# letter and a size only.
_NPY = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z?][0-9]{0,2})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,400})\), *\} *\n?\Z"
)
# an array has 128 bytes of header and 140 in the zip; looking at one takes 50 us
_MOST_ARRAYS, _ARRAY_BYTES = 4096, 1024
_UNPACKED, _ALLOWED = 8, 24 << 20  # bytes for each of the file, and more; unpacking takes them twice
_MOST_RATIO = 1032  # deflate cannot pack tighter, so a size beyond that is a lie


def read_npy(cursor: Cursor) -> np.ndarray:
    """The array of a .npy, a view of the file."""
    return _npy(cursor, cursor.take(cursor.left, "the file"), "the array")


def read_npz(cursor: Cursor) -> dict[str, np.ndarray]:
    """The arrays of a .npz. Stored members are views of the file, deflated ones are unpacked."""
    import zipfile  # takes 3 ms, and no graph needs it

    found: dict[str, np.ndarray] = {}
    data = cursor.take(cursor.left, "the file")
    if (count := most_members(data)) > (most := _MOST_ARRAYS + len(data) // _ARRAY_BYTES):
        raise cursor.error(f"{count} arrays in {len(data)} bytes, at most {most} are read")
    try:
        with zipfile.ZipFile(_Bytes(data)) as archive:
            packed = sum(i.file_size for i in archive.infolist() if i.compress_type != zipfile.ZIP_STORED)
            if packed > (most := _UNPACKED * len(data) + _ALLOWED):
                raise cursor.error(
                    f"its arrays have {packed} bytes once they are unpacked, at most {most} "
                    "are read from a file of its size: store it without compression"
                )
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                cursor.offset = info.header_offset
                if name in found:
                    raise cursor.error(f"parameter {name!r} stands twice")
                found[name] = _npy(cursor, _member(cursor, data, archive, info), f"parameter {name!r}")
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        ValueError,
        NotImplementedError,
        RuntimeError,
        EOFError,
    ) as error:
        raise cursor.error(f"malformed .npz: {error}") from None
    return found


class _Bytes(io.RawIOBase):
    """Mapped bytes as the file that zipfile wants; io.BytesIO would copy them."""

    def __init__(self, data: memoryview):
        self._data, self._at = data, 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: len(self._data)}[whence]
        if at < 0:
            raise OSError("negative seek position")
        self._at = at
        return at

    def readinto(self, buffer: Any) -> int:
        piece = self._data[self._at : self._at + len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)


def _member(cursor: Cursor, file: memoryview, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> memoryview:
    """The bytes of a member, no more of them than the directory says: zipfile would unpack all there are."""
    import zipfile

    known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # what numpy writes
    if not known or info.file_size > (info.compress_size + 64) * _MOST_RATIO or info.flag_bits & 1:
        raise cursor.error(f"member {info.filename!r} cannot be unpacked")
    archive.open(info).close()  # holds the local header against the directory
    names = struct.unpack("<HH", file[info.header_offset + 26 : info.header_offset + 30])
    begin = info.header_offset + 30 + sum(names)
    data = file[begin : begin + info.compress_size]
    if info.compress_type == zipfile.ZIP_DEFLATED:
        data = memoryview(zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, info.file_size + 1))
    if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
        raise cursor.error(f"member {info.filename!r} is damaged")
    return data


def _npy(cursor: Cursor, data: memoryview, what: str) -> np.ndarray:
    width = 2 if data[6:7] == b"\x01" else 4
    begin = 8 + width + int.from_bytes(data[8 : 8 + width], "little")
    match = _NPY.match(bytes(data[8 + width : begin])) if begin < 1 << 16 else None
    if bytes(data[:6]) != NPY or match is None:
        raise cursor.error(f"{what} is no plain array: .npy with a plain dtype is read, nothing is unpickled")
    try:
        dtype = np.dtype(match[1].decode())
        dtypes.from_numpy(dtype)
        shape = tuple(int(d) for d in match[3].split(b",") if d.strip())
    except (TypeError, ValueError, DocumentError) as error:
        raise cursor.error(f"{what}: {error}") from None
    if math.prod(shape) * dtype.itemsize != len(data) - begin:
        raise cursor.error(f"{what} of {dtype} {list(shape)} has {len(data) - begin} bytes of data")
    if match[2] == b"True":
        return view(cursor, data[begin:], dtype, shape[::-1], what).T
    return view(cursor, data[begin:], dtype, shape, what)
