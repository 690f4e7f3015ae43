"""A version of a model on Ray Serve: its replicas, and the queue's way to them.

    workers = await deploy(source, "digits-1", scale)
    outputs = await workers.run(batch)

Ray Serve starts the replicas, looks after their health, starts others in place of those that are gone, and
scales their number. Ray is imported when this module is.
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

import numpy as np

from ..base.errors import ClusterError, GraphRuntimeError, KernelError, WorkerLost
from .batcher import RowBatch
from .installation import Installation, this_installation
from .metrics import ServingMetrics
from .ports import Served
from .rays import import_ray
from .runner import Reply, Runner, ServedSource
from .travel import pack, unpack

__all__ = ["Scale", "Workers", "deploy"]

ray = import_ray()
serve = import_ray("ray.serve")
exceptions = import_ray("ray.exceptions")
serve_exceptions = import_ray("ray.serve.exceptions")

_HEALTH_SECONDS, _SILENT_SECONDS = 1.0, 5.0  # between two looks, and until one counts as failed
_START_SECONDS = 300.0  # a model may compile kernels first
_ONGOING = 2  # batches that a replica has: one runs, the next is there when it ends
_LOST = (exceptions.RayError, serve_exceptions.RayServeException)


@dataclass(frozen=True, slots=True)
class Scale:
    """How many replicas: ``least`` to ``most``, by the length of the queue. ``cores``: that each takes."""

    least: int = 1
    most: int = 1
    cores: int = 1

    @property
    def batches(self) -> int:
        """Batches that may be with replicas at once."""
        return _ONGOING * self.most


class Replica:
    """The process of a replica. ``sender``: what the machine that serves is, which this one has to equal;
    ``packed``: the bundle's files, None where all machines see its path."""

    def __init__(self, source: ServedSource, sender: Installation, packed: Mapping[str, Any] | None):
        if (here := this_installation()) != sender:
            text = f"{os.uname().nodename} has {here}, what serves has {sender}: install the same"
            raise ClusterError(text, got=str(here), wanted=str(sender))
        if packed is not None:
            from ..codegen.cache import open_cache  # where bundles are kept that came from elsewhere

            source = replace(source, path=str(unpack(packed, ray.get, open_cache().folder / "bundles")))
        self._runner = Runner(source)

    async def __call__(self, batch: RowBatch) -> Reply:
        """Run a batch; Ray Serve looks at this process's health meanwhile."""
        return await asyncio.to_thread(self._runner.run, batch)

    async def served(self) -> Served:
        """What the model takes."""
        return self._runner.served


class Workers:
    """The replicas of one version of a model. ``metrics`` is told what runs took."""

    def __init__(self, name: str, handle: Any, served: Served, metrics: ServingMetrics | None = None):
        self.name, self.served = name, served
        self.metrics = metrics or ServingMetrics.unnamed()
        self._handle = handle

    async def run(self, batch: RowBatch) -> Mapping[str, np.ndarray]:
        """A replica's outputs. Raises WorkerLost where it ended, KernelError, GraphRuntimeError."""
        try:
            reply: Reply = await self._handle.remote(batch)
        except exceptions.RayTaskError as error:  # a mistake of this package's
            raise GraphRuntimeError(f"a replica failed: {error.cause!r}") from None
        except _LOST as error:
            cause = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
            text = f"a replica of {self.name} was lost: {cause}"
            raise WorkerLost(text, worker=self.name, cause=cause, requests=batch.ids) from None
        if reply.error:
            raise (KernelError if reply.kernel else GraphRuntimeError)(reply.error)
        self.metrics.run_seconds.observe(reply.seconds)
        self.metrics.fallbacks.add("", reply.fallbacks)
        return reply.outputs

    def count(self) -> int:
        """Replicas that run now."""
        found = serve.status().applications.get(self.name)
        return 0 if found is None else _running(found)

    async def stop(self) -> None:
        """End the replicas, each after the batches that it has."""
        await asyncio.to_thread(serve.delete, self.name)


async def deploy(
    source: ServedSource, name: str, scale: Scale, metrics: ServingMetrics | None = None
) -> Workers:
    """Start replicas, and wait until one answers. Raises ClusterError with what it said where it does not."""
    try:
        handle = await asyncio.to_thread(_run, source, name, scale)
        await _first_replica(name)
        served = await handle.served.remote()
    except (RuntimeError, ClusterError, *_LOST) as error:
        await asyncio.to_thread(serve.delete, name)
        text = f"{source.path} could not be served: {_reason(error)}"
        raise ClusterError(text, got=source.path) from None
    return Workers(name, handle, served, metrics)


async def _first_replica(name: str) -> None:
    """Wait until a replica runs; others may come later. Raises ClusterError where none does."""
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end:
        found = (await asyncio.to_thread(serve.status)).applications.get(name)
        if found is not None:
            if _running(found):
                return
            if found.status == "DEPLOY_FAILED":
                said = [found.message, *(one.message for one in found.deployments.values())]
                raise ClusterError("\n".join(text for text in said if text))
        await asyncio.sleep(0.1)
    raise ClusterError(
        f"no replica ran after {_START_SECONDS:.0f} s: the cluster may have too few free cores"
    )


def _running(application: Any) -> int:
    """Replicas of an application that run."""
    states = [one.replica_states for one in application.deployments.values()]
    return sum(int(state.get("RUNNING", 0)) for state in states)


def _run(source: ServedSource, name: str, scale: Scale) -> Any:
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    own: dict[str, Any] = {"num_replicas": scale.most}
    if scale.least != scale.most:
        own = {
            "autoscaling_config": {
                "min_replicas": scale.least,
                "max_replicas": scale.most,
                "target_ongoing_requests": 1.0,
                "upscale_delay_s": 3.0,
            }
        }
    deployment = serve.deployment(
        Replica,
        name="replica",
        max_ongoing_requests=_ONGOING,
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
        deployment.bind(source, this_installation(), packed), name=name, route_prefix=None
    )
    return serve.run_many([target], wait_for_applications_running=False)[0]


def _reason(error: BaseException) -> str:
    """The last line of an error that Ray wraps in traces, which is what was raised."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line and not line.startswith("File")]
    return (told or lines or [type(error).__name__])[-1][:500]
