"""Times of nodes and copies of a graph on each device, in ns, and the circular buffers that nodes open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...base.errors import PlanError
from ...base.machine.devices import Device
from ...base.machine.layout import ROW_MAJOR, Layout, same_image
from ...costs import CostModel, ask, weights_from_memory
from ...ir.graph import COPY, NOP, Graph, TensorType
from ...ir.ops.numerics import Numerics
from ..columns import first_of, intern
from ..supports import Kernels, circular_room, too_large, unable
from .value_kinds import Kinds

UNSUPPORTED = 1 << 50  # ns (13 days) of a node on a device that cannot run it

# function (graph, nid, device, layouts of inputs and outputs, arithmetic) -> bytes of circular buffers on a
# core
Circular = Callable[[Graph, int, Device, Sequence[Layout], Numerics], int]


class Prices:
    """Costs of a graph's nodes and copies on its devices, in the layouts that values have there. The cost of
    equal nodes, and of equal copies, is computed once. ``circular`` int64 [nodes, k], set by ``nodes``: bytes
    of a core's L1 for each node's circular buffers."""

    def __init__(
        self,
        graph: Graph,
        devices: tuple[Device, ...],
        kinds: Kinds,
        kernels: Kernels,
        costs: CostModel,
        known: np.ndarray | None,
        numerics: Sequence[Numerics],
        circular: Circular,
    ):
        self.graph, self.devices, self.kernels, self.costs = graph, devices, kernels, costs
        self.known, self.from_memory = known, weights_from_memory(graph, costs.host)
        self.kinds, self.numerics, self._opens = kinds, numerics, circular
        self.reasons: dict[tuple[int, int], str] = {}
        self.circular = np.zeros((graph.num_nodes, len(devices)), np.int64)
        equal = list(zip((d.descriptor for d in devices), numerics, strict=True))
        self._equal = [equal.index(pair) for pair in equal]  # for each device the first device that equals it
        self._asked: dict[tuple[int, int, tuple[Layout, ...]], int] = {}

    def nodes(self, constant: np.ndarray) -> np.ndarray:
        """int64 [nodes, k]: ns of each node. Inputs cost nothing, nor do reshapes of inputs that are
        ``constant`` bool [nodes]."""
        graph, count = self.graph, len(self.devices)
        table = np.zeros((graph.num_nodes, count), np.int64)
        own = np.array([f.name in (COPY, NOP) for f in graph.funcs] + [False])[graph.func_id]
        calls = np.flatnonzero((graph.func_id >= 0) & ~own)
        if len(calls):
            row = self._equal_nodes(calls)
            first = calls[first_of(row, int(row.max()) + 1)]
            found = np.array([[self._node(int(n), did) for did in range(count)] for n in first])
            table[calls], self.circular[calls] = found[row, :, 0], found[row, :, 1]
        moved = self._reshaped(constant)
        known: dict[tuple[int, int], list[int]] = {}
        for nid in np.flatnonzero(own).tolist():
            key = (self._slot(nid), int(self.kinds.of[graph.row_ptr[nid]]))
            if key not in known:
                known[key] = [self._reshape(*key, did) for did in range(count)]
            if graph.funcs[graph.func_id[nid]].name == NOP:
                unable = np.array(known[key]) == UNSUPPORTED
                table[nid] = np.where(unable, UNSUPPORTED, 0) if moved[nid] else known[key]
        return table

    def _equal_nodes(self, calls: np.ndarray) -> np.ndarray:
        """int [calls]: a number that is equal for nodes of one function whose values are of equal kinds and
        whose weights are either all constant or all not constant."""
        graph = self.graph
        keys = 2 * graph.func_id[calls] + (0 if self.known is None else self.known[calls])
        if len(self.kinds.types) == len(graph.types):  # kinds are types: func_id decides them
            return intern(keys, 2 * len(graph.funcs))[1]
        rows: dict[tuple[int, ...], int] = {}
        found = []
        for nid, key in zip(calls.tolist(), keys.tolist(), strict=True):
            found.append(rows.setdefault((key, *self._kinds(nid)), len(rows)))
        return np.array(found)

    def _kinds(self, nid: int) -> list[int]:
        """The kinds of a node's inputs and outputs."""
        node = self.graph.node(nid)
        return self.kinds.of[[*node.inputs, *node.outputs]].tolist()

    def _slot(self, nid: int) -> int:
        """The kind of a node's first input, or of its output if it has no input."""
        at = self.graph.in_ptr[nid]
        eid = self.graph.in_eid[at] if at < self.graph.in_ptr[nid + 1] else self.graph.row_ptr[nid]
        return int(self.kinds.of[eid])

    def _reshaped(self, constant: np.ndarray) -> list[bool]:
        """For each node: whether it is a constant or only reshapes constants. Such a reshape moves bytes when
        the constant is set, not in a run."""
        graph, maker = self.graph, self.graph.entry_nid.tolist()
        nop = [f.name == NOP for f in graph.funcs] + [False]
        found = constant.tolist()
        ptr, read = graph.in_ptr.tolist(), graph.in_eid.tolist()
        for nid, fid in enumerate(graph.func_id.tolist()):
            if nop[fid]:
                found[nid] = all(found[maker[e]] for e in read[ptr[nid] : ptr[nid + 1]])
        return found

    def _node(self, nid: int, did: int) -> tuple[int, int]:
        """Pair (ns, bytes of circular buffers) of a node on a device. If the device cannot run the node, ns
        is UNSUPPORTED, and ``reasons`` has the reason."""
        node, device = self.graph.node(nid), self.devices[did]
        layouts = [self.kinds.layouts[kind][did] for kind in self._kinds(nid)]
        held = [layout for layout in layouts if isinstance(layout, Layout)]
        reason = unable(node, device, self.kernels)
        if reason is None and len(held) < len(layouts):
            reason = next(layout for layout in layouts if isinstance(layout, str))
        opened = 0 if reason else self._circular(nid, did, tuple(held))
        if reason is None and opened > circular_room(device):
            reason = too_large(opened, device)
        if reason is not None:
            self.reasons[int(self.graph.func_id[nid]), did] = reason
            return UNSUPPORTED, opened
        cost = ask(
            self.costs.node,
            f"node {node.name!r} on {device}",
            self.graph,
            nid,
            device,
            held,
            constant_weight=None if self.known is None else bool(self.known[nid]),
            from_memory=self.from_memory,
            **self._stored(nid, did),
        )
        return round(cost.cycles) + self._dispatch(device), opened

    def _stored(self, nid: int, did: int) -> dict[str, str]:
        """The format that the node's weight will have, as an argument of CostModel.node; {} for the usual
        format."""
        made = self.graph.row_ptr[nid]
        stored = self.kinds.stored[self.kinds.of[made]][did] if made < self.graph.row_ptr[nid + 1] else ""
        return {"stored": stored} if stored and self.known is not None else {}

    def _circular(self, nid: int, did: int, layouts: tuple[Layout, ...]) -> int:
        device, key = self.devices[did], (nid, self._equal[did], layouts)
        if key not in self._asked:
            opens = circular_room(device) > 0
            self._asked[key] = (
                self._opens(self.graph, nid, device, layouts, self.numerics[did]) if opens else 0
            )
        return self._asked[key]

    def _reshape(self, source: int, made: int, did: int) -> int:
        """ns of a reshape: 0 unless the reshape moves bytes, because its two types have no common physical
        image."""
        before, after = (self.kinds.layouts[kind][did] for kind in (source, made))
        device = self.devices[did]
        if isinstance(before, str) or isinstance(after, str):
            return UNSUPPORTED
        types = self.kinds.types
        if device.descriptor.on_host or same_image(before, types[source].shape, after, types[made].shape):
            return 0
        return self._way(device, before, device, after, types[made]) + self._dispatch(device)

    def copies(self, eid: np.ndarray) -> np.ndarray:
        """int64 [entries of eid, k, k]: ns of copying an entry from one device to another; 0 if either cannot
        hold it."""
        count = len(self.devices)
        used, row = intern(self.kinds.of[eid], len(self.kinds.types))
        table = [[[self._copy(int(t), s, d) for d in range(count)] for s in range(count)] for t in used]
        return np.array(table, np.int64).reshape(-1, count, count)[row]

    def _copy(self, kind: int, source: int, target: int) -> int:
        a, b = self.kinds.layouts[kind][source], self.kinds.layouts[kind][target]
        if source == target or isinstance(a, str) or isinstance(b, str):
            return 0
        devices, type_ = self.devices, self.kinds.types[kind]
        try:
            return self._way(devices[source], a, devices[target], b, type_)
        except PlanError:  # there is no direct way: down to the host and up again
            host = next((d for d in devices if d.descriptor.on_host), None)
            if host is None:
                return UNSUPPORTED
            plain = Layout(host.main_memory.name, ROW_MAJOR, a.format)
            down = self._way(devices[source], a, host, plain, type_)
            return down + self._way(host, plain, devices[target], b, type_)

    def _way(self, source: Device, a: Layout, target: Device, b: Layout, type_: TensorType) -> int:
        what = f"a copy of {type_} from {source} to {target}"
        return round(ask(self.costs.copy, what, source, a, target, b, type_).cycles)

    def _dispatch(self, device: Device) -> int:
        return round(ask(self.costs.dispatch, f"a launch on {device}", device).cycles)
