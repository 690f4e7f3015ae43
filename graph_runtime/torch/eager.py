"""Operations on tt tensors, one at a time: by a rule on the device, else on the host.

torch calls ``Operation`` for each overload that has a rule, and writes.fallback for all others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch

from ..base.errors import GraphRuntimeError
from ..run.core import ffi
from ..run.single import verification
from ..run.single.apply import ready_call
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
from .store import Form, Store, collect, form_of, number_of, whole, wrap
from .wide import widened

__all__ = ["Operation"]

_MOST = 4096  # signatures that are kept
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
        self.ready: dict[Any, Ready] = {}
        verification.on_change(self.ready.clear)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            try:
                made, ready, index = self.again(args)
                result = ready.form.of(made, index)
            except (LookupError, TypeError, AttributeError, GraphRuntimeError):
                pass  # new, a view, moved, or no room: the slow way knows
            else:
                tell(self, ready)
                return result
        try:
            return on_device(self, args, kwargs)
        except Unsupported as refused:
            made = in_32_bits(self, args, kwargs)
            return on_host(self.op, args, kwargs, refused.args[0]) if made is None else made

    def again(self, args: tuple[Any, ...]) -> tuple[Tensor, Ready, int]:
        """(result, how it was done, number of the device) of a call whose signature came to one launch
        before. Raises LookupError where it did not."""
        collect()
        key: list[Any] = []
        given: list[Any] = []
        store: Store | None = None
        for arg in args:
            if isinstance(arg, torch.Tensor):
                found = whole(arg)
                if found is None:
                    key += _number(arg)
                    continue
                store = found
                base = store.base
                given.append(base)
                key += (base._spec, store.dtype)  # type: ignore[union-attr]  # that it has one is looked at
            else:
                key += _plain(arg)
        if len(given) > 1:
            key += _shared(given)
        ready = self.ready[tuple(key)]
        call, launch, order, _ = ready
        assert store is not None  # what is remembered has a tensor
        inputs = [given[at] if at.__class__ is int else at for at in order]
        made = launch(*inputs)
        count("device")
        if clock.running.on:
            clock.launched(store.index, call.op.name, call.given, inputs)
        return made, ready, store.index

    def remember(self, args: tuple[Any, ...], emitter: Eager, made: Any) -> None:
        """Keep the launcher of a call that was one launch, on its tensors as they are and on constants."""
        if len(emitter.calls) != 1 or not isinstance(made, Tensor) or self.rule.wide:
            return
        op, attrs, inputs = emitter.calls[0]
        key: list[Any] = []
        bases: list[Tensor] = []
        try:
            for arg in args:
                if not isinstance(arg, (torch.Tensor, *_PLAIN)):
                    return
                if isinstance(arg, torch.Tensor) and not arg.is_cpu:
                    store = whole(arg)
                    if store is None or store.base is None or kind_of(store.dtype).raw:
                        return
                    bases.append(store.base)
                    key += (store.base.spec, store.dtype)
                else:
                    key += _number(arg) if isinstance(arg, torch.Tensor) else _plain(arg)
        except (LookupError, GraphRuntimeError):
            return
        key += _shared(bases)
        positions = {id(base): at for at, base in enumerate(bases)}
        order = [positions.get(id(x), x) for x in inputs]
        known = {id(x) for x in emitter.constants}
        call = ready_call(op, attrs, tuple(inputs))
        if (
            call is None
            or call.launcher is None
            or any(x.__class__ is not int and id(x) not in known for x in order)
        ):
            return
        if len(self.ready) >= _MOST:
            self.ready.clear()
        form = form_of(torch_dtype(made.dtype), made.type.shape)
        self.ready[tuple(key)] = Ready(call, call.launcher.launch_of(len(order)), tuple(order), form)


def _number(tensor: torch.Tensor) -> tuple[Any, ...]:
    """What stands for a CPU tensor in a signature. Raises LookupError for one of dimensions, or of tt."""
    if tensor.dim() or not tensor.is_cpu:
        raise LookupError
    return tensor.dtype, *_plain(tensor.item())


def _plain(arg: Any) -> tuple[Any, Any]:
    """What stands for a number, a flag or a name: zeros of both signs are equal, and not the same."""
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
    if not kwargs:
        operation.remember(args, emitter, made)
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
