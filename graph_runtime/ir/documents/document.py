"""Bytes -> a document that its JSON Schema accepts: schema errors with their JSON path.

graph.json and bundle.json are read in this way. This module checks their structure, by schemas/*.schema.json;
the readers check the meaning of the numbers.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import orjson

from ...base.errors import DocumentError, did_you_mean
from ...base.files.mapped import data_folder
from ...base.json_text import brief, count, json_path, parse_text, refuse_dense, until_metadata

_GRAPH = "graph.json"
_COLUMNS = ("dltype", "shape", "storage_id", "device_index", "device_id", "storage_scope")


# ---------------------------------------------------------------- graph.json


def read_document(data: bytes, *, strict: bool = False) -> dict[str, Any]:
    """A graph.json that its schema accepts, without the parts that TVM's reader ignores: keys after
    ``metadata`` and text after the closing brace. ``strict``: refuse a document with such parts. Raises
    DocumentError with the JSON path."""
    document, data = parse_text(data, _GRAPH, trailing=not strict)
    refuse_dense(count(data, ","), len(data), _GRAPH)
    document = until_metadata(document, data, strict=strict)
    check_schema(document, "graph", _GRAPH)
    return document


# ---------------------------------------------------------------- schemas


@cache
def _schema(name: str) -> tuple[dict[str, Any], Any]:
    import jsonschema_rs

    text = (data_folder("graph_runtime.schemas") / f"{name}.schema.json").read_text("utf-8")
    return json.loads(text), jsonschema_rs.validator_for(text, mask="the value")


def check_schema(document: Any, name: str, what: str) -> None:
    """Raise DocumentError, with the JSON path and advice, unless schemas/<name>.schema.json accepts the
    document."""
    # importing takes 9 ms, and files that TVM writes need no schema (columns.is_plain)
    from jsonschema_rs import ValidationError

    schema, validator = _schema(name)
    try:
        validator.validate(document)
    except ValidationError as error:
        path, rules = list(error.instance_path), list(error.schema_path)
        message, path = _explain(document, schema, path, rules) or (error.message, path)
        raise DocumentError(f"{what}: {message}", path=json_path(path)) from None
    except ValueError as error:  # a value that JSON cannot hold
        raise DocumentError(f"{what}: {error}") from None


def _explain(
    document: Any, schema: dict[Any, Any], path: list[Any], rules: list[Any]
) -> tuple[str, list[Any]] | None:
    """(explanation of a broken rule, JSON path of the fault); None for an unknown rule."""
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
    bound = "at least" if keyword.startswith("min") else "at most"
    if keyword in ("minimum", "maximum"):
        return f"must be {bound} {rule}, got {_show(value)}", path
    if keyword in ("minItems", "maxItems"):
        return f"must have {bound} {rule} elements, has {len(value)}", path
    if keyword == "pattern":
        return f"must match {rule}, got {_show(value)}", path
    return None


def _choice(value: Any, allowed: list[Any], path: list[Any]) -> str:
    if allowed == ["list_int", "size_t"]:
        return (
            f"unknown column {brief(path[-2])!r}{did_you_mean(path[-2], _COLUMNS)}: one that is not read "
            f"must be tagged list_int or size_t, as TVM skips only those; got {_show(value)}"
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
