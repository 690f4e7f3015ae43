"""Workers that are plain actors of Ray, one per node. Ray places the actors, reports when an actor has ended,
and carries the calls that open and close parts. Runs and tensors go over the workers' own links
(link_calls.py, endpoint.py)."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ...base.errors import ClusterError
from ..ray.rays import import_ray, own_tls, require_folder
from .fleet import Fleet
from .link_calls import FleetMember, LinkCalls, WorkerGone
from .worker import Worker

LABEL = "graph-runtime-node"  # label of a node, set by: ray start --labels graph-runtime-node=NAME
_HEAD = "node:__internal_head__"
_CALLS = 64  # number of calls that one worker handles at a time
_START_SECONDS = 120.0


class NodeWorker:
    """The actor. Its calls take and return bytes: no object of this package is unpickled."""

    def __init__(self, name: str, key: bytes, reached: bool):
        from ...codegen.cache import open_cache  # bundles from other machines are kept in the cache

        ray = import_ray()
        require_folder()
        host = ray.util.get_node_ip_address() if reached else None
        tls, folder = own_tls() if reached else None, open_cache().folder / "bundles"
        self._worker = Worker(name, key, folder, host, tls)

    def call(self, data: bytes) -> bytes:
        """The answer to a request; never raises."""
        return self._worker.call(data)

    def stay(self) -> None:
        """Wait for ever: the call fails when this worker ends, which informs the caller."""
        threading.Event().wait()

    def pid(self) -> int:
        """The id of this worker's process."""
        return os.getpid()

    def empty(self, data: bytes) -> bytes:
        """Return ``data``, to measure the cost of a call through Ray."""
        return data


class _ActorMember(FleetMember):
    def __init__(self, name: str, actor: Any, calls: LinkCalls):
        super().__init__(name, calls)
        self.actor = actor
        self._started(actor.stay).add_done_callback(self._ended)

    def start(self, data: bytes) -> Future[bytes]:
        return self._started(self.actor.call, data)

    def _started(self, method: Any, *args: Any) -> Future[Any]:
        """The future of a call through Ray; errors of Ray become WorkerGone."""
        if not import_ray().is_initialized():  # a call would start another Ray
            raise WorkerGone("the cluster was closed")
        made: Future[Any] = Future()
        try:
            answer = method.remote(*args).future()
        except Exception as error:  # Ray has no class of error for an actor that it has forgotten
            raise WorkerGone(_first_line(error)) from None

        def over(done: Future[Any]) -> None:
            error = done.exception()
            if error is None:
                made.set_result(done.result())
            else:
                made.set_exception(WorkerGone(_first_line(error)))

        answer.add_done_callback(over)
        return made

    def _ended(self, stayed: Future[None]) -> None:
        self.calls.lost(self, str(stayed.exception() or "it ended"))

    def end(self) -> None:
        ray = import_ray()
        if ray.is_initialized():
            ray.kill(self.actor)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"


def nodes_of_ray(known: Mapping[str, str]) -> dict[str, str]:
    """{name: Ray's id} of the nodes that are alive. A node's name is its label; without a label, the head is
    node0, and others are node1, ... in the order of joining. ``known``: names given earlier, which nodes
    keep."""
    ray = import_ray()
    alive = [node for node in ray.nodes() if node["Alive"]]
    alive.sort(key=lambda node: (_HEAD not in node["Resources"], node["NodeManagerAddress"], node["NodeID"]))
    of_id = {node: name for name, node in known.items()}
    found: dict[str, str] = {}
    number = 0
    for node in alive:
        name = (node.get("Labels") or {}).get(LABEL) or of_id.get(node["NodeID"])
        while not name:
            if f"node{number}" not in known and f"node{number}" not in found:
                name = f"node{number}"
            number += 1
        if name in found:
            raise ClusterError(f"two nodes of Ray have the label {LABEL}={name}", got=name)
        found[name] = node["NodeID"]
    return found


class RayFleet(Fleet):
    """The workers on a Ray cluster. ``reached``: whether the nodes are on several machines, whose links need
    TCP."""

    def __init__(self, folder: Path, reached: bool):
        host = import_ray().util.get_node_ip_address() if reached else None
        super().__init__(folder, host, own_tls() if reached else None)
        self._reached = reached
        self._known: dict[str, str] = {}
        self._made: set[str] = set()  # names of nodes that once had a worker
        self.nodes()

    def nodes(self) -> tuple[str, ...]:
        found = nodes_of_ray(self._known)
        self._known |= found
        return tuple(found)

    def make(self, node: str) -> FleetMember:
        """An actor on that node. If the node had a worker before and cannot start a new one at once, the
        actor may be on another node."""
        ray = import_ray()
        alive = nodes_of_ray(self._known)
        if not alive:
            raise ClusterError("no node of the cluster is left")
        where = alive.get(node) or next(iter(alive.values()))
        strategies = import_ray("ray.util.scheduling_strategies")
        strategy = strategies.NodeAffinitySchedulingStrategy(where, soft=node in self._made)
        self._made.add(node)
        kind = ray.remote(num_cpus=0, max_concurrency=_CALLS, max_restarts=0)(NodeWorker)
        actor = kind.options(scheduling_strategy=strategy).remote(node, self.key, self._reached)
        return _ActorMember(node, actor, self.calls)
