"""uvicorn with the front behind it: connections bounded in number, in bytes of a head, and in time."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from ..base.errors import ClusterError
from .front import Front
from .rays import import_ray

__all__ = ["listen", "make_server"]

_HEAD_SECONDS = 30.0  # in which a connection has to send a request's head
_IDLE_SECONDS = 60
_CONNECTIONS = 1024


def listen(host: str, port: int) -> socket.socket:
    """A socket for HTTP. Raises ClusterError for an address that is taken, or is not this machine's."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(
        family, socket.SOCK_STREAM, socket.IPPROTO_TCP
    )  # asyncio sets NODELAY by the protocol
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host.strip("[]"), port))
    except OSError as error:
        made.close()
        text = f"cannot listen on {host}:{port}: {error.strerror or error}; give another --host or --port"
        raise ClusterError(text, got=port) from None
    return made


def make_server(front: Front, tls: tuple[str, str] | None) -> Any:
    """A uvicorn.Server, whose signals are the caller's. ``tls``: files of the certificate and its key."""
    uvicorn = import_ray("uvicorn")
    protocol = import_ray(
        "uvicorn.protocols.http.h11_impl"
    ).H11Protocol  # it bounds heads, httptools does not

    class Timed(protocol):  # type: ignore[misc, valid-type]
        """Ends connections on which no request begins for long: one that sends its head byte by byte, too."""

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.loop.call_later(_HEAD_SECONDS, self._look, None)

        def _look(self, before: Any) -> None:
            """``before``: the request that was there at the last look."""
            now = self.cycle
            if now is before and (now is None or now.response_complete):
                self.transport.close()
            elif not self.transport.is_closing():
                self.loop.call_later(_HEAD_SECONDS, self._look, now)

    config = uvicorn.Config(
        front,
        http=Timed,
        ws="none",
        lifespan="off",
        log_level="critical",
        access_log=False,
        limit_concurrency=_CONNECTIONS,
        timeout_keep_alive=_IDLE_SECONDS,
        ssl_certfile=tls and tls[0],
        ssl_keyfile=tls and tls[1],
        server_header=False,
    )
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    return server
