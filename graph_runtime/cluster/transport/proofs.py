"""Both sides of a new connection prove to each other that they have the cluster's key: a random one, which
travels over Ray, behind its token. The key itself is never sent.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import socket

import numpy as np

from ...base.errors import ClusterError

__all__ = ["greet", "received", "welcome"]

_NONCE = 32


def received(connection: socket.socket, into: np.ndarray) -> np.ndarray:
    """Fill uint8 [bytes]. Raises EOFError where the other side ends."""
    view, at = into.data, 0
    while at < len(view):
        count = connection.recv_into(view[at:])
        if not count:
            raise EOFError
        at += count
    return into


def _proof(key: bytes, side: bytes, first: bytes, second: bytes) -> bytes:
    return hmac.digest(key, side + first + second, hashlib.sha256)


def greet(connection: socket.socket, key: bytes) -> None:
    """The side that connects: prove to have the key, and ask for the same."""
    asked = bytes(received(connection, np.empty(_NONCE, np.uint8)))
    own = secrets.token_bytes(_NONCE)
    connection.sendall(own + _proof(key, b"connects", asked, own))
    answer = bytes(received(connection, np.empty(_NONCE, np.uint8)))
    if not hmac.compare_digest(answer, _proof(key, b"listens", asked, own)):
        raise ClusterError("what listens there has another key: it is of another cluster")


def welcome(connection: socket.socket, key: bytes) -> None:
    asked = secrets.token_bytes(_NONCE)
    connection.sendall(asked)
    said = bytes(received(connection, np.empty(2 * _NONCE, np.uint8)))
    own, proof = said[:_NONCE], said[_NONCE:]
    if not hmac.compare_digest(proof, _proof(key, b"connects", asked, own)):
        raise ClusterError("what connects has another key: it is of another cluster")
    connection.sendall(_proof(key, b"listens", asked, own))
