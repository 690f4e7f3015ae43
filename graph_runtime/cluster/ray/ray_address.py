"""A check whether a Ray listens at an address, before it is joined. If no Ray listens there, joining would
take minutes and not tell what was found.

Ray's head is a gRPC server, and so uses HTTP/2: to the bytes that open a connection it answers with its
settings.
"""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import ssl

from ...base.errors import ClusterError

_SECONDS = 10.0  # seconds within which the other side must answer
# bytes with which a client opens a connection (RFC 9113, 3.4), followed by empty settings
_BEGIN = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + b"\4" + bytes(5)
_FRAME, _KIND, _SETTINGS = 9, 3, 4  # bytes of a frame's head; offset of its type; type of settings


def require_ray_at(
    host: str, port: int, certificate: tuple[str, str] | None = None, authority: str | None = None
) -> None:
    """Raise ClusterError, with the remedy, if no Ray listens at the address. ``certificate``: paths of the
    certificate and its key; ``authority``: path of the authority's certificate; both are set if TLS is on. A
    Ray started at this machine's own address is found by a loopback address, too."""
    at, why = f"{host}:{port}", ""
    for one in [host.strip("[]"), *_instead_of(host.strip("[]"))]:
        try:
            _greet(one, port, certificate, authority)
            return
        except (OSError, OverflowError, EOFError) as error:
            why = why or str(error)
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
            context.check_hostname = False  # Ray checks the host name in its own connections
            context.load_cert_chain(*certificate)
            context.set_alpn_protocols(["h2"])
            connection = stack.enter_context(context.wrap_socket(connection))
        connection.sendall(_BEGIN)
        said = b""
        while len(said) < _FRAME:
            if not (more := connection.recv(_FRAME - len(said))):
                raise EOFError("another program listens there")
            said += more
        if said[_KIND] != _SETTINGS:
            raise EOFError("another program listens there")


def _instead_of(host: str) -> list[str]:
    """If ``host`` is a loopback address: [this machine's address for other machines], the address that Ray
    chooses. Otherwise []."""
    with contextlib.suppress(ValueError, OSError):
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737): nothing is sent
                return [str(probe.getsockname()[0])]
    return []
