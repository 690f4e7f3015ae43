"""The page in a browser: view() of Plan, Timeline and Comparison, for notebooks and interactive Python, and a
server of one page on loopback."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from ...base.errors import InputError
from ...base.files.mapped import as_path
from ...base.files.writing import write_whole
from ...base.loopback import why_foreign
from ...plan.types import Plan
from ...simulation.simulation import simulate
from ...simulation.timeline import Timeline
from .data import page_data
from .html import html_page
from .shown import Shown


def view_value(value: Plan | Timeline, path: str | os.PathLike[str] | None = None) -> Path:
    """Write and show the page of ``value`` with open_page(). The page of a plan has its simulated run. The
    page of a timeline has its plan; a measured timeline is shown beside the simulated timeline. Raises
    WriteError, InputError."""
    plan = value.plan if isinstance(value, Timeline) else value
    timelines = {value.kind: value} if isinstance(value, Timeline) else {}
    if "simulated" not in timelines:
        timelines["simulated"] = simulate(plan)
    name = f"{plan.graph.num_nodes} nodes on {', '.join(map(str, plan.devices))}"
    return open_page(page_data(name, Shown(name, plan, timelines)), path)


def open_page(data: Mapping[str, Any], path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of page_data(), and return its path. ``path``: the file to write; None: a temporary
    file, which is opened in the browser if there is one. Raises WriteError, InputError."""
    page = html_page(data)
    if path is not None:
        target = as_path(path, "a page")
        write_whole(target, page, through=True)
        return target
    target = Path(tempfile.mkdtemp(prefix="graph_runtime_")) / "page.html"
    write_whole(target, page)
    webbrowser.open(target.as_uri())
    return target


def page_server(page: bytes, port: int = 0) -> ThreadingHTTPServer:
    """A server of one page at /, not yet started. ``port`` 0 chooses a free port, which is then in
    ``server_port``. It listens on loopback only and answers only requests whose host is loopback, so that no
    web site can read the page under its own name. Raises InputError if the port is taken or not permitted."""

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
            """Log nothing, because the terminal belongs to the command."""

    try:
        return ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        text = f"--port {port}: {error.strerror}; give another, or 0 for one that is free"
        raise InputError(text, got=port) from error
