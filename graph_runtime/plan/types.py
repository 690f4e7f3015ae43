"""The values that the planning passes hand on. Each is frozen; a pass makes the next one and never edits its
input.

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

__all__ = [
    "OFF",
    "REUSE",
    "SAFE",
    "SERIAL",
    "LaidOutGraph",
    "PlacedGraph",
    "Placement",
    "Plan",
    "Storage",
    "Supplies",
]

REUSE = SERIAL, SAFE, OFF = "serial", "safe", "off"  # what memory may be used again by (docs/memory.md)
_MOST_MEMORIES = 16  # of a device


@dataclass(frozen=True, slots=True, eq=False)
class Supplies:
    """What libraries and higher layers have for a plan. ``kernels``: function -> device kinds that libraries
    have it for. ``inplace``: func_name -> inputs that output 0 may overwrite, from the libraries' manifests.
    ``packer`` (packing.pack) looks for offsets where the options name none. ``circular`` (circular.of_plan)
    says what circular buffers each node opens: room for them is left in L1."""

    kernels: Mapping[str, Collection[str]] = field(default_factory=dict)
    inplace: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    packer: Callable[..., Any] | None = None
    circular: Callable[[Plan], np.ndarray] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """The device of each node. ``did`` int32 [nodes] indexes ``devices`` (the caller's list, order kept);
    ``cause_id`` int32 [nodes] indexes ``causes``, one sentence each. ``asked`` int32 [nodes]: the device that
    a pin or the file asks for, -1: neither; None: not known. ``problem``: what a policy decided about; None:
    ``pricing`` says how to make it. ``before``: the placement that was decided, where the graph was rewritten
    for its devices since then: bounds are of that, as nodes made for one device run nowhere else."""

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
        """An input that a problem has on the caller's machine, which is none of the list, is kept where its
        first reader runs."""
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
        """One row a node that runs, and an input that every run copies: nid, node, op, asked (None: no
        device), device, why, ns, and copies: from, to, bytes and ns of each copy of what it makes."""
        from .placing import rows  # the models of costs are loaded where they are asked only

        asked = np.full(len(self.did), -1) if self.asked is None else self.asked
        why = [self.causes[i] for i in self.cause_id.tolist()]
        return rows.node_rows(self._problem(), self.did, asked, why)

    def summary(self) -> dict[str, Any]:
        """{"devices", "copies", "elsewhere", "predictions"}: sums a device and a way, the rows of nodes that
        are elsewhere than asked, and of each objective the ns, the bound and the best single device."""
        from .placing import rows

        decided = self.before or self
        predictions = rows.predictions(decided._problem(), decided.did)
        said = {**rows.totals(self.report()), "predictions": predictions}
        return {**said, "streamed": list(self.pricing.streamed), "warnings": list(self.warnings)}

    def _problem(self) -> PlacementProblem:
        if self.problem is not None:
            return self.problem
        from .placing.problem import make_problem  # the models of costs are loaded where they are asked only

        return make_problem(self.graph, self.devices, self.pricing, pin=self.asked)


@dataclass(frozen=True, slots=True, eq=False)
class PlacedGraph:
    """A graph in which every node's inputs lie on the node's own device (but for __copy, whose input may lie
    elsewhere).

    ``graph`` has the inserted __copy nodes; ``origin`` int64 [nodes] is the nid in the loaded graph, -1 for
    an inserted node; ``at_input`` bool [nodes]: a copy that runs when its graph input is set, not on every
    run.
    """

    graph: Graph
    devices: tuple[Device, ...]
    did: np.ndarray
    origin: np.ndarray
    at_input: np.ndarray
    cause_id: np.ndarray
    causes: tuple[str, ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class LaidOutGraph:
    """A PlacedGraph with a physical layout for every entry: ``layout_id`` int32 [entries] indexes ``layouts``
    and ``layout_causes``, the sentence that says why (one Layout may stand there for several reasons)."""

    placed: PlacedGraph
    layouts: tuple[Layout, ...]
    layout_id: np.ndarray
    layout_causes: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Storage:
    """The pool, one row a sid, columns of equal length. A sid that no entry uses (a gap in the file) has
    nbytes 0.

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
        """int64 [sids]: one number for each memory of each device."""
        return self.did.astype(np.int64) * _MOST_MEMORIES + self.memory

    @staticmethod
    def where(region: int) -> tuple[int, int]:
        """(did, memory) of such a number."""
        return divmod(region, _MOST_MEMORIES)


@dataclass(frozen=True, slots=True, eq=False)
class Plan(Viewable):
    """Everything that is decided before code is bound: devices, copies, layouts, storage. ``graph.hints`` is
    not read again.

    ``did`` int32 [nodes], ``layout_id`` int32 [entries], ``sid`` int32 [entries], ``aliases`` ((output index,
    input index), ...). ``peak`` {(did, memory): extent in bytes} is what the session allocates;
    ``lower_bound`` the most that is live at once in this order of nodes, each buffer rounded up to the
    memory's alignment. ``numerics`` [devices]: what a node's arithmetic is where its own attributes do not
    say; empty: every device's default. ``model_id`` int32 [nodes] indexes ``models``, the op models that a
    balancer chose, -1 or None as a whole: the kernel chooses. ``balanced``: a balance.Balanced of each buda
    board, with epochs and cores. ``placement``: what it was made of. ``circular`` int64 [nodes]: the most
    bytes of circular buffers that each node opens on a core, as its kernel or ttnn's factory says
    (card_programs.ground); None: not asked.
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
        """{(did, memory): "optimal" where the peak is the lower bound, else "feasible"}."""
        return {
            where: "optimal" if peak <= self.lower_bound.get(where, 0) else "feasible"
            for where, peak in self.peak.items()
        }

    def circular_peak(self) -> dict[int, int]:
        """{did: the most bytes of circular buffers that a node opens on a core of it}, without zeros."""
        if self.circular is None:
            return {}
        peaks = {did: int(self.circular[self.did == did].max(initial=0)) for did in range(len(self.devices))}
        return {did: peak for did, peak in peaks.items() if peak}

    def entry_did(self) -> np.ndarray:
        """int32 [entries]: the device each entry lives on."""
        return np.repeat(self.did, np.diff(self.graph.row_ptr))

    def layout(self, eid: int) -> Layout:
        """The physical layout of an entry."""
        return self.layouts[self.layout_id[eid]]
