"""The status of a server, read from ``/v2/cluster`` and shown as lines. Needs no Ray."""

from __future__ import annotations

import http.client
import ssl
import time
from typing import Any
from urllib.parse import urlsplit

from ..base.errors import ClusterError, DocumentError
from ..base.json_text import parse_json
from .ray.rays import auth_token, tls_authority

_SECONDS = 10.0
_MOST = 8 << 20  # most bytes of a server's answer


def read_status(url: str) -> dict[str, Any]:
    """The status of the server at a URL; sends Ray's token from the environment if the connection is
    encrypted. Raises ClusterError."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ClusterError(f"{url!r} is not a URL like http://127.0.0.1:8000", got=url)
    connection = None
    try:
        connection = _connect(parts.scheme, parts.hostname, parts.port)
        token = auth_token() if parts.scheme == "https" else ""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connection.request("GET", "/v2/cluster", headers=headers)
        answer = connection.getresponse()
        body = answer.read(_MOST)
    except (OSError, http.client.HTTPException, ValueError) as error:
        text = f"no server at {url} ({error}): start one with graph-runtime serve"
        raise ClusterError(text, got=url) from None
    finally:
        if connection is not None:
            connection.close()
    try:
        found = parse_json(body, url)
    except DocumentError:
        found = None
    if answer.status != 200 or not isinstance(found, dict) or "models" not in found:
        said = found.get("error", "") if isinstance(found, dict) else "no JSON"
        raise ClusterError(f"{url} answers {answer.status}: {said}", got=answer.status)
    return found


class StatusReader:
    """The status of a server, read repeatedly. ``found``: the status that was read last."""

    def __init__(self, url: str):
        self.url = url
        self.found: dict[str, Any] = {}
        self._read = 0.0

    def lines(self) -> list[str]:
        """The lines of status_lines, with rates since the last call. If the server has gone since then, one
        line with the error. Raises ClusterError if the first call finds no server."""
        before, read = self.found, time.monotonic()
        try:
            self.found = read_status(self.url)
        except ClusterError as error:
            if not before:
                raise
            return [str(error)]
        seconds, self._read = read - self._read, read
        return status_lines(self.found, before or None, seconds)


def _connect(scheme: str, host: str, port: int | None) -> http.client.HTTPConnection:
    if scheme == "http":
        return http.client.HTTPConnection(host, port, timeout=_SECONDS)
    trusting = ssl.create_default_context(cafile=tls_authority())  # without a file, the system's authorities
    return http.client.HTTPSConnection(host, port, timeout=_SECONDS, context=trusting)


def status_lines(
    found: dict[str, Any], before: dict[str, Any] | None = None, seconds: float = 1.0
) -> list[str]:
    """Lines about the nodes, then about the models. ``before``: the status ``seconds`` ago, from which rates
    are computed."""
    lines = [f"graph-runtime {found.get('version', '')}, Ray {found.get('ray', '')}"]
    for node in found.get("nodes", []):
        state = "" if node["alive"] else ", gone"
        lines.append(f"node {node['name']}: room for {node['cores']:g} threads of replicas{state}")
    earlier = {(m["name"], m["version"]): m for m in before["models"]} if before else {}
    head = f"{'model':20} {'version':8} {'replicas':>8} {'queued':>6} {'running':>7} {'answered':>9}"
    rates = f" {'answers/s':>9} {'runs/s':>7}" if before else ""
    lines.append(f"{head} {'refused':>8} {'replayed':>8}{rates}")
    for model in found["models"]:
        good, bad = _answers(model)
        row = f"{model['name']:20} {model['version']:8} {model['workers']:8} {model['queued']:6} "
        row += f"{model['running']:7} {good:9} {bad:8} {sum(model['replays'].values()):8}"
        if (old := earlier.get((model["name"], model["version"]))) is not None:
            row += f" {(good - _answers(old)[0]) / seconds:9.1f}"
            row += f" {(model['runs'] - old['runs']) / seconds:7.1f}"
        lines.append(row if model["ready"] else f"{row}  not ready")
        rows = f"{', '.join(map(str, model['rows']))} rows a run" if model["rows"] else "one request a run"
        lines.append(f"    on {', '.join(model['devices'])}; sha256 {model['sha256'][:12]}; {rows}")
    return lines


def _answers(model: dict[str, Any]) -> tuple[int, int]:
    counts = model["requests"]
    good = counts.get("200", 0)
    return good, sum(counts.values()) - good
