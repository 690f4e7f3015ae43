"""The bytes of an ONNX file -> the model without its weights, and where each weight's bytes lie.

A protobuf parser copies every weight, and accepts no file of 2 GiB or more. Therefore this module walks the
wire format itself, down to ModelProto.graph.initializer[i].raw_data, and gives the parser only the rest: the
structure and small tensors. Everything read is checked against the end of its message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...base.errors import DocumentError

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9  # field numbers of ModelProto, GraphProto, TensorProto
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIELDS = 10_000, 8  # fields of a message: at most 10,000 plus one per 8 bytes
_INLINE = 1024  # bytes; shorter raw data stays in the message


@dataclass(frozen=True, slots=True)
class Span:
    """``length`` bytes of the file from ``offset`` on."""

    offset: int
    length: int


def split(data: memoryview) -> tuple[bytes, dict[int, Span]]:
    """(the serialised model without large raw data, {index of an initialiser: span of its raw data}).

    Raises DocumentError if the bytes are not a protobuf message.
    """
    spans: dict[int, Span] = {}
    model, count = bytearray(), 0
    for field, whole, body in _fields(data, 0, len(data)):
        if field == _GRAPH and body is not None:
            graph, count = _graph(data, body, spans, count)
            _append(model, _GRAPH, graph)
        else:
            model += data[whole.offset : whole.offset + whole.length]
    return bytes(model), spans


def _graph(data: memoryview, span: Span, spans: dict[int, Span], index: int) -> tuple[bytes, int]:
    """(the bytes of the GraphProto without its weights, the index after its last initialiser)."""
    out = bytearray()
    for field, whole, body in _fields(data, span.offset, span.length):
        if field != _INITIALIZER or body is None:
            out += data[whole.offset : whole.offset + whole.length]
            continue
        _append(out, _INITIALIZER, _tensor(data, body, spans, index))
        index += 1
    return bytes(out), index


def _tensor(data: memoryview, span: Span, spans: dict[int, Span], index: int) -> bytes:
    out = bytearray()
    for field, whole, body in _fields(data, span.offset, span.length):
        raw = body if field == _RAW_DATA else None
        if raw is not None and raw.length > _INLINE:
            spans[index] = raw
            continue
        if raw is not None:
            spans.pop(index, None)  # if a field is repeated, the last one counts
        out += data[whole.offset : whole.offset + whole.length]
    return bytes(out)


def _append(out: bytearray, field: int, body: bytes) -> None:
    for value in (field << 3 | _BYTES, len(body)):
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        out.append(value)
    out += body


def _fields(data: memoryview, begin: int, length: int) -> Iterator[tuple[int, Span, Span | None]]:
    """(number, the whole field with its tag, the body if it is length-delimited) of each field of a
    message."""
    at, end, left = begin, begin + length, _FIELDS[0] + length // _FIELDS[1]
    while at < end:
        start, left = at, left - 1
        if left < 0:
            text = f"no ONNX model: the message at byte {begin} has too many fields for its {length} bytes"
            raise DocumentError(text, offset=begin, got=length)
        tag, at = _varint(data, at, end)
        wire, body = tag & 7, None
        if wire == _VARINT:
            _, at = _varint(data, at, end)
        elif wire == _BYTES:
            size, at = _varint(data, at, end)
            body = Span(at, size)
            at += size
        elif wire in (_FIXED64, _FIXED32):
            at += 8 if wire == _FIXED64 else 4
        else:
            reason = f"no ONNX model: byte {start} has wire type {wire}, which protobuf does not know"
            raise DocumentError(reason, got=wire, offset=start)
        if at > end:
            raise DocumentError(
                f"the ONNX model is cut off: the field at byte {start} ends at byte {at}, "
                f"its message at byte {end}",
                offset=start,
            )
        yield tag >> 3, Span(start, at - start), body


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
    raise DocumentError(f"no ONNX model: no number at byte {at}", offset=at)
