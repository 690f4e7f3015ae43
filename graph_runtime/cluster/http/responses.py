"""From arrays to the bytes of an inference response.

    make_response(...) -> Response

A tensor that is asked for as binary data follows the JSON part as raw little-endian values, and the header
``Inference-Header-Content-Length`` says where the JSON part ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from ...base import dtypes
from ...base.errors import RequestError
from ..datatypes import DATATYPES
from .requests import Asked

__all__ = ["HEADER_LENGTH", "Response", "error_response", "json_response", "make_response"]

HEADER_LENGTH = "Inference-Header-Content-Length"


@dataclass(frozen=True, slots=True)
class Response:
    """An HTTP response: ``body`` in pieces, which are sent one after the other."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: tuple[bytes | memoryview, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of the body."""
        return sum(len(part) for part in self.body)


def json_response(value: Any, status: int = 200, headers: Sequence[tuple[str, str]] = ()) -> Response:
    """A response of JSON alone."""
    return Response(status, (("Content-Type", "application/json"), *headers), (orjson.dumps(value),))


def error_response(error: RequestError) -> Response:
    """``{"error": text}``, as the protocol has it; Retry-After where it may be sent again."""
    again = error.retry_after
    headers = () if again is None else (("Retry-After", str(max(1, round(again)))),)
    return json_response({"error": str(error)}, error.status, headers)


def make_response(
    model: str, version: str, id: str, asked: Sequence[Asked], outputs: Mapping[str, np.ndarray]
) -> Response:
    """The response with the outputs that are asked for. Raises RequestError (422) for an output that JSON
    cannot say: NaN and infinities are sent as binary data only."""
    rows, parts = [], []
    for one in asked:
        array = np.ascontiguousarray(outputs[one.name]).reshape(outputs[one.name].shape)
        dtype = dtypes.from_numpy(array.dtype)
        row: dict[str, Any] = {
            "name": one.name,
            "datatype": DATATYPES[dtype],
            "shape": list(array.shape),
        }
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
    """The values, flat; a float in as many digits as its own dtype needs."""
    if array.dtype.kind not in "fV":
        return list(array.reshape(-1).tolist())
    wide = array.astype(np.float64)
    if not np.isfinite(wide).all():
        text = f"output {name!r} has values that JSON cannot say (NaN, infinities): ask for binary_data"
        raise RequestError(text, status=422, got=name)
    return list(wide.reshape(-1).tolist())
