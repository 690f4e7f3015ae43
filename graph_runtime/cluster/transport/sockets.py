"""The sockets of connections: addresses, listening, TLS with certificates of both sides, the check of which
user is at the other end on one machine, and the proofs of the key.

Both sides of a new connection prove to each other that they have the same key. The key is random; Ray sends
it to the processes, protected by Ray's token, and it is never sent over the connection itself."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
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

# name of the process, machine_id, path of the Unix socket; and, for other machines, host and port
Address = Mapping[str, Any]
Tls = tuple[str, str, str]  # paths of the certificate, of its key, and of the authority's certificate
_NONCE = 32  # bytes of a random number in a proof
_PEER = struct.Struct("3i")  # process, user and group, as SO_PEERCRED gives them


class LinkLost(ClusterError):
    """A connection that could not be made, or broke."""


def machine_id() -> str:
    """An identifier that is equal for processes that can share memory and see each other's Unix sockets. It
    identifies one boot of one machine, with one network and one file system namespace."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "mnt")]
    return f"{boot}/{spaces[0]}/{spaces[1]}"


def listen(name: str, host: str | None) -> tuple[list[socket.socket], Address]:
    """(listening sockets, their address): one socket for this machine and, unless ``host`` is None, one at
    ``host``. Raises LinkLost."""
    path = f"\0graph_runtime/{secrets.token_hex(16)}"  # a killed process leaves no file
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
    """A connected socket. Raises OSError, and LinkLost if there is no way to reach the other end."""
    near = to["machine"] == machine_id()
    if not near and "host" not in to:
        text = f"{to['name']} is on another machine and has no address for other machines"
        raise LinkLost(text, got=to["name"])
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
    """Raise ClusterError if another user's process is at the other end of a Unix socket."""
    said = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    if (user := _PEER.unpack(said)[1]) not in (0, os.getuid()):
        raise ClusterError(f"user {user} is not admitted", got=user)


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
    """End a connection on which another thread may wait. The waiting thread closes the socket itself, so that
    no other socket gets the same descriptor meanwhile."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


def end_socket(connection: socket.socket) -> None:
    shut(connection)
    connection.close()


# **************** proofs of the key ****************


def greet(connection: socket.socket, key: bytes) -> None:
    """On the connecting side: prove to have the key, and require the same proof. Raises ClusterError,
    OSError, and EOFError if the other side ends the connection."""
    asked, own = _received(connection, _NONCE), secrets.token_bytes(_NONCE)
    connection.sendall(own + _proof(key, b"connects", asked, own))
    if not hmac.compare_digest(_received(connection, _NONCE), _proof(key, b"listens", asked, own)):
        raise ClusterError("the listening process has another key: it belongs to another cluster")


def welcome(connection: socket.socket, key: bytes) -> None:
    """On the listening side: require the proof, then prove to have the key. Raises as greet."""
    asked = secrets.token_bytes(_NONCE)
    connection.sendall(asked)
    said = _received(connection, 2 * _NONCE)
    own, proof = said[:_NONCE], said[_NONCE:]
    if not hmac.compare_digest(proof, _proof(key, b"connects", asked, own)):
        raise ClusterError("the connecting process has another key: it belongs to another cluster")
    connection.sendall(_proof(key, b"listens", asked, own))


def _proof(key: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(key, side + first + second, hashlib.sha256)


def _received(connection: socket.socket, count: int) -> bytes:
    found = b""
    while len(found) < count:
        if not (part := connection.recv(count - len(found))):
            raise EOFError
        found += part
    return found
