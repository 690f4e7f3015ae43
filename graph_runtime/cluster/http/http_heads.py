"""The head of an HTTP/1.1 request: from bytes to a Head, or to a RequestError that says why not.

Strict where HTTP's own text warns of smuggling: one Content-Length, no Transfer-Encoding, no folded lines, no
space before a colon.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from ...base.errors import RequestError

__all__ = ["MOST_HEAD", "Head", "parse_head"]

MOST_HEAD = 64 << 10  # bytes
_MOST_LINES = 200
_SHORT = 1 << 10  # bytes of a head that is remembered
_REQUEST = re.compile(rb"([A-Z]{1,20}) (/[!-~]{0,8000}|\*) HTTP/1\.([01])\Z")
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\0\r\n]*?)[ \t]*\Z")
_ONCE = (b"content-length", b"host", b"authorization", b"inference-header-content-length")


@dataclass(frozen=True, slots=True)
class Head:
    """``path``: without a query. ``headers``: by lower-case name; those given twice are joined by commas.
    ``keeps``: whether the connection goes on after the answer."""

    method: str
    path: str
    headers: Mapping[bytes, bytes]
    keeps: bool = True


def parse_head(text: bytes) -> Head:
    """``text``: the lines, without the empty one. Raises RequestError: 400, 411, 431, 501."""
    return _parsed_again(text) if len(text) <= _SHORT else _parsed(text)


@lru_cache(256)
def _parsed_again(text: bytes) -> Head:
    """A client sends the same head again and again."""
    return _parsed(text)


def _parsed(text: bytes) -> Head:
    first, *lines = text.split(b"\r\n")
    found = _REQUEST.match(first)
    if found is None:
        raise RequestError(f"no request of HTTP/1.1: {_shown(first)}")
    if len(lines) > _MOST_LINES:
        said = f"{len(lines)} header lines, at most {_MOST_LINES} are read"
        raise RequestError(said, status=431, got=len(lines), wanted=_MOST_LINES)
    headers: dict[bytes, bytes] = {}
    for line in lines:
        pair = _LINE.match(line)
        if pair is None:
            raise RequestError(f"no header line: {_shown(line)}")
        name = pair[1].lower()
        if name in headers and name in _ONCE:
            raise RequestError(f"the header {_shown(name)} stands twice")
        headers[name] = headers[name] + b"," + pair[2] if name in headers else pair[2]
    if b"transfer-encoding" in headers:
        raise RequestError("bodies are read by Content-Length, not by Transfer-Encoding", status=411)
    connection = headers.get(b"connection", b"").lower()
    keeps = b"close" not in connection if found[3] == b"1" else b"keep-alive" in connection
    return Head(found[1].decode(), unquote(found[2].partition(b"?")[0].decode()), headers, keeps)


def _shown(text: bytes) -> str:
    return repr(text[:60].decode("latin-1"))
