"""Inference requests, parsed from bytes to arrays. Any bytes give a Request, or a RequestError that tells
what is wrong, where, and what would be accepted. Work and memory are bounded by the number of bytes.

    parse_request(body, header_length, served) -> Request        at once, or in three steps:
    json_part(body, header_length)             -> its text, the bytes after it
    read_text(text, served)                    -> Said
    said.request(rest)                         -> Request

The protocol is the Open Inference Protocol, version 2, with the binary tensor data extension: a JSON object
of ``header_length`` bytes, followed by the raw little-endian values of the tensors that have
``binary_data_size``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, RequestError, did_you_mean
from ...base.json_text import brief, count, json_path, parse_text, tells_all, without_repeats
from ..ports import BY_DATATYPE, DATATYPES, Port, Served

_MOST_JSON = 16 << 20  # most bytes of the JSON part; larger tensors are sent as binary data
_MOST_KEYS, _KEYS_OF_PORT = 1000, 100  # most keys of the JSON part; further keys for each input and output
_MOST_RANK = 32
_MOST_SIZE = 1 << 31  # largest size of a dimension
_MOST_ID = 256  # most characters of an id
_MOST_TIMEOUT = 3600.0  # seconds of the longest timeout
# parameters of other servers; ignoring them would give other results
_REFUSED = ("shared_memory_region", "sequence_id", "classification")


Bytes = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Asked:
    """A requested output. ``binary``: whether the output's values follow the answer's JSON as raw bytes."""

    name: str
    binary: bool


@dataclass(frozen=True, slots=True)
class Request:
    """``inputs`` {name: read-only array}, for every input of the model. ``outputs``: the requested outputs,
    in order. ``timeout``: seconds within which the client wants an answer; None if the request gives no
    timeout."""

    id: str
    inputs: Mapping[str, np.ndarray]
    outputs: tuple[Asked, ...]
    timeout: float | None = None


@dataclass(frozen=True, slots=True)
class SaidTensor:
    """An input in the JSON part. ``array``: the input's values; None if the values follow as binary data.
    ``path``: JSON path of the input."""

    port: Port
    shape: tuple[int, ...]
    array: np.ndarray | None
    path: Sequence[str | int]


@dataclass(frozen=True, slots=True)
class Said:
    """The parsed JSON part of a request for the model ``served``."""

    served: Served
    id: str
    tensors: tuple[SaidTensor, ...]
    outputs: tuple[Asked, ...]
    timeout: float | None

    def request(self, rest: memoryview) -> Request:
        """The whole request. ``rest``: the bytes after the JSON part, which contain binary values. Raises
        RequestError with status 400."""
        return Request(self.id, _values_of(self.tensors, rest), self.outputs, self.timeout)


# cache of short texts whose values are all binary, because a client sends the same text repeatedly. A key is
# the text and the id of the model, which lives as long as the entry
_known: dict[tuple[bytes, int], Said] = {}
_MOST_KNOWN, _SHORT = 256, 4 << 10


def parse_request(body: Bytes, header_length: int | None, served: Served) -> Request:
    """The Request in ``body`` for a model; arguments as in json_part. Raises RequestError with status 400,
    413."""
    text, rest = json_part(body, header_length)
    return read_text(bytes(text), served).request(rest)


def json_part(body: Bytes, header_length: int | None) -> tuple[memoryview, memoryview]:
    """(JSON part of a body, bytes after it). ``header_length``: the value of
    ``Inference-Header-Content-Length``, None if the whole body is JSON. Raises RequestError with status 400,
    413."""
    size = len(body) if header_length is None else header_length
    if not 0 <= size <= len(body):
        _refuse(f"the JSON part has {size} bytes, the body {len(body)}", got=size, wanted=len(body))
    if size > _MOST_JSON:
        why = f"the JSON part has {size} bytes, at most {_MOST_JSON} are read: send tensors as binary data"
        raise RequestError(why, status=413, got=size, wanted=_MOST_JSON)
    view = memoryview(body)
    return view[:size], view[size:]


def read_text(text: bytes, served: Served) -> Said:
    """The parsed JSON part. Raises RequestError with status 400."""
    said = _known.get((text, id(served)))
    if said is None:
        said = _read(text, served)
        if len(text) <= _SHORT and all(one.array is None for one in said.tensors):
            if len(_known) >= _MOST_KNOWN:
                _known.clear()
            _known[text, id(served)] = said
    return said


def _read(text: bytes, served: Served) -> Said:
    most = _MOST_KEYS + _KEYS_OF_PORT * (len(served.inputs) + len(served.outputs))
    if len(text) > most and (keys := count(text, ":")) > most:
        _refuse(f"the JSON part has {keys} keys, at most {most} are accepted", got=keys, wanted=most)
    try:
        raw, told = parse_text(text, "the request")
        if not tells_all(told, raw):  # reads the text again, only if needed: it may have many numbers
            raw = without_repeats(told, "the request")
    except DocumentError as error:
        raise RequestError(str(error), **error.fields) from None
    if not isinstance(raw, dict):
        _refuse(f"a request is a JSON object, got {_kind(raw)}", path="$")
    parameters = _parameters(raw, [])
    return Said(
        served,
        _id(raw),
        _tensors(raw, served),
        _outputs(raw, served, parameters.get("binary_data_output", False) is True),
        _timeout(parameters),
    )


def _values_of(tensors: Sequence[SaidTensor], rest: memoryview) -> dict[str, np.ndarray]:
    """{input: values}. ``rest``: the bytes after the JSON part."""
    found, taken = {}, 0
    for one in tensors:
        array = one.array
        if array is None:
            array = _binary(one, rest[taken:])
            taken += array.nbytes
        found[one.port.name] = array
    if taken != len(rest):
        text = f"{len(rest)} bytes follow the JSON part, binary_data_size adds up to {taken}"
        _refuse(text, got=len(rest), wanted=taken)
    return found


def _id(raw: Mapping[str, Any]) -> str:
    found = raw.get("id", "")
    if not isinstance(found, str) or len(found) > _MOST_ID:
        _refuse(f"an id is a text of at most {_MOST_ID} characters", path="$.id", got=brief(found))
    return found


def _timeout(parameters: Mapping[str, Any]) -> float | None:
    """The timeout of a request in seconds; None without a timeout. The request's parameter ``timeout`` is in
    microseconds, as in Triton, and 0 means no timeout."""
    found = parameters.get("timeout", 0)
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= _MOST_TIMEOUT * 1e6:
        text = f"timeout is a number of microseconds, at most {_MOST_TIMEOUT * 1e6:.0f}; got {brief(found)}"
        _refuse(text, path="$.parameters.timeout")
    return found / 1e6 if found else None


def _parameters(raw: Mapping[str, Any], path: Sequence[str | int]) -> Mapping[str, Any]:
    found = raw.get("parameters", {})
    if not isinstance(found, dict):
        _refuse(f"parameters are a JSON object, got {_kind(found)}", path=[*path, "parameters"])
    for name in _REFUSED:
        if name in found and found[name] not in (0, "", None):
            text = f"{name} is not supported: models have no state and no shared memory, and return tensors"
            _refuse(text, path=[*path, "parameters", name])
    return found


def _rows(raw: Mapping[str, Any], key: str, most: int) -> list[tuple[dict[str, Any], list[str | int]]]:
    """(object, its JSON path) for each object of the list ``key``. Raises RequestError if a name is missing
    or not unique, or if there are more than ``most`` objects."""
    found = raw.get(key)
    if not isinstance(found, list):
        _refuse(f"{key} is a list of objects, got {_kind(found)}", path=f"$.{key}")
    if len(found) > most:
        _refuse(f"{key} has {len(found)} entries, the model has {most}", path=f"$.{key}", wanted=most)
    seen: set[str] = set()
    for at, one in enumerate(found):
        if not isinstance(one, dict) or not isinstance(one.get("name"), str):
            _refuse(f"each of {key} is an object with a name", path=f"$.{key}[{at}]")
        if one["name"] in seen:
            _refuse(f"{brief(one['name'])!r} is given twice in {key}", path=f"$.{key}[{at}].name")
        seen.add(one["name"])
    return [(one, [key, at]) for at, one in enumerate(found)]


def _outputs(raw: Mapping[str, Any], served: Served, binary: bool) -> tuple[Asked, ...]:
    if raw.get("outputs") in (None, []):
        return tuple(Asked(port.name, binary) for port in served.outputs)
    known, asked = [port.name for port in served.outputs], []
    for one, path in _rows(raw, "outputs", len(known)):
        if one["name"] not in known:
            name = brief(one["name"])
            _refuse(f"there is no output {name!r}{did_you_mean(name, known)}", path=[*path, "name"])
        wanted = _parameters(one, path).get("binary_data", binary)
        asked.append(Asked(one["name"], wanted is True))
    return tuple(asked)


# **************** tensors ****************


def _tensors(raw: Mapping[str, Any], served: Served) -> tuple[SaidTensor, ...]:
    """The inputs of a request, in the request's order."""
    ports, found = served.input_named(), dict[str, SaidTensor]()
    for one, path in _rows(raw, "inputs", len(ports)):
        name = one["name"]
        if name not in ports:
            text = f"there is no input {brief(name)!r}{did_you_mean(brief(name), ports)}"
            _refuse(text, path=[*path, "name"])
        shape = _shape(one, path, ports[name])
        size = _parameters(one, path).get("binary_data_size")
        if size is not None and "data" in one:
            _refuse("it has both data and binary_data_size: give one of them", path=path)
        array = None
        if size is None:
            array = _values(one, path, ports[name], shape)
        else:
            path = [*path, "parameters", "binary_data_size"]
            _require_size(size, path, ports[name], shape)
        found[name] = SaidTensor(ports[name], shape, array, path)
    if missing := [name for name in ports if name not in found]:
        _refuse(f"inputs without a value: {', '.join(missing)}", path="$.inputs", wanted=missing)
    return tuple(found.values())


def _shape(one: Mapping[str, Any], path: Sequence[str | int], port: Port) -> tuple[int, ...]:
    """The shape of an input. The shape and the datatype are checked against the port."""
    datatype, shape = one.get("datatype"), one.get("shape")
    if datatype != DATATYPES[port.dtype]:
        known = "" if brief(datatype) in BY_DATATYPE else did_you_mean(brief(datatype), BY_DATATYPE)
        text = f"input {port.name!r} is {DATATYPES[port.dtype]}, got {brief(datatype)}{known}"
        _refuse(text, path=[*path, "datatype"], got=brief(datatype), wanted=DATATYPES[port.dtype])
    if not isinstance(shape, list) or len(shape) > _MOST_RANK or not all(map(_is_size, shape)):
        text = f"a shape is a list of at most {_MOST_RANK} integers, 0 to {_MOST_SIZE}; got {brief(shape)}"
        _refuse(text, path=[*path, "shape"])
    if not port.takes(tuple(shape)):
        text = f"input {port.name!r} is {list(port.shape)} ({-1}: any), got {shape}"
        _refuse(text, path=[*path, "shape"], got=shape, wanted=list(port.shape))
    return tuple(shape)


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_SIZE


def _require_size(size: object, path: Sequence[str | int], port: Port, shape: tuple[int, ...]) -> None:
    wanted = math.prod(shape) * dtypes.to_numpy(port.dtype).itemsize
    if isinstance(size, bool) or not isinstance(size, int) or size != wanted:
        text = f"{DATATYPES[port.dtype]} {list(shape)} has {wanted} bytes, binary_data_size is {brief(size)}"
        _refuse(text, path=path, got=brief(size), wanted=wanted)


def _binary(one: SaidTensor, rest: memoryview) -> np.ndarray:
    dtype, shape = dtypes.to_numpy(one.port.dtype), one.shape
    size = math.prod(shape) * dtype.itemsize
    if size > len(rest):
        text = f"binary_data_size is {size}, and {len(rest)} bytes are left in the body"
        _refuse(text, path=one.path, got=len(rest), wanted=size)
    if one.port.dtype == "bool" and size and np.frombuffer(rest[:size], np.uint8).max() > 1:
        _refuse("a BOOL is a byte, 0 or 1", path=one.path)
    return np.frombuffer(rest[:size], dtype).reshape(shape)


def _values(
    one: Mapping[str, Any], path: Sequence[str | int], port: Port, shape: tuple[int, ...]
) -> np.ndarray:
    """The values of ``data``, which may be nested like the shape, or flat in row-major order."""
    where = [*path, "data"]
    data = one.get("data")
    if not isinstance(data, list):
        _refuse(f"data is a list of numbers, got {_kind(data)}", path=where)
    array = np.array(data, object)  # else numpy would make all texts as wide as the longest
    if array.size != math.prod(shape) or (array.ndim > 1 and array.shape != shape):
        text = f"data has {array.size} values, nested as {list(array.shape)}; the shape says {list(shape)}"
        _refuse(text, path=where, got=list(array.shape), wanted=list(shape))
    found = _as_dtype(array.reshape(-1), port.dtype)
    if found is None:
        text = f"data of {DATATYPES[port.dtype]} are {_wanted(port.dtype)}, nested as the shape or flat"
        _refuse(text, path=where)
    return found.reshape(shape)


def _as_dtype(flat: np.ndarray, name: str) -> np.ndarray | None:
    """The values of an array of objects, converted to a dtype; None if a value does not fit."""
    dtype, values = dtypes.to_numpy(name), flat.tolist()
    kinds = set(map(type, values))
    if name == "bool":
        return flat.astype(dtype) if kinds <= {bool} else None
    if dtypes.is_integer(name):
        info = np.iinfo(dtype)
        fits = kinds <= {int} and (not values or (info.min <= min(values) and max(values) <= info.max))
        return flat.astype(dtype) if fits else None
    if not kinds <= {int, float}:
        return None
    with np.errstate(over="ignore"):
        found = flat.astype(np.float64).astype(dtype)
    return found if bool(np.isfinite(found.astype(np.float64)).all()) else None


def _wanted(name: str) -> str:
    if name == "bool":
        return "true and false"
    if dtypes.is_integer(name):
        info = np.iinfo(dtypes.to_numpy(name))
        return f"integers from {info.min} to {info.max}"
    return "numbers that it can represent; send others as binary data"


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "nothing"}
    return kinds.get(type(value), "a number")


def _refuse(text: str, path: str | Sequence[str | int] | None = None, **fields: Any) -> NoReturn:
    if path is not None:
        fields["path"] = path if isinstance(path, str) else json_path(path)
    raise RequestError(text, **fields)
