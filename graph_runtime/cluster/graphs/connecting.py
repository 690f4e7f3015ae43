"""connect(): joins a cluster, whose devices have names such as "node1/tt:0".

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
from .remote_session import RemoteModule

LOCAL = "local"
_PINGS, _BLOCKS, _BLOCK = 15, 4, 8 << 20

_current: Cluster | None = None


class Cluster:
    """The nodes of a cluster, their devices, and graphs opened on them. ``deadline``: longest time of each
    wait, in seconds. The cluster is a context manager: close() ends the workers, and also Ray if Ray was
    started for this cluster."""

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
        """Names of the present nodes. A node's name is its label graph-runtime-node; nodes without that label
        are node0, node1, ... in the order of joining."""
        return self.fleet.nodes()

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of devices, as lists of devices contain them: one device of each kind on each node. A node
        can simulate more boards than these: as many as a list names."""
        kinds = [board.kind for board in boards().values() if board.default and not board.test_only]
        return tuple(f"{node}/{kind}:0" for node in self.nodes for kind in sorted(set(kinds)))

    @property
    def interconnect(self) -> Interconnect:
        """The links between the nodes and the caller, measured when first needed."""
        return self.measure([CALLER, *self.nodes])

    def measure(self, nodes: Sequence[str]) -> Interconnect:
        """The links between these nodes and the caller. Each link is measured only once. Raises
        ClusterError."""
        names = list(dict.fromkeys([CALLER, *nodes]))
        for a in names:
            for b in names:
                if a != b and (a, b) not in self._links:
                    self._links[a, b] = self._probe(a, b)
        return Interconnect(dict(self._links))

    def _probe(self, source: str, target: str) -> NodeLink:
        """The measured link between two nodes. The link's latency is half the round trip of a small message;
        its rate is that of large messages."""
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
        """Like gr.create, on devices of nodes. ``deadline``: seconds after which an unanswered run is given
        up. ``checkpoint_every``: number of runs after which the state that runs write is copied to the
        caller, so that the state survives the loss of a machine; 0: the state is never copied. Raises as
        gr.create; DeviceError for an unknown node, ClusterError."""
        terms = self._terms(deadline, checkpoint_every)
        chosen = opening.connected_options(self.fleet, devices, Options.of(options, **words), self.measure)
        given = {"params": params, "libraries": libraries, "name": name}
        return opening.create(self.fleet, graph, devices, chosen, terms, **given)

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
        """Like gr.load, on devices of nodes. A machine that has the bundle, known by the hash of its
        contents, is not sent it again. Native code of the bundle runs on a machine that trusts it.
        ``deadline`` and ``checkpoint_every`` as in create. Raises as gr.load."""
        terms = self._terms(deadline, checkpoint_every)
        own = {"threads": threads, "max_in_flight": max_in_flight}
        return opening.load(self.fleet, bundle, devices, program, terms, libraries=libraries, **own)

    def close(self) -> None:
        """End the workers, and leave the cluster."""
        global _current
        self.fleet.close()
        if self._leave is not None:
            leave, self._leave = self._leave, None
            leave()
        if _current is self:
            _current = None

    def _terms(self, deadline: float | None, checkpoint_every: int) -> Terms:
        return Terms(self.deadline if deadline is None else deadline, checkpoint_every)


def connect(
    address: str = LOCAL, *, nodes: int = 1, cores: int | None = None, deadline: float = SECONDS
) -> Cluster:
    """Join a Ray cluster, which from then on runs all graphs on devices named with a node.

    ``address``: "local" to start Ray here, with ``nodes`` nodes of ``cores`` cores each, reachable from this
    machine only; HOST:PORT to join a running Ray, which needs Ray's token authentication and TLS unless it is
    on this machine's loopback. ``deadline``: longest time of each wait, in seconds. Raises ClusterError,
    which says what is missing; InputError."""
    global _current
    from ...codegen.cache import open_cache
    from ..ray import rays
    from .ray_fleet import RayFleet

    if isinstance(nodes, bool) or not isinstance(nodes, int) or nodes < 1:
        raise InputError(f"nodes must be a positive integer, got {nodes!r}", got=nodes)
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
    """The cluster that connect() joined. Raises ClusterError, with instructions, if there is none."""
    if _current is None:
        how = "gr.cluster.connect('local', nodes=2), or connect('HOST:PORT') (docs/cluster.md)"
        raise ClusterError(f"devices of a node need a cluster: {how}")
    return _current
