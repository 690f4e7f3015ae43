"""The Open Inference Protocol, version 2: paths and what they answer.

    front = Front(catalog)                              http_server.py calls it:
    call = front.begin(head)                            refused, or memory for its body
    response = await front.answer(call)                 when the body is there

No Ray and no sockets here: a model's queue knows its workers. Every answer that is none says why, as
``{"error": text}``.
"""

from __future__ import annotations

import asyncio
import hmac
import itertools
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..base.errors import GraphRuntimeError, KernelError, RequestError, WorkerLost
from ..base.loopback import why_foreign
from .batcher import Batcher
from .catalog import Catalog, ServedModel
from .clocks import now
from .http.http_heads import Head
from .http.long_texts import LongTexts
from .http.request_bodies import Bodies, RequestBody
from .http.requests import Request, json_part, read_text
from .http.responses import HEADER_LENGTH, Response, error_response, json_response, make_response
from .metrics import CONTENT_TYPE, metrics_text
from .request_trace import RequestTrace

__all__ = ["Front"]

DEADLINE = 60.0  # seconds
_LONG = 256 << 10  # bytes of JSON that take some 20 ms
_log = logging.getLogger("graph_runtime.cluster")
_HEADER_LENGTH = HEADER_LENGTH.lower().encode()
_NOTHING = RequestBody(0)


@dataclass(frozen=True, slots=True)
class _Call:
    """A request: its method, path in parts, headers and body. ``model``: that is to infer, None for other
    requests, whose bodies are not read. ``arrived``: of clocks.now."""

    method: str
    parts: tuple[str, ...]
    headers: Mapping[bytes, bytes]
    body: RequestBody
    model: ServedModel | None
    arrived: int


class Front:
    """See the module. ``token``: each call but the one for liveness has to bring it as ``Authorization:
    Bearer``; None on loopback, where calls have to be of this machine (loopback.py). ``deadline``: seconds in
    which a request is answered or refused. ``status``: what else ``/v2/cluster`` tells. ``trace`` is told of
    all requests; ``texts`` read those that are long."""

    def __init__(
        self,
        catalog: Catalog,
        bodies: Bodies | None = None,
        *,
        token: str | None = None,
        deadline: float = DEADLINE,
        version: str = "",
        status: Callable[[], dict[str, Any]] = dict,
        trace: RequestTrace | None = None,
        texts: LongTexts | None = None,
    ):
        self.catalog, self.bodies, self.deadline = catalog, bodies or Bodies(), deadline
        self._token, self._version, self._status = token, version, status
        self._numbers, self._trace, self._texts = itertools.count(1), trace, texts or LongTexts()

    def begin(self, head: Head) -> _Call:
        """A request whose head is there. Raises RequestError for one that is refused before its body is
        read."""
        arrived, parts = now(), tuple(part for part in head.path.split("/") if part)
        self._let_in(head, parts)
        model = self._to_infer(head, parts)
        if model is None:
            return _Call(head.method, parts, head.headers, _NOTHING, None, arrived)
        try:
            if not model.ready:
                text = f"model {model.name!r} is not ready"
                raise RequestError(text, status=503, retry_after=1)
            body = self.bodies.open(head.headers)
        except RequestError as error:
            model.metrics.requests.add(str(error.status))
            raise
        return _Call(head.method, parts, head.headers, body, model, arrived)

    def drop(self, call: _Call) -> None:
        """The client has gone before all of the body was there."""
        self.bodies.close(call.body)

    async def answer(self, call: _Call) -> Response:
        """The response to a request whose body is there."""
        try:
            return self._tell(call) if call.model is None else await self._counted(call, call.model)
        except RequestError as error:
            return error_response(error)
        except Exception:
            _log.exception("%s /%s", call.method, "/".join(call.parts))
            return json_response({"error": "an internal error, which the server's log tells of"}, 500)
        finally:
            self.bodies.close(call.body)

    def _to_infer(self, head: Head, parts: tuple[str, ...]) -> ServedModel | None:
        match parts:
            case ("v2", "models", name, "versions", version, "infer"):
                model = self.catalog.find(name, version)
            case ("v2", "models", name, "infer"):
                model = self.catalog.find(name)
            case _:
                return None
        if head.method != "POST":
            raise RequestError("infer is a POST", status=405)
        return model

    def _tell(self, call: _Call) -> Response:
        """What is not to infer."""
        match call.parts:
            case ("v2", "health", "live"):
                return json_response({"live": True})
            case ("v2",):
                extensions = ["binary_tensor_data", "model_configuration", "model_repository"]
                known = {"name": "graph_runtime", "version": self._version, "extensions": extensions}
                return json_response(known)
            case ("v2", "health", "ready"):
                return _ready(all(model.ready for model in self.catalog))
            case ("v2", "repository", "index"):
                return json_response(list(map(_index, self.catalog)))
            case ("v2", "cluster"):
                models = [model.status() for model in self.catalog]
                return json_response({**self._status(), "models": models, "bytes_held": self.bodies.held})
            case ("v2", "models", name, "versions", version, *rest):
                return self._of_model(self.catalog.find(name, version), rest)
            case ("v2", "models", name, *rest):
                return self._of_model(self.catalog.find(name), rest)
            case ("metrics",):
                text = metrics_text([model.metrics for model in self.catalog])
                return Response(200, (("Content-Type", CONTENT_TYPE),), (text.encode(),))
        raise RequestError(f"there is nothing at /{'/'.join(call.parts)[:100]}", status=404)

    def _let_in(self, head: Head, parts: tuple[str, ...]) -> None:
        if self._token is None:
            said = [head.headers.get(name) for name in (b"host", b"origin", b"sec-fetch-site")]
            host, origin, site = (None if one is None else one.decode("latin-1") for one in said)
            if why := why_foreign(head.method, host, origin, site):
                raise RequestError(why, status=403)
            return
        given = head.headers.get(b"authorization", b"")
        known = hmac.compare_digest(given, f"Bearer {self._token}".encode())
        if not known and parts != ("v2", "health", "live"):
            raise RequestError(
                "the header Authorization: Bearer TOKEN is missing, or has another token", status=401
            )

    def _of_model(self, model: ServedModel, rest: list[str]) -> Response:
        match rest:
            case []:
                return json_response(model.metadata(self.catalog.versions(model.name)))
            case ["ready"]:
                return _ready(model.ready)
            case ["config"]:
                return json_response(model.config())
        raise RequestError(f"a model has no {'/'.join(rest)[:100]!r}", status=404)

    # **************** inference ****************

    async def _counted(self, call: _Call, model: ServedModel) -> Response:
        """The answer of infer, which the metrics count however it is."""
        metrics = model.metrics
        try:
            response = await self._infer(call, model)
        except RequestError as error:
            response = error_response(error)
        except KernelError as error:
            response = error_response(RequestError(str(error), status=422))
        except WorkerLost as error:
            response = error_response(RequestError(str(error), status=503, retry_after=1))
        except GraphRuntimeError as error:
            response = error_response(RequestError(str(error), status=500))
        except Exception:
            metrics.requests.add("500")
            raise
        metrics.requests.add(str(response.status))
        metrics.bytes.add("out", response.nbytes)
        return response

    async def _infer(self, call: _Call, model: ServedModel) -> Response:
        start, read = time.monotonic(), now()
        model.metrics.bytes.add("in", call.body.size)
        batcher, request = await self._parsed(call, model, start + self.deadline)
        left = min(self.deadline, request.timeout or self.deadline)
        id = f"{request.id or 'request'}/{next(self._numbers)}"
        outputs = await batcher.submit(id, request.inputs, start + left)
        response = make_response(model.name, model.version, request.id, request.outputs, outputs)
        model.metrics.seconds.observe(time.monotonic() - start)
        if self._trace is not None:
            about = f"{model.name}, version {model.version}"
            self._trace.asked(id, about, call.arrived, read, response.status)
        return response

    async def _parsed(self, call: _Call, model: ServedModel, end: float) -> tuple[Batcher, Request]:
        """A request, and the queue of the model that it was parsed for: an update may put another in its
        place while a long text is read, which is done beside the event loop."""
        text, rest = json_part(call.body.memory, _header_length(call))
        batcher = model.batcher
        if len(text) <= _LONG:
            return batcher, read_text(bytes(text), batcher.served).request(rest)
        try:
            async with asyncio.timeout(end - time.monotonic()):
                while True:
                    said = await self._texts.read(text, batcher.served)
                    if batcher is model.batcher:
                        return batcher, said.request(rest)
                    batcher = model.batcher
        except TimeoutError:
            raise RequestError("no answer before the deadline", status=504) from None


def _header_length(call: _Call) -> int | None:
    said = call.headers.get(_HEADER_LENGTH)
    if said is None:
        return None
    text = said.decode("latin-1")
    if not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise RequestError(f"{HEADER_LENGTH} is no number of bytes", got=text[:40])
    return int(text)


def _ready(ready: bool) -> Response:
    return json_response({"ready": ready}, 200 if ready else 503)


def _index(model: ServedModel) -> dict[str, str]:
    state = "READY" if model.ready else "UNAVAILABLE"
    return {"name": model.name, "version": model.version, "state": state, "reason": ""}
