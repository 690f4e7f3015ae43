"""A version of a model on Ray Serve, which starts its replicas, looks after their health, starts others in
place of those that are gone, and scales their number.

    served = await deploy(source, "digits-1", scale, workers, door)
    await stop("digits-1")

Batches go to the replicas by connections of their own (dispatcher.py): a call of Ray Serve's takes some
milliseconds of a core. Ray is imported when this module is.
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

__all__ = ["Scale", "deploy", "stop"]

ray = import_ray()
serve = import_ray("ray.serve")
exceptions = import_ray("ray.exceptions")
serve_exceptions = import_ray("ray.serve.exceptions")

_HEALTH_SECONDS, _SILENT_SECONDS = 1.0, 5.0  # between two looks, and until one counts as failed
_START_SECONDS = 300.0  # a model may compile kernels first
_LOOK_SECONDS = 0.2  # between two looks at replicas that start
_LEAVE_SECONDS = 15.0  # in which a replica that ends answers what it has
_LOST = (exceptions.RayError, serve_exceptions.RayServeException)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many replicas: ``least`` to ``most``, by the length of the queue. ``cores``: that each takes."""

    least: int = 1
    most: int = 1
    cores: int = 1


class ReplicaActor:
    """The process of a replica, which Ray Serve starts. ``sender``: what the machine that serves is, which
    this one has to equal; ``packed``: the bundle's files, None where all machines see its path; ``door``:
    where its server is, to which it is a replica of ``name``."""

    def __init__(
        self,
        source: ServedSource,
        sender: Installation,
        packed: Mapping[str, Any] | None,
        door: Door,
        name: str,
    ):
        if (here := this_installation()) != sender:
            text = f"{os.uname().nodename} has {here}, what serves has {sender}: install the same"
            raise ClusterError(text, got=str(here), wanted=str(sender))
        require_folder()
        if packed is not None:
            from ..codegen.cache import open_cache  # where bundles are kept that came from elsewhere

            source = replace(source, path=str(unpack(packed, ray.get, open_cache().folder / "bundles")))
        if "host" not in door.address:
            _listen_on_loopback()
        self._replica: Replica | None = Replica(Runner(source), door, name, own_tls())

    async def __call__(self) -> None:
        """Ray Serve wants one; batches come by the replica's own connection."""

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What Ray Serve gives to ``replicas_wanted``."""
        return {LOAD: 0.0 if self._replica is None else float(self._replica.load)}

    def __del__(self) -> None:
        """Ray Serve calls it before it ends the process."""
        replica, self._replica = getattr(self, "_replica", None), None
        if replica is not None:
            replica.leave(_LEAVE_SECONDS)


def _listen_on_loopback() -> None:
    """Ray Serve's replicas have a server for calls among deployments, which nothing here makes, on all
    interfaces, with no setting for it. tests/cluster/test_serving.py looks at all sockets."""
    module = import_ray("ray.serve._private.replica")
    listen = getattr(module, "add_port_to_grpc_server", None)
    if listen is not None:
        module.add_port_to_grpc_server = lambda server, at: listen(server, at.replace("[::]", "127.0.0.1"))


async def deploy(source: ServedSource, name: str, scale: Scale, workers: Workers, door: Door) -> Served:
    """Start replicas, and wait until one has joined ``workers``. Raises ClusterError, with what it said,
    where none does."""
    try:
        await asyncio.to_thread(_run, source, name, scale, door)
        return await _first_replica(name, workers)
    except (RuntimeError, ClusterError, *_LOST) as error:
        await stop(name)
        text = f"{source.path} could not be served: {_reason(error)}"
        raise ClusterError(text, got=source.path) from None


async def stop(name: str) -> None:
    """End the replicas, as soon as they have answered what they have."""
    await asyncio.to_thread(serve.delete, name)


async def _first_replica(name: str, workers: Workers) -> Served:
    """Wait for a replica; others may come later. Raises ClusterError where none does."""
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
    raise ClusterError(
        f"no replica ran after {_START_SECONDS:.0f} s: the cluster may have too few free cores"
    )


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
    """The last line of an error that Ray wraps in traces, which is what was raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line and not line.startswith("File")]
    said = (told or lines or [type(error).__name__])[-1][:500]
    if "ActorDiedError" in said:  # Ray says no more
        return "its process ended while it opened the model: it was killed, or memory was short (see dmesg)"
    return said
