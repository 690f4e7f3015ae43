"""Whether a Ray listens at an address, before Ray is asked to join it: where none does it would try for
minutes, and say nothing of what it found.

Ray's head is a server of gRPC, and so of HTTP/2: it answers the first words of a connection with settings.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl

from ...base.errors import ClusterError

__all__ = ["require_ray_at"]

_SECONDS = 10.0  # in which what listens has to answer
# RFC 9113, 3.4: how a client begins, with settings of no entries
_BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
_FRAME, _KIND, _SETTINGS = 9, 3, 4  # bytes of a frame's head; where its type is; that of settings


def require_ray_at(
    host: str, port: int, certificate: tuple[str, str] | None = None, authority: str | None = None
) -> None:
    """Raise ClusterError where none listens, or something else, with what to do. ``certificate`` (and its
    key) and ``authority``: files, where TLS is on. A Ray that was started at this machine's own address is
    found by its loopback, too."""
    at, why = f"{host}:{port}", ""
    for one in [host.strip("[]"), *_instead_of(host.strip("[]"))]:
        try:
            _greet(one, port, certificate, authority)
            return
        except (OSError, OverflowError, EOFError) as error:
            why = why or (str(error) or "it is something else")
    raise ClusterError(
        f"no Ray answers at {at}: {why}; start one there (ray start --head --port={port}), with the same TLS "
        "settings as here, or give its address",
        got=at,
    )


def _greet(host: str, port: int, certificate: tuple[str, str] | None, authority: str | None) -> None:
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.create_connection((host, port), _SECONDS))
        if certificate is not None:
            context = ssl.create_default_context(cafile=authority)
            context.check_hostname = False  # Ray's own connections look at it
            context.load_cert_chain(*certificate)
            context.set_alpn_protocols(["h2"])
            connection = stack.enter_context(context.wrap_socket(connection))
        connection.sendall(_BEGIN)
        said = b""
        while len(said) < _FRAME:
            if not (more := connection.recv(_FRAME - len(said))):
                raise EOFError("what listens there is no Ray")
            said += more
        if said[_KIND] != _SETTINGS:
            raise EOFError("what listens there is no Ray")


def _instead_of(host: str) -> list[str]:
    """This machine's address as others reach it, and as Ray chooses it, for a loopback."""
    with contextlib.suppress(ValueError, OSError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # an address of documents: nothing is sent
                return [str(probe.getsockname()[0])]
    return []
