"""The tensors of a graph as the balancer sees them: shape in tiles, source and readers.

Around convolutions and pools a tensor [N,C,H,W] has the form that Buda's front end gives it: pixels are rows,
channels are columns. In all other tensors the last two dimensions are rows and columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ...base.dtypes import format_of
from ...base.errors import PlanError
from ...ir.graph import COPY, NOP, Graph, NodeView
from ...ir.ops import registry
from ...ir.ops.numerics import Numerics
from ..types import Plan
from .op import Operand, Tiles, Tm, User

_TILE = 32
_IMAGES = ("conv2d", "pool", "global_pool")  # ops that read and make images


def _up(n: int) -> int:
    return max(-(-n // _TILE), 1)


def tiles(shape: Sequence[int], image: bool = False) -> Tiles:
    """The shape in tiles of a tensor; ``image``: [N,C,H,W] with pixels as rows and channels as columns."""
    if image:
        n, c, h, w = shape
        return Tiles(n, _up(h * w), _up(c))
    rows, cols = (1, 1, *shape)[-2:]
    return Tiles(math.prod(shape[:-2]), _up(rows), _up(cols))


def broadcasts(source: Tiles, shape: Tiles) -> tuple[Tm, ...]:
    """The TMs that broadcast a tensor to a shape."""
    return tuple(
        Tm("broadcast", big, dim=dim)
        for dim, small, big in zip("zrc", source, shape, strict=True)
        if small == 1 < big
    )


@dataclass(frozen=True, slots=True, eq=False)
class View:
    """``image`` bool [entries]; ``readers`` of each entry: (nid, input index); ``results``: entries that are
    graph outputs; ``loops``: entries written into an input. ``formats``: stored formats of the entries; None:
    the dtype of an entry decides. ``numerics``: numerics of the nodes that name none themselves. ``origin``
    int64 [nodes]: nids in the loaded graph; None: the nids are equal. ``split``: number that says how windows
    are split; 0: only windows with too many taps, by rows; 1: all windows, by rows; 2: all windows, by taps.
    """

    graph: Graph
    image: np.ndarray
    readers: tuple[tuple[tuple[int, int], ...], ...]
    results: frozenset[int]
    loops: frozenset[int]
    formats: tuple[str, ...] | None = None
    numerics: Numerics = field(default_factory=Numerics)
    origin: np.ndarray | None = None
    split: int = 0

    def tiles(self, eid: int) -> Tiles:
        return tiles(self.graph.entry_type(eid).shape, bool(self.image[eid]))

    def format(self, eid: int) -> str:
        """The stored format of a tensor. Raises PlanError for a dtype that has no stored format."""
        if self.formats is not None:
            return self.formats[eid]
        dtype = self.graph.entry_type(eid).dtype
        found = format_of(dtype)
        if found is None:
            raise PlanError(f"tensors of {dtype} cannot be stored on a device", got=dtype)
        return found.name

    def path(self, nid: int) -> str | None:
        """The path of a node in the document; None for an inserted node."""
        at = nid if self.origin is None else int(self.origin[nid])
        return f"$.nodes[{at}]" if at >= 0 else None

    def producer(self, eid: int) -> tuple[int, int]:
        """(nid, entry) from which an entry's value comes, through copies and reshapes that move nothing."""
        while True:
            nid = self.graph.maker(eid)
            fid = int(self.graph.func_id[nid])
            if fid < 0 or self.graph.funcs[fid].name not in (COPY, NOP):
                return nid, eid
            eid = int(self.graph.in_eid[self.graph.in_ptr[nid]])

    def operand(
        self,
        node: NodeView,
        port: int,
        shape: Tiles | None = None,
        source: Tiles | None = None,
        tms: tuple[Tm, ...] = (),
        weight: bool = False,
    ) -> Operand:
        """An input of a node as an operand. ``source``: shape in tiles as stored, by default the shape of the
        tensor; ``shape``: shape in tiles as the op reads the input. ``tms`` come before the missing
        broadcasts. A graph input counts as a parameter if ``weight`` is set, or if the op's registry entry
        lists the input as a weight.
        """
        eid = node.inputs[port]
        made = source or self.tiles(eid)
        nid, _ = self.producer(eid)
        name = "op"
        if self.graph.func_id[nid] < 0:
            op = registry.get(node.op or "")
            weight = weight or (op is not None and port in op.weights)
            name = "parameter" if weight else "queue"
        seen = made if not any(tm.kind == "transpose" for tm in tms) else Tiles(made.z, made.ct, made.rt)
        shape = shape or seen
        return Operand(shape, made, self.format(eid), name, (*tms, *broadcasts(seen, shape)))

    def users(self, node: NodeView) -> tuple[User, ...]:
        """The readers of output 0, with the TMs between the output and each reader."""
        eid = node.outputs[0]
        found = [User("op", self._reads(nid, port, eid)) for nid, port in self.readers[eid]]
        if eid in self.loops:
            found.append(User("loopback"))
        elif eid in self.results:
            found.append(User("output"))
        return tuple(found)

    def _reads(self, nid: int, port: int, eid: int) -> tuple[Tm, ...]:
        reader = self.graph.node(nid)
        made, attrs = self.tiles(eid), {} if reader.func is None else reader.func.attrs
        op = registry.get(reader.op or "")
        if op is None:
            return ()
        if op.parts == "product":
            turned = attrs["transpose_a" if port == 0 else "transpose_b"]
            deep = Tiles(self.tiles(reader.outputs[0]).z, made.rt, made.ct)
            return (*((Tm("transpose"),) if turned else ()), *broadcasts(made, deep))
        if op.parts == "product_of_rows" and port == 1:
            return (Tm("transpose"),)
        if op.kind == "elementwise" or op.parts == "bias":
            return broadcasts(made, self.tiles(reader.outputs[0]))
        return ()


def view_of(
    graph: Graph,
    *,
    formats: Sequence[str] | None = None,
    numerics: Numerics | None = None,
    origin: np.ndarray | None = None,
) -> View:
    """The View of a graph, for all of its nodes. View describes the optional arguments."""
    readers: list[list[tuple[int, int]]] = [[] for _ in range(graph.num_entries)]
    for nid in range(graph.num_nodes):
        first = int(graph.in_ptr[nid])
        for at in range(first, int(graph.in_ptr[nid + 1])):
            readers[graph.in_eid[at]].append((nid, at - first))
    outputs = graph.outputs.tolist()
    loops = frozenset(outputs[out] for out, _ in graph.hints.aliases if out < len(outputs))
    return View(
        graph,
        _images(graph),
        tuple(map(tuple, readers)),
        frozenset(outputs),
        loops,
        None if formats is None else tuple(formats),
        numerics or Numerics(),
        origin,
    )


def view_of_plan(plan: Plan, did: int) -> View:
    """The View of a plan's graph, with the formats and numerics that the plan gives a device's nodes."""
    formats, numerics = [plan.layouts[i].format for i in plan.layout_id], plan.numerics
    return view_of(
        plan.graph, formats=formats, numerics=numerics[did] if numerics else None, origin=plan.origin
    )


def _images(graph: Graph) -> np.ndarray:
    """bool [entries]: whether a tensor of rank 4 has the form of an image, because it lies between
    convolutions and pools, or ops that keep the form connect it with one."""
    image = np.zeros(graph.num_entries, bool)
    rank4 = np.array([len(graph.entry_type(e).shape) == 4 for e in range(graph.num_entries)], bool)
    nodes = [graph.node(nid) for nid in range(graph.num_nodes) if graph.func_id[nid] >= 0]
    for node in nodes:
        op = registry.get(node.op or "")
        if op is not None and op.parts in _IMAGES:
            image[[node.inputs[0], *node.outputs]] = True
    for walk in (nodes, nodes[::-1]):
        for node in walk:
            around = [e for e in (*node.inputs, *node.outputs) if rank4[e]]
            op = registry.get(node.op or "")
            kept = op is not None and (op.kind == "elementwise" or op.parts in ("bias", "splice"))
            if (kept or node.op == COPY) and image[around].any():
                image[around] = True
    return image
