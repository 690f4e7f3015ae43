"""An order of the nodes in which less is live at once than in the file's order, if one is found.

Data dependencies alone restrict the order of nodes. Three orders are tried. Two orders put first the node
that frees the most bytes and makes the least. Of equal nodes, one of these two orders takes the first in the
file, the other takes the node enabled last. The third computes one branch after the other, depth first. The
order with the fewest bytes live at once is taken, if they are fewer than in the file's order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError, InputError, PlanError
from ...base.outside import find_outside, name_of
from ...ir.graph import Graph
from ..columns import Values, find_values, inplace_slots, move_hints, ragged, slot_nid, starts
from ..types import LaidOutGraph
from .buffers import Buffers, Sizes, entry_sizes, take_over

_MOST_NODES = 50_000  # in a larger graph, the search for an order takes longer than it is worth


def best_order(laid_out: LaidOutGraph, inplace: Mapping[str, tuple[int, ...]] | None = None) -> LaidOutGraph:
    """``laid_out`` in the order, of those tried, that needs the least memory; ``laid_out`` itself if no order
    needs less.

    For each memory, the most bytes live at once are compared: an order is better if their sum over all
    memories is smaller, and the number of no memory is larger. A graph with control dependencies, or with
    columns unknown here, keeps its order. ``inplace``: as in columns.inplace_slots.
    """
    graph = laid_out.placed.graph
    if not 2 < graph.num_nodes <= _MOST_NODES or graph.control_deps or graph.extra_columns:
        return laid_out
    seen = _Seen.of(laid_out, inplace)
    best, least = laid_out, seen.live
    if not seen.may_gain():
        return laid_out
    work = _Work.of(laid_out, seen.values, seen.sizes)
    for order in (work.by_gain(latest=False), work.by_gain(latest=True), work.depth_first()):
        tried = permute(laid_out, order)
        live = _Seen.of(tried, inplace).live
        if sum(live.values()) < sum(least.values()) and all(live[where] <= least[where] for where in live):
            best, least = tried, live
    return best


def in_order_of(laid_out: LaidOutGraph, given: Callable[..., Any] | str) -> LaidOutGraph:
    """``laid_out`` in the order given by a function from outside: node ids, each once, so that each node
    comes after the makers of its inputs.

    Raises PlanError for an invalid answer, and for a graph that has to keep its order; InputError for a value
    that is no function.
    """
    graph, name = laid_out.placed.graph, name_of(given)
    if isinstance(given, str) and ":" in given:
        given = find_outside("node order", given)
    if not callable(given):
        raise InputError(f"order is a function or package.module:function, got {given!r}", got=given)
    if graph.control_deps or graph.extra_columns:
        raise PlanError(f"node order {name}: control dependencies or unknown columns fix this graph's order")
    try:
        said = np.asarray(given(laid_out))
    except GraphRuntimeError:
        raise
    except Exception as error:
        raise PlanError(f"node order {name} failed: {type(error).__name__}: {error}", got=name) from error
    count = graph.num_nodes
    if said.shape != (count,) or said.dtype.kind not in "iu" or (np.sort(said) != np.arange(count)).any():
        text = f"node order {name} gave {said.dtype}{list(said.shape)}: give each of the {count} nodes once"
        raise PlanError(text, got=name, wanted=count)
    at = np.empty(count, np.int64)
    at[said] = np.arange(count)
    reader, made = slot_nid(graph), graph.entry_nid[graph.in_eid]
    early = np.flatnonzero(at[made] >= at[reader])
    if len(early):
        node, source = graph.names[reader[early[0]]], graph.names[made[early[0]]]
        raise PlanError(f"node order {name} has {node!r} before {source!r}, which it reads", node=node)
    return permute(laid_out, said.tolist())


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """An order of the nodes with its live bytes. ``live``: {(did, memory): the most bytes live at once}."""

    graph: Graph
    values: Values
    slots: np.ndarray
    sizes: Sizes
    live: dict[tuple[int, int], int]

    @classmethod
    def of(cls, laid_out: LaidOutGraph, inplace: Mapping[str, tuple[int, ...]] | None) -> _Seen:
        graph = laid_out.placed.graph
        values = find_values(graph, laid_out.placed.at_input)
        slots = inplace_slots(graph, inplace)
        sizes = entry_sizes(laid_out)
        buffers = Buffers.join(graph, values, take_over(laid_out, values, slots), sizes)
        live = {
            (int(sizes.region_did[r]), int(sizes.region_memory[r])): most
            for r, most in buffers.most_live().items()
        }
        return cls(graph, values, slots, sizes, live)

    def may_gain(self) -> bool:
        """Whether another order may need less memory. False if the bytes live at the peak are only one node's
        operands and results, or only the outputs: then no order needs less."""
        graph, values, slots, sizes = self.graph, self.values, self.slots, self.sizes
        heads = values.firsts
        kept, ends = values.born[heads] < 0, values.last[heads] >= graph.num_nodes
        size, region = sizes.extent, sizes.region
        reader = slot_nid(graph)
        pairs = np.sort(reader * (graph.num_entries + 1) + values.of[graph.in_eid])
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # a value that a node reads twice counts once
        node, value = pairs // (graph.num_entries + 1), pairs % (graph.num_entries + 1)
        moving = values.born[value] >= 0
        node, value = node[moving], value[moving]
        over = np.zeros(graph.num_nodes, bool)
        over[reader[slots]] = True
        made = heads[~kept & ~over[graph.entry_nid[heads]]]
        for r, most in enumerate(self.live.values()):
            fixed = int(size[heads][kept & (region[heads] == r)].sum())
            out = int(size[heads][~kept & ends & (region[heads] == r)].sum())
            mine, own = region[value] == r, region[made] == r
            need = np.bincount(
                np.concatenate([node[mine], graph.entry_nid[made[own]]]),
                np.concatenate([size[value[mine]], size[made[own]]]),
                1,
            )
            least = fixed + max(out, int(need.max(initial=0)))
            if most > least * 1.001 + 4096:  # ``least`` lacks the padding of buffers
                return True
        return False


# **************** schedules ****************


@dataclass(frozen=True, slots=True, eq=False)
class _Work:
    """The nodes to schedule, as lists. ``fixed``: nodes that come first. For each node, ``reads`` and
    ``makes``: the values that the node reads (only values made by scheduled nodes) and makes. For each value,
    by first entry: ``size``, ``readers``, ``maker``, and ``stays``: whether the value is an output."""

    fixed: list[int]
    nodes: list[int]
    reads: list[list[int]]
    makes: list[list[int]]
    size: list[int]
    readers: list[list[int]]
    maker: list[int]
    stays: list[bool]

    @classmethod
    def of(cls, laid_out: LaidOutGraph, values: Values, sizes: Sizes) -> _Work:
        graph = laid_out.placed.graph
        early = (graph.func_id < 0) | laid_out.placed.at_input
        reads: list[list[int]] = [[] for _ in range(graph.num_nodes)]
        readers: list[list[int]] = [[] for _ in range(graph.num_entries)]
        made = graph.entry_nid
        reader = slot_nid(graph)
        for node, eid, value in zip(
            reader.tolist(), graph.in_eid.tolist(), values.of[graph.in_eid].tolist(), strict=True
        ):
            if early[made[eid]] and early[made[value]]:
                continue
            # a reader of a reshape depends on both: the reshape and the value that is reshaped
            for source in {eid, value}:
                if not early[made[source]] and source not in reads[node]:
                    reads[node].append(source)
                    readers[source].append(node)
        makes: list[list[int]] = [[] for _ in range(graph.num_nodes)]
        for eid, node in enumerate(made.tolist()):
            makes[node].append(eid)
        size = np.where(values.of == np.arange(graph.num_entries), sizes.extent, 0)
        stays = np.zeros(graph.num_entries, bool)
        stays[values.of[graph.outputs]] = True
        return cls(
            np.flatnonzero(early).tolist(),
            np.flatnonzero(~early).tolist(),
            reads,
            makes,
            size.tolist(),
            readers,
            made.tolist(),
            stays.tolist(),
        )

    def by_gain(self, latest: bool) -> list[int]:
        """An order by list scheduling: the node with the fewest bytes made minus bytes freed comes first. Of
        equal nodes, the first in the file comes first or, with ``latest``, the node enabled last."""
        left = [len(r) for r in self.readers]
        waits = [len(r) for r in self.reads]
        done = [False] * len(waits)
        heap: list[tuple[int, int, int]] = []
        clock = 0

        def offer(node: int) -> None:
            made = sum(self.size[e] for e in self.makes[node])
            freed = sum(self.size[e] for e in self.reads[node] if left[e] == 1 and not self.stays[e])
            heappush(heap, (made - freed, -clock if latest else node, node))

        for node in self.nodes:
            if not waits[node]:
                offer(node)
        order = list(self.fixed)
        while heap:
            node = heappop(heap)[2]
            if done[node]:
                continue
            done[node] = True
            order.append(node)
            clock += 1
            for eid in self.reads[node]:
                left[eid] -= 1
                if left[eid] == 1:  # one reader is left, which frees the value: this reader's gain has grown
                    last = next(r for r in self.readers[eid] if not done[r])
                    if not waits[last]:
                        offer(last)
            for eid in self.makes[node]:
                for reader in self.readers[eid]:
                    waits[reader] -= 1
                    if not waits[reader]:
                        offer(reader)
        return order

    def depth_first(self) -> list[int]:
        """An order that computes the operands of each node one after the other, each completely; the operands
        whose peak exceeds their result by most come first."""
        need, rank = [0] * len(self.reads), {}
        for node in self.nodes:
            makers = {self.maker[e] for e in self.reads[node]}
            rank[node] = sorted(makers, key=lambda m: (self._leaves(m) - need[m], m))
            held, peak = 0, 0
            for source in rank[node]:
                peak, held = max(peak, held + need[source]), held + self._leaves(source)
            need[node] = max(peak, held + self._leaves(node))
        order, seen = list(self.fixed), set(self.fixed)
        sinks = [n for n in self.nodes if not any(self.readers[e] for e in self.makes[n])]
        for sink in sorted(sinks, key=lambda n: (self._leaves(n) - need[n], n)):
            stack = [sink]
            while stack:
                node = stack[-1]
                missing = [] if node in seen else [m for m in rank[node] if m not in seen]
                if missing:
                    stack += missing[::-1]
                    continue
                stack.pop()
                if node not in seen:
                    seen.add(node)
                    order.append(node)
        return order

    def _leaves(self, node: int) -> int:
        return sum(self.size[e] for e in self.makes[node])


# **************** another order of the same graph ****************


def permute(laid_out: LaidOutGraph, order: list[int]) -> LaidOutGraph:
    """``laid_out`` with node order[i] at position i; ``order`` has every node once, after the makers of its
    inputs."""
    placed, graph = laid_out.placed, laid_out.placed.graph
    nodes = np.array(order, np.int64)
    node_at = np.empty(len(nodes), np.int64)
    node_at[nodes] = np.arange(len(nodes))
    outs, ins = np.diff(graph.row_ptr)[nodes], np.diff(graph.in_ptr)[nodes]
    entries = ragged(graph.row_ptr[nodes], outs)
    entry_at = np.empty(len(entries), np.int64)
    entry_at[entries] = np.arange(len(entries))
    changed = replace(
        graph,
        names=tuple(graph.names[n] for n in order),
        func_id=graph.func_id[nodes],
        row_ptr=starts(outs),
        in_ptr=starts(ins),
        in_eid=entry_at[graph.in_eid[ragged(graph.in_ptr[nodes], ins)]],
        type_id=graph.type_id[entries],
        inputs=node_at[graph.inputs],
        outputs=entry_at[graph.outputs],
        hints=move_hints(graph.hints, lambda column, _: column[entries], node_at),
    )
    return replace(
        laid_out,
        layout_id=laid_out.layout_id[entries],
        placed=replace(
            placed,
            graph=changed,
            did=placed.did[nodes],
            origin=placed.origin[nodes],
            at_input=placed.at_input[nodes],
            cause_id=placed.cause_id[nodes],
        ),
    )
