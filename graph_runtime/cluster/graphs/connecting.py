"""connect(): the cluster that devices as "node1/tt:0" are of.

with gr.cluster.connect("local", nodes=2) as cluster:
    module = gr.create("model.onnx", devices=["node0/cpu:0", "node1/tt:0"])
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from ...base.errors import ClusterError, InputError
from ...base.loopback import is_loopback
from ...base.machine.devices import boards
from ...base.machine.interconnect import Interconnect, NodeLink
from ...base.options import Options
from . import opening
from .cut import CALLER
from .fleet import SECONDS, Fleet, Terms
from .remote_module import RemoteModule

__all__ = ["Cluster", "connect", "connected"]

LOCAL = "local"
_PINGS, _BLOCKS, _BLOCK = 15, 4, 8 << 20

_current: Cluster | None = None


class Cluster:
    """A cluster's nodes, their devices, and what opens graphs on them. ``deadline``: seconds of each wait. A
    context manager: close() ends the workers, and a Ray that was started for it."""

    def __init__(self, fleet: Fleet, leave: Any = None, deadline: float = SECONDS):
        self.fleet, self.deadline, self._leave = fleet, deadline, leave
        self._links: dict[tuple[str, str], NodeLink] = {}
        self._probes = 0

    def __repr__(self) -> str:
        return f"<Cluster of {', '.join(self.nodes)}>"

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of the nodes that are there now: node0, node1, ... as they joined, or as their label
        graph-runtime-node says."""
        return self.fleet.nodes()

    @property
    def devices(self) -> tuple[str, ...]:
        """What a list of devices may name: one of each kind of each node; a node simulates as many boards as
        are named."""
        kinds = [board.kind for board in boards().values() if board.default and not board.test_only]
        return tuple(f"{node}/{kind}:0" for node in self.nodes for kind in sorted(set(kinds)))

    @property
    def interconnect(self) -> Interconnect:
        """How the nodes and the caller are connected, measured when it is first asked for."""
        return self.measure([CALLER, *self.nodes])

    def measure(self, nodes: Sequence[str]) -> Interconnect:
        """The links between these nodes, and the caller; each is measured once. Raises ClusterError."""
        names = list(dict.fromkeys([CALLER, *nodes]))
        for a in names:
            for b in names:
                if a != b and (a, b) not in self._links:
                    self._links[a, b] = self._probe(a, b)
        return Interconnect(dict(self._links))

    def _probe(self, source: str, target: str) -> NodeLink:
        """Half of the time of small messages there and back, and the rate of large ones."""
        fleet = self.fleet
        member, to = fleet.member(source), fleet.member(target).address
        took = []
        for nbytes, times in ((0, _PINGS), (_BLOCK, _BLOCKS)):
            header = {"do": "probe", "to": dict(to), "nbytes": nbytes, "times": times, "first": self._probes}
            self._probes += times
            took.append(min(fleet.ask(member, header, seconds=self.deadline).header["seconds"]))
        return NodeLink(took[0] / 2 * 1e9, _BLOCK / max(took[1] - took[0], 1e-6) / 1e9, "measured")

    def create(
        self,
        graph: Any,
        devices: Any,
        options: Options | None = None,
        *,
        params: Any = None,
        libraries: Sequence[Any] = (),
        name: str = "module",
        deadline: float | None = None,
        checkpoint_every: int = 0,
        **words: Any,
    ) -> RemoteModule:
        """As gr.create, on devices of nodes. ``deadline``: seconds after which a run that was not answered
        is given up; ``checkpoint_every``: runs after which state that runs write comes to the caller, so
        that a lost machine loses none of it; 0: never. Raises as gr.create; DeviceError for a node that
        there is not, ClusterError."""
        return opening.create(
            self.fleet,
            graph,
            devices,
            opening.connected_options(self.fleet, devices, Options.of(options, **words), self.measure),
            params=params,
            libraries=libraries,
            name=name,
            terms=Terms(self._seconds(deadline), _count(checkpoint_every)),
        )

    def load(
        self,
        bundle: str | os.PathLike[str],
        devices: Any,
        program: str | None = None,
        *,
        threads: int | None = None,
        max_in_flight: int | None = None,
        libraries: bool = True,
        deadline: float | None = None,
        checkpoint_every: int = 0,
    ) -> RemoteModule:
        """As gr.load, on devices of nodes. The bundle goes there by its content's hash, once; its native code
        runs if that machine trusts it. ``deadline`` and ``checkpoint_every`` as create. Raises as gr.load."""
        return opening.load(
            self.fleet,
            bundle,
            devices,
            program,
            threads=threads,
            max_in_flight=max_in_flight,
            libraries=libraries,
            terms=Terms(self._seconds(deadline), _count(checkpoint_every)),
        )

    def close(self) -> None:
        """End the workers, and leave."""
        global _current
        self.fleet.close()
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave()
        if _current is self:
            _current = None

    def _seconds(self, deadline: float | None) -> float:
        seconds = self.deadline if deadline is None else deadline
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds < 1e7:
            raise InputError(f"a deadline is seconds above 0, got {seconds!r}", got=seconds)
        return float(seconds)


def _count(runs: int) -> int:
    if isinstance(runs, bool) or not isinstance(runs, int) or runs < 0:
        raise InputError(f"checkpoint_every is a number of runs from 0, got {runs!r}", got=runs)
    return runs


def connect(
    address: str = LOCAL, *, nodes: int = 1, cores: int | None = None, deadline: float = SECONDS
) -> Cluster:
    """Join a cluster of Ray's, which from then on is that of all devices with a node.

    ``address``: "local" starts Ray here with ``nodes`` nodes of ``cores`` each, reached by this machine only;
    HOST:PORT is one that runs, with Ray's token authentication and TLS unless it is this machine's loopback.
    ``deadline``: seconds of each wait. Raises ClusterError, which says what is missing; InputError."""
    global _current
    from ...codegen.cache import open_cache
    from ..ray import rays
    from .ray_fleet import RayFleet

    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        raise InputError(f"nodes is a number from 1, got {nodes!r}", got=nodes)
    if _current is not None:
        raise ClusterError(f"{_current!r} is connected already: close() it first")
    if address == LOCAL:
        leave = rays.start_nodes(nodes, cores)
    else:
        rays.join(address)
        leave = rays.leave
    try:
        reached = address != LOCAL and not is_loopback(address.rpartition(":")[0])
        _current = Cluster(RayFleet(open_cache().folder / "bundles", reached), leave, deadline)
    except BaseException:
        leave()
        raise
    return _current


def connected() -> Cluster:
    """The cluster that is connected. Raises ClusterError, which says how, where there is none."""
    if _current is None:
        raise ClusterError(
            "devices of a node need a cluster: gr.cluster.connect('local', nodes=2), or connect('HOST:PORT') "
            "(docs/cluster.md)"
        )
    return _current
