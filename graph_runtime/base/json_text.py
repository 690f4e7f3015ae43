"""JSON text -> a value, for every document: errors with their path, no repeated keys, memory bounded by the
size of the text.

orjson silently keeps the last value of a repeated key. Outside of strings a JSON text has one colon for each
key, and colons in strings stay when the parsed value is written as JSON again. So if the text has more colons
than that second text, a key was lost; only then a slower parser finds the lost key."""

from __future__ import annotations

import json
import os
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NoReturn, TypeGuard

import numpy as np
import orjson

from .errors import DocumentError
from .files.mapped import read_file

_LAST = "metadata"  # the key at which TVM's reader ends; later keys are ignored

_BRIEF = 60
# Least bytes of an object and of an array in memory. Together, objects and arrays may take _TIMES the size of
# the text and _ALLOWED bytes. Real documents have far fewer (a node of 200 bytes has two objects and five
# arrays); a text of objects and arrays alone would take 60 times its size.
_OBJECT, _ARRAY, _TIMES, _ALLOWED = 240, 72, 8, 24 << 20
# A schema's validator copies each value into _VALUE bytes; together the copies may take _COPIED times the
# size of the text.
_VALUE, _COPIED = 150, 16


def parse_json(data: bytes, what: str, *, fractions: bool = True) -> Any:
    """The value of JSON text. Without ``fractions`` a number with a fraction is refused, even 4.0, which a
    JSON schema takes for an integer. Raises DocumentError: with ``line``, ``column`` (from 1, in bytes) and
    ``offset`` for invalid JSON, with ``path`` for a repeated key."""
    value, data = parse_text(data, what)
    refuse_dense(count(data, ",") + count(data, ":"), len(data), what)
    if not tells_all(data, value):
        without_repeats(data, what)
    if not fractions and (path := _find(value, lambda found: type(found) is float)) is not None:
        raise DocumentError(f"{what}: must be an integer written without a fraction", path=json_path(path))
    return value


def parse_text(data: bytes, what: str, *, trailing: bool = False) -> tuple[Any, bytes]:
    """(the value, the text of the value). If a key is repeated, its last value counts; ``tells_all`` finds
    out whether there is such a key. ``trailing``: ignore text after the value. A byte order mark is removed
    from the text. Raises DocumentError for invalid JSON, as parse_json does."""
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
            f"takes more than {least >> 20} MiB: no writer writes that",
            got=least,
        )


def count(data: bytes, character: str) -> int:
    """Number of times an ASCII character occurs in a text. For a frequent character this is three times as
    fast as bytes.count."""
    return int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord(character)))


def refuse_dense(values: int, size: int, what: str) -> None:
    """Raise DocumentError for a text of ``size`` bytes with more values than a schema's validator may
    copy."""
    if values * _VALUE > _COPIED * size + _ALLOWED:
        text = f"{what}: {size} bytes with {values} values: so many values in so few bytes are refused"
        raise DocumentError(text, got=values)


# ---------------------------------------------------------------- repeated keys


_STRING = re.compile(rb'"[^"]*"')


def _keys(text: bytes) -> int:
    """Number of keys in JSON text, repeated ones included."""
    return count(_STRING.sub(b"", text.replace(b"\\\\", b"").replace(b'\\"', b"")), ":")


def tells_all(data: bytes, value: Any, keys: int | None = None) -> bool:
    """Whether the text ``data`` of ``value`` certainly has no repeated key. ``keys``: number of the value's
    keys, if known. If the text has as many colons as the value has keys, no string has a colon, and the value
    need not be written as JSON again."""
    said = count(data, ":")
    if said in (0, keys):
        return True
    escaped = b"\\" in data and (b"u003a" in data or b"u003A" in data)  # a string may have an escaped colon
    counted = _keys if escaped else partial(count, character=":")
    try:
        return counted(data) == counted(orjson.dumps(value))
    except TypeError:  # the value is nested deeper than orjson writes
        return False


class _Repeated(dict[Any, Any]):
    """An object in which ``key`` occurs twice."""

    key = ""


def without_repeats(data: bytes, what: str, last: str | None = None) -> Any:
    """The value of JSON text, by a slow parser. Keys of the outermost object after the first ``last`` are
    ignored. Raises DocumentError for a repeated key, with the key's path."""
    outermost: list[tuple[str, Any]] = []

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs  # the outermost object is the last to be closed, so its pairs remain
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
    for step in path:
        value = value[step]
    key = value.key
    text = f"{what}: key {brief(key)!r} stands twice in one object: leave one of them"
    raise DocumentError(text, path=json_path([*path, key]), got=key)


def _number(text: str) -> int | float:
    return int(text) if len(text) < 20 else float(text)


def _find(value: Any, wanted: Callable[[Any], bool], kinds: Any = object) -> list[str | int] | None:
    """The path of the first value for which ``wanted`` is true, None if there is no such value. Only values
    of these ``kinds`` are looked at."""
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


# ---------------------------------------------------------------- invalid JSON


def _extent(data: bytes, what: str) -> tuple[str, int]:
    """The text (invalid UTF-8 as lone surrogates), and the end of its first JSON value, or 0 if it has no
    value."""
    text = data.decode("utf-8", "surrogateescape")
    start = len(text) - len(text.lstrip(" \t\r\n"))
    try:  # only the position of the value's end is used, so numbers are not converted
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
    text = f"{what} is not valid JSON: {reason} at line {line}, column {column} (byte {offset})"
    raise DocumentError(text, line=line, column=column, offset=offset) from None


# ---------------------------------------------------------------- texts of errors


def json_path(path: Sequence[str | int]) -> str:
    """The text of a path: $.nodes[3].inputs[0] for ["nodes", 3, "inputs", 0]. A key that is no plain word is
    quoted: $["gr.op"]."""
    return "$" + "".join(
        f"[{p}]"
        if isinstance(p, int)
        else f".{p}"
        if p.isidentifier()
        else f"[{brief(orjson.dumps(p.encode('utf-8', 'backslashreplace').decode()).decode())}]"
        for p in path
    )


def brief(value: Any) -> str:
    """The text of a value, shortened for an error message."""
    text = str(value)
    text = text if len(text) <= _BRIEF else text[:_BRIEF] + "..."
    return text.encode("utf-8", "backslashreplace").decode()


def is_path(source: bytes | str | os.PathLike[str]) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a document's source is a path. Otherwise the source is bytes, or text, which begins with
    "{"."""
    if isinstance(source, str):
        return not source.lstrip(" \t\r\n\ufeff").startswith("{")
    return isinstance(source, os.PathLike)


def read_source(source: bytes | str | os.PathLike[str], what: str) -> bytes:
    """The bytes of a document. ``source``: a str that begins with "{" is the document's text, any other str
    is a path. Raises DocumentError, with the name, for a file that cannot be read."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, str) and not is_path(source):
        return source.encode("utf-8", "surrogatepass")
    if not isinstance(source, (str, os.PathLike)):
        text = f"{what}: expected bytes, text or a path, got {type(source).__name__}"
        raise DocumentError(text, got=source)
    try:
        return read_file(source)
    except (OSError, ValueError) as error:  # ValueError is raised for a NUL in the path
        reason = getattr(error, "strerror", None) or error
        text = f"cannot read {what} {brief(os.fspath(source))}: {reason}"
        raise DocumentError(text, got=os.fspath(source)) from None


def until_metadata(
    document: Any, data: bytes, keys: int | None = None, *, strict: bool = False, what: str = "graph.json"
) -> Any:
    """The value of a graph.json's text ``data``, without the keys after ``metadata``. ``keys``: as in
    tells_all. Raises DocumentError, which calls the text ``what``, also for a repeated key before that."""
    if not tells_all(data, document, keys):
        cut = without_repeats(data, what, last=_LAST)
        if not strict:
            return cut
        without_repeats(data, what)
    if not isinstance(document, dict) or next(reversed(document), _LAST) == _LAST or _LAST not in document:
        return document
    known = list(document)
    last = known.index(_LAST) + 1
    if strict:
        raise DocumentError(
            f"key {brief(known[last])} stands after metadata, where TVM's reader does not look: put "
            "metadata last",
            path=json_path([known[last]]),
        )
    return {key: document[key] for key in known[:last]}
