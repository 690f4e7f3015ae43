"""A page on loopback is for this machine alone."""

from __future__ import annotations

import http.client
import threading

from graph_runtime.views.page.opened import page_server


def answer(port: int, path: str, host: str, **more: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path, headers={"Host": host, **more})
    got = connection.getresponse()
    body = got.read()
    connection.close()
    return got.status, body


def test_only_loopback_names_get_the_page():
    with page_server(b"page") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        port = server.server_port
        assert server.server_address[0] == "127.0.0.1"
        try:
            assert answer(port, "/", f"127.0.0.1:{port}") == (200, b"page")
            assert answer(port, "/", "localhost") == (200, b"page")
            assert answer(port, "/", f"evil.example:{port}")[0] == 403
            assert answer(port, "/", "localhost", Origin="http://evil.example")[0] == 403
            assert answer(port, "/etc/passwd", "localhost")[0] == 404
        finally:
            server.shutdown()
            thread.join()
