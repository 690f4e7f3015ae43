"""``graph-runtime cluster top`` in a terminal and without one, beside a server that only tells its status."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

pty = pytest.importorskip("pty", reason="terminals of Unix")
termios = pytest.importorskip("termios")
pytestmark = [pytest.mark.slow, pytest.mark.timeout(60)]

MODEL = {
    "name": "digits", "version": "3", "ready": True, "workers": 2, "devices": ["cpu:0"], "rows": [1, 8],
    "sha256": "ab" * 32, "queued": 1, "running": 2, "requests": {"200": 5}, "runs": 4, "replays": {},
}  # fmt: skip


@pytest.fixture
def url() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            MODEL["requests"]["200"] += 10
            node = {"name": "here", "alive": True, "cores": 2}
            text = json.dumps({"version": "0", "ray": "1", "nodes": [node], "models": [MODEL]}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def top(url: str, *more: str) -> list[str]:
    return [sys.executable, "-m", "graph_runtime.cli", "cluster", "top", "--url", url, *more]


class Terminal:
    """A command in a terminal of its own. ``seen``: what it has written."""

    def __init__(self, command: list[str]):
        self.file, other = pty.openpty()
        self.before = termios.tcgetattr(self.file)
        self.process = subprocess.Popen(
            command, stdin=other, stdout=other, stderr=other, start_new_session=True
        )
        os.close(other)
        self.seen = b""

    def wait_for(self, text: bytes, count: int = 1) -> None:
        end = time.monotonic() + 20
        while self.seen.count(text) < count:
            assert time.monotonic() < end, self.seen
            if select.select([self.file], [], [], 0.2)[0]:
                self.seen += os.read(self.file, 65536)

    def ends(self) -> int:
        code = self.process.wait(10)
        assert termios.tcgetattr(self.file)[3] == self.before[3], "the terminal is as it was"
        os.close(self.file)
        return code


@pytest.mark.parametrize("how", ["q", "Ctrl-C", "SIGTERM"])
def test_it_refreshes_in_place_until_it_is_ended(url, how):
    terminal = Terminal(top(url, "--seconds", "0.1"))
    terminal.wait_for(b"\x1b[H", 3)
    assert b"digits" in terminal.seen
    assert b"\x1b[2J" not in terminal.seen  # which flickers
    if how == "q":
        os.write(terminal.file, b"q")
    else:
        terminal.process.send_signal(signal.SIGINT if how == "Ctrl-C" else signal.SIGTERM)
    terminal.wait_for(b"\x1b[?1049l")
    assert terminal.ends() == 0


def test_a_server_that_ends_is_a_line_and_one_that_is_not_there_an_error(url):
    terminal = Terminal(top(url.replace(url[-4:], "0009"), "--seconds", "0.1"))
    terminal.wait_for(b"no server")
    assert terminal.ends() == 2


def test_without_a_terminal_it_is_shown_once(url):
    done = subprocess.run(top(url, "--seconds", "0.1"), capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout.count("digits"), "\x1b" in done.stdout) == (0, 1, False)
    row = next(line for line in done.stdout.splitlines() if line.startswith("digits"))
    assert float(row.split()[-2]) > 20, "answers a second"
    done = subprocess.run(
        top(url, "--seconds", "0.1", "--number", "2", "--json"), capture_output=True, text=True, timeout=30
    )
    assert [json.loads(line)["models"][0]["name"] for line in done.stdout.splitlines()] == ["digits"] * 2
