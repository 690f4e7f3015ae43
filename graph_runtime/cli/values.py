"""Values that commands are given: names with texts, sizes, and of inputs numbers, .npy files, random ones."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..base import dtypes
from ..base.cursor import Cursor
from ..base.errors import InputError
from ..base.files.mapped import map_file
from ..base.json_text import brief
from ..ir.documents.tensor_files import read_npy
from ..ir.graph import TensorType

__all__ = ["constants", "pairs", "random_array", "read_input", "read_texts", "sizes"]

_INPUT = "--input takes a .npy file or the word random"


def pairs(items: Sequence[str] | None, option: str, shown: str = "NAME=VALUE") -> dict[str, str]:
    """{left: right} of left=right texts. Raises InputError, with the example ``shown``, for one without
    an equals sign."""
    found = {}
    for item in items or ():
        left, equals, right = item.partition("=")
        if not (left and equals and right):
            raise InputError(f"{option} {brief(item)!r}: write {option} {shown}", got=item)
        found[left] = right
    return found


def sizes(dims: Sequence[str] | None) -> dict[str, int | tuple[int, ...]]:
    """{dimension: size, input: sizes, dimension: buckets} of --dim batch=4, x=1x3x224, batch=1,8,32. Raises
    InputError for a size that is no positive number."""
    found: dict[str, int | tuple[int, ...]] = {}
    for name, text in pairs(dims, "--dim", "batch=4").items():
        parts = text.split("," if "," in text else "x")
        if not all(part.isdecimal() and len(part) < 11 and 0 < int(part) < 1 << 31 for part in parts):
            raise InputError(
                f"--dim {brief(name)}={brief(text)}: a size is a positive number, as in --dim batch=4",
                got=text,
            )
        found[name] = int(text) if len(parts) == 1 else tuple(map(int, parts))
    return found


def constants(values: Mapping[str, str]) -> dict[str, Any]:
    """{input: number, numbers or array} of --value NAME=text. Raises InputError for what is neither numbers
    nor a file."""
    return {name: _constant(name, text) for name, text in values.items()}


def _constant(name: str, text: str) -> Any:
    try:
        found = orjson.loads(f"[{text.lower()}]")
    except ValueError:
        found = None
    if not found or not all(isinstance(item, (bool, int, float)) for item in found):
        if Path(text).suffix == ".npy":
            return _read_array(text, "--value takes numbers or a .npy file")
        raise InputError(
            f"--value {brief(name)}={brief(text)}: a value is a number, numbers as 1,2,3, true, false, or "
            "a .npy file",
            got=text,
        )
    return found if len(found) > 1 else found[0]


def random_array(type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """Values for an input that the user did not give: normal floats, small integers."""
    dtype = dtypes.to_numpy(type_.dtype)
    if dtype.kind in "iub":
        return rng.integers(0, 2, type_.shape).astype(dtype)
    return rng.standard_normal(type_.shape).astype(dtype)


def read_input(text: str, type_: TensorType, rng: np.random.Generator) -> np.ndarray:
    """The value of --input NAME=text: "random", or a .npy file."""
    if text == "random":
        return random_array(type_, rng)

    return _read_array(text, _INPUT)


def read_texts(text: str) -> np.ndarray:
    """The strings of a .npy file, as an array of objects. Raises InputError."""
    try:
        array = np.load(text, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # whatever numpy's reader of headers raises, of tokens too
        raise InputError(
            f"cannot read {text}: {error}; strings are a .npy file of numpy's own: "
            "numpy.save(file, numpy.array(texts, str))",
            got=text,
        ) from None
    if not isinstance(array, np.ndarray) or array.dtype.kind != "U":
        raise InputError(f"{text} has no array of strings", got=text)
    if array.size > os.path.getsize(text):  # strings of no characters take no bytes
        raise InputError(f"{text} says that it has {array.size} strings: it has fewer bytes", got=array.size)
    return array.astype(object)


def _read_array(text: str, wanted: str) -> np.ndarray:
    """The array of a .npy file. Raises InputError, which ends with ``wanted``."""

    def wrong(message: str, offset: int) -> InputError:
        return InputError(f"cannot read {text}: {message} (byte {offset}); {wanted}", got=text)

    try:
        data = map_file(text)
    except (OSError, ValueError) as error:
        raise InputError(
            f"cannot read {text}: {getattr(error, 'strerror', None) or error}; {wanted}", got=text
        ) from None
    if data[:2] == b"PK":
        raise InputError(f"{text} is an .npz of several arrays; a .npy file has one: save it alone", got=text)
    return read_npy(Cursor(data, wrong))
