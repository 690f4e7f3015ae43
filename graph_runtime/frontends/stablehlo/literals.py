"""dense and dense_resource literals as constants: small ones are read, hexadecimal ones stay in the file."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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

__all__ = ["constant_of", "values_of"]

_HEX = re.compile(r"-?0[xX][0-9a-fA-F]+")
_WORDS = {"true": True, "false": False}
_NO_MARKS = bytes(set(range(256)) - set(b"[],"))
_PART = 1 << 16  # bytes of values that are read at a time
_HEAD = 4  # bytes before the values of a resource: their alignment


def constant_of(dense: Dense, kind: TensorType, source: Source) -> Constant:
    """The constant of a literal. Raises DocumentError for text that is no literal of this type."""
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
    """The values of a literal that is text: all of them, or the one that all are."""
    if dense.kind != "dense" or dense.text.startswith('"'):
        return constant_of(dense, kind, source).read()
    if not dense.text:
        return np.empty(_fitting(0, kind, "a literal"), dtypes.to_numpy(kind.dtype))
    if len(dense.text) < 40 and "[" not in dense.text:  # as nearly all are
        return _array([dense.text], kind)
    data = dense.text.encode()
    if b"[" not in data:
        return _array([dense.text.strip()], kind)
    if math.prod(kind.shape) > len(data) or data.translate(None, _NO_MARKS) != _marks(kind.shape):
        raise DocumentError(f"the lists of a literal are not those of {kind}", wanted=kind.shape)
    parts = [_part(part, kind) for part in _parts(data.translate(None, b"[]"))]
    return np.concatenate(parts).reshape(kind.shape)


def _marks(shape: tuple[int, ...]) -> bytes:
    """The brackets and commas of nested lists."""
    found = b""
    for count in reversed(shape):
        found = b"[" + ((found + b",") * count)[:-1] + b"]"
    return found


def _parts(flat: bytes) -> Iterator[bytes]:
    """Values with commas between them, some thousands at a time."""
    at = 0
    while at <= len(flat):
        end = flat.find(b",", at + _PART)
        end = len(flat) if end < 0 else end
        yield flat[at:end]
        at = end + 1


def _part(text: bytes, kind: TensorType) -> np.ndarray:
    """The values of a part: as JSON, if they are that."""
    dtype = dtypes.to_numpy(kind.dtype)
    plain = {bool} if kind.dtype == "bool" else {int} if dtype.kind in "iu" else {int, float}
    try:
        values = orjson.loads(b"[" + text + b"]")
        if set(map(type, values)) <= plain and dtype.kind not in "iu":
            with np.errstate(over="ignore"):
                return np.array(values, bool if kind.dtype == "bool" else np.float64).astype(dtype)
        array = np.array(values, np.int64) if set(map(type, values)) <= plain else None
        if (
            array is not None
            and array.size
            and _fits(int(array.min()), dtype)
            and _fits(int(array.max()), dtype)
        ):
            return array.astype(dtype)
    except (ValueError, OverflowError):
        pass
    return (
        _array([word.strip() for word in text.decode().split(",")], kind)
        if text.strip()
        else np.empty(0, dtype)
    )


def _fits(value: int, dtype: np.dtype) -> bool:
    """Whether the bits of an integer are those of the dtype, signed or not."""
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
                raise DocumentError(f"an integer of a literal is outside of {kind.dtype}", got=kind.dtype)
            return np.array([v % (1 << 8 * dtype.itemsize) for v in values], f"u{dtype.itemsize}").view(dtype)
        if any(_HEX.fullmatch(w) for w in words):
            return np.concatenate([_float(w, dtype) for w in words])
        with np.errstate(over="ignore"):
            return np.array([float(w) for w in words], np.float64).astype(dtype)
    except (ValueError, KeyError, OverflowError) as error:
        raise DocumentError(f"a literal of {kind} has a value that is none: {error}", wanted=kind) from None


def _float(word: str, dtype: np.dtype) -> np.ndarray:
    """A float by its value or, in hexadecimal, by its bits."""
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
    """A constant of hexadecimal values; one of a single element is repeated. ``skip``: bytes before them."""
    dtype = dtypes.to_numpy(kind.dtype)
    blob = source.text.is_blob(text)
    if not blob and not _HEX.fullmatch(text):
        raise DocumentError(f"{what} is no hexadecimal string")
    size = (source.text.blob_size(text) if blob else (len(text) - 2) // 2) - skip
    packed = kind.dtype == "bool" and size not in (math.prod(kind.shape), 1)
    wanted = (math.prod(kind.shape) + 7) // 8 if packed else kind.nbytes
    if size not in (wanted, dtype.itemsize):
        raise DocumentError(f"{what} has {size} bytes, {kind} has {wanted}", got=size, wanted=wanted)

    def read() -> np.ndarray:
        if blob:
            data = source.text.blob(text, skip)
        else:
            data = np.frombuffer(bytes.fromhex(text[2:]), np.uint8)[skip:]
        if packed:
            return (
                np.unpackbits(data, bitorder="little")[: math.prod(kind.shape)]
                .astype(bool)
                .reshape(kind.shape)
            )
        array = data.view(dtype) if kind.dtype != "bool" else data != 0
        return (
            array.reshape(kind.shape)
            if array.size == math.prod(kind.shape)
            else np.broadcast_to(array[0], kind.shape)
        )

    return Constant(kind, read, what)


def _fitting(count: int, kind: TensorType, what: str) -> Any:
    if math.prod(kind.shape) != count:
        raise DocumentError(f"{what} has {count} elements, {kind} has others", got=count, wanted=kind)
    return kind.shape
