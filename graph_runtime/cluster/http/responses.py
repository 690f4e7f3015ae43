"""Inference responses, from arrays to bytes.

    make_response(...) -> Response

A tensor requested as binary data follows the JSON part as raw little-endian values; the header
``Inference-Header-Content-Length`` gives the length of the JSON part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import RequestError
from ..ports import DATATYPES
from .requests import Asked

HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response. ``body``: pieces of bytes, which are sent one after the other."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: tuple[bytes | memoryview, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the body."""
        return sum(len(part) for part in self.body)


def json_response(value: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Response:
    """A response whose body is only JSON."""
    return Response(status, (("Content-Type", "application/json"), *headers), (orjson.dumps(value),))


def error_response(error: RequestError) -> Response:
    """The response ``{"error": text}`` of the protocol, with Retry-After if the request may be repeated."""
    again = error.retry_after
    headers = () if again is None else (("Retry-After", str(max(1, round(again)))),)
    return json_response({"error": str(error)}, error.status, headers)


def make_response(
    model: str, version: str, id: str, asked: Sequence[Asked], outputs: Mapping[str, np.ndarray]
) -> Response:
    """The response with the requested outputs. Raises RequestError (422) for NaN and infinities in an output
    requested as JSON; binary data can have them."""
    rows, parts = [], []
    for one in asked:
        array = np.ascontiguousarray(outputs[one.name]).reshape(outputs[one.name].shape)
        dtype = dtypes.from_numpy(array.dtype)
        row: dict[str, Any] = {"name": one.name, "datatype": DATATYPES[dtype], "shape": list(array.shape)}
        if one.binary:
            row["parameters"] = {"binary_data_size": array.nbytes}
            parts.append(array.reshape(-1).view(np.uint8).data)
        else:
            row["data"] = _listed(array, one.name)
        rows.append(row)
    head: dict[str, Any] = {"model_name": model, "model_version": version, "outputs": rows}
    if id:
        head["id"] = id
    if not parts:
        return json_response(head)
    text = orjson.dumps(head)
    headers = (("Content-Type", "application/octet-stream"), (HEADER_LENGTH, str(len(text))))
    return Response(200, headers, (text, *parts))


def _listed(array: np.ndarray, name: str) -> list[Any]:
    """The values as a flat list; floats have as many digits as their dtype needs."""
    flat = array.reshape(-1)
    wide = flat.astype(np.float64) if array.dtype.kind in "fV" else flat
    if not np.isfinite(wide).all():
        text = f"output {name!r} has values that JSON cannot represent (NaN, infinities): request binary_data"
        raise RequestError(text, status=422, got=name)
    return list(wide.tolist())
