"""Operations on tt tensors, one at a time: by a rule on the device, else on the host.

torch calls ``Operation`` for each overload that has a rule, and writes.fallback for all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..base.errors import GraphRuntimeError
from ..binding.core import ffi
from ..run.single import verification
from ..run.single.call import find
from ..run.single.launch import alias
from ..run.tensors.tensor import Tensor
from . import clock, rules
from .calls import prepare, run
from .counters import Unsupported, count
from .direct import Eager
from .host import on_host
from .kinds import kind_of, torch_dtype
from .magnitudes import MOST
from .narrow import in_32_bits
from .native_calls import tell
from .store import Form, Store, collect, form_of, number_of, storage_of, whole, wrap
from .wide import widened

__all__ = ["Operation"]

_MOST = 4096  # signatures that are kept
_MOST_STEPS = 24  # launches of a call that are remembered
_PLAIN = (int, float, bool, str, type(None), torch.dtype)


class Ready(NamedTuple):
    """How a call is done again: ``launch`` of its ``call``, given its tensors at ``order``, where what is no
    number is a constant; ``form`` of the result."""

    call: Any
    launch: Any
    order: tuple[Any, ...]
    form: Form

    def told(self) -> tuple[Any, ...]:
        """What repeated_calls.cpp needs to do it: (what takes over a launch, the template, (number among the
        tensors or -1, constant, spec) of each input, device, DLPack's dtype, sizes)."""
        launcher, form = self.call.launcher, self.form
        adopt, name, given = launcher.adopt, self.call.op.name, self.call.given
        device, nbytes, dtype = launcher.output.device, form.nbytes, form.dtype
        index = number_of(device)

        def taken(pointer: Any, inputs: tuple[Tensor, ...], target: Store | None) -> Store:
            """What was launched becomes the values of ``target``, or those of a new Store."""
            made = adopt(pointer, inputs)
            count("device")
            if clock.running.on:
                clock.launched(index, name, given, inputs)
            if target is None:
                return Store(device, index, nbytes, made, dtype)
            target.settle(made, target.dtype)
            return target

        inputs = tuple(
            (at, None, spec) if at.__class__ is int else (-1, at, spec)
            for at, spec in zip(self.order, launcher.inputs, strict=True)
        )
        address = int(ffi.cast("uintptr_t", launcher.pointer))
        return taken, address, inputs, index, form.code, form.bits, launcher.output.type.shape


class Launches(NamedTuple):
    """How a call of several launches is done again: ``steps`` (its call, launch, None of what only shows
    memory as another shape, inputs: the number of a tensor that is given, -1 - that of a step, or a
    constant), and ``made``, the results as such numbers, of ``form``: of one, or of several."""

    steps: tuple[tuple[Any, Any, tuple[Any, ...]], ...]
    made: Any
    form: Any

    def follow(self, given: list[Any], index: int) -> Any:
        """What the last call made, on other tensors of the same specs."""
        results: list[Tensor] = []
        for call, launch, order in self.steps:
            inputs = [
                at if at.__class__ is not int else given[at] if at >= 0 else results[-1 - at] for at in order
            ]
            results.append(alias(inputs[0], call.output) if launch is None else launch(*inputs))
            if clock.running.on:
                clock.launched(index, call.op.name, call.given, inputs)
        if self.made.__class__ is int:
            return results[-1 - self.made]
        return tuple(None if at is None else results[-1 - at] for at in self.made)

    def of_torch(self, made: Any, index: int) -> Any:
        """The results as torch's."""
        if self.made.__class__ is int:
            return self.form.of(made, index)
        return tuple(
            None if one is None else form.of(one, index) for form, one in zip(self.form, made, strict=True)
        )


# **************** one operation ****************


class Operation:
    """A kernel of torch's for one overload: ``op`` its OpOverload, ``rule`` how the device does it.
    Signatures that came to one launch are remembered with its launcher."""

    name: Any
    op: Any
    rule_name: str
    written: str | None

    def __init__(self, op: Any, rule: rules.Rule):
        self.op, self.rule, self.name = op, rule, op._schema.name.removeprefix("aten::")
        self.rule_name = _rule_name(self.name)
        self.written = _written(op._schema)
        self.ready: dict[Any, Ready | Launches] = {}
        verification.on_change(self.ready.clear)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            made, ready, index = self.again(args, kwargs)
            one = isinstance(ready, Ready)
            result = ready.form.of(made, index) if isinstance(ready, Ready) else ready.of_torch(made, index)
        except (LookupError, TypeError, AttributeError, GraphRuntimeError):
            pass  # new, a view, moved, or no room: the slow way knows
        else:
            if one:
                tell(self, ready)
            return result
        try:
            return on_device(self, args, kwargs)
        except Unsupported as refused:
            made = in_32_bits(self, args, kwargs)
            return on_host(self.op, args, kwargs, refused.args[0]) if made is None else made

    def again(
        self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None
    ) -> tuple[Any, Ready | Launches, int]:
        """(result, how it was done, number of the device) of a call whose signature came to launches alone
        before. Raises LookupError where it did not."""
        collect()
        key: list[Any] = []
        given: list[Any] = []
        store: Store | None = None
        for arg in args:
            if isinstance(arg, torch.Tensor):
                found = whole(arg)
                if found is None:
                    store = _viewed(arg, key, given, store)
                    continue
                store = found
                base = store.base
                given.append(base)
                key += (base._spec, store.dtype)  # type: ignore[union-attr]  # that it has one is looked at
            elif isinstance(arg, (list, tuple)) and arg and isinstance(arg[0], torch.Tensor):
                key.append(len(arg))
                for one in arg:
                    store = _viewed(one, key, given, store)
            else:
                key += _plain(arg)
        if kwargs:
            key += _named(kwargs)
        if len(given) > 1:
            key += _shared(given)
        ready = self.ready[tuple(key)]
        assert store is not None  # what is remembered has a tensor
        if isinstance(ready, Launches):
            made = ready.follow(given, store.index)
            count("device")
            return made, ready, store.index
        call, launch, order, _ = ready
        inputs = [given[at] if at.__class__ is int else at for at in order]
        made = launch(*inputs)
        count("device")
        if clock.running.on:
            clock.launched(store.index, call.op.name, call.given, inputs)
        return made, ready, store.index

    def remember(
        self, args: tuple[Any, ...], emitter: Eager, made: Any, kwargs: dict[str, Any] | None = None
    ) -> None:
        """Keep the launchers of a call that was launches alone, on its tensors and on constants."""
        if not emitter.calls or len(emitter.calls) > _MOST_STEPS or self.rule.wide:
            return
        key: list[Any] = []
        bases: list[Tensor] = []
        by_python = False  # C++ has no signature of lists and views
        try:
            for arg in args:
                if isinstance(arg, torch.Tensor):
                    by_python |= not arg.is_cpu and whole(arg) is None
                    _viewed(arg, key, bases, None)
                elif isinstance(arg, (list, tuple)) and arg and isinstance(arg[0], torch.Tensor):
                    by_python = True
                    key.append(len(arg))
                    for one in arg:
                        _viewed(one, key, bases, None)
                else:
                    key += _plain(arg)
            if kwargs:
                key += _named(kwargs)
        except (LookupError, GraphRuntimeError):
            return
        key += _shared(bases)
        ready = _steps_of(emitter, {id(base): at for at, base in enumerate(bases)}, made, by_python)
        if ready is None or not bases:
            return
        if len(self.ready) >= _MOST:
            self.ready.clear()
        self.ready[tuple(key)] = ready


def _viewed(arg: torch.Tensor, key: list[Any], given: list[Any], before: Store | None) -> Store | None:
    """Add to a signature a tensor of a device, as it is stored or as one of its views is kept, or a number;
    the tensor's Store, or the one ``before``. Raises LookupError for others."""
    if arg.is_cpu:
        key += _number(arg)
        return before
    store = whole(arg)
    made: Tensor | None
    if store is not None:
        made = store.base
    else:
        if arg.is_conj() or arg.is_neg():
            raise LookupError
        offset = arg.storage_offset()
        store = storage_of(arg.data_ptr() - offset * arg.element_size())
        if store is None or store.dtype is not arg.dtype:
            raise LookupError
        made = store.images.get((arg.dtype, arg.shape, arg.stride(), offset))
        if made is None and not offset and arg.is_contiguous() and arg.nbytes == store.nbytes:
            made = store.images.get(tuple(arg.shape))
    if made is None or kind_of(store.dtype).raw:
        raise LookupError
    given.append(made)
    key += (made.spec, store.dtype)
    return store


def _number(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What stands for a CPU tensor in a signature. Raises LookupError for one of dimensions, or of tt."""
    if tensor.dim() or not tensor.is_cpu:
        raise LookupError
    return tensor.dtype, *_plain(tensor.item())


def _steps_of(emitter: Eager, places: dict[int, int], made: Any, by_python: bool) -> Ready | Launches | None:
    """What an emitter did, to be done again with other tensors at ``places`` {id: number}; None where it is
    more than launches on them and on constants. ``by_python``: never by C++."""
    known = {id(x): x for x in emitter.constants} | places
    steps: list[tuple[Any, Any, tuple[Any, ...]]] = []
    for number, (op, attrs, inputs, result) in enumerate(emitter.calls):
        call = None if result is None else find(op, attrs, tuple([x.spec for x in inputs]))
        order = tuple(known.get(id(x)) for x in inputs)
        if (
            call is None
            or any(at is None for at in order)
            or (verification.verifying() and not call.verified)
        ):
            return None
        if call.launcher is None and not call.alias:
            return None
        launcher = call.launcher
        steps.append((call, None if launcher is None else launcher.launch_of(len(order)), order))
        known[id(result)] = -1 - number
    several = made if isinstance(made, (tuple, list)) else (made,)
    found = tuple(None if x is None else known.get(id(x)) for x in several)
    for x, at in zip(several, found, strict=True):
        if x is not None and (at.__class__ is not int or at >= 0):
            return None
    forms = [None if x is None else form_of(torch_dtype(x.dtype), x.type.shape) for x in several]
    if isinstance(made, (tuple, list)):
        return Launches(tuple(steps), found, tuple(forms))
    if len(steps) == 1 and steps[0][1] is not None and not by_python:
        return Ready(*steps[0], forms[0])  # type: ignore[arg-type]  # of one result
    return Launches(tuple(steps), found[0], forms[0])


def _named(kwargs: dict[str, Any]) -> list[Any]:
    """What stands for arguments by name, in their order. Raises LookupError for a tensor among them."""
    key: list[Any] = []
    for name, arg in kwargs.items():
        if isinstance(arg, torch.Tensor):
            raise LookupError
        key += (name, *_plain(arg))
    return key


def _plain(arg: Any) -> tuple[Any, Any]:
    """What stands for a number, a flag, a name, or numbers: zeros of both signs are equal, and not the same.
    Raises LookupError for anything else."""
    if not isinstance(arg, _PLAIN):
        if not isinstance(arg, (list, tuple)) or not all(type(x) is int for x in arg):
            raise LookupError
        return list, tuple(arg)
    return arg.__class__, "-0.0" if arg == 0 and arg.__class__ is float and math.copysign(1, arg) < 0 else arg


def _shared(tensors: Sequence[Tensor]) -> tuple[Any, ...]:
    """What a signature says of tensors that are given twice: which came from where is told by them alone, so
    x * x is another call than x * y."""
    if len(tensors) < 2 or (len(tensors) == 2 and tensors[0] is not tensors[1]):  # mostly
        return ()
    seen = [id(tensor) for tensor in tensors]
    return () if len(set(seen)) == len(seen) else tuple(map(seen.index, seen))


def _written(schema: Any) -> str | None:
    """The name of the one argument that an operation writes, "" for its first, None for none or several."""
    names = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if len(names) != 1:
        return None
    return "" if schema.arguments[0].name == names[0] else names[0]


def on_device(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a rule as torch tensors. Raises Unsupported."""
    emitter, given, more = prepare(operation, args, kwargs)
    made = run(operation, emitter, given, more)
    operation.remember(args, emitter, made, kwargs)
    count("device")

    def of_torch(value: Tensor, position: int) -> torch.Tensor:
        if position in operation.rule.wide and value.dtype == "int32":
            return wrap(widened(value), torch.int64, emitter.index, value.type.shape, _most_place(args))
        return wrap(value, torch_dtype(value.dtype), emitter.index)

    if isinstance(made, (tuple, list)):
        return type(made)(None if m is None else of_torch(m, i) for i, m in enumerate(made))
    return of_torch(made, 0)


def _most_place(args: tuple[Any, ...]) -> int:
    """No place of an element is larger: wide results are places in an argument."""
    return min(max((x.numel() for x in args if isinstance(x, torch.Tensor)), default=MOST), MOST)


def _rule_name(name: str) -> str:
    """The name without the mark of what writes its first argument; __lshift__ is none."""
    return name if name.endswith("__") else name.removesuffix("_")
