"""Both sides of a new connection prove to each other that they have a key: a random one, which travels over
Ray, behind its token. The key itself is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket

from ...base.errors import ClusterError

_NONCE = 32


def greet(connection: socket.socket, key: bytes) -> None:
    """The side that connects: prove to have the key, and ask for the same. Raises ClusterError, OSError, and
    EOFError where the other side ends."""
    asked, own = _received(connection, _NONCE), secrets.token_bytes(_NONCE)
    connection.sendall(own + _proof(key, b"connects", asked, own))
    if not hmac.compare_digest(_received(connection, _NONCE), _proof(key, b"listens", asked, own)):
        raise ClusterError("what listens there has another key: it is of another cluster")


def welcome(connection: socket.socket, key: bytes) -> None:
    """The side that listens; the rest as greet."""
    asked = secrets.token_bytes(_NONCE)
    connection.sendall(asked)
    said = _received(connection, 2 * _NONCE)
    own, proof = said[:_NONCE], said[_NONCE:]
    if not hmac.compare_digest(proof, _proof(key, b"connects", asked, own)):
        raise ClusterError("what connects has another key: it is of another cluster")
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
