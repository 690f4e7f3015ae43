"""Where replicas find their server: a Unix socket, and for those on other machines TCP with TLS.

A Door goes to the replicas with what they are to run, by Ray, behind its token. It has a token of its own.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .rays import tls_authority, tls_files

__all__ = ["Door"]

_SOCKET = "replicas"
_CONNECT = 5.0  # seconds in which a connection is made


@dataclass(frozen=True, slots=True)
class Door:
    """``path``: of a Unix socket in a folder that only this user enters; its name is random, so another
    machine has none of it. ``host`` and ``port``: for other machines, "" where there are none."""

    path: str
    token: str
    host: str = ""
    port: int = 0

    @classmethod
    def new(cls, folder: Path, host: str = "") -> Door:
        """A door for a server; ``host``: its address in the cluster."""
        taken = 0
        if host:  # a port that is free: the listener takes it in a moment
            with socket.socket() as probe:
                probe.bind((host, 0))
                taken = probe.getsockname()[1]
        return cls(str(folder / f"{_SOCKET}-{secrets.token_hex(8)}"), secrets.token_hex(32), host, taken)

    async def listen(self, made: Callable[[], asyncio.BaseProtocol]) -> list[asyncio.Server]:
        """Listen; ``made()`` is the protocol of a connection. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = [await loop.create_unix_server(made, self.path)]
        if self.host:
            found.append(await loop.create_server(made, self.host, self.port, ssl=_tls(server=True)))
        return found

    async def connect(self, made: Callable[[], asyncio.BaseProtocol]) -> None:
        """Connect from a replica. Raises OSError."""
        loop = asyncio.get_running_loop()
        if os.path.exists(self.path) or not self.host:
            await loop.create_unix_connection(made, self.path)
        else:
            async with asyncio.timeout(_CONNECT):
                await loop.create_connection(made, self.host, self.port, ssl=_tls(server=False))


def _tls(server: bool) -> ssl.SSLContext:
    """Both ends show a certificate that the cluster's authority has signed."""
    purpose = ssl.Purpose.CLIENT_AUTH if server else ssl.Purpose.SERVER_AUTH
    made = ssl.create_default_context(purpose, cafile=tls_authority())
    made.verify_mode = ssl.CERT_REQUIRED
    files = tls_files()
    assert files is not None, "a cluster that is joined has TLS"
    made.load_cert_chain(*files)
    return made
