"""Bytes -> a document that its JSON Schema accepts: schema errors with their JSON path.

Used for graph.json and bundle.json. Structure is judged here, by schemas/*.schema.json; what the numbers mean
is judged by their readers.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Any, TypeGuard

import orjson

from ...base.errors import DocumentError, did_you_mean
from ...base.files.mapped import read_file
from ...base.json_text import brief, count, json_path, parse_text, refuse_dense, tells_all, without_repeats
from ...base.packaged import data_folder

__all__ = ["check_schema", "is_path", "read_document", "read_source", "until_metadata"]

_GRAPH, _LAST = "graph.json", "metadata"  # _LAST: the key at which TVM's reader ends
_COLUMNS = ("dltype", "shape", "storage_id", "device_index", "device_id", "storage_scope")


# ---------------------------------------------------------------- bytes


def is_path(source: bytes | str | os.PathLike[str]) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a source of a document is a path, rather than its text (which begins with "{") or bytes."""
    if isinstance(source, str):
        return not source.lstrip(" \t\r\n\ufeff").startswith("{")
    return isinstance(source, os.PathLike)


def read_source(source: bytes | str | os.PathLike[str], what: str) -> bytes:
    """The bytes of a document. A str that begins with "{" is its text, any other a path. Raises DocumentError
    for a file that cannot be read, naming it.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return bytes(source)
    if isinstance(source, str) and not is_path(source):
        return source.encode("utf-8", "surrogatepass")
    if not isinstance(source, (str, os.PathLike)):
        raise DocumentError(
            f"{what}: expected bytes, text or a path, got {type(source).__name__}", got=source
        )
    try:
        return read_file(source)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or error
        raise DocumentError(
            f"cannot read {what} {brief(os.fspath(source))}: {reason}", got=os.fspath(source)
        ) from None


# ---------------------------------------------------------------- graph.json


def read_document(data: bytes, *, strict: bool = False) -> dict[str, Any]:
    """A graph.json as its schema describes it, with what TVM's reader does not look at cut off: keys after
    ``metadata``, text after the closing brace. ``strict`` refuses those two.

    Raises DocumentError with the JSON path.
    """
    document, data = parse_text(data, _GRAPH, trailing=not strict)
    refuse_dense(count(data, ","), len(data), _GRAPH)
    document = until_metadata(document, data, strict=strict)
    check_schema(document, "graph", _GRAPH)
    return document


def until_metadata(
    document: Any, data: bytes, keys: int | None = None, *, strict: bool = False, what: str = _GRAPH
) -> Any:
    """The value of a graph.json's text ``data`` without the keys after ``metadata``, whatever they are; no
    other key occurs twice. ``keys``: as tells_all. Raises DocumentError, which calls the text ``what``."""
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


# ---------------------------------------------------------------- schemas


@cache
def _schema(name: str) -> tuple[dict[str, Any], Any]:
    import jsonschema_rs

    text = (data_folder("graph_runtime.schemas") / f"{name}.schema.json").read_text("utf-8")
    return json.loads(text), jsonschema_rs.validator_for(text, mask="the value")


def check_schema(document: Any, name: str, what: str) -> None:
    """Raise DocumentError, with the JSON path and what to do, unless schemas/<name>.schema.json accepts the
    document.
    """
    from jsonschema_rs import ValidationError  # takes 9 ms, and what TVM writes needs no schema (plain.py)

    schema, validator = _schema(name)
    try:
        validator.validate(document)
    except ValidationError as error:
        path, rules = list(error.instance_path), list(error.schema_path)
        message, path = _explain(document, schema, path, rules) or (error.message, path)
        raise DocumentError(f"{what}: {message}", path=json_path(path)) from None
    except ValueError as error:  # a value that no JSON text can hold
        raise DocumentError(f"{what}: {error}") from None


def _explain(
    document: Any, schema: dict[Any, Any], path: list[Any], rules: list[Any]
) -> tuple[str, list[Any]] | None:
    """What a broken rule means to a reader, and the path that is to blame; None for a rule that this does
    not know.
    """
    keyword = rules[-1]
    try:
        value, where = _walk(document, path), _walk(schema, rules[:-1])
        rule = where[keyword]
    except (KeyError, IndexError, TypeError):
        return None
    if keyword == "required":
        missing = [key for key in rule if key not in value]
        return f"missing {'keys' if len(missing) > 1 else 'key'} {', '.join(map(repr, missing))}", path
    if keyword == "additionalProperties":
        known = where["properties"]
        unknown = next(key for key in value if key not in known)
        return f"unknown key {brief(unknown)!r}{did_you_mean(unknown, known)}", [*path, unknown]
    if keyword in ("enum", "const"):
        return _choice(value, [rule] if keyword == "const" else rule, path), path
    if keyword == "type":
        kinds = rule if isinstance(rule, str) else " or ".join(rule)
        return f"must be {kinds}, got {_show(value)}", path
    if keyword in ("minimum", "maximum"):
        return (
            f"must be {'at least' if keyword == 'minimum' else 'at most'} {rule}, got {_show(value)}",
            path,
        )
    if keyword in ("minItems", "maxItems"):
        return (
            f"must have {'at least' if keyword == 'minItems' else 'at most'} {rule} elements, has "
            f"{len(value)}",
            path,
        )
    if keyword == "pattern":
        return f"must match {rule}, got {_show(value)}", path
    return None


def _choice(value: Any, allowed: list[Any], path: list[Any]) -> str:
    if allowed == ["list_int", "size_t"]:
        return (
            f"unknown column {brief(path[-2])!r}{did_you_mean(path[-2], _COLUMNS)}: one that is "
            "not read must be tagged "
            f"list_int or size_t, as TVM skips only those; got {_show(value)}"
        )
    texts = " or ".join(orjson.dumps(a).decode() for a in allowed)
    close = did_you_mean(value, map(str, allowed)) if isinstance(value, str) and len(allowed) > 1 else ""
    return f"must be {texts}, got {_show(value)}{close}"


def _walk(value: Any, path: list[Any]) -> Any:
    for key in path:
        value = value[key]
    return value


def _show(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    return brief(orjson.dumps(value).decode()) if isinstance(value, (str, bool, type(None))) else brief(value)
