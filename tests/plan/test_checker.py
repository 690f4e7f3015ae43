"""The checker against the truth: a byte-by-byte simulation of random plans, right ones and mutated ones.

Every byte of every memory holds a token that says which write it is from. A plan is wrong if a kernel, a copy
or the caller ever reads a byte with another token than the one its value has. The checker must refuse every
such plan; where it refuses a plan that the simulation passes, the reason is one of CONSERVATIVE.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from graph_runtime.base.dtypes import FORMATS
from graph_runtime.base.errors import CheckError
from graph_runtime.ir.graph import COPY, NOP
from graph_runtime.ir.ops import registry
from graph_runtime.plan import check, plan
from graph_runtime.testing.graphs import random_graph

# rule -> why it refuses what happens to work
CONSERVATIVE = {
    "layout": "a format that fits in bytes and yet cannot hold the dtype",
    "storage": "an entry outside of the size, alignment or peak that its storage states",
    "nop": "a reshape whose bytes have no reader",
    "copy": "a copy whose bytes have no reader",
    "overlap": "bytes of padding, of entries without a reader, or of storages where no entry lies",
    "device": "a reader whose output has no reader",
    "order": "a copy of an input that comes before it, and runs when it is set",
    "alias": "types that differ and yet fit, or an output that is its own input",
    "at_input": "a node that is no copy of an input, and whose output has no reader",
}
DEVICES = (["cpu:0"], ["cpu:0", "tt:0"], ["tt:0", "tt:1"], ["tt:1", "cpu:0", "tt:0"])


SEEDS = 40


class Fault(Exception):
    """A byte was read that is not the value's."""


class Simulation:
    """Runs a plan symbolically. Memory: {(did, memory): int64 [banks, bytes]} of tokens, write number << 32 |
    byte of value."""

    def __init__(self, plan):
        self.plan, self.graph = plan, plan.graph
        self.memory, self.places = {}, {}
        self.token: dict[int, int] = {}  # eid -> number of the write that made its value
        self.derived: dict[int, int] = {}  # at_input copy -> token its input had then
        self.writes = 0

    def run(self) -> None:
        """Set all inputs, run twice, set them again in another order, run again; outputs are read after every
        run."""
        inputs = list(self.graph.inputs)
        for order, runs in ((inputs, 2), (inputs[::-1], 1)):
            for nid in order:
                self.set_input(int(nid))
            for _ in range(runs):
                self.run_once()

    def set_input(self, nid: int) -> None:
        eid = int(self.graph.row_ptr[nid])
        self.write([eid])
        made = {eid}
        for copy in np.flatnonzero(self.plan.at_input).tolist():
            view = self.graph.node(copy)
            if view.op == COPY and view.inputs[0] in made:
                self.derived[view.outputs[0]] = self.token[view.inputs[0]]
                self.call(view)
                made.update(view.outputs)

    def run_once(self) -> None:
        for nid in range(self.graph.num_nodes):
            view = self.graph.node(nid)
            if view.func is None or self.plan.at_input[nid]:
                continue
            if view.func.name == NOP:
                self.read(view.inputs[0])
                self.token[view.outputs[0]] = self.token[view.inputs[0]]
            else:
                self.call(view)
        for eid in self.graph.outputs.tolist():
            self.read(eid)
        for out, into in self.plan.aliases:
            self.token[int(self.graph.input_eids[into])] = self.token[int(self.graph.outputs[out])]

    def call(self, view) -> None:
        """A kernel may write its outputs before it has read its inputs, unless its op says otherwise."""
        for eid in view.inputs:
            self.read(eid)
            if view.func.name != COPY and self.place(eid)[0][0] != self.plan.did[view.nid]:
                raise Fault(f"{view.name} reads another device")
        op = registry.get(view.func.op) if view.func.op else None
        for slot, eid in enumerate(view.inputs):
            for index, out in enumerate(view.outputs):
                if not self.touch(eid, out):
                    continue
                same = self.place(eid)[0] == self.place(out)[0] and np.array_equal(
                    self.place(eid)[1], self.place(out)[1]
                )
                if not (
                    op
                    and index == 0
                    and slot in op.inplace
                    and same
                    and view.input_types[slot] == view.output_types[0]
                ):
                    raise Fault(f"{view.name} writes over its input")
        self.write(view.outputs)

    def touch(self, a: int, b: int) -> bool:
        (where_a, bytes_a, _, _), (where_b, _, _, pages_b) = self.place(a), self.place(b)
        return where_a == where_b and bool(np.isin(bytes_a, pages_b).any())

    def write(self, eids) -> None:
        for eid in eids:
            where, cells, of_value, pages = self.place(eid)
            self.writes += 1
            self.token[eid] = self.writes
            memory = self.cells(where)
            memory[pages] = -1
            memory[cells] = (self.writes << 32) + of_value
            if self.plan.did[self.graph.entry_nid[eid]] != where[0]:
                raise Fault("written to another device")
        for eid in eids:
            self.read(eid)

    def read(self, eid: int) -> None:
        if eid not in self.token:
            raise Fault(f"entry {eid} is read before it is written")
        where, cells, of_value, _ = self.place(eid)
        if not np.array_equal(self.cells(where)[cells], (self.token[eid] << 32) + of_value):
            raise Fault(f"entry {eid} was overwritten")
        if eid in self.derived:
            source = self.graph.node(int(self.graph.entry_nid[eid])).inputs[0]
            if self.derived[eid] != self.token[source]:
                raise Fault(f"entry {eid} is a copy of an old input")

    def cells(self, where) -> np.ndarray:
        if where not in self.memory:
            memory = self.plan.devices[where[0]].descriptor.memories[where[1]]
            self.memory[where] = np.full(memory.banks * self.plan.peak.get(where, 0), -2, np.int64)
        return self.memory[where]

    def place(self, eid: int):
        """((did, memory), cells of the value's bytes, which byte of the value each holds, cells that a write
        touches)."""
        if eid not in self.places:
            self.places[eid] = self._place(eid)
        return self.places[eid]

    def _place(self, eid: int):
        sid = int(self.plan.sid[eid])
        where = int(self.plan.storage.did[sid]), int(self.plan.storage.memory[sid])
        memory = self.plan.devices[where[0]].descriptor.memories[where[1]]
        type_, layout, base = (
            self.graph.entry_type(eid),
            self.plan.layout(eid),
            int(self.plan.storage.offset[sid]),
        )
        if layout.memory != memory.name:
            raise Fault("in another memory than its layout says")
        if memory.name == "host":
            at = np.arange(type_.nbytes)
            return where, _inside(base + at, self.plan.peak.get(where, 0)), at, base + at
        page, in_page, of_value, count, size = _pages(type_.shape, layout)
        stride = -(-size // memory.alignment) * memory.alignment
        span = self.plan.peak.get(where, 0)

        def cell(pages, offsets):
            inside = _inside(base + pages // memory.banks * stride + offsets, span)
            return pages % memory.banks * span + inside

        every, offsets = np.repeat(np.arange(count), size), np.tile(np.arange(size), count)
        return where, cell(page, in_page), of_value, cell(every, offsets)


def _inside(address: np.ndarray, end: int) -> np.ndarray:
    if len(address) and not (address.min() >= 0 and address.max() < end):
        raise Fault("outside of the session's region")
    return address


def _pages(shape, layout):
    """For each byte of a device tensor: its page, its place in the page, which byte of the value it is; page
    count, size."""
    fmt, shape = FORMATS[layout.format], shape or (1,)
    if fmt.itemsize is None and layout.layout != "tile":
        raise Fault("a block format without tiles")
    size = int(np.prod(shape))
    element = np.arange(size)
    if layout.layout != "tile":
        bytes_ = np.arange(size * fmt.itemsize)
        width = shape[-1] * fmt.itemsize
        return bytes_ // max(width, 1), bytes_ % max(width, 1), bytes_, size // max(shape[-1], 1), width
    rows, cols = (1, *shape)[-2:]
    down, across = -(-rows // 32), -(-cols // 32)
    outer, r, c = (
        element // max(rows * cols, 1),
        element // max(cols, 1) % max(rows, 1),
        element % max(cols, 1),
    )
    page = (outer * down + r // 32) * across + c // 32
    count = int(np.prod(shape[:-2])) * down * across
    width = fmt.itemsize or 1
    in_page = (r % 32 * 32 + c % 32)[:, None] * width + np.arange(width)
    of_value = element[:, None] * width + np.arange(width)
    return np.repeat(page, width), in_page.ravel(), of_value.ravel(), count, fmt.tile_bytes


def fault_of(plan) -> str | None:
    """What goes wrong when the plan runs; None if nothing does."""
    try:
        Simulation(plan).run()
    except Fault as fault:
        return str(fault)
    return None


# **************** mutations ****************


def _with(plan, name, at, value):
    column = getattr(plan, name).copy()
    column[at] = value
    return replace(plan, **{name: column})


def _with_storage(plan, name, at, value):
    column = getattr(plan.storage, name).copy()
    column[at] = value
    return replace(plan, storage=replace(plan.storage, **{name: column}))


def swap_sids(rng, plan):
    a, b = rng.integers(0, len(plan.sid), 2)
    return replace(_with(plan, "sid", [a, b], plan.sid[[b, a]]))


def share_sid(rng, plan):
    a, b = rng.integers(0, len(plan.sid), 2)
    return _with(plan, "sid", a, plan.sid[b])


def shift_offset(rng, plan):
    sid = int(rng.integers(plan.storage.count))
    return _with_storage(
        plan, "offset", sid, max(0, int(plan.storage.offset[sid]) + 64 * int(rng.integers(-3, 4)))
    )


def same_offset(rng, plan):
    a, b = rng.integers(0, plan.storage.count, 2)
    return _with_storage(plan, "offset", a, plan.storage.offset[b])


def shorten(rng, plan):
    sid = int(rng.integers(plan.storage.count))
    name = str(rng.choice(["extent", "nbytes"]))
    return _with_storage(plan, name, sid, getattr(plan.storage, name)[sid] // 2)


def move_node(rng, plan):
    return _with(plan, "did", int(rng.integers(plan.graph.num_nodes)), int(rng.integers(len(plan.devices))))


def move_storage(rng, plan):
    return _with_storage(
        plan, "did", int(rng.integers(plan.storage.count)), int(rng.integers(len(plan.devices)))
    )


def change_layout(rng, plan):
    return _with(plan, "layout_id", int(rng.integers(len(plan.sid))), int(rng.integers(len(plan.layouts))))


def toggle_at_input(rng, plan):
    nid = int(rng.integers(plan.graph.num_nodes))
    return _with(plan, "at_input", nid, not plan.at_input[nid])


def drop_copy(rng, plan):
    """Every reader of a copy reads its source instead."""
    copies = [n for n in range(plan.graph.num_nodes) if plan.graph.node(n).op == COPY]
    if not copies:
        return plan
    view = plan.graph.node(int(rng.choice(copies)))
    in_eid = np.where(plan.graph.in_eid == view.outputs[0], view.inputs[0], plan.graph.in_eid)
    return replace(plan, graph=replace(plan.graph, in_eid=in_eid))


def read_another(rng, plan):
    """A node reads another entry of the same type."""
    graph = plan.graph
    if not len(graph.in_eid):
        return plan
    slot = int(rng.integers(len(graph.in_eid)))
    like = np.flatnonzero(graph.type_id == graph.type_id[graph.in_eid[slot]])
    in_eid = graph.in_eid.copy()
    in_eid[slot] = rng.choice(like)
    return replace(plan, graph=replace(graph, in_eid=in_eid))


def add_alias(rng, plan):
    graph = plan.graph
    alias = int(rng.integers(len(graph.outputs))), int(rng.integers(len(graph.inputs)))
    out, into = graph.outputs[alias[0]], graph.input_eids[alias[1]]
    return replace(_with(plan, "sid", out, plan.sid[into]), aliases=(alias,))


MUTATIONS = (
    swap_sids,
    share_sid,
    shift_offset,
    same_offset,
    shorten,
    move_node,
    move_storage,
    change_layout,
    toggle_at_input,
    drop_copy,
    read_another,
    add_alias,
)


def _random_plan(seed: int):
    rng = np.random.default_rng(seed)
    devices = DEVICES[seed % len(DEVICES)]
    formats = {"tt": "bf16"} if "tt:0" in devices and seed % 3 == 0 else None
    graph = random_graph(
        rng, devices, nodes=int(rng.integers(3, 16)), columns=seed % 5 > 0, library=seed % 2 > 0
    )
    return rng, plan(graph, devices, formats=formats)


@pytest.mark.parametrize("first", [0, 20])
def test_plans_run_right_byte_by_byte(first):
    for seed in range(first, first + 20):
        assert fault_of(_random_plan(seed)[1]) is None, f"seed {seed}"


@pytest.mark.parametrize("mutate", MUTATIONS, ids=lambda m: m.__name__)
def test_the_checker_refuses_every_mutation_that_reads_a_wrong_byte(mutate):
    tally = Counter()
    for seed in range(SEEDS):
        rng, planned = _random_plan(seed)
        mutant = mutate(rng, planned)
        fault = fault_of(mutant)
        try:
            check(mutant)
            refused = None
        except CheckError as error:
            refused = error.rule
        assert fault is None or refused, f"seed {seed}: the checker let through: {fault}"
        if refused and fault is None:
            assert refused in CONSERVATIVE, f"seed {seed}: refused by {refused}, and nothing goes wrong"
        tally["killed" if fault else "conservative" if refused else "harmless"] += 1
    print(mutate.__name__, dict(tally))  # pytest -s shows the counts
    assert tally["killed"] + tally["conservative"] >= SEEDS // 5


def test_a_refusal_says_what_to_correct_in_the_file():
    planned = plan(random_graph(np.random.default_rng(3), nodes=12, columns=False), ["cpu:0"])
    small = replace(planned, storage=replace(planned.storage, extent=planned.storage.extent // 2))
    with pytest.raises(
        CheckError, match=r"correct storage_id and metadata\.graph_runtime\.storage"
    ) as caught:
        check(small)
    assert caught.value.rule == "storage"
    assert caught.value.path.startswith("$.attrs.storage_id")
