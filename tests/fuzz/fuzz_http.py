"""Mutated bytes of HTTP connections: each request is answered or refused, or its connection ends, and the
server goes on.

    SEED=1 ITERS=10000 python tests/fuzz/fuzz_http.py [SEED [ITERS]]

One to four requests that follow each other on a connection lose, gain and swap bytes; their heads get lines
that servers disagree on (lengths that stand twice, are no number or too large; chunks; folded lines, bare
line ends, injected ones; paths and methods that are none), grow over their bounds, or stop; they arrive in
pieces. What comes back has to be whole answers with headers of this server alone; nothing of a body is held
afterwards, no connection is left, another client is answered, and the process does not grow. A failure prints
the command that replays it.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
import os
import random
import resource
import sys
import time

from driver import fuzz, run
from fuzz_requests import INFER, front, make_request

from graph_runtime.cluster.http.http_server import HttpServer, listen

SECONDS_OF_TEST = 1.5
_QUIET = 0.05  # seconds without an answer after which the client leaves
_PATIENCE = 10.0  # seconds in which everything else has to be done
# KiB of memory; a sanitizer keeps what was freed for a while
_MOST_GROWTH = (1024 if os.environ.get("GR_BUILD") else 96) << 10
_STATUSES = {200, 400, 401, 403, 404, 405, 408, 411, 413, 415, 422, 429, 431, 503}
_HEADERS = {b"content-type", b"content-length", b"connection", b"retry-after", b"allow"}
_HEADERS |= {b"inference-header-content-length"}
_LENGTHS = (
    b"-1",
    b"+3",
    b"0x3",
    b"3, 3",
    b"",
    b" ",
    b"1e3",
    b"9" * 30,
    b"00000005",
    b"4 5",
    b"\xb2",
    b"268435457",
)
_LINES = (
    b"Transfer-Encoding: chunked",
    b"Transfer-Encoding: identity",
    b"Transfer-Encoding : chunked",
    b"transfer-encoding:\tchunked, gzip",
    b"Content-Length: 5",
    b"Content-Length : 5",
    b"Content-Encoding: gzip",
    b"Expect: 100-continue",
    b"Connection: close",
    b"Connection: keep-alive, Upgrade",
    b"Upgrade: h2c",
    b"A: b\r\n c: folded",
    b"A: b\nInjected: c",
    b"A: b\rInjected: c",
    b"A: \0",
    b" A: b",
    b"A b",
    b": b",
    b"A\xe9: b",
    b"Host: a\r\nHost: b",
    b"Inference-Header-Content-Length: 99999999",
    b"Inference-Header-Content-Length: -5",
    b"A: " + b"b" * 70_000,
    b"A: " + b"b" * 40_000,
    b"\r\n".join([b"A: b"] * 250),
)
_FIRST = (
    b"get / HTTP/1.1",
    b"GET / HTTP/0.9",
    b"GET / HTTP/1.2",
    b"GET / HTTP/2.0",
    b"PRI * HTTP/2.0",
    b"GET /",
    b"GET  / HTTP/1.1",
    b"GET http://other/ HTTP/1.1",
    b"CONNECT other:80 HTTP/1.1",
    b"OPTIONS * HTTP/1.1",
    b"GET /%0d%0aInjected:%20a HTTP/1.1",
    b"GET /v2/models/%00/../../m HTTP/1.1",
    b"GET /v2/models/%ff%fe HTTP/1.1",
    b"GET /" + b"a" * 9000 + b" HTTP/1.1",
    b"\x16\x03\x01\x02\x00\x01\x00\x01",
    b"",
)


def _request(rng: random.Random) -> tuple[list[bytes], bytes]:
    """(the lines of a head, the body) of a request that is well."""
    kind = rng.choice(("json", "binary", "binary", "get"))
    if kind == "get":
        path = rng.choice(("/v2", "/v2/models/m", "/metrics", "/v2/health/ready", "/nothing", INFER))
        return [
            f"{rng.choice(('GET', 'HEAD'))} {path} HTTP/1.{rng.randrange(2)}".encode(),
            b"Host: localhost",
        ], b""
    raw, tail = make_request(kind == "binary")
    if rng.random() < 0.1:
        raw["inputs"][0]["parameters"] = {"binary_data_size": rng.choice((0, 31, 33, 1 << 40, -1))}
    text = json.dumps(raw).encode()
    lines = [
        f"POST {INFER} HTTP/1.1".encode(),
        f"Content-Length: {len(text) + len(tail)}".encode(),
        b"Host: [::1]:1",
    ]
    if kind == "binary":
        lines.append(f"Inference-Header-Content-Length: {len(text)}".encode())
    return lines, text + tail


def _changed(lines: list[bytes], body: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(7)
    if kind == 0:
        lines.insert(rng.randrange(1, len(lines) + 1), rng.choice(_LINES))
    elif kind == 1:
        lines[0] = rng.choice(_FIRST)
    elif kind == 2 and len(lines) > 1:
        name = lines[1].partition(b":")[0]
        lines[1] = name + b": " + rng.choice((*_LENGTHS, str(len(body) + rng.randrange(-9, 9)).encode()))
    elif kind == 3:
        size = f"{len(body) + rng.choice((0, 0, 0, 1, -1)):x}".encode()
        lines.append(b"Transfer-Encoding: chunked")
        body = rng.choice((b"", b"0")) + size + b"\r\n" + body + b"\r\n0\r\n\r\n"
    text = bytearray(b"\r\n".join([*lines, b"", b""]) + body)
    for _ in range(rng.choice((1, 2, 5)) if kind in (4, 5) else 0):
        at = rng.randrange(len(text) + 1)
        text[at : at + rng.choice((0, 0, 1, 4))] = rng.choice(
            (b"\r\n", b"\n", b"\r", b"\0", b":", b" ", b"\r\n\r\n", bytes([rng.randrange(256)]))
        )
    return bytes(text[: rng.randrange(len(text) + 1)] if kind == 6 else text)


def draw(seed: int) -> tuple[str, bytes]:
    """What a client sends: the sizes of the pieces as JSON, an empty line, and the bytes."""
    rng = random.Random(seed)
    texts = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        lines, body = _request(rng)
        well = rng.random() < 0.3
        texts.append(b"\r\n".join([*lines, b"", b""]) + body if well else _changed(lines, body, rng))
    data = b"".join(texts) or b"\r\n"
    cuts = sorted(rng.randrange(len(data)) for _ in range(rng.choice((0, 0, 1, 3, 30))))
    sizes = [end - begin for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return f"{len(texts)} requests", json.dumps(sizes).encode() + b"\n\n" + data


class _Served:
    """A server that goes on from one connection to the next, and a client of it."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.server, self.listening = HttpServer(front(), 5.0), listen("127.0.0.1", 0)
        self.port, self.faults = self.listening.getsockname()[1], list[str]()
        self.runner.get_loop().set_exception_handler(lambda _, about: self.faults.append(str(about)))
        handler = logging.Handler()
        handler.emit = lambda record: self.faults.append(record.getMessage())
        logging.getLogger("graph_runtime.cluster").addHandler(handler)
        self.runner.run(self.server.start(self.listening))
        self.most = 0

    def send(self, pieces: list[bytes]) -> bytes:
        return self.runner.run(asyncio.wait_for(self._send(pieces), _PATIENCE))

    async def _send(self, pieces: list[bytes]) -> bytes:
        """All that came back."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        found = bytearray()
        try:
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
            while True:
                more = await asyncio.wait_for(reader.read(1 << 20), _QUIET)
                if not more:
                    break
                found += more
        except (TimeoutError, ConnectionError):
            pass
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()
        while self.server.connections:  # _PATIENCE ends it
            await asyncio.sleep(0.001)
        return bytes(found)


served = functools.cache(_Served)


def _answers(text: bytes, heads: bool) -> list[int]:
    """The statuses of whole answers. ``heads``: some may have no body."""
    found = []
    while text:
        head, end, rest = text.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 "), text[:200]
        assert end, text[:200]
        first, *lines = head.split(b"\r\n")
        status = int(first.split()[1])
        if status == 100:
            text = rest
            continue
        assert status in _STATUSES, first
        named = {line.partition(b":")[0].lower(): line.partition(b": ")[2] for line in lines}
        assert named.keys() <= _HEADERS, lines
        size = int(named[b"content-length"])
        whole = not (heads and (not rest or rest.startswith(b"HTTP/1.1 ")))
        assert not whole or len(rest) >= size, (first, size, len(rest))
        if whole and status != 200:
            assert json.loads(rest[:size])["error"], "it has no reason"
        text = rest[size:] if whole else rest
        found.append(status)
    return found


def judge(_: str, data: bytes) -> str:
    text, _, rest = data.partition(b"\n\n")
    pieces, at = [], 0
    for size in json.loads(text):
        pieces.append(rest[at : at + size])
        at += size
    found = _answers(served().send(pieces), b"HEAD" in rest)
    assert not served().faults, served().faults
    assert front().bodies.held == 0, f"{front().bodies.held} bytes are held"
    after = served().send([b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"])
    assert after.startswith(b"HTTP/1.1 200 "), after
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    served().most = served().most or grown
    assert grown - served().most < _MOST_GROWTH, f"the process has grown to {grown} KiB"
    return " ".join(sorted({str(status) for status in found})) or "closed"


def fuzz_http(seed: int, iters: int, seconds: float = 1e9):
    return fuzz("fuzz_http.py", draw, judge, seed, iters, seconds)


def test_mutated_connections():
    seed = int(os.environ.get("SEED", "0"))
    iters = int(os.environ.get("ITERS", "4000")) // 20  # a connection takes as long as 20 inputs of others
    begin = time.monotonic()
    counts = fuzz_http(seed, iters, SECONDS_OF_TEST if "ITERS" not in os.environ else 1e9)
    seen = {status for _, outcome in counts for status in outcome.split()}
    assert {"200", "400"} <= seen, (seen, time.monotonic() - begin)


if __name__ == "__main__":
    run(fuzz_http, "10000", sys.argv[1:])
