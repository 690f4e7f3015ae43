"""Constants of dense and dense_resource literals: small ones are read, hexadecimal ones stay in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import DocumentError
from ...ir.graph import TensorType
from ...ir.model import Constant
from ..onnx.read import check_size
from .syntax import Dense

if TYPE_CHECKING:
    from .source import Source

_HEX = re.compile(r"-?0[xX][0-9a-fA-F]+")
_WORDS = {"true": True, "false": False}
_NO_MARKS = bytes(set(range(256)) - set(b"[],"))
_PART = 1 << 16  # bytes of text that are converted at a time
_HEAD = 4  # bytes before the values of a resource, with their alignment


def constant_of(dense: Dense, kind: TensorType, source: Source) -> Constant:
    """The constant of a literal. Raises DocumentError for a text that is not a literal of this type."""
    check_size(kind, "a literal")
    text = dense.text
    if dense.kind == "dense_resource":
        return _resource(text, kind, source)
    if text.startswith('"'):
        return _binary(text[1:-1], kind, source, 0, "a literal")
    array = values_of(dense, kind, source)
    if array.size == 1 and kind.nbytes > array.nbytes:
        flat = array.reshape(())
        return Constant(kind, lambda: np.broadcast_to(flat, kind.shape), f"a literal {text[:20]}")
    return Constant.of(array.reshape(kind.shape), "a literal")


def values_of(dense: Dense, kind: TensorType, source: Source) -> np.ndarray:
    """Values of a literal that is text: all of them, or a single value if all are equal."""
    if dense.kind != "dense" or dense.text.startswith('"'):
        return constant_of(dense, kind, source).read()
    if not dense.text:
        if kind.size:
            raise DocumentError(f"a literal has no elements, but its type is {kind}", got=0, wanted=kind)
        return np.empty(kind.shape, dtypes.to_numpy(kind.dtype))
    if len(dense.text) < 40 and "[" not in dense.text:  # nearly all literals
        return _array([dense.text], kind)
    data = dense.text.encode()
    if b"[" not in data:
        return _array([dense.text.strip()], kind)
    if kind.size > len(data) or data.translate(None, _NO_MARKS) != _marks(kind.shape):
        raise DocumentError(f"the lists of a literal do not have the shape of {kind}", wanted=kind.shape)
    parts = [_part(part, kind) for part in _parts(data.translate(None, b"[]"))]
    return np.concatenate(parts).reshape(kind.shape)


def _marks(shape: tuple[int, ...]) -> bytes:
    """The brackets and commas of nested lists of this shape."""
    found = b""
    for count in reversed(shape):
        found = b"[" + ((found + b",") * count)[:-1] + b"]"
    return found


def _parts(flat: bytes) -> Iterator[bytes]:
    """The text of values separated by commas, in parts of about _PART bytes."""
    at = 0
    while at <= len(flat):
        end = flat.find(b",", at + _PART)
        end = len(flat) if end < 0 else end
        yield flat[at:end]
        at = end + 1


def _part(text: bytes, kind: TensorType) -> np.ndarray:
    """Values of a part; read as JSON if the text is JSON."""
    dtype = dtypes.to_numpy(kind.dtype)
    plain = {bool} if kind.dtype == "bool" else {int} if dtype.kind in "iu" else {int, float}
    try:
        values = orjson.loads(b"[" + text + b"]")
        if set(map(type, values)) <= plain and dtype.kind not in "iu":
            with np.errstate(over="ignore"):
                return np.array(values, bool if kind.dtype == "bool" else np.float64).astype(dtype)
        if set(map(type, values)) <= plain and values:
            array = np.array(values, np.int64)
            if _fits(int(array.min()), dtype) and _fits(int(array.max()), dtype):
                return array.astype(dtype)
    except (ValueError, OverflowError):
        pass
    if not text.strip():
        return np.empty(0, dtype)
    return _array([word.strip() for word in text.decode().split(",")], kind)


def _fits(value: int, dtype: np.dtype) -> bool:
    """Whether an integer fits the dtype, as a signed or unsigned number with the dtype's number of bits."""
    bits = 8 * dtype.itemsize
    return -(1 << (bits - 1)) <= value < 1 << bits


def _array(words: list[str], kind: TensorType) -> np.ndarray:
    dtype = dtypes.to_numpy(kind.dtype)
    try:
        if kind.dtype == "bool":
            return np.array([_WORDS[w] if w in _WORDS else bool(int(w)) for w in words])
        if dtype.kind in "iu":
            values = [int(w, 16) if _HEX.fullmatch(w) else _WORDS.get(w, None) or int(w) for w in words]
            if not all(_fits(v, dtype) for v in values):
                raise DocumentError(
                    f"an integer of a literal is out of range for {kind.dtype}",
                    got=kind.dtype,
                )
            return np.array([v % (1 << 8 * dtype.itemsize) for v in values], f"u{dtype.itemsize}").view(dtype)
        if any(_HEX.fullmatch(w) for w in words):
            return np.concatenate([_float(w, dtype) for w in words])
        with np.errstate(over="ignore"):
            return np.array([float(w) for w in words], np.float64).astype(dtype)
    except (ValueError, KeyError, OverflowError) as error:
        raise DocumentError(f"a literal of {kind} has an invalid value: {error}", wanted=kind) from None


def _float(word: str, dtype: np.dtype) -> np.ndarray:
    """A float from its decimal text, or from its bits in hexadecimal."""
    if _HEX.fullmatch(word):
        return np.array([int(word, 16)], f"u{dtype.itemsize}").view(dtype)
    with np.errstate(over="ignore"):
        return np.array([float(word)]).astype(dtype)


def _resource(name: str, kind: TensorType, source: Source) -> Constant:
    name = name.strip('"')
    if name not in source.resources:
        raise DocumentError(f"there is no resource {name!r} in the text", got=name)
    return _binary(source.resources[name], kind, source, _HEAD, f"resource {name}")


def _binary(text: str, kind: TensorType, source: Source, skip: int, what: str) -> Constant:
    """Constant of hexadecimal values; a single element is repeated. ``skip``: number of bytes before the
    values."""
    dtype = dtypes.to_numpy(kind.dtype)
    blob = source.text.is_blob(text)
    if not blob and not _HEX.fullmatch(text):
        raise DocumentError(f"{what} is not a hexadecimal string")
    size = (source.text.blob_size(text) if blob else (len(text) - 2) // 2) - skip
    packed = kind.dtype == "bool" and size not in (kind.size, 1)
    wanted = (kind.size + 7) // 8 if packed else kind.nbytes
    if size not in (wanted, dtype.itemsize):
        raise DocumentError(f"{what} has {size} bytes, but {kind} has {wanted}", got=size, wanted=wanted)

    def read() -> np.ndarray:
        if blob:
            data = source.text.blob(text, skip)
        else:
            data = np.frombuffer(bytes.fromhex(text[2:]), np.uint8)[skip:]
        if packed:
            return np.unpackbits(data, bitorder="little")[: kind.size].astype(bool).reshape(kind.shape)
        array = data.view(dtype) if kind.dtype != "bool" else data != 0
        return array.reshape(kind.shape) if array.size == kind.size else np.broadcast_to(array[0], kind.shape)

    return Constant(kind, read, what)
