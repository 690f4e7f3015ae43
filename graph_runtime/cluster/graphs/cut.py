"""A plan over machines -> one part per machine, and the values that cross from one machine to another.

    cut(plan, constants) -> Cut: parts {machine: MachinePart of Stages}, crossings [Crossing], outputs

A ``__copy`` whose source is on another machine becomes an output of the stage that makes the value, and an
input of the stages that read it. The crossing keeps the copy's cause and bytes. Inputs of the graph go from
the caller to each machine that reads them; constants are in the part of each reader. The rest of the plan
(devices, layouts, numerics) becomes columns of each part's graph, which planning a part follows; only memory
is planned anew. Nothing here uses Ray, sockets or files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...base.errors import PlanError
from ...base.machine.devices import Device
from ...ir.graph import Graph, Hints, TensorType
from ...plan.columns import is_copy
from ...plan.types import Plan
from .machine_stages import cut_into_stages

CALLER = ""  # machine name of devices whose names have no node


@dataclass(frozen=True, slots=True, eq=False)
class MachineStage:
    """One program of a part. ``graph``: the stage's graph, with the plan's columns as hints. Each input of
    the graph is in one of three mappings: ``given`` {input: input that the caller sets} and ``constants``
    {input: constant}, both of the whole graph, where their shapes may differ; and ``reads`` {input: value of
    another stage, on any machine}. ``makes``: names of the outputs' values. ``state`` {input: its name in the
    whole graph}: the inputs that runs write, whose values stay on this machine."""

    program: str
    graph: Graph
    given: Mapping[str, str]
    constants: Mapping[str, str]
    reads: Mapping[str, str]
    makes: tuple[str, ...]
    state: Mapping[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class MachinePart:
    """The part of one machine. ``stages``: the stages in the order of running; ``devices``: the devices, as
    that machine names them."""

    machine: str
    devices: tuple[Device, ...]
    stages: tuple[MachineStage, ...]

    @property
    def given(self) -> tuple[str, ...]:
        """Inputs of the whole graph that the caller sends to the machine."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.given.values()))

    @property
    def state(self) -> tuple[str, ...]:
        """Names of the state that stays on the machine between runs."""
        return tuple(name for stage in self.stages for name in stage.state.values())


@dataclass(frozen=True, slots=True)
class Crossing:
    """A value that crosses from one machine to another. ``stage``: the stage that makes the value. ``sent``:
    the value's name in that stage; ``received``: the value's name in the stages that read it, which is the
    name of the plan's copy."""

    sent: str
    received: str
    source: str
    target: str
    stage: int
    type: TensorType
    cause: str

    @property
    def nbytes(self) -> int:
        """Bytes sent in every run."""
        return self.type.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Cut:
    """A plan's parts. ``outputs``: (machine, value) of each output; (None, name of the input) for an output
    that is an input, perhaps in another shape. ``names`` and ``types``: names and types of the outputs."""

    parts: Mapping[str, MachinePart]
    crossings: tuple[Crossing, ...]
    outputs: tuple[tuple[str | None, str], ...]
    names: tuple[str, ...]
    types: tuple[TensorType, ...]

    def report(self) -> list[dict[str, Any]]:
        """One row per crossing value: from, to, bytes, cause."""
        return [
            {
                "value": one.sent,
                "from": one.source or "the caller",
                "to": one.target or "the caller",
                "bytes": one.nbytes,
                "cause": one.cause,
            }
            for one in self.crossings
        ]


def cut(plan: Plan, constants: Collection[str] = ()) -> Cut:
    """Cut a plan by the machines of its devices. ``constants``: graph inputs with known values. Raises
    PlanError for state used by two machines or two stages, and for a copy between machines that changes the
    type."""
    return _Cutter(plan, frozenset(constants)).cut()


@dataclass(slots=True)
class _Draft:
    """A stage that is being made. ``handed``: the stage's entries that others read, in order."""

    machine: str
    nodes: list[int]
    handed: dict[int, str] = field(default_factory=dict)  # eid -> value


class _Cutter:
    def __init__(self, plan: Plan, constants: frozenset[str]):
        self.plan, self.graph, self.constants = plan, plan.graph, constants
        self.where = [plan.devices[did].node for did in plan.did.tolist()]
        self.maker = self.graph.entry_nid.tolist()
        self.reads = [
            self.graph.in_eid[a:b].tolist()
            for a, b in zip(self.graph.in_ptr[:-1].tolist(), self.graph.in_ptr[1:].tolist(), strict=True)
        ]
        self.null = (self.graph.func_id < 0).tolist()
        self.arrives = [False] * self.graph.num_nodes
        for nid in np.flatnonzero(is_copy(self.graph)).tolist():
            if self.where[self.maker[self.reads[nid][0]]] != self.where[nid]:
                self.reads[nid] = [self._behind(self.reads[nid][0])]
                self.arrives[nid] = self.where[self.maker[self.reads[nid][0]]] != self.where[nid]
        self.set_before = [bool(a) or n for a, n in zip(plan.at_input.tolist(), self.null, strict=True)]
        self.written = {int(self.graph.inputs[i]): o for o, i in plan.aliases}
        self.crossings: list[Crossing] = []

    def cut(self) -> Cut:
        runs = [nid for nid in range(self.graph.num_nodes) if not (self.set_before[nid] or self.arrives[nid])]
        self._require_state()
        found = cut_into_stages(
            {nid: self.where[nid] for nid in runs},
            {nid: [n for n in map(self._origin, self.reads[nid]) if not self.null[n]] for nid in runs},
        )
        drafts = [_Draft(machine, nodes) for machine, nodes in found]
        self.stage_of = {nid: at for at, draft in enumerate(drafts) for nid in draft.nodes}
        outputs = [self._output(eid, drafts) for eid in self.graph.outputs.tolist()]
        inputs = {}
        for at in reversed(range(len(drafts))):
            if drafts[at].handed:  # a stage of which no value is read is left out
                inputs[at] = self._inputs(at, drafts[at], drafts)
        stages: dict[str, list[MachineStage]] = {}
        number = {}  # index of each stage within its machine
        for at in sorted(inputs):
            made = stages.setdefault(drafts[at].machine, [])
            number[at] = len(made)
            made.append(self._stage(drafts[at], inputs[at], f"stage{len(made)}"))
        parts = {
            machine: MachinePart(machine, tuple(d.at_home for d in self._devices(machine)), tuple(made))
            for machine, made in stages.items()
        }
        crossings = [replace(one, stage=number[one.stage]) for one in self.crossings]
        crossings.sort(key=lambda one: (one.source, one.stage, one.target, one.received))
        types = tuple(self.graph.entry_type(eid) for eid in self.graph.outputs.tolist())
        return Cut(parts, tuple(crossings), tuple(outputs), self.graph.output_names, types)

    # **************** readers of values ****************

    def _require_state(self) -> None:
        """Raise PlanError if one machine reads state that another machine writes."""
        for nid, reads in enumerate(self.reads):
            for eid in reads:
                at = self.maker[eid]
                if at in self.written and self.where[at] != self.where[nid]:
                    name = self.graph.names[at]
                    reader, there = self.graph.names[nid], self.where[nid] or "the caller"
                    raise PlanError(
                        f"state {name!r} lies on {self.where[at] or 'the caller'} and is read by {reader!r} "
                        f"on {there}: place both on one machine",
                        node=name,
                    )

    def _origin(self, eid: int) -> int:
        """The node that makes a value. For a copy made when inputs are set, or a copy from another machine:
        the node that makes the copied value."""
        nid = self.maker[eid]
        while (self.arrives[nid] or self.set_before[nid]) and not self.null[nid]:
            nid = self.maker[self.reads[nid][0]]
        return nid

    def _behind(self, eid: int) -> int:
        """The source of a value that arrives through several copies. The value is sent from the machine that
        made it."""
        while self.arrives[self.maker[eid]]:
            source = self.reads[self.maker[eid]][0]
            if self.graph.type_id[source] != self.graph.type_id[eid]:
                break
            eid = source
        return eid

    def _value(self, eid: int) -> str:
        nid = self.maker[eid]
        index = eid - int(self.graph.row_ptr[nid])
        return f"{self.graph.names[nid]}:{index}" if index else self.graph.names[nid]

    # **************** edges ****************

    def _output(self, eid: int, drafts: list[_Draft]) -> tuple[str | None, str]:
        origin = self._origin(eid)
        if self.null[origin]:
            return None, self.graph.names[origin]
        if self.arrives[self.maker[eid]]:  # the caller fetches the value from the machine that made it
            eid = self.reads[self.maker[eid]][0]
        draft = drafts[self.stage_of[origin]]
        return draft.machine, draft.handed.setdefault(eid, self._value(eid))

    def _inputs(self, at: int, draft: _Draft, drafts: list[_Draft]) -> dict[int, str]:
        """{entry: value} of the values that a stage reads from other stages. The values become outputs of
        these other stages; a crossing is added for each value of another machine."""
        found: dict[int, str] = {}
        wanted = [eid for nid in draft.nodes for eid in self.reads[nid]]
        for eid in wanted:
            nid = self.maker[eid]
            origin = self._origin(eid)
            if eid in found or self.null[origin] or self.stage_of.get(nid) == at:
                continue
            if not self.arrives[nid]:
                found[eid] = self._value(eid)
                drafts[self.stage_of[nid]].handed.setdefault(eid, found[eid])
                continue
            found[eid] = self.graph.names[nid]
            sent, source = self.reads[nid][0], self.stage_of[origin]
            if self.graph.entry_type(sent) != self.graph.entry_type(eid):
                raise PlanError(
                    f"copy {self.graph.names[nid]!r} changes {self.graph.entry_type(sent)} to "
                    f"{self.graph.entry_type(eid)} on the way to another machine: it must not",
                    node=self.graph.names[nid],
                )
            name = drafts[source].handed.setdefault(sent, self._value(sent))
            self._cross(name, found[eid], source, drafts[source].machine, nid, eid)
        return found

    def _cross(self, sent: str, received: str, source: int, machine: str, nid: int, eid: int) -> None:
        target = self.where[nid]
        if target == machine or any((c.received, c.target) == (received, target) for c in self.crossings):
            return
        cause = self.plan.causes[self.plan.cause_id[nid]]
        type_ = self.graph.entry_type(eid)
        self.crossings.append(Crossing(sent, received, machine, target, source, type_, cause))

    # **************** the graph of a stage ****************

    def _devices(self, machine: str) -> list[Device]:
        return [device for device in self.plan.devices if device.node == machine]

    def _closure(self, draft: _Draft, values: Mapping[int, str]) -> list[int]:
        """The nodes of a stage's graph in the plan's order: its own nodes, its inputs, and the copies made
        when inputs are set. An arriving copy is an input."""
        chosen, todo = set(draft.nodes), list(draft.nodes)
        while todo:
            nid = todo.pop()
            if self.arrives[nid]:
                continue
            for eid in self.reads[nid]:
                if self.maker[eid] not in chosen and eid not in values:
                    chosen.add(self.maker[eid])
                    todo.append(self.maker[eid])
        return sorted(chosen)

    def _stage(self, draft: _Draft, values: dict[int, str], program: str) -> MachineStage:
        graph, closure = self.graph, self._closure(draft, values)
        own = set(draft.nodes)
        fresh = [nid for nid in closure if nid not in own and (self.null[nid] or self.arrives[nid])]
        made = {nid for nid in closure if nid not in fresh}
        names: dict[str, int] = {}  # input of the stage -> entry of the plan's graph
        for eid, value in values.items():
            names[_unused(value, names, graph, made)] = eid
        for nid in fresh:
            names[_unused(graph.names[nid], names, graph, made)] = int(graph.row_ptr[nid])
        stage_graph, place = _subgraph(
            self.graph, self.reads, names, [nid for nid in closure if nid in made], draft.handed
        )
        given: dict[str, str] = {}
        constants: dict[str, str] = {}
        state: dict[str, str] = {}
        for name, eid in names.items():
            if eid in values:
                continue
            origin = graph.names[self._origin(eid)]
            (constants if origin in self.constants else given)[name] = origin
            if self.maker[eid] in self.written:
                state[name] = origin
        aliases = self._aliases(draft, list(names), state, place)
        hints = replace(self._hints(stage_graph, place, draft.machine), aliases=aliases)
        reads = {name: values[eid] for name, eid in names.items() if eid in values}
        makes = tuple(draft.handed.values())
        return MachineStage(program, replace(stage_graph, hints=hints), given, constants, reads, makes, state)

    def _aliases(
        self, draft: _Draft, names: list[str], state: Mapping[str, str], place: np.ndarray
    ) -> tuple[tuple[int, int], ...]:
        """(output, input) pairs of the stage, one for each state that its runs write."""
        handed, found = list(draft.handed), []
        for name, origin in state.items():
            at = self.written[next(int(n) for n in self.graph.inputs if self.graph.names[n] == origin)]
            eid = int(self.graph.outputs[at])
            if eid not in handed:
                raise PlanError(
                    f"state {origin!r} is used by two stages of {draft.machine or 'the caller'}, with a "
                    "wait for another machine between them: place its readers and its writer together",
                    node=origin,
                )
            found.append((handed.index(eid), names.index(name)))
        return tuple(found)

    def _hints(self, graph: Graph, place: np.ndarray, machine: str) -> Hints:
        """The plan's columns for ``graph``. ``place``: the plan's entry of each entry of ``graph``. Devices
        are numbered as in the machine's own list."""
        plan, devices = self.plan, self._devices(machine)
        types = [device.dl_type for device in devices]
        nth = {str(device): types[:at].count(device.dl_type) for at, device in enumerate(devices)}
        on = [plan.devices[did] for did in plan.entry_did()[place].tolist()]
        rows = {layout: at for at, layout in enumerate(dict.fromkeys(plan.layouts))}
        numerics = {}
        for device, words in zip(plan.devices, plan.numerics, strict=bool(plan.numerics)):
            if device.node == machine and words.as_dict():
                numerics[f"{device.kind}:{nth[str(device)]}"] = words.as_dict()
        at_input = plan.at_input[plan.graph.entry_nid[place]]
        return Hints(
            device_type=np.array([device.dl_type for device in on], np.int64),
            device_id=np.array([nth[str(device)] for device in on], np.int64),
            layouts=tuple(rows),
            layout=np.array([rows[plan.layouts[i]] for i in plan.layout_id[place].tolist()], np.int64),
            at_input=tuple(
                nid
                for nid in np.flatnonzero(graph.func_id >= 0).tolist()
                if at_input[int(graph.row_ptr[nid])]
            ),
            numerics=numerics,
            policy=plan.balanced[0].policy if plan.balanced else plan.graph.hints.policy,
        )


def _unused(name: str, names: Mapping[str, int], graph: Graph, made: Collection[int]) -> str:
    """The name; if the stage has it already, the name with a number appended."""
    taken = {graph.names[nid] for nid in made}
    found, count = name, 1
    while found in names or found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def _subgraph(
    graph: Graph,
    reads_of: Sequence[Sequence[int]],
    inputs: Mapping[str, int],
    nodes: Sequence[int],
    handed: Mapping[int, str],
) -> tuple[Graph, np.ndarray]:
    """(a new graph of ``inputs`` followed by ``nodes``, both from ``graph``; for each entry of the new graph,
    its entry in ``graph``). ``reads_of`` [nodes of ``graph``]: the entries that each node reads."""
    count = len(inputs)
    widths = [1] * count + [int(graph.row_ptr[n + 1] - graph.row_ptr[n]) for n in nodes]
    row_ptr = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
    place = list(inputs.values())
    for nid in nodes:
        place += range(int(graph.row_ptr[nid]), int(graph.row_ptr[nid + 1]))
    new = {eid: at for at, eid in enumerate(place)}
    reads = [reads_of[n] for n in nodes]
    in_ptr = np.concatenate([[0] * (count + 1), np.cumsum([len(r) for r in reads])]).astype(np.int64)
    number = {nid: count + at for at, nid in enumerate(nodes)}
    deps = {
        number[nid]: kept
        for nid in nodes
        if (kept := tuple(number[d] for d in graph.control_deps.get(nid, ()) if d in number))
    }
    made = Graph(
        names=(*inputs, *(graph.names[nid] for nid in nodes)),
        func_id=np.concatenate([np.full(count, -1), graph.func_id[list(nodes)]]).astype(np.int32),
        funcs=graph.funcs,
        row_ptr=row_ptr,
        in_ptr=in_ptr,
        in_eid=np.array([new[eid] for row in reads for eid in row], np.int64),
        type_id=graph.type_id[place],
        types=graph.types,
        inputs=np.arange(count, dtype=np.int64),
        outputs=np.array([new[eid] for eid in handed], np.int64),
        control_deps=deps,
    )
    return made, np.array(place, np.int64)
