"""A session's program as a template: the instructions are in lanes, the arguments are offsets in slots."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import numpy as np

from ...binding import core
from ...binding.programs.program import ARG, SLOT, STEP, arg_record
from ...binding.programs.slots import Slots
from ...plan.checker.races import check_races
from ...plan.columns import ragged, starts
from ...plan.queues.lanes import COMPUTE, lanes
from ..queues.template import ROLES, Template
from .bind import Bound

ffi = core.ffi


def assemble(bound: Bound, slots: Slots, copies: Collection[int]) -> Template:
    """The template of one run. ``copies``: graph inputs whose at_input copies belong to the run. Warns if
    storage that the file itself assigns makes a queue wait. Raises CheckError if lanes race."""
    program, plan = bound.program, bound.program.plan
    found = lanes(plan, copies)
    check_races(plan, found)
    for text in found.warnings:
        warnings.warn(f"{bound.holder}: {text}", stacklevel=5)
    instr = np.zeros(plan.graph.num_nodes, np.int64)
    instr[program.nid] = np.arange(program.count)
    instr = instr[found.nid]
    counts = np.diff(program.arg_ptr)[instr]
    rows = ragged(program.arg_ptr[instr], counts)
    eid = program.eid[rows]
    args = bound.args[rows]
    args["addr"] = slots.offset[eid] | bound.tags[eid]
    steps = np.zeros(len(instr), STEP)
    _fill(steps, bound, instr)
    steps["first_arg"], steps["nargs"] = starts(counts)[:-1], counts
    steps["lane"], steps["first_wait"] = found.qid, found.wait_ptr[:-1]
    steps["num_waits"] = np.diff(found.wait_ptr)
    names = _Names(plan.graph, found.nid, steps)
    queues = [(did, role) for did, role in found.queues]
    tensors = None if bound.tensors is None else bound.tensors[rows]
    last = _OutputCopies(bound, slots, found.nid, queues, len(rows), len(found.wait))
    table, needs = _slot_table(bound, slots), bound.program.circular_of(instr)
    return Template(
        np.concatenate([steps, last.steps]),
        np.concatenate([args, last.args]),
        np.concatenate([slots.slot[eid], last.arg_slot]),
        np.concatenate([found.wait, last.waits]),
        [(bound.handles[did], ROLES[role]) for did, role in queues],
        table,
        [needs.get(did, 0) if role == COMPUTE else 0 for did, role in queues],
        tensors,
        name=bound.holder,
        owners=(*bound.pointed_at(), program, names, last),
    )


def _fill(steps: np.ndarray, bound: Bound, instr: np.ndarray) -> None:
    """Fill in the columns of steps that do not depend on the lane of an instruction."""
    program, graph, call = bound.program, bound.program.plan.graph, bound.instrs["call"]
    steps["fn"] = bound.instrs["fn"][instr]
    steps["attrs"], steps["env"] = call["attrs"][instr], call["env"][instr]
    scratch = np.array([k.scratch for k in program.kernels] or [0], np.uint64)
    steps["scratch"] = scratch[program.kid[instr]]
    nid = program.nid[instr]
    steps["num_inputs"] = graph.in_ptr[nid + 1] - graph.in_ptr[nid]


class _Names:
    """Texts for errors: the names of the node and the op of each step. The steps have pointers to these
    texts."""

    def __init__(self, graph: Any, nid: np.ndarray, steps: np.ndarray):
        nodes = [graph.names[n].encode() for n in nid.tolist()]
        ops = [(f.op or f.name).encode() for f in graph.funcs]
        self._text = np.frombuffer(b"\0".join([*nodes, *ops, b""]), np.uint8)
        at = starts(np.array([len(text) + 1 for text in (*nodes, *ops)], np.int64))
        base = np.uint64(self._text.ctypes.data)
        steps["node"] = base + at[: len(nodes)].astype(np.uint64)
        steps["op"] = base + at[len(nodes) + graph.func_id[nid]].astype(np.uint64)


class _OutputCopies:
    """The last steps of a run: copies of kept values that are outputs. With these copies, an output belongs
    to the caller alone. Lanes that the copies need are added to ``queues``."""

    def __init__(
        self,
        bound: Bound,
        slots: Slots,
        nid: np.ndarray,
        queues: list[tuple[int, str]],
        num_args: int,
        num_waits: int,
    ):
        plan, count = bound.program.plan, len(slots.copied)
        self.steps, self.args = np.zeros(count, STEP), np.zeros(2 * count, ARG)
        self.arg_slot = np.zeros(2 * count, np.int32)
        self._envs = np.zeros((count, 2), np.uint64)
        self._label = ffi.new("char[]", b"copy of an output that is kept")
        self._shapes: list[Any] = []
        waits: list[Any] = []
        for at, (output, eid) in enumerate(slots.copied.items()):
            queue = int(plan.entry_did()[eid]), COMPUTE
            if queue not in queues:
                queues.append(queue)
            made = np.flatnonzero(nid == plan.graph.maker(slots.value[eid]))  # if by a copy of this run
            self._add_args(at, bound, slots, eid, output)
            self._envs[at] = core.address_of(bound.handles[queue[0]].env)
            step = self.steps[at : at + 1]
            step["fn"], step["attrs"] = core.copy_kernel(), self._envs[at].ctypes.data
            step["env"], step["op"] = self._envs[at, 0], core.address_of(self._label)
            step["first_arg"], step["nargs"], step["num_inputs"] = num_args + 2 * at, 2, 1
            step["lane"], step["first_wait"] = queues.index(queue), num_waits + len(waits)
            step["num_waits"] = len(made)
            waits += made.tolist()
        self.waits = np.array(waits, np.int64)

    def _add_args(self, at: int, bound: Bound, slots: Slots, eid: int, output: int) -> None:
        """Add the arguments of copy ``at``: the source is entry ``eid`` in its slot, the target is the
        output's slot."""
        plan, both = bound.program.plan, slice(2 * at, 2 * at + 2)
        type_ = plan.graph.entry_type(eid)
        self._shapes.append(np.array(type_.shape or (0,), np.int64))
        self.args[both] = arg_record(type_, plan.layout(eid), type_.shape)
        self.args["shape"][both] = self._shapes[-1].ctypes.data
        self.args["addr"][both] = bound.tags[eid]
        self.arg_slot[both] = slots.slot[eid], slots.outputs[output]


def _slot_table(bound: Bound, slots: Slots) -> np.ndarray:
    """SLOT [slots]. When a run is over, the slots of outputs are kept for the caller."""
    table = np.zeros(slots.count, SLOT)
    devices = np.array([core.address_of(handle.pointer) for handle in bound.handles], np.uint64)
    table["device"], table["memory"] = devices[slots.did], slots.memory
    table["extent"] = np.maximum(slots.extent, 1)
    table["keep"][[s for o, s in enumerate(slots.outputs) if o not in slots.into]] = 1
    return table
