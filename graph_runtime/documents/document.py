"""Bytes -> a document that its JSON Schema accepts: JSON errors with their place, schema errors with their
JSON path.

Used for graph.json and bundle.json. Structure is judged here, by schemas/*.schema.json; what the numbers mean
is judged by who reads them.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

import jsonschema_rs
import orjson

from ..errors import DocumentError, did_you_mean

__all__ = ["check_schema", "json_path", "parse_graph", "parse_json", "read_document", "read_source"]

_BRIEF = 60
_COLUMNS = ("dltype", "shape", "storage_id", "device_index", "device_id", "storage_scope")


# ---------------------------------------------------------------- bytes


def read_source(source: bytes | str | os.PathLike, what: str) -> bytes:
    """The bytes of a document. A str that begins with "{" is its text, any other a path. Raises DocumentError
    for a file that cannot be read, naming it.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, str) and source.lstrip().startswith("{"):
        return source.encode("utf-8", "surrogatepass")
    if not isinstance(source, (str, os.PathLike)):
        raise DocumentError(
            f"{what}: expected bytes, text or a path, got {type(source).__name__}", got=source
        )
    try:
        with Path(source).open("rb") as file:
            if stat.S_ISCHR(os.fstat(file.fileno()).st_mode):  # /dev/zero has no end
                raise ValueError("it is a device, no file")
            return file.read()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise DocumentError(
            f"cannot read {what} {_brief(os.fspath(source))}: {reason}", got=os.fspath(source)
        ) from None


# ---------------------------------------------------------------- JSON


def parse_json(data: bytes, what: str, *, trailing: bool = False) -> Any:
    """The value that JSON text holds. A repeated key's last value wins.

    ``trailing``: text after the value is ignored. Raises DocumentError with ``line``, ``column`` (from 1, in
    bytes) and ``offset``.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        text, end = _extent(data, what) if trailing else ("", 0)
        if end and text[end:].strip(" \t\r\n"):
            return parse_json(text[:end].encode("utf-8", "surrogateescape"), what)
        _refuse(data, what, error)


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


# ---------------------------------------------------------------- graph.json


def read_document(data: bytes, *, strict: bool = False) -> dict[str, Any]:
    """A graph.json as its schema describes it: parse_graph, then check_schema.

    Raises DocumentError with the JSON path.
    """
    document = parse_graph(data, strict=strict)
    check_schema(document, "graph", "graph.json")
    return document


def parse_graph(data: bytes, *, strict: bool = False) -> Any:
    """The value of a graph.json, with what TVM's reader does not look at cut off: keys after ``metadata``,
    text after the closing brace. ``strict`` refuses those two.

    Raises DocumentError.
    """
    document = parse_json(data, "graph.json", trailing=not strict)
    if isinstance(document, dict) and "metadata" in document:
        document = _until_metadata(document, data, strict)
    return document


def _until_metadata(document: dict[str, Any], data: bytes, strict: bool) -> dict[str, Any]:
    keys = list(document)
    last = keys.index("metadata") + 1
    if strict and last < len(keys):
        raise DocumentError(
            f"key {_brief(keys[last])} stands after metadata, where TVM's reader does not look: put "
            "metadata last",
            path=json_path([keys[last]]),
        )
    start = data.find(b'"metadata"')
    if any(data.find(f'"{key}"'.encode("utf-8", "replace"), start) >= 0 for key in keys[: last - 1]):
        return _pairs_until_metadata(data)  # perhaps a key stands on both sides: the value before it counts
    return {key: document[key] for key in keys[:last]}


def _pairs_until_metadata(data: bytes) -> dict[str, Any]:
    outermost: list[tuple[str, Any]] = []

    def keep(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        outermost[:] = pairs  # the outermost object is the last to be closed
        return dict(pairs)

    try:
        text = data.decode("utf-8", "surrogateescape")
        json.JSONDecoder(object_pairs_hook=keep).raw_decode(text, len(text) - len(text.lstrip(" \t\r\n")))
    except RecursionError:
        raise DocumentError("graph.json is nested too deeply") from None
    found: dict[str, Any] = {}
    for key, value in outermost:
        found[key] = value
        if key == "metadata":
            break
    return found


# ---------------------------------------------------------------- schemas


@cache
def _schema(name: str) -> tuple[dict[str, Any], Any]:
    text = resources.files("graph_runtime.schemas").joinpath(f"{name}.schema.json").read_text("utf-8")
    return json.loads(text), jsonschema_rs.validator_for(text, mask="the value")


def check_schema(document: Any, name: str, what: str) -> None:
    """Raise DocumentError, with the JSON path and what to do, unless schemas/<name>.schema.json accepts the
    document.
    """
    schema, validator = _schema(name)
    try:
        validator.validate(document)
    except jsonschema_rs.ValidationError as error:
        places, rules = list(error.instance_path), list(error.schema_path)
        message, places = _explain(document, schema, places, rules) or (error.message, places)
        raise DocumentError(f"{what}: {message}", path=json_path(places)) from None
    except ValueError as error:  # a value that no JSON text can hold
        raise DocumentError(f"{what}: {error}") from None


def json_path(places: Sequence[str | int]) -> str:
    """$.nodes[3].inputs[0] for ["nodes", 3, "inputs", 0]; a key that is no word is quoted: $["gr.op"]."""
    return "$" + "".join(
        f"[{p}]" if isinstance(p, int) else f".{p}" if p.isidentifier() else f"[{_show(p)}]" for p in places
    )


def _explain(document: Any, schema: dict, places: list, rules: list) -> tuple[str, list] | None:
    """What a broken rule means to a reader, and the place that is to blame; None for a rule that this does
    not know.
    """
    keyword = rules[-1]
    try:
        value, where = _walk(document, places), _walk(schema, rules[:-1])
        rule = where[keyword]
    except (KeyError, IndexError, TypeError):
        return None
    if keyword == "required":
        missing = [key for key in rule if key not in value]
        return f"missing {'keys' if len(missing) > 1 else 'key'} {', '.join(map(repr, missing))}", places
    if keyword == "additionalProperties":
        known = where["properties"]
        unknown = next(key for key in value if key not in known)
        return f"unknown key {_brief(unknown)!r}{did_you_mean(unknown, known)}", [*places, unknown]
    if keyword in ("enum", "const"):
        return _choice(value, [rule] if keyword == "const" else rule, places), places
    if keyword == "type":
        kinds = rule if isinstance(rule, str) else " or ".join(rule)
        return f"must be {kinds}, got {_show(value)}", places
    if keyword in ("minimum", "maximum"):
        return (
            f"must be {'at least' if keyword == 'minimum' else 'at most'} {rule}, got {_show(value)}",
            places,
        )
    if keyword in ("minItems", "maxItems"):
        return (
            f"must have {'at least' if keyword == 'minItems' else 'at most'} {rule} elements, has "
            f"{len(value)}",
            places,
        )
    if keyword == "pattern":
        return f"must match {rule}, got {_show(value)}", places
    return None


def _choice(value: Any, allowed: list, places: list) -> str:
    if allowed == ["list_int", "size_t"]:
        return (
            f"unknown column {_brief(places[-2])!r}{did_you_mean(places[-2], _COLUMNS)}: one that is "
            "not read must be tagged "
            f"list_int or size_t, as TVM skips only those; got {_show(value)}"
        )
    texts = " or ".join(orjson.dumps(a).decode() for a in allowed)
    close = did_you_mean(value, map(str, allowed)) if isinstance(value, str) and len(allowed) > 1 else ""
    return f"must be {texts}, got {_show(value)}{close}"


def _walk(value: Any, places: list) -> Any:
    for place in places:
        value = value[place]
    return value


def _show(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return (
        _brief(orjson.dumps(value).decode()) if isinstance(value, (str, bool, type(None))) else _brief(value)
    )


def _brief(value: Any) -> str:
    text = str(value)
    text = text if len(text) <= _BRIEF else text[:_BRIEF] + "..."
    return text.encode("utf-8", "backslashreplace").decode()
