"""Addresses at which no Ray is: refused at once, with what is there."""

from __future__ import annotations

import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import graph_runtime as gr
from graph_runtime.cluster.ray import ray_address, rays
from graph_runtime.cluster.ray.ray_address import require_ray_at

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))
SETTINGS = bytes(3) + b"\4" + bytes(5)


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def answer(listening: socket.socket, said: bytes, close: bool = True) -> list[bytes]:
    """What listens says this to each that connects; what these begin with."""
    heard: list[bytes] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            heard.append(connection.recv(100))
            connection.sendall(said)
            if close:
                connection.close()
            else:
                kept.append(connection)

    kept: list[socket.socket] = []
    threading.Thread(target=serve, daemon=True).start()
    return heard


def test_a_server_of_grpc_may_be_a_ray(listening):
    heard = answer(listening, SETTINGS + b"more")
    require_ray_at("localhost", listening.getsockname()[1])
    assert heard[0].startswith(b"PRI * HTTP/2.0")


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(9), b"\4\4"])
def test_something_else_is_refused(listening, said):
    answer(listening, said)
    with pytest.raises(
        gr.ClusterError, match=r"no Ray answers at 127.0.0.1:.*another program.*ray start --head"
    ):
        require_ray_at("127.0.0.1", listening.getsockname()[1])


def test_what_says_nothing_is_refused(listening, monkeypatch):
    monkeypatch.setattr(ray_address, "_SECONDS", 0.2)
    answer(listening, b"", close=False)
    with pytest.raises(gr.ClusterError, match="timed out"):
        require_ray_at("127.0.0.1", listening.getsockname()[1])


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_plain_text_is_refused_where_tls_is_on(listening, tmp_path):
    from certificates import make_certificates

    answer(listening, SETTINGS)
    certificate, key, authority = make_certificates(tmp_path)
    with pytest.raises(gr.ClusterError, match="same TLS settings"):
        require_ray_at("127.0.0.1", listening.getsockname()[1], (certificate, key), authority)


@pytest.mark.parametrize("call", [gr.cluster.connect, rays.join])
def test_an_address_without_a_listener_is_an_error_at_once(call):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    begin = time.monotonic()
    with pytest.raises(gr.ClusterError, match=f"no Ray answers at 127.0.0.1:{port}: .*refused"):
        call(f"127.0.0.1:{port}")
    assert time.monotonic() - begin < 30
