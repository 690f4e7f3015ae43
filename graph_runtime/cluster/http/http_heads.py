"""The head of an HTTP/1.1 request, parsed from bytes to a Head, or refused by a RequestError with the reason.

The parser is strict where the HTTP standard warns of request smuggling: one Content-Length, no
Transfer-Encoding, no folded lines, no space before a colon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from ...base.errors import RequestError

MOST_HEAD = 64 << 10  # most bytes of a head
_MOST_LINES = 200
_SHORT = 1 << 10  # most bytes of a head whose parsed form is cached
_REQUEST = re.compile(rb"([A-Z]{1,20}) (/[!-~]{0,8000}|\*) HTTP/1\.([01])\Z")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*?)[ \t]*\Z")
_ONCE = (b"content-length", b"host", b"authorization", b"inference-header-content-length")


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head. ``path``: path without the query. ``headers`` {name in lower case: value}; the values
    of a repeated header are joined by commas. ``keeps``: whether the connection stays open after the answer.
    """

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    keeps: bool = True


def parse_head(text: bytes) -> Head:
    """The head of a request. ``text``: the lines of the head, without the empty line at the end. Raises
    RequestError: 400, 411, 431, 501."""
    return _parsed_again(text) if len(text) <= _SHORT else _parsed(text)


@lru_cache(256)
def _parsed_again(text: bytes) -> Head:
    """The head of ``text``. Heads are cached, because a client sends the same head repeatedly."""
    return _parsed(text)


def _parsed(text: bytes) -> Head:
    first, *lines = text.split(b"\r\n")
    found = _REQUEST.match(first)
    if found is None:
        raise RequestError(f"not a request of HTTP/1.1: {_shown(first)}")
    if len(lines) > _MOST_LINES:
        said = f"{len(lines)} header lines, at most {_MOST_LINES} are accepted"
        raise RequestError(said, status=431, got=len(lines), wanted=_MOST_LINES)
    headers: dict[bytes, bytes] = {}
    for line in lines:
        pair = _LINE.match(line)
        if pair is None:
            raise RequestError(f"not a header line: {_shown(line)}")
        name = pair[1].lower()
        if name in headers and name in _ONCE:
            raise RequestError(f"the header {_shown(name)} is given twice")
        headers[name] = headers[name] + b"," + pair[2] if name in headers else pair[2]
    if b"transfer-encoding" in headers:
        raise RequestError("bodies are read by Content-Length, not by Transfer-Encoding", status=411)
    connection = headers.get(b"connection", b"").lower()
    keeps = b"close" not in connection if found[3] == b"1" else b"keep-alive" in connection
    return Head(found[1].decode(), unquote(found[2].partition(b"?")[0].decode()), headers, keeps)


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("latin-1"))
