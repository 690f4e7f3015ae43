"""The sockets of connections: where a process is reached, listening, TLS by which both sides show a
certificate, and which users' processes may connect on one machine."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import ssl
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...base.errors import ClusterError
from . import limits

# name of the process, machine_id, path of its Unix socket; host and port, where other machines reach it
Address = Mapping[str, Any]
Tls = tuple[str, str, str]  # certificate, its key, the authority that signed those of all
_PEER = struct.Struct("3i")  # process, user, group, as SO_PEERCRED gives them


class LinkLost(ClusterError):
    """A connection that could not be made, or broke."""


def machine_id() -> str:
    """Equal for processes that share memory and see each other's Unix sockets: one boot of one machine, one
    network and one file system of it."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "mnt")]
    return f"{boot}/{spaces[0]}/{spaces[1]}"


def listen(name: str, host: str | None) -> tuple[list[socket.socket], Address]:
    """Sockets of this machine alone, and at ``host`` unless that is None. Raises LinkLost."""
    path = f"\0graph_runtime/{secrets.token_hex(16)}"  # no file: a process that is killed leaves none
    made = [_listening(socket.AF_UNIX, path)]
    address: dict[str, Any] = {"name": name, "machine": machine_id(), "path": path}
    if host is not None:
        made.append(_listening(_family(host), (host, 0)))
        address |= {"host": host, "port": made[1].getsockname()[1]}
    return made, address


def _family(host: str) -> int:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _listening(family: int, where: Any) -> socket.socket:
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.bind(where)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise LinkLost(f"cannot listen at {where}: {error}", got=str(where)) from error
    return listening


def open_socket(to: Address, tls: Tls | None, seconds: float) -> socket.socket:
    """Connect. Raises OSError, and LinkLost where there is no way there."""
    near = to["machine"] == machine_id()
    if not near and "host" not in to:
        raise LinkLost(f"{to['name']} is on another machine and has no address there", got=to["name"])
    made = socket.socket(socket.AF_UNIX if near else _family(to["host"]), socket.SOCK_STREAM)
    try:
        made.settimeout(seconds)
        made.connect(to["path"] if near else (to["host"], to["port"]))
        if not near:
            tune(made)
            if tls is not None:
                made = tls_context(tls, ssl.Purpose.SERVER_AUTH).wrap_socket(made, server_hostname=to["host"])
    except BaseException:
        made.close()
        raise
    return made


def refuse_others(connection: socket.socket) -> None:
    """Raise ClusterError where another user's process is at the other end of a Unix socket."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    if (user := _PEER.unpack(said)[1]) not in (0, os.getuid()):
        raise ClusterError(f"user {user} is not let in", got=user)


def tune(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, limits.SILENT_MS)


def tls_context(tls: Tls, purpose: ssl.Purpose) -> ssl.SSLContext:
    context = ssl.create_default_context(purpose, cafile=tls[2])
    context.load_cert_chain(tls[0], tls[1])
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def shut(connection: socket.socket) -> None:
    """End it for another thread that waits, which closes it: until then its number is no other socket's."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def end_socket(connection: socket.socket) -> None:
    shut(connection)
    connection.close()
