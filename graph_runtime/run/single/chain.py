"""LaunchChain: consecutive calls as one submission, which C queues as a whole."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ...base.errors import GraphRuntimeError
from ...binding import core
from ...binding.core import ffi, lib
from ...binding.programs.program import SLOT, STEP
from ..queues.buffer import Buffer
from ..queues.template import COMPUTE, Template
from ..tensors.arrays import allocate
from ..tensors.lineage import Maker, watch
from ..tensors.spec import TensorSpec, spec_args
from ..tensors.tensor import Tensor
from .apply import Refused, apply
from .call import CachedCall
from .launch import LARGE, Moved, alias

_submit_call, _addr = lib.gr_submit_call, lib.gr_buffer_addr


class ChainStep(NamedTuple):
    """A step of a chain. ``call``: the call to launch; None: the result is memory of undefined values.
    ``inputs``: numbers of the call's inputs, where a number from 0 means an input of the chain, and -1 - n
    means the result of step n. ``output``: spec of the result."""

    call: CachedCall | None
    inputs: tuple[int, ...]
    output: TensorSpec


class _Value(NamedTuple):
    """Place of a chain's value. The value is in buffer number ``taken`` of the buffers that a run takes, or
    in the buffer of input number ``given``. ``spec``: spec as which the value is shown; None: the spec of the
    input. ``step``: number of the step that makes the value; ``written``: whether making it may fail."""

    taken: int
    given: int
    spec: TensorSpec | None
    step: int
    written: bool


class LaunchChain:
    """``launch(inputs)`` queues all ``steps`` at once on tensors of the specs ``inputs``, and returns the
    tensors of ``values`` (numbers as in a ChainStep), which are ready later. Intermediate values live as long
    as the run, and share memory if they can. A failed value is made again step by step. ``is_one``: whether
    the chain has only one value, which is the result of a step. C runs the template ``pointer`` on ``slots``
    buffers: the inputs, ``taken`` outputs, intermediate values."""

    __slots__ = (
        "_blocks",
        "_large",
        "_maker",
        "_order",
        "_template",
        "_values",
        "inputs",
        "is_one",
        "pointer",
        "slots",
        "steps",
        "taken",
    )

    inputs: tuple[TensorSpec, ...]
    is_one: bool
    pointer: Any
    slots: int
    steps: tuple[ChainStep, ...]
    taken: int

    def __init__(
        self,
        steps: Sequence[ChainStep],
        inputs: Sequence[TensorSpec],
        values: Sequence[int],
        name: str = "run",
    ):
        self.steps, self.inputs = tuple(steps), tuple(inputs)
        roots = _roots(self.steps)
        kept = list(dict.fromkeys(root for root in (_root(at, roots) for at in values) if root < 0))
        slot_of, table = _slots(self.steps, roots, len(inputs), kept)
        self.slots, self.taken = len(table), len(kept)
        self._template = _template(self.steps, slot_of, table, name)
        self.pointer = self._template.pointer
        made = [self.steps[-1 - root].output for root in kept]
        self._blocks = [(spec.handle, spec.memory, spec.extent) for spec in made]
        self._values = [self._value(at, _root(at, roots), kept) for at in values]
        calls = [step for step in self.steps if step.call is not None]
        specs = (*inputs, *(step.output for step in calls))
        self._large = bool(calls) and sum(spec.type.nbytes for spec in specs) >= LARGE
        self.is_one = len(values) == 1 and self._values[0].written
        self._maker: Maker | None = _Part(self, self._values[0].step) if self.is_one else None
        self._order: tuple[int, ...] | None = None
        if self.is_one and len(self.steps) == 1:
            (step,) = calls
            self._maker = step.call
            self._order = step.inputs if step.inputs != tuple(range(len(inputs))) else None

    def _value(self, at: int, root: int, kept: Sequence[int]) -> _Value:
        spec = self.steps[-1 - at].output if at < 0 else None
        if root >= 0:
            return _Value(-1, root, spec, -1 - at, False)
        return _Value(kept.index(root), -1, spec, -1 - at, self.steps[-1 - root].call is not None)

    def launch(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Queue the steps. Raises Moved, AttributeError or TypeError for a tensor that is elsewhere or gone,
        GraphRuntimeError if memory is short or nothing can be queued; after each of these errors nothing was
        queued."""
        buffers = ffi.new("gr_buffer *[]", self.slots)
        held = []
        for at, (tensor, spec) in enumerate(zip(inputs, self.inputs, strict=True)):
            held.append(tensor._owner.pointer)
            # the spec is read after the buffer, as in launch_pair
            if tensor._spec is not spec:
                raise Moved
            buffers[at] = held[-1]
        if _submit_call(self.pointer, buffers):
            raise GraphRuntimeError(core.last_error())
        first = len(self.inputs)
        return self.adopt(buffers[first : first + self.taken], tuple(inputs))

    def adopt(self, pointers: Sequence[Any], inputs: tuple[Tensor, ...]) -> list[Tensor]:
        """The values of a submission of these inputs, which returned the ``gr_buffer *`` ``pointers``."""
        if self.is_one:
            return [self.adopt_one(pointers[0], inputs)]
        buffers = [Buffer(*block, pointer) for block, pointer in zip(self._blocks, pointers, strict=True)]
        again: list[Tensor] = []
        made, large = [], self._large
        for taken, given, spec, step, written in self._values:
            if taken < 0:
                made.append(inputs[given] if spec is None else alias(inputs[given], spec))
                continue
            assert spec is not None, "what is taken is made by a step"
            buffer = buffers[taken]
            tensor = Tensor(spec.device, spec.handle, spec.type, spec.layout, _addr(buffer.pointer), buffer)
            tensor._spec = spec
            if written:
                tensor._recipe = _Part(self, step, again), inputs
                watch(tensor, large)
                large = False
            made.append(tensor)
        return made

    def adopt_one(self, pointer: Any, inputs: tuple[Tensor, ...]) -> Tensor:
        """The value of a submission of a chain that ``is_one``, as in adopt."""
        to: Any = self._values[0].spec
        buffer = Buffer(to.handle, to.memory, to.extent, pointer)
        made = Tensor(to.device, to.handle, to.type, to.layout, _addr(pointer), buffer)
        order = self._order
        made._spec = to
        made._recipe = self._maker, inputs if order is None else tuple([inputs[at] for at in order])
        watch(made, self._large)
        return made

    def one_by_one(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """The results of the steps, each launched by itself. Raises the error for which a step's call was
        refused."""
        results: list[Tensor] = []
        for call, order, spec in self.steps:
            if call is None:
                results.append(allocate(spec.type, spec.device, spec.layout))
                continue
            given = [inputs[at] if at >= 0 else results[-1 - at] for at in order]
            try:
                results.append(apply(call.op.name, call.given, *given))
            except Refused as refused:
                raise refused.error or GraphRuntimeError(refused.reason) from refused
        return results


class _Part:
    """The Maker of the result of ``step``, for a chain whose run failed. ``again``: list of the results of
    all steps, which all values of the run share; it is filled when the first failed value is made again."""

    __slots__ = ("again", "chain", "step")

    def __init__(self, chain: LaunchChain, step: int, again: list[Tensor] | None = None):
        self.chain, self.step, self.again = chain, step, again

    def make_again(self, tensor: Tensor, inputs: tuple[Tensor, ...]) -> Tensor:
        made = self.again or self.chain.one_by_one(inputs)
        if self.again is not None:
            self.again[:] = made
        return made[self.step].wait()


# **************** slots and steps of C ****************


def _roots(steps: Sequence[ChainStep]) -> list[int]:
    """For each step the number of the value in whose memory the step's result lies: the result's own number,
    or the number of a value that the result shows in another shape."""
    roots: list[int] = []
    for number, (call, inputs, _) in enumerate(steps):
        shows = call is not None and call.alias
        roots.append(_root(inputs[0], roots) if shows else -1 - number)
    return roots


def _root(at: int, roots: Sequence[int]) -> int:
    return at if at >= 0 else roots[-1 - at]


def _slots(
    steps: Sequence[ChainStep], roots: Sequence[int], inputs: int, kept: Sequence[int]
) -> tuple[dict[int, int], np.ndarray]:
    """({number of a value: its slot}, SLOT [slots]). When no later step reads a value, the next value of the
    same size gets its slot."""
    slot_of = {at: at for at in range(inputs)} | {root: inputs + i for i, root in enumerate(kept)}
    rows = [(0, 0, 0, 0)] * inputs + [_row(steps[-1 - root].output, 1) for root in kept]
    last = {_root(at, roots): number for number, step in enumerate(steps) for at in step.inputs}
    free: defaultdict[Any, list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        own = -1 - number
        if roots[number] == own and own not in slot_of:
            row = _row(step.output, 0)
            if free[row]:
                slot_of[own] = free[row].pop()
            else:
                slot_of[own] = len(rows)
                rows.append(row)
        for root in {_root(at, roots) for at in (*step.inputs, own)}:
            if slot_of[root] >= inputs + len(kept) and last.get(root, number) == number:
                free[rows[slot_of[root]]].append(slot_of[root])
    return {-1 - n: slot_of[root] for n, root in enumerate(roots)} | slot_of, np.array(rows, SLOT)


def _row(spec: TensorSpec, keep: int) -> tuple[int, int, int, int]:
    return core.address_of(spec.handle.pointer), spec.memory, keep, spec.extent


def _template(steps: Sequence[ChainStep], slot_of: dict[int, int], slots: np.ndarray, name: str) -> Template:
    """The template of a chain: one lane with all steps that have a kernel, or no lane if memory is only
    taken."""
    run = [(step.call, step, -1 - number) for number, step in enumerate(steps)]
    calls = [(call, step, at) for call, step, at in run if call is not None and not call.alias]
    specs = [spec for call, step, _ in calls for spec in (*call.inputs, step.output)]
    args, shapes = spec_args(specs)
    args["shape"] += np.uint64(shapes.ctypes.data)
    table, circular = np.zeros(len(calls), STEP), 0
    arg_slot: list[int] = []
    owners: list[Any] = [shapes]
    for row, (call, step, at) in zip(table, calls, strict=True):
        assert call.launcher is not None, "what is no alias has a kernel"
        kernel, handle, first = call.launcher.kernel, step.output.handle, len(arg_slot)
        words, label = np.array(kernel.words or (0,), np.int64), ffi.new("char[]", kernel.name.encode())
        arg_slot += [slot_of[value] for value in (*step.inputs, at)]
        row["fn"], row["attrs"], row["op"] = kernel.fn, words.ctypes.data, core.address_of(label)
        row["env"], row["scratch"] = core.address_of(handle.env), kernel.scratch
        row["first_arg"], row["nargs"], row["num_inputs"] = first, len(step.inputs) + 1, len(step.inputs)
        circular = max(circular, call.launcher.circular)
        owners += [words, label, kernel]
    lanes = [(steps[0].output.handle, COMPUTE)] if calls else []
    waits, needs = np.zeros(0, np.int64), [circular] if calls else []
    return Template(table, args, np.array(arg_slot), waits, lanes, slots, needs, name=name, owners=owners)
