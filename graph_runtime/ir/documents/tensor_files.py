"""Tensor files of numpy (.npy, .npz) and .safetensors, read from a mapped file. No content is unpickled or
evaluated."""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, ParamsError
from ...base.files.zip_size import most_members
from ...base.json_text import parse_json
from .params import Cursor, map_params, name_arrays, view

if TYPE_CHECKING:
    import zipfile


def read_marked(path: Path) -> dict[str, np.ndarray]:
    """Parameters of a file whose name tells its format (params.MARKED); raises the errors of
    params.read_params. Arrays of compressed ``.npz`` members are copies."""
    data = map_params(path)
    cursor = Cursor(
        data,
        lambda message, offset: ParamsError(
            f"cannot read parameters {path}: {message} (byte {offset})", offset=offset
        ),
    )
    found = read_npz(cursor) if path.suffix == ".npz" else read_safetensors(cursor)
    return name_arrays(data, found)


# ---------------------------------------------------------------- .safetensors

_SAFE = {f.safetensors: dtype for dtype, f in dtypes.BY_DTYPE.items() if f.safetensors}


def read_safetensors(cursor: Cursor) -> dict[str, np.ndarray]:
    """Arrays of a .safetensors file: u64 length, that many bytes of JSON {name: {dtype, shape,
    data_offsets}}, then the data, which the arrays cover without gap or overlap."""
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
            text = f"parameter {name!r} begins at byte {begin} of the data, the one before it ends at {at}"
            raise cursor.error(text)
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

NPY = b"\x93NUMPY"  # first bytes of a .npy
# The only form of header that numpy writes. np.dtype evaluates text with commas and brackets, so it is given
# only texts of a letter and a size.
_NPY = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z?][0-9]{0,2})', 'fortran_order': (True|False), "
    rb"'shape': \(([0-9, ]{0,400})\), *\} *\n?\Z"
)
# A file may have _MOST_ARRAYS arrays, and one more for each _ARRAY_BYTES of its size. An array has 128 bytes
# of header and 140 in the zip; checking it takes 50 us.
_MOST_ARRAYS, _ARRAY_BYTES = 4096, 1024
# Most unpacked bytes: _UNPACKED for each byte of the file, and _ALLOWED in addition. Unpacking needs twice as
# many bytes of memory.
_UNPACKED, _ALLOWED = (
    8,
    24 << 20,
)
_MOST_RATIO = 1032  # highest ratio that deflate reaches: a member that claims more is false


def read_npy(cursor: Cursor) -> np.ndarray:
    """The array of a .npy, a view of the file."""
    return _npy(cursor, cursor.take(cursor.left, "the file"), "the array")


def read_npz(cursor: Cursor) -> dict[str, np.ndarray]:
    """The arrays of a .npz file. Stored members are views of the file, deflated members are unpacked."""
    import zipfile  # takes 3 ms, and no graph needs zipfile

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
    """Mapped bytes as the file object that zipfile reads; io.BytesIO would copy the bytes."""

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
    """The bytes of a member, at most as many as the directory says; reading through zipfile would unpack all
    bytes, however many there are."""
    import zipfile

    known = info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)  # the methods that numpy writes
    if not known or info.file_size > (info.compress_size + 64) * _MOST_RATIO or info.flag_bits & 1:
        raise cursor.error(f"member {info.filename!r} cannot be unpacked")
    archive.open(info).close()  # checks the member's header against the directory
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
