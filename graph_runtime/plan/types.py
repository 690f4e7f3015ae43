"""The values that the planning passes hand on. Each value is frozen; a pass makes the next value and never
edits its input.

    Graph --placement--> Placement --transfers--> PlacedGraph --layouts--> LaidOutGraph --memory--> Plan
    --check--> Plan
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.machine.devices import Device
from ..base.machine.layout import Layout
from ..base.showable import Viewable
from ..ir.graph import Graph
from ..ir.ops.numerics import Numerics
from .pricing import Pricing

if TYPE_CHECKING:
    from .placing.problem import PlacementProblem


REUSE = SERIAL, SAFE, OFF = "serial", "safe", "off"  # modes of reusing bytes (docs/memory.md)
_MOST_MEMORIES = 16  # most memories of a device


@dataclass(frozen=True, slots=True, eq=False)
class Supplies:
    """Supplies of libraries and higher layers for planning. ``kernels``: {function: device kinds for which
    libraries have the function}. ``inplace``: {func_name: inputs that output 0 may overwrite}, from the
    libraries' manifests. ``packer``: function that searches for offsets if the options name no packer
    (packing.pack)."""

    kernels: Mapping[str, Collection[str]] = field(default_factory=dict)
    inplace: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    packer: Callable[..., Any] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The device of each node. ``did`` int32 [nodes] indexes ``devices`` (the caller's list, order kept);
    ``cause_id`` int32 [nodes] indexes ``causes``, one sentence each. ``asked`` int32 [nodes]: the device that
    a pin or the file asks for (-1: neither asks for a device); None: these requests are not known.
    ``problem``: the problem that a policy solved; None: no policy decided, and the problem can be made from
    ``pricing``. ``before``: the placement before the graph was rewritten for its devices. Bounds are computed
    for ``before``, because a node made for one device can run on no other."""

    graph: Graph
    devices: tuple[Device, ...]
    did: np.ndarray
    cause_id: np.ndarray
    causes: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    asked: np.ndarray | None = None
    problem: PlacementProblem | None = None
    pricing: Pricing = field(default_factory=Pricing)
    before: Placement | None = None

    def __post_init__(self) -> None:
        """Move each input that a problem has on the caller's machine, which is not in the list, to the device
        of its first reader."""
        afar = np.flatnonzero((self.did >= len(self.devices)) & (self.graph.func_id < 0))
        if len(afar):
            graph, did = self.graph, self.did.copy()
            reader = np.repeat(np.arange(graph.num_nodes), np.diff(graph.in_ptr))
            for nid in afar.tolist():
                reads = reader[graph.in_eid == graph.row_ptr[nid]]
                did[nid] = did[reads[0]] if len(reads) else 0
            object.__setattr__(self, "did", did)

    def __repr__(self) -> str:
        counts = np.bincount(self.did[self.graph.func_id >= 0], minlength=len(self.devices))
        parts = [f"{count} on {device}" for device, count in zip(self.devices, counts, strict=True)]
        return f"<Placement of {int(counts.sum())} nodes: {', '.join(parts)}>"

    @property
    def by_policy(self) -> bool:
        """Whether a policy decided where nodes run."""
        return (self.before or self).problem is not None

    def report(self) -> list[dict[str, Any]]:
        """One row per node that runs, and one per input that every run copies: the keys are nid, node, op,
        asked (the requested device; None: none was requested), device, why, ns and copies. Each copy of the
        node's outputs has from, to, bytes and ns."""
        from .placing import rows  # cost models are loaded only here

        asked = np.full(len(self.did), -1) if self.asked is None else self.asked
        why = [self.causes[i] for i in self.cause_id.tolist()]
        return rows.node_rows(self._problem(), self.did, asked, why)

    def summary(self) -> dict[str, Any]:
        """{"devices", "copies": sums per device and per pair of devices, "elsewhere": rows of nodes that are
        not where a pin or the file asks, "predictions": for each objective the ns, the bound and the best
        single device, "streamed": inputs, "warnings"}."""
        from .placing import rows

        decided = self.before or self
        predictions = rows.predictions(decided._problem(), decided.did)
        said = {**rows.totals(self.report()), "predictions": predictions}
        return {**said, "streamed": list(self.pricing.streamed), "warnings": list(self.warnings)}

    def _problem(self) -> PlacementProblem:
        if self.problem is not None:
            return self.problem
        from .placing.problem import make_problem  # cost models are loaded only here

        return make_problem(self.graph, self.devices, self.pricing, pin=self.asked)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedGraph:
    """A graph in which every node's inputs lie on the node's own device (except the input of a __copy, which
    may lie elsewhere).

    ``graph`` has the inserted __copy nodes; ``origin`` int64 [nodes] is the nid in the loaded graph, -1 for
    an inserted node; ``at_input`` bool [nodes]: whether the node is a copy that runs when its graph input is
    set, not on every run.
    """

    graph: Graph
    devices: tuple[Device, ...]
    did: np.ndarray
    origin: np.ndarray
    at_input: np.ndarray
    cause_id: np.ndarray
    causes: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def where(self, nid: int) -> dict[str, Any]:
        """{"node", "device", "path"} of a node, as fields of an error."""
        origin, device = int(self.origin[nid]), str(self.devices[self.did[nid]])
        path = f"$.nodes[{origin}]" if origin >= 0 else None
        return {"node": self.graph.names[nid], "device": device, "path": path}

    @classmethod
    def of(cls, placed: Placement) -> PlacedGraph:
        """The graph of a placement that needs no further copies. The file's copies run at_input if the file
        says so."""
        graph = placed.graph
        at_input = np.zeros(graph.num_nodes, bool)
        at_input[list(graph.hints.at_input)] = True
        origin = np.arange(graph.num_nodes)
        cause_id, causes = placed.cause_id, placed.causes
        return cls(graph, placed.devices, placed.did, origin, at_input, cause_id, causes, placed.warnings)


@dataclass(frozen=True, slots=True, eq=False)
class LaidOutGraph:
    """A PlacedGraph with a physical layout for every entry. ``layout_id`` int32 [entries] indexes ``layouts``
    and ``layout_causes``, sentences with the reasons. A Layout occurs once for each reason."""

    placed: PlacedGraph
    layouts: tuple[Layout, ...]
    layout_id: np.ndarray
    layout_causes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The pool: columns with one row per sid. A sid that no entry uses (a gap in the file) has nbytes 0.

    ``did`` int32, ``memory`` int32 (index into the descriptor's memories), ``offset`` int64 (bytes from the
    start of the session's region in that memory: inside each bank on tt), ``extent`` int64 (bytes taken per
    bank), ``nbytes`` int64 (extent on cpu; padded page bytes over all banks on tt).
    """

    did: np.ndarray
    memory: np.ndarray
    offset: np.ndarray
    extent: np.ndarray
    nbytes: np.ndarray

    @property
    def count(self) -> int:
        """Number of sids."""
        return len(self.did)

    @property
    def region(self) -> np.ndarray:
        """int64 [sids]: a number for the storage's device and memory, different for each memory of each
        device."""
        return self.did.astype(np.int64) * _MOST_MEMORIES + self.memory

    @staticmethod
    def where(region: int) -> tuple[int, int]:
        """(did, memory) of an element of ``region``."""
        return divmod(region, _MOST_MEMORIES)


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Viewable):
    """All decisions before code is bound: devices, copies, layouts, storage. After planning, ``graph.hints``
    is not read again.

    ``did`` int32 [nodes]: device of each node; ``layout_id`` int32 [entries]: layout of each entry; ``sid``
    int32 [entries]: storage of each entry; ``aliases``: pairs (output index, input index). ``peak`` {(did,
    memory): bytes}: the extent that the session allocates; ``lower_bound`` {(did, memory): bytes}: the most
    bytes live at once in this order of nodes, each buffer rounded up to the memory's alignment. ``numerics``
    [devices]: the arithmetic of nodes whose own attributes give none; empty: every device has its default
    arithmetic. ``model_id`` int32 [nodes] indexes ``models``, the op models that a balancer chose; -1 (or
    None for all nodes): the kernel chooses the model. ``balanced``: a balance.Balanced of each buda board,
    with epochs and cores. ``placement``: the Placement from which the plan was made. ``circular`` int64
    [nodes]: the most bytes of circular buffers that each node opens on a core, by its kernel or by ttnn's
    factory (card_programs.ground); None: these bytes are not known.
    """

    graph: Graph
    devices: tuple[Device, ...]
    did: np.ndarray
    origin: np.ndarray
    at_input: np.ndarray
    cause_id: np.ndarray
    causes: tuple[str, ...]
    layouts: tuple[Layout, ...]
    layout_id: np.ndarray
    sid: np.ndarray
    storage: Storage
    aliases: tuple[tuple[int, int], ...]
    peak: dict[tuple[int, int], int]
    lower_bound: dict[tuple[int, int], int]
    layout_causes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    numerics: tuple[Numerics, ...] = ()
    models: tuple[Any, ...] = ()
    model_id: np.ndarray | None = None
    balanced: tuple[Any, ...] = ()
    placement: Placement | None = None
    circular: np.ndarray | None = None

    def __repr__(self) -> str:
        return (
            f"<Plan of {self.graph.num_nodes} nodes, {self.storage.count} storages, on "
            f"{', '.join(map(str, self.devices))}>"
        )

    @property
    def status(self) -> dict[tuple[int, int], str]:
        """{(did, memory): "optimal" if the peak is the lower bound, else "feasible"}."""
        return {
            where: "optimal" if peak <= self.lower_bound.get(where, 0) else "feasible"
            for where, peak in self.peak.items()
        }

    @property
    def as_ttnn(self) -> bool:
        """Whether ``circular`` counts the buffers of ttnn's programs on some device."""
        return any(numerics.numerics == "ttnn" for numerics in self.numerics)

    def circular_peak(self) -> dict[int, int]:
        """{did: the most bytes of circular buffers that a node opens on a core of that device}, without
        zeros."""
        if self.circular is None:
            return {}
        peaks = {did: int(self.circular[self.did == did].max(initial=0)) for did in range(len(self.devices))}
        return {did: peak for did, peak in peaks.items() if peak}

    def entry_did(self) -> np.ndarray:
        """int32 [entries]: the device on which each entry lives."""
        return np.repeat(self.did, np.diff(self.graph.row_ptr))

    def layout(self, eid: int) -> Layout:
        """The physical layout of an entry."""
        return self.layouts[self.layout_id[eid]]


class Causes:
    """The sentences of a placement, each kept once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts) - 1
