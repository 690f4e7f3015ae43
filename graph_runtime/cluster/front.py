"""The Open Inference Protocol, version 2: its paths and their answers.

    front = Front(catalog)                              called by http_server.py:
    call = front.begin(head)                            raises RequestError, or allocates memory for the body
    response = await front.answer(call)                 once the body is complete

Nothing here uses Ray or sockets: workers are known only to a model's queue. A refusal gives its reason as
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

DEADLINE = 60.0  # seconds within which a request is answered, by default
_LONG = 256 << 10  # bytes of JSON that take some 20 ms to parse
_log = logging.getLogger("graph_runtime.cluster")
_HEADER_LENGTH = HEADER_LENGTH.lower().encode()
_NOTHING = RequestBody(0)


@dataclass(frozen=True, slots=True)
class _Call:
    """A request: method, path in parts, headers and body. ``model``: the model of an inference; None for
    other requests, whose bodies are not read. ``arrived``: time of arrival by clocks.now."""

    method: str
    parts: tuple[str, ...]
    headers: Mapping[bytes, bytes]
    body: RequestBody
    model: ServedModel | None
    arrived: int


class Front:
    """The paths of the protocol, and their answers. ``token``: secret that every call except the liveness
    check must have as ``Authorization: Bearer``; None on loopback, where calls must come from this machine
    instead (loopback.py). ``deadline``: seconds within which a request is answered or refused. ``status``:
    function that returns further items of ``/v2/cluster``. ``trace``: recorder of all requests; ``texts``:
    parser of long JSON.
    """

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
        """The request that begins with ``head``. Raises RequestError for a request that is refused before its
        body is read."""
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
        """Forget a request whose client has gone before the body was complete."""
        self.bodies.close(call.body)

    async def answer(self, call: _Call) -> Response:
        """The response to a request whose body is complete."""
        try:
            return self._tell(call) if call.model is None else await self._counted(call, call.model)
        except RequestError as error:
            return error_response(error)
        except Exception:
            _log.exception("%s /%s", call.method, "/".join(call.parts))
            return json_response({"error": "internal error: see the server's log"}, 500)
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
        """The answer to any request except inference."""
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
                states = ((one, "READY" if one.ready else "UNAVAILABLE") for one in self.catalog)
                rows = [{"name": m.name, "version": m.version, "state": s, "reason": ""} for m, s in states]
                return json_response(rows)
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
            text = "the header Authorization: Bearer TOKEN is missing, or its token is wrong"
            raise RequestError(text, status=401)

    def _of_model(self, model: ServedModel, rest: list[str]) -> Response:
        match rest:
            case []:
                return json_response(model.metadata(self.catalog.versions(model.name)))
            case ["ready"]:
                return _ready(model.ready)
            case ["config"]:
                return json_response(model.config())
        raise RequestError(f"a model has nothing at {'/'.join(rest)[:100]!r}", status=404)

    # **************** inference ****************

    async def _counted(self, call: _Call, model: ServedModel) -> Response:
        """The answer to an inference request; metrics count the request whether it succeeds or not."""
        metrics = model.metrics
        try:
            response = await self._infer(call, model)
        except RequestError as error:
            response = error_response(error)
        except GraphRuntimeError as error:
            lost = isinstance(error, WorkerLost)
            status = 503 if lost else 422 if isinstance(error, KernelError) else 500
            again = 1 if lost else None
            response = error_response(RequestError(str(error), status=status, retry_after=again))
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
        """(the model's queue, the request parsed for that model). A long text is parsed outside the event
        loop; if an update replaces the model's queue meanwhile, the text is parsed again.
        """
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
        raise RequestError(f"{HEADER_LENGTH} is not a number of bytes", got=text[:40])
    return int(text)


def _ready(ready: bool) -> Response:
    return json_response({"ready": ready}, 200 if ready else 503)
