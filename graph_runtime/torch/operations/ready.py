"""Ready: how calls of one signature are repeated (repeats.py), derived from the notes of the first such
call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ...base.machine.devices import Device
from ...binding.core import ffi
from ...run.single import verification
from ...run.single.call import find
from ...run.single.chain import ChainStep, LaunchChain
from ...run.tensors.tensor import Tensor
from .. import clock
from ..counters import count_all
from ..recording import Notes
from ..store import Form, Store, form_of, holder_of, number_of, storage_of
from .signatures import BASE, Signature


class NewValue(NamedTuple):
    """The new value of a tensor that a call makes or writes.

    ``form``: the tensor's description for torch.
    ``strides``: the tensor's strides; None if it is row-major.
    ``bound``: largest magnitude of its integers.
    ``source``: number of the given tensor whose values and bound it has; -1 if the values are new.
    """

    form: Form
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    bound: int | None
    source: int

    def bound_now(self, stores: Sequence[Store], given: Sequence[Any]) -> int | None:
        """The bound of the value in a call with these tensors; None if another thread has meanwhile written
        the ``source``."""
        if self.source < 0:
            return self.bound
        store = stores[self.source]
        return store.bound if store.base is given[self.source] else None

    def store(
        self, value: Tensor, device: Device, index: int, stores: Sequence[Store], given: Sequence[Any]
    ) -> Store:
        made = Store(device, index, self.form.nbytes, value, self.form.dtype)
        made.bound = self.bound if self.source < 0 else self.bound_now(stores, given)
        return made


class Kept(NamedTuple):
    """A view that a call makes and that a storage keeps. ``at``: number of the given tensor whose storage
    keeps the view; ``key``: key under which the storage keeps it."""

    at: int
    key: Any


class Ready(NamedTuple):
    """How calls of a signature are repeated.

    ``chain``: the launches, which compute the ``new`` results, the new value of the ``written`` argument
    (None if no argument is written), and the ``kept`` views.
    ``order``: inputs of the chain, each as the number of a given tensor or as a constant.
    ``device``: where the chain runs; ``ordinal``: the device's number in torch.
    ``places``: for each result of the call its number in ``new``, -1 for the written argument, or None for a
    result of None.
    ``several``: the class of several results (tuple or list), None for a single result.
    ``counts``: events to count.
    ``ticks``: (op, attributes, specs) to add to the clock.
    """

    chain: LaunchChain
    order: tuple[Any, ...]
    device: Device
    ordinal: int
    new: tuple[NewValue, ...]
    written: tuple[int, NewValue] | None
    kept: tuple[Kept, ...]
    places: tuple[int | None, ...]
    several: Any
    counts: tuple[tuple[str, int], ...]
    ticks: tuple[tuple[str, Any, Any], ...]

    def again(self, call: Signature) -> Any:
        """The results of a call of this signature. Raises what LaunchChain.launch raises."""
        given = call.given
        values = self.chain.launch([given[at] if at.__class__ is int else at for at in self.order])
        stores = self._settled(values, call.stores, given)
        new = [result.form.tensor(store) for result, store in zip(self.new, stores, strict=True)]
        made = [None if at is None else call.written if at < 0 else new[at] for at in self.places]
        return made[0] if self.several is None else self.several(made)

    def _settled(self, values: list[Tensor], stores: Sequence[Store], given: Sequence[Any]) -> list[Store]:
        """Stores of the new results, made of the chain's ``values``. Also keeps the views, and sets the
        values of the written argument."""
        count_all(self.counts)
        if clock.running.on:
            self._tick()
        made = []
        for result, value in zip(self.new, values, strict=False):
            made.append(result.store(value, self.device, self.ordinal, stores, given))
        for (at, key), image in zip(self.kept, values[len(values) - len(self.kept) :], strict=True):
            if stores[at].base is given[at]:  # no other thread has written it meanwhile
                stores[at].keep(key, image)
        if self.written is not None:
            at, result = self.written
            stores[at].settle(values[len(made)], result.form.dtype, result.bound_now(stores, given))
        return made

    def _tick(self) -> None:
        for op, attrs, specs in self.ticks:
            clock.launched(self.ordinal, op, attrs, specs)

    def told(self) -> tuple[Any, ...]:
        """The parameters of repeated_calls.cpp: (function that adopts a submission, address of the chain's
        template, number of its buffers, number of buffers that the function takes, inputs, new results,
        ``places``). An input is (number of a given tensor or -1, constant, spec), a new result (device,
        DLPack's code, DLPack's bits, shape, strides)."""
        chain, index = self.chain, self.ordinal
        inputs = tuple(
            (at, None, spec) if at.__class__ is int else (-1, at, spec)
            for at, spec in zip(self.order, chain.inputs, strict=True)
        )
        new = tuple((index, x.form.code, x.form.bits, x.shape, x.strides or ()) for x in self.new)
        address = int(ffi.cast("uintptr_t", chain.pointer))
        return self._taken(), address, chain.slots, chain.taken, inputs, new, self.places

    def _taken(self) -> Callable[..., list[Store]]:
        """The function that adopts a submission. Its arguments are the submission's buffers, the inputs, the
        Stores of the given tensors, and these tensors; it returns Stores of the new results."""
        chain, settled = self.chain, self._settled
        if not chain.is_one or self.kept:
            return lambda pointers, inputs, stores, given: settled(
                chain.adopt(pointers, inputs), stores, given
            )
        adopt, counts, tick = chain.adopt_one, self.counts, self._tick
        device, index = self.device, self.ordinal
        at, result = self.written or (-1, self.new[0])
        nbytes, dtype, bound = result.form.nbytes, result.form.dtype, result.bound

        def one(pointers: Any, inputs: Any, stores: Any, given: Any) -> list[Store]:
            value = adopt(pointers[0], inputs)
            count_all(counts)
            if clock.running.on:
                tick()
            if at >= 0:
                stores[at].settle(value, dtype, bound)
                return []
            made = Store(device, index, nbytes, value, dtype)
            made.bound = bound
            return [made]

        return one


# **************** from notes ****************


def ready_of(call: Signature, notes: Notes, made: Any) -> Ready:
    """How a call that returned ``made`` is repeated, by the notes of the call. Raises LookupError if it
    cannot be repeated."""
    return _Noted(call, notes).ready(made)


class _Noted:
    def __init__(self, call: Signature, notes: Notes):
        self.call, self.notes = call, notes
        self.places = {id(tensor): number for number, tensor in enumerate(call.given)}
        self.constants = {id(tensor): tensor for tensor in notes.constants}
        self.makers = {id(step[3]): number for number, step in enumerate(notes.steps)}

    def ready(self, made: Any) -> Ready:
        call = self.call
        several = type(made) if isinstance(made, (tuple, list)) else None
        stores: list[Store] = []
        new: list[NewValue] = []
        places: list[int | None] = []
        for one in made if several else [made]:
            if one is None or one is call.written:
                places.append(None if one is None else -1)
                continue
            places.append(len(new))
            stores.append(self._store(one, stores))
            new.append(
                self._result(stores[-1], tuple(one.shape), None if one.is_contiguous() else one.stride())
            )
        written = None
        if call.target is not None:
            stores.append(call.stores[call.target])
            written = call.target, self._result(stores[-1], (), None)
        values = [_base(store) for store in stores]
        kept = []
        for store, key, image in self.notes.kept:
            at = next((n for n, s in enumerate(call.stores) if s is store and call.taken[n][0] == BASE), None)
            if at is not None and self._is_known(image) and at != call.target:
                kept.append(Kept(at, key))
                values.append(image)
        steps, inputs, numbers = self._chain(values)
        if not steps and not call.given:
            raise LookupError
        device = (steps[0].output if steps else call.taken[0][1]).device
        chain = LaunchChain(steps, [self._spec(x) for x in inputs], numbers, _holder(steps))
        order = tuple(self.places.get(id(x), x) for x in inputs)
        ticks = tuple(
            (step.call.op.name, step.call.given, step.call.inputs) for step in steps if step.call is not None
        )
        counts = tuple(self.notes.counts.items())
        found = tuple(new), written, tuple(kept), tuple(places), several
        return Ready(chain, order, device, number_of(device), *found, counts, ticks)

    def _store(self, made: Any, others: Sequence[Store]) -> Store:
        """The Store of a new result, which must show all of the Store. Raises LookupError for any other
        result."""
        if not isinstance(made, torch.Tensor) or made.is_cpu or made.storage_offset() or not made.numel():
            raise LookupError
        store = storage_of(made.data_ptr())
        if store is None or any(store is other for other in (*self.call.stores, *others)):
            raise LookupError
        if store.dtype is not made.dtype or store.nbytes != made.nbytes:
            raise LookupError
        return store

    def _result(self, store: Store, shape: tuple[int, ...], strides: tuple[int, ...] | None) -> NewValue:
        source = self.places.get(id(store.base), -1)
        return NewValue(form_of(store.dtype, shape, strides), shape, strides, store.bound, source)

    def _is_known(self, tensor: Tensor) -> bool:
        return id(tensor) in self.makers or id(tensor) in self.places or id(tensor) in self.constants

    def _spec(self, tensor: Tensor) -> Any:
        at = self.places.get(id(tensor))
        return tensor.spec if at is None else self.call.taken[at][1]

    def _chain(self, values: Sequence[Tensor]) -> tuple[list[ChainStep], list[Tensor], list[int]]:
        """(steps, inputs, numbers): the steps that compute ``values``, the inputs of these steps, and for
        each value its number among inputs (0 and up) or steps (-1 and down)."""
        needed: set[int] = set()
        todo = list(values)
        while todo:
            number = self.makers.get(id(todo.pop()), -1)
            if number >= 0 and number not in needed:
                needed.add(number)
                todo += self.notes.steps[number][2]
        inputs: dict[int, Tensor] = {}
        numbers: dict[int, int] = {}
        steps: list[ChainStep] = []

        def number_in(tensor: Tensor) -> int:
            made = numbers.get(id(tensor))
            if made is not None:
                return made
            if id(tensor) not in self.places and id(tensor) not in self.constants:
                raise LookupError
            inputs[id(tensor)] = tensor
            return numbers.setdefault(id(tensor), len(inputs) - 1)

        specs: dict[int, Any] = {}
        for at in sorted(needed):
            op, attrs, given, result = self.notes.steps[at]
            order = tuple([number_in(x) for x in given])
            if op is None:
                step = ChainStep(None, (), result.spec)
            else:
                taken = tuple([specs.get(id(x)) or self._spec(x) for x in given])
                call = find(op, attrs, taken)
                if (call.launcher is None and not call.alias) or (
                    verification.verifying() and not call.verified
                ):
                    raise LookupError
                step = ChainStep(call, order, call.output)
            specs[id(result)] = step.output
            numbers[id(result)] = -1 - len(steps)
            steps.append(step)
        found = [number_in(x) for x in values]
        return steps, list(inputs.values()), found


def _base(store: Store) -> Tensor:
    if store.base is None:
        raise LookupError
    return store.base


def _holder(steps: Sequence[ChainStep]) -> str:
    """The name of a chain's memory in out-of-memory errors."""
    only = [step.output.type for step in steps if step.call is None]
    if not only or len(only) < len(steps):
        return "run"
    return holder_of(only[0].dtype, only[0].shape)
