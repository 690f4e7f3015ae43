"""A page on loopback, for a browser on this machine."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from ...base.errors import InputError
from ...base.loopback import why_foreign

__all__ = ["page_server"]

_LOOPBACK = "127.0.0.1"


def page_server(page: bytes, port: int = 0) -> ThreadingHTTPServer:
    """A server of one page at /, not yet started; ``port`` 0: a free one, which ``server_port`` says. It
    listens on loopback alone and answers requests that name loopback as their host alone, so that no site can
    read the page through a name of its own. Raises InputError where the port is taken or not ours to take."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            host, origin, site = map(self.headers.get, ("Host", "Origin", "Sec-Fetch-Site"))
            if why := why_foreign("GET", host, origin, site):
                self.send_error(403, "Forbidden", why)
            elif self.path == "/favicon.ico":
                self.send_response(204)
                self.end_headers()
            elif self.path != "/":
                self.send_error(404)
            else:
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(page)))
                self.send_header("X-Content-Type-Options", "nosniff")
                self.send_header("Cross-Origin-Resource-Policy", "same-origin")
                self.end_headers()
                self.wfile.write(page)

        def log_message(self, format: str, *args: object) -> None:
            """A terminal is the command's."""

    try:
        return ThreadingHTTPServer((_LOOPBACK, port), Handler)
    except OSError as error:
        raise InputError(
            f"--port {port}: {error.strerror}; give another, or 0 for one that is free", got=port
        ) from error
