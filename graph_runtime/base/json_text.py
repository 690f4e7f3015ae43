"""JSON text -> a value, for every document: faults with their path, no key twice, no more memory than the
size of the text allows.

orjson keeps the last value of a repeated key and does not say so. Outside of strings there is one colon
for each key, and strings keep theirs: text that has more colons than its value written again has lost a
key, and only then a slower parser is asked which.
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np
import orjson

from .errors import DocumentError

__all__ = [
    "brief",
    "count",
    "json_path",
    "parse_json",
    "parse_text",
    "refuse_dense",
    "tells_all",
    "without_repeats",
]

_BRIEF = 60
# An object takes at least so many bytes of memory, and an array. Text may have so many that they take _TIMES
# its size and _ALLOWED bytes: what programs write has far fewer (of 200 bytes of a node, two objects and five
# arrays), and text of nothing else would take 60 times its size.
_OBJECT, _ARRAY, _TIMES, _ALLOWED = 240, 72, 8, 24 << 20
# A schema's validator copies all values, each into so many bytes, which may take so many times the text.
_VALUE, _COPIED = 150, 16


def parse_json(data: bytes, what: str, *, fractions: bool = True) -> Any:
    """The value that JSON text holds. Without ``fractions`` a number that has one is refused, 4.0 too, which
    a JSON schema takes for an integer.

    Raises DocumentError: with ``line``, ``column`` (from 1, in bytes) and ``offset`` for what is no JSON,
    with ``path`` for a repeated key.
    """
    value, data = parse_text(data, what)
    refuse_dense(count(data, ",") + count(data, ":"), len(data), what)
    if not tells_all(data, value):
        without_repeats(data, what)
    if not fractions and (path := _find(value, lambda found: type(found) is float)) is not None:
        raise DocumentError(f"{what}: must be an integer written without a fraction", path=json_path(path))
    return value


def parse_text(data: bytes, what: str, *, trailing: bool = False) -> tuple[Any, bytes]:
    """(the value, its text). Of a repeated key the last value counts: ``tells_all`` says whether there
    is one. ``trailing``: text after the value is ignored. A byte order mark is left out. Raises DocumentError
    as parse_json."""
    data = data.removeprefix(BOM_UTF8)
    _refuse_swollen(data, what)
    try:
        return orjson.loads(data), data
    except orjson.JSONDecodeError as error:
        text, end = _extent(data, what) if trailing else ("", 0)
        if end and text[end:].strip(" \t\r\n"):
            return parse_text(text[:end].encode("utf-8", "surrogateescape"), what)
        _refuse(data, what, error)


def _refuse_swollen(data: bytes, what: str) -> None:
    if len(data) * _ARRAY < _ALLOWED:
        return
    least = count(data, "{") * _OBJECT + count(data, "[") * _ARRAY
    if least > _TIMES * len(data) + _ALLOWED:
        raise DocumentError(
            f"{what}: {len(data)} bytes with so many objects and arrays that reading them "
            f"takes more than {least >> 20} MiB: no program writes that",
            got=least,
        )


def count(data: bytes, character: str) -> int:
    """How often an ASCII character occurs in a text: bytes.count, but three times as fast for one that occurs
    often."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(character)))


def refuse_dense(values: int, size: int, what: str) -> None:
    """Raise DocumentError where a text of ``size`` bytes has too many keys and values for a schema to look at
    all."""
    if values * _VALUE > _COPIED * size + _ALLOWED:
        raise DocumentError(
            f"{what}: {size} bytes with {values} values, too many for its size: no program writes that",
            got=values,
        )


# ---------------------------------------------------------------- keys that stand twice


_STRING = re.compile(rb'"[^"]*"')


def _keys(text: bytes) -> int:
    """Keys in JSON text, each as often as it occurs."""
    return count(_STRING.sub(b"", text.replace(b"\\\\", b"").replace(b'\\"', b"")), ":")


def tells_all(data: bytes, value: Any, keys: int | None = None) -> bool:
    """Whether the text ``data`` of ``value`` has no key twice, for sure. ``keys``: how many the value has,
    where that is known: with as many colons no string has one, and the value need not be written."""
    said = count(data, ":")
    if said in (0, keys):
        return True
    # a colon in a string may be written in another way
    counted = _keys if b"\\" in data and (b"u003a" in data or b"u003A" in data) else _colons
    try:
        return counted(data) == counted(orjson.dumps(value))
    except TypeError:  # it is nested deeper than orjson writes
        return False


def _colons(text: bytes) -> int:
    return count(text, ":")


class _Repeated(dict[Any, Any]):
    """An object in which ``key`` occurs twice."""

    key = ""


def without_repeats(data: bytes, what: str, last: str | None = None) -> Any:
    """The value, read slowly. Keys of the outermost object behind the first ``last`` are left out, whatever
    they are. Raises DocumentError, with its path, for a key that occurs twice in one object."""
    outermost: list[tuple[str, Any]] = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs  # the outermost object is the last to be closed
        found = dict(pairs)
        if len(found) == len(pairs):
            return found
        repeated, seen = _Repeated(found), set[str]()
        for key, _ in pairs:
            if key in seen:
                repeated.key = key
                break
            seen.add(key)
        return repeated

    text = data.decode("utf-8", "surrogateescape")
    try:
        value = json.loads(text, object_pairs_hook=made, parse_int=_number)
        if isinstance(value, dict) and last is not None:
            keys = [key for key, _ in outermost]
            value = made(outermost[: keys.index(last) + 1] if last in keys else list(outermost))
        path = _find(value, lambda found: type(found) is _Repeated, dict | list)
    except RecursionError:
        raise DocumentError(f"{what} is nested too deeply") from None
    if path is None:
        return value
    key = _at(value, path).key
    raise DocumentError(
        f"{what}: key {brief(key)!r} stands twice in one object: leave one of them",
        path=json_path([*path, key]),
        got=key,
    )


def _number(text: str) -> int | float:
    return int(text) if len(text) < 20 else float(text)


def _find(value: Any, wanted: Callable[[Any], bool], kinds: Any = object) -> list[str | int] | None:
    """The path of the first value that is wanted; None where there is none. Only values of these ``kinds``
    are asked."""
    stack: list[tuple[Any, tuple[Any, ...]]] = [(value, ())]
    while stack:
        one, path = stack.pop()
        if wanted(one):
            found: list[str | int] = []
            while path:
                key, path = path
                found.append(key)
            return found[::-1]
        if isinstance(one, dict):
            stack += [
                (inner, (key, path)) for key, inner in reversed(one.items()) if isinstance(inner, kinds)
            ]
        elif isinstance(one, list):
            listed = [(inner, (at, path)) for at, inner in enumerate(one) if isinstance(inner, kinds)]
            stack += reversed(listed)
    return None


def _at(value: Any, path: Sequence[str | int]) -> Any:
    for key in path:
        value = value[key]
    return value


# ---------------------------------------------------------------- what is no JSON


def _extent(data: bytes, what: str) -> tuple[str, int]:
    """The text (bytes that are no UTF-8 as lone surrogates), and where its first JSON value ends; 0 if it has
    no end.
    """
    text = data.decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:  # only the end is wanted: numbers need no value here
        return text, json.JSONDecoder(parse_int=len, parse_float=len).raw_decode(text, start)[1]
    except ValueError:
        return text, 0
    except RecursionError:
        raise DocumentError(f"{what} is nested too deeply") from None


def _refuse(data: bytes, what: str, error: orjson.JSONDecodeError) -> NoReturn:
    try:
        text = data.decode()
        offset, reason = len(text[: error.pos].encode()), error.msg.split(": line ")[0]
    except UnicodeDecodeError as invalid:
        offset, reason = invalid.start, "invalid UTF-8"
    if not data.strip():
        reason = "it is empty"
    line = data.count(b"\n", 0, offset) + 1
    column = offset - data.rfind(b"\n", 0, offset)
    raise DocumentError(
        f"{what} is not valid JSON: {reason} at line {line}, column {column} (byte {offset})",
        line=line,
        column=column,
        offset=offset,
    ) from None


# ---------------------------------------------------------------- texts of errors


def json_path(path: Sequence[str | int]) -> str:
    """$.nodes[3].inputs[0] for ["nodes", 3, "inputs", 0]; a key that is no word is quoted: $["gr.op"]."""
    return "$" + "".join(
        f"[{p}]"
        if isinstance(p, int)
        else f".{p}"
        if p.isidentifier()
        else f"[{brief(orjson.dumps(p.encode('utf-8', 'backslashreplace').decode()).decode())}]"
        for p in path
    )


def brief(value: Any) -> str:
    """A value's text, short enough for an error."""
    text = str(value)
    text = text if len(text) <= _BRIEF else text[:_BRIEF] + "..."
    return text.encode("utf-8", "backslashreplace").decode()
