"""HTTP over real sockets: heads, bodies in any pieces, clients that are slow, leave, or say nonsense."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from types import SimpleNamespace

import pytest

import graph_runtime as gr
from graph_runtime.cluster.http import http_server
from graph_runtime.cluster.http.http_heads import MOST_HEAD, parse_head
from graph_runtime.cluster.http.http_server import HttpServer, listen
from graph_runtime.cluster.http.request_bodies import RequestBody
from graph_runtime.cluster.http.responses import Response


class Echo:
    """Answers with the body; /refused: it is not read; /slow: late; /never: not at all; /large: much."""

    def __init__(self):
        self.begun, self.dropped, self.cancelled = 0, 0, 0

    def begin(self, head):
        if head.path == "/refused":
            raise gr.RequestError("no", status=429, retry_after=1)
        self.begun += 1
        size = int(head.headers.get(b"content-length", b"0"))
        return SimpleNamespace(path=head.path, body=RequestBody(size))

    def drop(self, call):
        self.dropped += 1

    async def answer(self, call):
        try:
            await asyncio.sleep({"/slow": 0.1, "/never": 60}.get(call.path, 0))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Response(200, (), (bytes(30_000_000) if call.path == "/large" else bytes(call.body.memory),))


def served(test, body_seconds=60.0):
    """Run ``test(port, server)`` beside a server; whatever it does, another client is answered after it."""

    async def go():
        server = HttpServer(Echo(), body_seconds)
        with contextlib.closing(listen("127.0.0.1", 0)) as listening:
            await server.start(listening)
            port = listening.getsockname()[1]
            try:
                found = await test(port, server)
                if not server.ending:
                    assert await ask(port, post("/after", b"x")) == [(200, b"x")]
            finally:
                await server.close(5)
        assert not server.connections
        return found

    return asyncio.run(go())


def post(path: str, body: bytes, *lines: str) -> bytes:
    return (
        "\r\n".join([f"POST {path} HTTP/1.1", f"Content-Length: {len(body)}", *lines, "", ""]).encode() + body
    )


async def read_answers(reader, most: int = 100) -> list[tuple[int, bytes]]:
    """(status, body) of answers, until the server closes or there are so many."""
    found = []
    while len(found) < most and (line := await reader.readline()):
        status, length = int(line.split()[1]), 0
        while (line := await reader.readline()).strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        if status != 100:
            found.append((status, await reader.readexactly(length)))
    return found


async def ask(port: int, *pieces: bytes, most: int = 1) -> list[tuple[int, bytes]]:
    """The first answers to bytes that are sent in these pieces."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0)
    try:
        return await read_answers(reader, most)
    finally:
        writer.close()


@pytest.mark.parametrize("size", [0, 1, 70_000, 3_000_000])
def test_bodies_arrive_whole_in_any_pieces(size):
    body, rng = random.Random(size).randbytes(size), random.Random(1)
    text = post("/a", body) + post("/b", body[::-1])

    async def test(port, _):
        ends = sorted(rng.sample(range(len(text)), 5))
        pieces = [text[a:b] for a, b in zip([0, *ends], [*ends, len(text)], strict=True)]
        return await ask(port, *pieces, most=2)

    assert served(test) == [(200, body), (200, body[::-1])]


def test_requests_that_come_at_once_are_answered_in_their_order():
    async def test(port, _):
        return await ask(port, b"".join(post("/slow", str(at).encode()) for at in range(5)), most=5)

    assert served(test) == [(200, str(at).encode()) for at in range(5)]


def test_a_body_that_was_refused_is_read_over():
    async def test(port, _):
        return await ask(port, post("/refused", b"y" * 2_000_000) + post("/a", b"x"), most=2)

    assert [(status, len(body)) for status, body in served(test)] == [(429, 14), (200, 1)]


def test_a_long_body_that_was_refused_ends_the_connection_after_the_answer():
    async def test(port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /refused HTTP/1.1\r\nContent-Length: 100000000\r\n\r\n" + b"y" * 500_000)
        found = await asyncio.wait_for(read_answers(reader), 5)
        writer.close()
        return found

    assert [status for status, _ in served(test)] == [429]


def test_a_client_that_waits_for_a_word_before_its_body_hears_it():
    async def test(port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        head, body = post("/a", b"xyz", "Expect: 100-continue")[:-3], b"xyz"
        writer.write(head)
        assert (await asyncio.wait_for(reader.readline(), 5)) == b"HTTP/1.1 100 Continue\r\n"
        writer.write(body)
        assert await reader.readline() == b"\r\n"
        found = await read_answers(reader, 1)
        writer.close()
        return found

    assert served(test) == [(200, b"xyz")]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/2\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400),
        (b"POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 0x3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nContent-Length: -3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
        (b"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nA: " + b"b" * MOST_HEAD + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 300 + b"\r\n", 431),
    ],
)
def test_what_is_no_request_is_answered_and_the_connection_ends(text, status):
    async def test(port, _):
        return await asyncio.wait_for(ask(port, text + post("/never", b""), most=2), 5)

    assert [found for found, _ in served(test)] == [status]


def test_heads():
    found = parse_head(b"GET /a%20b?c=d HTTP/1.1\r\nAccept: x\r\naccept:y \r\nConnection: Close")
    assert (found.path, found.headers[b"accept"], found.keeps) == ("/a b", b"x,y", False)
    assert not parse_head(b"GET / HTTP/1.0").keeps
    assert parse_head(b"GET / HTTP/1.0\r\nConnection: keep-alive").keeps
    for token in (b"a", b"b", b"a"):  # heads that come again are remembered
        assert parse_head(b"GET / HTTP/1.1\r\nAuthorization: " + token).headers[b"authorization"] == token
    for _ in range(2):
        with pytest.raises(gr.RequestError):
            parse_head(b"GET / HTTP/1.1\r\n Authorization: a")


def test_a_body_that_does_not_arrive_is_a_408():
    async def test(port, server):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc")
        line = await asyncio.wait_for(reader.readline(), 5)
        writer.close()
        return line, server.application.dropped

    line, dropped = served(test, body_seconds=0.2)
    assert (b" 408 " in line, dropped) == (True, 1)


def test_a_client_that_leaves_ends_what_it_asked_for():
    async def test(port, server):
        for text in (post("/never", b""), post("/a", b"xyz")[:-1]):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(text)
            await asyncio.sleep(0.05)
            writer.transport.abort()
            await asyncio.sleep(0.05)
        application = server.application
        return len(server.connections), application.begun, application.cancelled, application.dropped

    assert served(test) == (0, 2, 1, 1)


def test_a_head_alone_is_answered_without_a_body():
    async def test(port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HEAD / HTTP/1.1\r\n\r\n" + post("/a", b"x"))
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        found = await read_answers(reader, 1)
        writer.close()
        return found

    assert served(test) == [(200, b"x")]


@pytest.mark.parametrize("said", [b"", b"GET /", b"POST / HTTP/1.1\r\nA: b\r\n"])
def test_a_connection_that_begins_no_request_ends(monkeypatch, said):
    monkeypatch.setattr(http_server, "_HEAD_SECONDS", 0.2)

    async def test(port, _):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(said)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), 5) == b""
        writer.close()

    served(test)


def test_a_client_that_does_not_read_its_answer_ends(monkeypatch):
    monkeypatch.setattr(http_server, "_WRITE_SECONDS", 0.2)

    async def test(port, server):
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(post("/large", b""))
            for _ in range(100):
                await asyncio.sleep(0.05)
                if not server.connections:
                    return True
        return False

    assert served(test)


@pytest.mark.parametrize(
    ("texts", "status", "ended"),
    [
        ((b"", b""), 200, [0]),  # what has waited longest ends
        ((b"", post("/never", b"")), 200, [0]),
        ((post("/never", b""), b""), 200, [1]),
        ((post("/a", b"x" * 9)[:-1], b"GET / HTTP/1.1\r\n"), 200, [1]),  # most of the body is there
        ((post("/a", b"x" * 9)[:-9], b"GET / HTTP/1.1\r\n"), 200, [0]),
        ((post("/never", b""), post("/never", b"")), 503, []),
    ],
)
def test_connections_are_bounded_in_number(monkeypatch, texts, status, ended):
    monkeypatch.setattr(http_server, "_CONNECTIONS", 2)

    async def test(port, _):
        held = []
        for text in texts:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(text)
            await asyncio.sleep(0.03)
            held.append((reader, writer))
        found = await ask(port, post("/a", b"y"))
        await asyncio.sleep(0.03)
        gone = [at for at, (reader, _) in enumerate(held) if reader.at_eof() or reader.exception()]
        for _, writer in held:
            writer.transport.abort()
        await asyncio.sleep(0.05)
        return found[0][0], gone

    assert served(test) == (status, ended)


def test_a_body_that_is_behind_what_would_be_in_time_ends(monkeypatch):
    """Nothing of it has come after the grace; one that keeps up takes as long as all may."""
    monkeypatch.setattr(http_server, "_GRACE_SECONDS", 0.3)

    async def slow(port, piece, times):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"POST / HTTP/1.1\r\nContent-Length: {1 << 28}\r\n\r\n".encode())
        for _ in range(times):
            writer.write(piece)
            await asyncio.sleep(0.1)
        line = await asyncio.wait_for(reader.readline(), 10)
        writer.transport.abort()
        return line.split()[1]

    async def test(port, server):
        begin = asyncio.get_running_loop().time()
        none = await slow(port, b"", 0)
        seconds = asyncio.get_running_loop().time() - begin
        begun = asyncio.ensure_future(slow(port, bytes(5 << 20), 12))
        await asyncio.sleep(1.0)
        assert not begun.done()
        return none, seconds < 5, await begun

    assert served(test, body_seconds=6.0) == (b"408", True, b"408")


def test_answers_that_are_not_read_are_bounded_together(monkeypatch):
    monkeypatch.setattr(http_server, "_UNREAD", 40_000_000)

    async def test(port, server):
        with contextlib.ExitStack() as stack:
            for _ in range(4):
                raw = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                raw.sendall(post("/large", b""))
                await asyncio.sleep(0.1)
            return sum(one.unread for one in server.connections)

    assert 10_000_000 < served(test) <= 40_000_000


def test_ending_answers_what_is_there():
    async def test(port, server):
        asked = asyncio.ensure_future(ask(port, post("/slow", b"x")))
        await asyncio.sleep(0.05)
        await server.close(5)
        return await asked

    assert served(test) == [(200, b"x")]


def test_a_port_that_is_taken_is_said():
    with contextlib.closing(listen("127.0.0.1", 0)) as first:
        port = first.getsockname()[1]
        with pytest.raises(gr.ClusterError, match=f"cannot listen on 127.0.0.1:{port}.*--port"):
            listen("127.0.0.1", port)
