"""What HTTP costs in our own server and in stock ones, as JSON lines.

    python tests/bench/bench_http.py [--seconds 2] [--rounds 3] [--without-ray] [--table]

Two requests, of 64 bytes and of 4 MiB, over 1, 16 and 64 connections, in turns: cluster/http/http_server,
uvicorn with httptools and with h11, aiohttp (these on uvloop), http.server with threads, and Ray Serve's
proxy. Each application brings the body into memory that replicas could map (but for that of Ray, which has
replicas of its own) and answers with its size. The clients are http_load.c, on the same cores. A line has
the best of the rounds: answers a second, milliseconds p50 and p99, milliseconds of a core for an answer in
the processes of the server, and what it takes of a core beside ours. held: after how many seconds a server
has ended or refused clients that keep it waiting: one that says nothing, one whose head stops, one whose
body does, one that is idle after an answer; and one that promises more than the largest body. Needs the
extra ``cluster`` and a C compiler.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import selectors
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from machine import machine
from served import Load, Process

from graph_runtime.cluster.http.http_server import HttpServer, listen
from graph_runtime.cluster.http.request_bodies import Bodies
from graph_runtime.cluster.http.responses import Response
from graph_runtime.cluster.server import new_event_loop
from graph_runtime.cluster.transport.shared_memory import SharedMemory

SIZES = {"64 B": 16, "4 MiB": 1 << 20}  # float32 of a request
CONNECTIONS = (1, 16, 64)
BODY = 256 << 20  # bytes of the largest body that is read
RAY = """
import ray, signal, sys
from ray import serve
from starlette.responses import Response
ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
@serve.deployment(max_ongoing_requests=128)
class Count:
    async def __call__(self, request):
        return Response(str(len(await request.body())))
serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
serve.run(Count.bind())
print("serving on", flush=True)
signal.pause()
"""


# **************** servers ****************


class Region:
    """Memory for a body: as serve has it."""

    memory = SharedMemory(1 << 30)

    def __init__(self, size: int):
        self.view, self.at = self.memory.take(size) if size else memoryview(b""), 0

    def add(self, part: bytes) -> None:
        self.view[self.at : self.at + len(part)] = part
        self.at += len(part)


def ours(port: int) -> None:
    bodies = Bodies(BODY, allocate=lambda size: Region(size).view)

    class Count:
        def begin(self, head: Any) -> Any:
            return SimpleNamespace(body=bodies.open(head.headers))

        async def answer(self, call: Any) -> Response:
            text = str(call.body.size).encode()
            bodies.close(call.body)
            return Response(200, (), (text,))

        def drop(self, call: Any) -> None:
            bodies.close(call.body)

    async def go() -> None:
        server = HttpServer(Count())
        await server.start(listen("127.0.0.1", port))
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(go())


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    body, more = Region(int(dict(scope["headers"]).get(b"content-length", 0))), True
    while more:
        message = await receive()
        body.add(message.get("body", b""))
        more = message.get("more_body", False)
    text = str(body.at).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def uvicorn(port: int, http: str) -> None:
    from uvicorn import run

    run(asgi, port=port, loop="uvloop", http=http, log_level="error", lifespan="off")


def aiohttp(port: int) -> None:
    from aiohttp import web

    async def count(request: web.Request) -> web.Response:
        body = Region(request.content_length)
        async for part in request.content.iter_any():
            body.add(part)
        return web.Response(text=str(body.at))

    app = web.Application(client_max_size=BODY)
    app.router.add_post("/{path:.*}", count)
    web.run_app(app, host="127.0.0.1", port=port, loop=new_event_loop(), print=None, access_log=None)


class Threaded(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True
    lock = threading.Lock()  # one thread takes

    def do_POST(self) -> None:
        with self.lock:
            body = Region(int(self.headers["Content-Length"]))
        text = str(self.rfile.readinto(body.view)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *words: Any) -> None:
        pass


def threaded(port: int) -> None:
    class Server(ThreadingHTTPServer):
        request_queue_size, daemon_threads = 128, True

    Server(("127.0.0.1", port), Threaded).serve_forever()


SERVERS = {
    "ours": ours,
    "uvicorn, httptools": lambda port: uvicorn(port, "httptools"),
    "uvicorn, h11": lambda port: uvicorn(port, "h11"),
    "aiohttp": aiohttp,
    "http.server": threaded,
}


# **************** what is measured ****************


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def started(folder: Path, ray: bool) -> Iterator[dict[str, Process]]:
    with contextlib.ExitStack() as stack:
        found = {}
        for name in SERVERS:
            port = free_port()
            command = [__file__, "--server", name, "--port", str(port)]
            found[name] = stack.enter_context(Process(command, folder, port))
            wait_for(port)
        if ray:
            port = free_port()
            found["Ray Serve"] = stack.enter_context(Process(["-c", RAY, str(port)], folder, port))
        yield found


def wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    sys.exit(f"nothing listens on {port}")


def measure(servers: dict[str, Process], load: Load, seconds: float, rounds: int) -> list[dict[str, Any]]:
    lines = []
    for size, count in SIZES.items():
        request = load.request((count,), "/count")
        for clients in CONNECTIONS:
            best: dict[str, dict[str, Any]] = {}
            for _ in range(rounds):
                for name, server in servers.items():
                    before = sum(server.processor_seconds().values())
                    found = load.run(server.port, clients, seconds, request)
                    used = sum(server.processor_seconds().values()) - before
                    found["rate"] = found["answers"] / found["seconds"]
                    found["core_ms"] = 1e3 * used / max(1, found["answers"])
                    known = best.setdefault(name, found)
                    known |= {key: max(known[key], found[key]) for key in ("rate", "errors")}
                    known |= {key: min(known[key], found[key]) for key in ("p50_ms", "p99_ms", "core_ms")}
            for name, found in best.items():
                line = {"bench": "http", "server": name, "request": size, "connections": clients}
                line |= {"answers_per_s": round(found["rate"], 1), "errors": found["errors"]}
                line |= {"p50_ms": found["p50_ms"], "p99_ms": found["p99_ms"]}
                line["core_ms"] = round(found["core_ms"], 4)
                line["rate_ratio"] = round(found["rate"] / best["ours"]["rate"], 2)
                line["core_ratio"] = round(found["core_ms"] / best["ours"]["core_ms"], 2)
                print(json.dumps(line), flush=True)
                lines.append(line)
    return lines


HELD = {
    "silence": b"",
    "head": b"POST /count HTTP/1.1\r\nHost: a\r\n",
    "body": b"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\nabc",
    "idle": b"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx",
    "promise": b"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (BODY + 1),
}


def held(servers: dict[str, Process], seconds: float) -> None:
    """Seconds after which a server has ended or refused each of HELD, None where it has not."""
    found: dict[str, dict[str, float | None]] = {name: dict.fromkeys(HELD) for name in servers}
    begin = time.monotonic()
    with selectors.DefaultSelector() as waiting:
        for name, server in servers.items():
            for what, text in HELD.items():
                made = socket.create_connection(("127.0.0.1", server.port), 5)
                made.sendall(text)
                waiting.register(made, selectors.EVENT_READ, (name, what))
        while waiting.get_map() and time.monotonic() < begin + seconds:
            for key, _ in waiting.select(1.0):
                name, what = key.data
                said = b""
                with contextlib.suppress(ConnectionError):
                    said = key.fileobj.recv(1000)
                if what == "idle" and b" 200 " in said:
                    continue
                found[name][what] = round(time.monotonic() - begin, 1)
                waiting.unregister(key.fileobj)
                key.fileobj.close()
        for key in list(waiting.get_map().values()):
            key.fileobj.close()
    for name, row in found.items():
        print(json.dumps({"bench": "held", "server": name, **row}), flush=True)


def table(lines: list[dict[str, Any]]) -> None:
    """The table of docs/cluster.md."""
    by = {(line["server"], line["request"], line["connections"]): line for line in lines}
    columns = [(size, clients) for size in SIZES for clients in CONNECTIONS]
    print("| server | " + " | ".join(f"{size}, {clients}" for size, clients in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in dict.fromkeys(line["server"] for line in lines):
        rows = [by[name, *column] for column in columns]
        cells = [f"{row['core_ratio']:.2f} ({row['core_ms']:.3g}; {row['p50_ms']:.2g})" for row in rows]
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--held", type=float, default=90.0, help="seconds that held waits")
    parser.add_argument("--server", choices=SERVERS, help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.server:
        print("serving on", flush=True)
        SERVERS[asked.server](asked.port)
        return
    packages = ("ray", "uvicorn", "httptools", "h11", "aiohttp", "uvloop")
    print(json.dumps({"bench": "http", **machine(*packages)}), flush=True)
    with (
        tempfile.TemporaryDirectory() as name,
        started(Path(name), not asked.without_ray) as servers,
    ):
        lines = measure(servers, Load(Path(name)), asked.seconds, asked.rounds)
        held(servers, asked.held)
    if asked.table:
        table(lines)


if __name__ == "__main__":
    main()
