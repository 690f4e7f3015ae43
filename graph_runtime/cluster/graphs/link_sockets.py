"""The sockets of links: listening, TLS by which both sides show a certificate, sending in pieces, and which
users' processes may connect on one machine."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import struct
from typing import Any

from ...base.errors import ClusterError
from ..messages import Part

__all__ = [
    "LinkLost",
    "Tls",
    "end_socket",
    "listen",
    "refuse_others",
    "send_parts",
    "tls_context",
    "tune",
]

Tls = tuple[str, str, str]  # certificate, its key, the authority that signed those of all
INLINE = 1 << 16  # bytes below which a message goes in one piece
_SILENT_MS = 15_000  # after which TCP gives up what is not acknowledged
_CHUNK = 1 << 20
_PEER = struct.Struct("3i")  # process, user, group, as SO_PEERCRED gives them


class LinkLost(ClusterError):
    """A connection that could not be made, or broke."""


def listen(family: int, where: Any) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind(where)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise LinkLost(f"cannot listen at {where}: {error}", got=str(where)) from error
    return listening


def refuse_others(connection: socket.socket) -> None:
    """Raise ClusterError where another user's process is at the other end of a Unix socket."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    if (user := _PEER.unpack(said)[1]) not in (0, os.getuid()):
        raise ClusterError(f"user {user} is not let in", got=user)


def tune(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _SILENT_MS)


def tls_context(tls: Tls, purpose: ssl.Purpose) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=tls[2])
    context.load_cert_chain(tls[0], tls[1])
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def send_parts(connection: socket.socket, parts: list[Part]) -> None:
    if sum(map(len, parts)) <= INLINE:
        connection.sendall(b"".join(parts))
        return
    for part in parts:
        view = memoryview(part)
        for at in range(0, len(view), _CHUNK):  # each has the whole timeout
            connection.sendall(view[at : at + _CHUNK])


def end_socket(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
