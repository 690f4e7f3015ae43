"""``graph-runtime serve``: deployment of models, HTTP, updates and shutdown.

One process has the HTTP server and the queues; replicas are separate processes. On SIGHUP all sources are
read again. A changed model is deployed beside the old one and receives new requests as soon as it is ready;
the old one ends after its remaining requests. On SIGINT and SIGTERM the server refuses new requests, answers
the present ones, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import itertools
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import ClusterError, GraphRuntimeError, InputError
from ..base.files.writing import write_whole
from ..base.loopback import is_loopback
from ..base.version import VERSION
from .batcher import Batcher, Limits
from .catalog import Catalog, ServedModel
from .dispatcher import Dispatcher, Workers
from .front import DEADLINE, Front
from .http.http_server import HttpServer, listen
from .http.long_texts import LongTexts
from .http.request_bodies import Bodies
from .metrics import ServingMetrics
from .ports import Served
from .ray import rays
from .request_trace import RequestTrace
from .runner import ServedSource, bundle_hash, read_source
from .transport.shared_memory import SharedMemory

_DRAIN_SECONDS = 20.0  # seconds that a stopping server waits for answers
_SHARED = 512 << 20  # bytes for bodies of requests, in memory that replicas on this machine read
_STARTS, _START_AGAIN = 5, 2.0  # most starts of Ray Serve; seconds between two starts
_MOST_REPLICAS = 128  # most replicas of a model on a cluster, where joining nodes may add cores


@dataclass(frozen=True, slots=True)
class Named:
    """A source with a name and version. ``make``: function that makes the source; it is called again on each
    update."""

    name: str
    version: str
    make: Callable[[], ServedSource]


@dataclass(frozen=True, slots=True)
class Serving:
    """Settings of a server. ``replicas``: number of replicas of each model; None: as many replicas as the
    model's queue needs, at most one per core. ``cores``: number of this machine's cores; ``threads``: number
    of threads of each replica, None: the cores are divided among the replicas. ``address``: address of Ray,
    as in rays.join. ``queued``: most waiting requests of a model; ``delay``: seconds that a request waits for
    others while a replica is free; ``deadline``: seconds within which a request is answered. ``trace``: path
    of a file to which a trace of the requests is written at the end."""

    replicas: int | None = 1
    cores: int = 1
    threads: int | None = None
    address: str = rays.LOCAL
    host: str = "127.0.0.1"
    port: int = 8000
    queued: int = 256
    delay: float = 0.0
    deadline: float = DEADLINE
    most_body: int = 256 << 20
    trace: Path | None = None

    @property
    def most_replicas(self) -> int:
        """Largest number of replicas that a model may get."""
        if self.replicas is None and self.address != rays.LOCAL:
            return _MOST_REPLICAS
        return self.replicas or max(1, self.cores // (self.threads or 1))

    @property
    def replica_threads(self) -> int:
        """Threads of each replica."""
        return self.threads or max(1, self.cores // self.most_replicas)


def serve_models(
    models: Sequence[Named],
    serving: Serving,
    tell: Callable[[str], None],
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Serve until SIGINT or SIGTERM. ``tell``: function that receives lines about the served models and their
    addresses.

    Before anything is started, raises ClusterError for an address that is open to strangers or taken,
    InputError, and errors in reading a source; later, ClusterError if Ray or a replica cannot start."""
    rays.require_closed(serving.host, environ)
    seen: set[tuple[str, str]] = set()
    for one in models:
        if (one.name, one.version) in seen:
            text = f"model {one.name} is given twice in version {one.version}: write NAME:VERSION=PATH"
            raise InputError(text, got=one.name)
        seen.add((one.name, one.version))
    rays.require_ray()
    with contextlib.closing(listen(serving.host, serving.port)) as listening:
        sources = [one.make() for one in models]
        for source in sources:
            read_source(source)
        # twice as many cores as are in use: an update starts new replicas beside the old ones
        cores = 2 * serving.most_replicas * serving.replica_threads * len(models)
        ray = rays.join(serving.address, cores)
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as loop:
                loop.run(_Server(ray, models, serving, tell).run(sources, listening))
        finally:
            rays.leave()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """A new event loop: uvloop's if uvloop is installed, as it is with Ray Serve, else asyncio's. uvloop's
    takes half the time."""
    with contextlib.suppress(ImportError):
        made: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
        return made
    return asyncio.new_event_loop()


def _start(serve: Any) -> None:
    """Start Ray Serve, or use the cluster's. Raises ClusterError."""
    for left in reversed(range(_STARTS)):
        try:
            serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR"})
            return
        except Exception as error:  # Ray has a different class for each cause
            if not left or "already exists" not in str(error):  # another server is starting Ray Serve
                text = f"Ray Serve did not start: {type(error).__name__}: {str(error).strip()[:300]}"
                raise ClusterError(text) from None
            time.sleep(_START_AGAIN)


class _Server:
    def __init__(self, ray: Any, models: Sequence[Named], serving: Serving, tell: Callable[[str], None]):
        from . import deployment  # imports Ray, which needs the token that is set now

        self.deployment = deployment
        self.ray, self.models, self.serving, self.tell = ray, models, serving, tell
        self.memory = SharedMemory.where_possible(_SHARED)
        self.trace = RequestTrace() if serving.trace else None
        tls = None if serving.address == rays.LOCAL else rays.own_tls()
        host = None if tls is None else rays.own_address()
        self.dispatcher = Dispatcher(self.memory, self.trace, host, tls)
        most, cores = serving.most_replicas, serving.replica_threads
        self.scale = deployment.Scale(most if serving.replicas else 1, most, cores)
        self.catalog = Catalog()
        self.workers: dict[tuple[str, str], Workers] = {}
        self.own = secrets.token_hex(4)  # makes names differ from those of other servers on the cluster
        self.numbers = itertools.count(1)

    async def run(self, sources: Sequence[ServedSource], listening: socket.socket) -> None:
        serve = rays.import_ray("ray.serve")
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        _start(serve)
        await self.dispatcher.open()
        try:
            for one, source in zip(self.models, sources, strict=True):
                await self._add(one, source)
            await self._answer(listening)
        finally:
            if self.serving.address != rays.LOCAL:  # our own Ray ends with all deployments in it
                await asyncio.gather(*(self._stop(workers) for workers in self.workers.values()))
            await self.dispatcher.close()

    async def _answer(self, listening: socket.socket) -> None:
        """Serve HTTP, updates and replicas until a signal."""
        local = is_loopback(self.serving.host)
        front = Front(
            self.catalog,
            Bodies(self.serving.most_body, allocate=self._allocate),
            token=None if local else rays.auth_token(),
            deadline=self.serving.deadline,
            version=VERSION,
            status=self._status,
            trace=self.trace,
            texts=(texts := LongTexts(self.memory)),
        )
        loop, asked, ending = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        loop.add_signal_handler(signal.SIGHUP, asked.set)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ending.set)
        updates = loop.create_task(self._update_when(asked))
        server = HttpServer(front, self.serving.deadline)
        try:
            await server.start(listening, None if local else rays.tls_files())
            host, port = listening.getsockname()[:2]
            self.tell(f"serving on {'http' if local else 'https'}://{host}:{port}")
            await ending.wait()
            await self._end(server)
        finally:
            updates.cancel()
            texts.close()

    async def _end(self, server: HttpServer) -> None:
        """Refuse new requests, and answer the present ones."""
        for model in self.catalog:
            model.ready = False
        await asyncio.gather(*(model.batcher.close(_DRAIN_SECONDS) for model in self.catalog))
        await server.close(1.0)
        if self.trace is not None and self.serving.trace is not None:
            merged = self.trace.merged()
            write_whole(self.serving.trace, merged.json(), through=True)
            error = merged.error / 1e3
            self.tell(f"the trace is in {self.serving.trace}; its clocks agree within {error:.0f} us")

    def _allocate(self, nbytes: int) -> memoryview:
        """Memory for a body, shared with replicas on this machine if there is room in the shared memory."""
        shared = self.memory.take(nbytes) if self.memory is not None and nbytes else None
        return np.empty(nbytes, np.uint8).data if shared is None else shared

    # **************** models ****************

    async def _deploy(self, one: Named, source: ServedSource) -> tuple[Workers, Served]:
        name = f"{one.name}-{one.version}-{self.own}-{next(self.numbers)}"
        source = replace(source, threads=self.serving.replica_threads)
        workers = self.dispatcher.workers(name)
        door = self.dispatcher.door
        try:
            return workers, await self.deployment.deploy(source, name, self.scale, workers, door)
        except BaseException:
            self.dispatcher.forget(name)
            raise

    async def _stop(self, workers: Workers) -> None:
        await self.deployment.stop(workers.name)
        self.dispatcher.forget(workers.name)

    async def _add(self, one: Named, source: ServedSource) -> None:
        metrics = ServingMetrics(one.name, one.version)
        workers, served = await self._deploy(one, source)
        self.workers[one.name, one.version] = workers
        workers.metrics = metrics
        limits = Limits(self.serving.queued, self.serving.delay)
        model = ServedModel(one.name, one.version, Batcher(served, workers, limits, metrics), metrics)
        self.catalog.add(model)
        rows = f"up to {served.rows[-1]} rows a run" if served.rows else f"one request a run: {served.why}"
        self.tell(f"model {one.name}, version {one.version}: {rows}, on {', '.join(served.devices)}")

    async def _update_when(self, asked: asyncio.Event) -> None:
        while True:
            await asked.wait()
            asked.clear()
            for one in self.models:
                try:
                    await self._update(one)
                except (GraphRuntimeError, OSError) as error:
                    self.tell(f"model {one.name}, version {one.version} is not replaced: {error}")

    async def _update(self, one: Named) -> None:
        """Replace a changed model. Raises an error if the new model cannot be served; then the old one
        stays."""
        old, model = self.workers[one.name, one.version], self.catalog.find(one.name, one.version)
        source = await asyncio.to_thread(one.make)
        if bundle_hash(read_source(source)) == model.batcher.served.sha256:
            self.tell(f"model {one.name}, version {one.version} has not changed")
            return
        new, served = await self._deploy(one, source)
        self.workers[one.name, one.version] = new
        new.metrics = model.metrics
        left = model.batcher
        model.batcher = Batcher(served, new, left.limits, model.metrics)
        self.tell(f"model {one.name}, version {one.version} is now {served.sha256[:12]}")
        await left.close(self.serving.deadline)
        await self._stop(old)

    def _status(self) -> dict[str, Any]:
        nodes = [
            {
                "name": node["NodeName"],
                "alive": bool(node["Alive"]),
                "cores": node["Resources"].get("CPU", 0),
                "object_store_bytes": int(node["Resources"].get("object_store_memory", 0)),
            }
            for node in self.ray.nodes()
        ]
        return {"version": VERSION, "ray": self.ray.__version__, "nodes": nodes}
