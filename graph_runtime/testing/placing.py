"""Random placement problems for tests and benchmarks: any shape of graph, any integer times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..base.machine.devices import parse_list
from ..ir.graph import Func, Graph, TensorType
from ..plan.columns import starts
from ..plan.placing.holding import Room, make_room
from ..plan.placing.problem import UNSUPPORTED, PlacementProblem

_TYPE = TensorType("float32", (4,))


def random_problem(
    rng: np.random.Generator,
    devices: Sequence[str] = ("cpu:0", "tt:0"),
    *,
    nodes: int = 11,
    most: int = 100,
    reach: int = 8,
    unsupported: float = 0.1,
    pinned: float = 0.05,
    room: tuple[int, ...] | None = None,
    l1: tuple[int, ...] | None = None,
) -> PlacementProblem:
    """A random problem of ``nodes`` nodes. Each node reads one to three values of the ``reach`` nodes before
    it; the first node reads none. Nodes and copies take up to ``most`` ns; the time of a copy depends on its
    pair of devices. ``unsupported``: probability that a node cannot run on a device; each node can run on at
    least one. ``pinned``: probability that a node is pinned. ``room``: bytes of memory of each device, for
    values of up to 40 bytes; None: more than enough. ``l1``: bytes of a second memory of each device, which
    holds half of the values, and up to 40 bytes of circular buffers per node; None: no second memory."""
    listed = parse_list(devices)
    k = len(listed)
    reads = [np.zeros(0, np.int64)]
    for nid in range(1, nodes):
        reads.append(np.unique(rng.integers(max(nid - reach, 0), nid, int(rng.integers(1, 4)))))
    counts = np.array([len(r) for r in reads], np.int64)
    graph = Graph(
        names=tuple(f"n{i}" for i in range(nodes)),
        func_id=np.zeros(nodes, np.int32),
        funcs=(Func("f", None, {}, 1, 1),),
        row_ptr=np.arange(nodes + 1),
        in_ptr=starts(counts),
        in_eid=np.concatenate(reads),
        type_id=np.zeros(nodes, np.int32),
        types=(_TYPE,),
        inputs=np.zeros(0, np.int64),
        outputs=np.array([nodes - 1]),
    )
    cost = rng.integers(0, most + 1, (nodes, k))
    cannot = rng.random((nodes, k)) < unsupported
    cannot[np.arange(nodes), rng.integers(k, size=nodes)] = False
    cost[cannot] = UNSUPPORTED
    able = np.argmax(np.where(cannot, 0, rng.random((nodes, k)) + 0.01), 1)
    pin = np.where(rng.random(nodes) < pinned, able, -1).astype(np.int32)
    copy = rng.integers(0, most + 1, (nodes, k, k))
    copy[:, np.arange(k), np.arange(k)] = 0
    everyone = np.arange(nodes)
    return PlacementProblem(
        graph,
        listed,
        cost,
        pin,
        np.array([d.descriptor.on_host for d in listed]),
        everyone,
        everyone,
        everyone,
        copy,
        np.repeat(everyone, counts),
        graph.in_eid,
        {},
        _room(rng, graph, room, l1, k),
    )


def _room(
    rng: np.random.Generator,
    graph: Graph,
    available: tuple[int, ...] | None,
    l1: tuple[int, ...] | None,
    k: int,
) -> Room:
    """A Room in which values have random sizes. It has as many inputs as nodes; one or two nodes read each
    input."""
    count = graph.num_nodes
    everyone, device = np.arange(count), np.arange(k)
    circular = np.zeros((count, k), np.int64)
    if available is None:
        available, live = (1 << 40,) * k, np.zeros((count, k), np.int64)
        resident, reads = np.zeros((0, k), np.int64), np.zeros((0, 2), np.int64)
    else:
        live = np.repeat(rng.integers(0, 41, (count, 1)), k, 1)
        resident = np.repeat(rng.integers(0, 41, (count, 1)), k, 1)
        again = rng.integers(0, count, count)
        reads = np.unique(np.stack([np.append(everyone, again), np.tile(everyone, 2)], 1), axis=0)
    if l1 is not None:
        near = [rng.random((len(table), 1)) < 0.5 for table in (live, resident)]
        live, resident = (
            np.concatenate([np.where(at, 0, table), np.where(at, table, 0)], 1)
            for at, table in zip(near, (live, resident), strict=True)
        )
        circular = np.concatenate([circular, rng.integers(0, 41, (count, k))], 1)
        available, device = (*available, *l1), np.tile(device, 2)
    uses = np.stack([np.repeat(everyone, np.diff(graph.in_ptr)), graph.in_eid], 1)
    ends = np.isin(everyone, graph.outputs)
    return make_room(
        np.array(available, np.int64),
        resident,
        reads,
        live,
        everyone,
        ends,
        uses,
        count,
        device=device,
        circular=circular,
    )
