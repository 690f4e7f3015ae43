"""What HTTP costs in our own server and in stock ones, as JSON lines.

    python tests/bench/bench_http.py [--seconds 2] [--rounds 3] [--without-ray] [--table]

The same two requests, of 200 bytes and of 4 MiB, over 1, 16 and 64 connections, in turns: cluster/http_server,
uvicorn with httptools and with h11, aiohttp (these on uvloop), http.server with threads, and Ray Serve's
proxy. Each application reads the whole body and answers with its size. The clients are http_load.c, on the
same cores. Of each line: answers a second of the best round, p50 and p99 of that round, milliseconds of a core
for an answer in the server's processes, and the ratio of ours to it. held: whether clients that a server has
to bound are ended or refused within 8 s, in which our own bounds hold: a head or a body of which nothing
comes, and a body that is promised and larger than a bound says. Needs the extra ``cluster`` and a C compiler.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from machine import machine
from served import Load, Process

SIZES = {"small": 16, "4 MiB": 1 << 20}  # float32 of a request
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


def ours(port: int) -> None:
    from graph_runtime.cluster.event_loops import new_event_loop
    from graph_runtime.cluster.http_server import HttpServer, listen
    from graph_runtime.cluster.request_bodies import Bodies
    from graph_runtime.cluster.responses import Response

    bodies = Bodies(BODY)

    class Count:
        """Its calls are requests, as HttpServer has them."""

        def begin(self, head: Any) -> Any:
            self.body = bodies.open(head.headers)
            return type("Call", (), {"body": self.body})

        async def answer(self, call: Any) -> Response:
            text = str(call.body.size).encode()
            bodies.close(call.body)
            return Response(200, (), (text,))

        def drop(self, call: Any) -> None:
            bodies.close(call.body)

    async def go() -> None:
        await HttpServer(Count()).start(listen("127.0.0.1", port))
        await asyncio.Event().wait()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(go())


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    body, more = [], True
    while more:
        message = await receive()
        body.append(message.get("body", b""))
        more = message.get("more_body", False)
    text = str(len(b"".join(body))).encode()
    headers = [(b"content-length", str(len(text)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": text})


def uvicorn(port: int, http: str) -> None:
    from uvicorn import run

    run(asgi, port=port, loop="uvloop", http=http, log_level="error", lifespan="off")


def aiohttp(port: int) -> None:
    import uvloop
    from aiohttp import web

    async def count(request: web.Request) -> web.Response:
        return web.Response(text=str(len(await request.read())))

    app = web.Application(client_max_size=BODY)
    app.router.add_post("/{path:.*}", count)
    web.run_app(app, host="127.0.0.1", port=port, loop=uvloop.new_event_loop(), print=None, access_log=None)


class Threaded(BaseHTTPRequestHandler):
    protocol_version, wbufsize, disable_nagle_algorithm = "HTTP/1.1", -1, True

    def do_POST(self) -> None:
        text = str(len(self.rfile.read(int(self.headers["Content-Length"])))).encode()
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
                    found["cpu"] = sum(server.processor_seconds().values()) - before
                    found["rate"] = found["answers"] / found["seconds"]
                    best[name] = max(best.get(name, found), found, key=lambda one: one["rate"])
            for name, found in best.items():
                line = {"bench": "http", "server": name, "request": size, "connections": clients}
                line |= {"answers_per_s": round(found["rate"], 1), "errors": found["errors"]}
                line |= {"p50_ms": found["p50_ms"], "p99_ms": found["p99_ms"]}
                line["core_ms"] = round(1e3 * found["cpu"] / max(1, found["answers"]), 4)
                line["ratio"] = round(best["ours"]["rate"] / max(found["rate"], 1e-9), 2)
                print(json.dumps(line), flush=True)
                lines.append(line)
    return lines


HELD = {
    "head": b"POST /count HTTP/1.1\r\nHost: a\r\n",
    "body": b"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 200000\r\n\r\nabc",
    "promise": b"POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (BODY + 1),
}


def held(servers: dict[str, Process], seconds: float) -> list[dict[str, Any]]:
    """Whether a server ends or refuses each of HELD."""
    lines = []
    for name, server in servers.items():
        line: dict[str, Any] = {"bench": "held", "server": name}
        made = {}
        for what, text in HELD.items():
            made[what] = socket.create_connection(("127.0.0.1", server.port), 5)
            made[what].sendall(text)
        end = time.monotonic() + seconds
        for what, connection in made.items():
            connection.settimeout(max(0.1, end - time.monotonic()))
            try:
                line[what] = connection.recv(100).partition(b"\r\n")[0].decode() or "ended"
            except TimeoutError:
                line[what] = "waits"
            connection.close()
        print(json.dumps(line), flush=True)
        lines.append(line)
    return lines


def table(lines: list[dict[str, Any]]) -> None:
    """The table of docs/cluster.md."""
    by = {(line["server"], line["request"], line["connections"]): line for line in lines}
    columns = [(size, clients) for size in SIZES for clients in CONNECTIONS]
    print("| server | " + " | ".join(f"{size}, {clients}" for size, clients in columns) + " |")
    print("|---" * (len(columns) + 1) + "|")
    for name in dict.fromkeys(line["server"] for line in lines):
        cells = []
        for size, clients in columns:
            line = by[name, size, clients]
            cells.append(f"{line['ratio']:.2f} ({line['p50_ms']:.2f}, {line['core_ms']:.2f})")
        print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without-ray", action="store_true")
    parser.add_argument("--table", action="store_true")
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
        held(servers, 8.0)
    if asked.table:
        table(lines)


if __name__ == "__main__":
    main()
