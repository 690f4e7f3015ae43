"""Deployment of a version of a model on Ray Serve, which starts the replicas, watches their health, replaces
lost replicas, and scales their number.

    served = await deploy(source, "digits-1", scale, workers, door)
    await stop("digits-1")

Batches reach the replicas over separate connections (dispatcher.py), because a call through Ray Serve takes
some milliseconds of a core. Importing this module imports Ray.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..base.errors import ClusterError
from .dispatcher import Workers
from .installation import Installation, this_installation
from .ports import Served
from .ray.rays import import_ray, own_tls, require_folder
from .replica import Replica
from .runner import Runner, ServedSource
from .scaling import LOAD, replicas_wanted
from .transport.listening import Door
from .travel import pack, unpack

ray = import_ray()
serve = import_ray("ray.serve")
exceptions = import_ray("ray.exceptions")
serve_exceptions = import_ray("ray.serve.exceptions")

_HEALTH_SECONDS, _SILENT_SECONDS = 1.0, 5.0  # seconds between checks; until a silent replica has failed
_START_SECONDS = 300.0  # seconds for a start; a model may compile kernels first
_LOOK_SECONDS = 0.2  # seconds between looks at replicas that are starting
_LEAVE_SECONDS = 15.0  # seconds that a stopping replica has to answer its batches
_LOST = (exceptions.RayError, serve_exceptions.RayServeException)


@dataclass(frozen=True, slots=True)
class Scale:
    """Bounds of the number of replicas: between ``least`` and ``most``, by the length of the queue.
    ``cores``: number of cores of each replica."""

    least: int = 1
    most: int = 1
    cores: int = 1


class ReplicaActor:
    """The process of a replica, started by Ray Serve. ``sender``: the server's installation, which this
    machine's must equal. ``packed``: the bundle's files; None if all machines see the bundle's path.
    ``door``: address where the server listens for replicas; ``name``: the deployment to which this replica
    belongs."""

    def __init__(
        self,
        source: ServedSource,
        sender: Installation,
        packed: Mapping[str, Any] | None,
        door: Door,
        name: str,
    ):
        if (here := this_installation()) != sender:
            text = f"{os.uname().nodename} has {here}, the server has {sender}: install the same on both"
            raise ClusterError(text, got=str(here), wanted=str(sender))
        require_folder()
        if packed is not None:
            from ..codegen.cache import open_cache  # bundles from other machines are kept in the cache

            source = replace(source, path=str(unpack(packed, ray.get, open_cache().folder / "bundles")))
        if "host" not in door.address:
            _listen_on_loopback()
        self._replica: Replica | None = Replica(Runner(source), door, name, own_tls())

    async def __call__(self) -> None:
        """Do nothing: Ray Serve requires this method, but batches come over the replica's own connection."""

    def record_autoscaling_stats(self) -> dict[str, float]:
        """The statistics that Ray Serve passes to ``replicas_wanted``."""
        return {LOAD: 0.0 if self._replica is None else float(self._replica.load)}

    def __del__(self) -> None:
        """End the replica; Ray Serve calls this before it ends the process."""
        replica, self._replica = getattr(self, "_replica", None), None
        if replica is not None:
            replica.leave(_LEAVE_SECONDS)


def _listen_on_loopback() -> None:
    """Have the calls server of a Ray Serve replica listen on loopback only. Ray Serve starts one in each
    replica, for calls between deployments, and no setting keeps it from listening on all interfaces; nothing
    here makes such calls. tests/cluster/test_serving.py looks at all sockets."""
    module = import_ray("ray.serve._private.replica")
    listen = getattr(module, "add_port_to_grpc_server", None)
    if listen is not None:
        module.add_port_to_grpc_server = lambda server, at: listen(server, at.replace("[::]", "127.0.0.1"))


async def deploy(source: ServedSource, name: str, scale: Scale, workers: Workers, door: Door) -> Served:
    """Start replicas, and wait until the first has joined ``workers``. Raises ClusterError, with the reason
    that Ray gives, if no replica joins."""
    try:
        await asyncio.to_thread(_run, source, name, scale, door)
        return await _first_replica(name, workers)
    except (RuntimeError, ClusterError, *_LOST) as error:
        await stop(name)
        text = f"{source.path} could not be served: {_reason(error)}"
        raise ClusterError(text, got=source.path) from None


async def stop(name: str) -> None:
    """End the replicas as soon as they have answered their batches."""
    await asyncio.to_thread(serve.delete, name)


async def _first_replica(name: str, workers: Workers) -> Served:
    """The interface of the first replica, awaited; others may come later. Raises ClusterError if none
    comes."""
    first = asyncio.ensure_future(workers.first())
    end = time.monotonic() + _START_SECONDS
    try:
        while time.monotonic() < end:
            done, _ = await asyncio.wait([first], timeout=_LOOK_SECONDS)
            if done:
                return first.result().served
            found = (await asyncio.to_thread(serve.status)).applications.get(name)
            if found is not None and found.status == "DEPLOY_FAILED":
                said = [found.message, *(one.message for one in found.deployments.values())]
                raise ClusterError("\n".join(text for text in said if text))
    finally:
        first.cancel()
    why = f"no replica ran after {_START_SECONDS:.0f} s: the cluster may have too few free cores"
    raise ClusterError(why)


def _run(source: ServedSource, name: str, scale: Scale, door: Door) -> None:
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    own: dict[str, Any] = {"num_replicas": scale.most}
    if scale.least != scale.most:
        own = {
            "autoscaling_config": {
                "min_replicas": scale.least,
                "max_replicas": scale.most,
                "policy": {"policy_function": f"{replicas_wanted.__module__}:{replicas_wanted.__name__}"},
                "upscale_delay_s": 2.0,
                "downscale_delay_s": 15.0,
            }
        }
    deployment = serve.deployment(
        ReplicaActor,
        name="replica",
        health_check_period_s=_HEALTH_SECONDS,
        health_check_timeout_s=_SILENT_SECONDS,
        graceful_shutdown_timeout_s=20.0,
        max_constructor_retry_count=2,
        ray_actor_options={"num_cpus": scale.cores},
        **own,
    )
    alone = sum(bool(node["Alive"]) for node in ray.nodes()) == 1
    packed = None if alone else pack(Path(source.path), ray.put)
    target = serve.RunTarget(
        deployment.bind(source, this_installation(), packed, door, name), name=name, route_prefix=None
    )
    serve.run_many([target], wait_for_applications_running=False)


def _reason(error: BaseException) -> str:
    """The original error of a chain that Ray wraps in traces: its last line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line and not line.startswith("File")]
    said = (told or lines or [type(error).__name__])[-1][:500]
    if "ActorDiedError" in said:  # Ray then says nothing else
        return "its process ended while opening the model: it was killed, or memory ran out (see dmesg)"
    return said
