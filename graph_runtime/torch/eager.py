"""Operations on tt tensors, one at a time: by a rule on the device, else on the host.

torch calls ``Operation`` for each overload that has a rule, and ``fallback`` for all others, among them the
out= forms by which torch makes in-place operations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from .. import dtypes
from ..errors import GraphRuntimeError
from ..graph import TensorType
from ..ops import registry
from ..single import operands, policy
from ..single.apply import ready_call
from ..single.move import push
from ..single.place import default_place
from ..tensor import Tensor
from . import content, rules
from .host import check_devices, on_host
from .journal import Refused, count
from .kinds import kind_of, torch_dtype
from .module import refuse_in_child
from .store import devices, store_of, wrap
from .wide import narrowed, widened

__all__ = ["Operation", "fallback"]

_MOST = 4096  # signatures that are kept
_PLAIN = (int, float, bool, str, type(None), torch.dtype)


class Eager:
    """The Emitter that does each op at once, on device number ``index``. ``calls``: (op, attrs, inputs) of
    what it did, for who wants to do the same again."""

    graph = False

    def __init__(self, index: int):
        self.index, self.device = index, devices()[index]
        self.calls: list[tuple[str, tuple, tuple[Any, ...]]] = []
        self.plain = True

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        given = tuple((key, value) for key, value in attrs.items() if value is not None)
        try:
            made = content.apply(name, given, *values)
        except ValueError as error:
            raise Refused(f"{name}: {error}") from error
        self.calls.append((name, given, values))
        return made

    def scalar(self, number: Any, dtype: str) -> Tensor:
        self.plain = False
        return operands.on_device(_clipped(number, dtype), self.device, dtype)

    def array(self, values: Any, dtype: str) -> Tensor:
        self.plain = False
        made = np.asarray(values, dtypes.to_numpy(dtype))
        return push(made, default_place(self.device, TensorType(dtype, made.shape)))

    def filled(self, shape: tuple[int, ...], number: Any, dtype: str) -> Tensor:
        made = self.scalar(number, dtype)
        if not shape:
            return made
        try:
            return content.apply("broadcast_to", (("shape", shape),), made)
        except Refused:
            return self.array(np.full(shape, _clipped(number, dtype)), dtype)

    def has(self, name: str, value: Any) -> bool:
        return registry.get(name) is not None


def _clipped(number: Any, dtype: str) -> Any:
    if dtype.startswith(("int", "uint")) and isinstance(number, (int, float)):
        if isinstance(number, float) and not number.is_integer():
            raise Refused("a fraction among integers")
        info = np.iinfo(dtypes.to_numpy(dtype))
        if not info.min <= number <= info.max:
            raise Refused(f"{number} is no {dtype}")
        return int(number)
    return number


# **************** one operation ****************


class Operation:
    """A kernel of torch's for one overload: ``op`` its OpOverload, ``rule`` how the device does it.
    Signatures that came to one launch are remembered with its launcher."""

    def __init__(self, op: Any, rule: rules.Rule):
        self.op, self.rule, self.name = op, rule, op._schema.name.removeprefix("aten::")
        self.ready: dict[Any, tuple[Any, torch.dtype]] = {}
        policy.on_change(self.ready.clear)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            try:
                return self._again(args)
            except (LookupError, TypeError, AttributeError, GraphRuntimeError):
                pass  # new, a view, moved, or no room: the slow road knows
        try:
            return on_device(self, args, kwargs)
        except Refused as refused:
            return on_host(self.op, args, kwargs, refused.args[0])

    def _again(self, args: tuple[Any, ...]) -> torch.Tensor:
        """A call whose signature came to one launch before. Raises LookupError where it did not."""
        key, given, index = [], [], 0
        for arg in args:
            if isinstance(arg, torch.Tensor):
                store = _plain_store(arg)
                given.append(store.base)
                key.append(store.base._place)
                index = store.index
            else:
                key.append(arg.__class__)
                key.append(arg)
        call, dtype = self.ready[tuple(key)]
        launcher = call.launcher
        made = launcher.launch_pair(*given) if len(given) == 2 else launcher.launch(tuple(given))
        count("device")
        return wrap(made, dtype, index)

    def remember(self, args: tuple[Any, ...], emitter: Eager, made: Any) -> None:
        """Keep the launcher of a call that was one launch on its tensors as they are."""
        if len(emitter.calls) != 1 or not emitter.plain or not isinstance(made, Tensor) or self.rule.wide:
            return
        op, attrs, inputs = emitter.calls[0]
        try:
            bases = [_plain_store(arg).base for arg in args if isinstance(arg, torch.Tensor)]
        except (LookupError, GraphRuntimeError):
            return
        key: list[Any] = []
        for arg in args:
            if not isinstance(arg, (torch.Tensor, *_PLAIN)):
                return
            key += [_plain_store(arg).base.place] if isinstance(arg, torch.Tensor) else [arg.__class__, arg]
        if len(bases) != len(inputs) or any(a is not b for a, b in zip(bases, inputs, strict=True)):
            return
        call = ready_call(op, attrs, tuple(inputs))
        if call is not None:
            if len(self.ready) >= _MOST:
                self.ready.clear()
            self.ready[tuple(key)] = (call, torch_dtype(made.dtype))


def _plain_store(tensor: torch.Tensor) -> Any:
    """The Store of a tensor that shows all of it as it is stored. Raises LookupError for any other."""
    store = store_of(tensor)
    base = store.base
    if (
        base is None
        or store.dtype != tensor.dtype
        or base.type.shape != tensor.shape
        or not tensor.is_contiguous()
        or kind_of(tensor.dtype).raw
    ):
        raise LookupError
    return store


def on_device(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a rule as torch tensors. Raises Refused."""
    emitter, given, more = prepare(operation, args, kwargs)
    made = _run(operation, emitter, given, more)
    if not kwargs:
        operation.remember(args, emitter, made)
    count("device")
    if isinstance(made, (tuple, list)):
        return type(made)(None if m is None else _torch(operation, m, emitter) for m in made)
    return _torch(operation, made, emitter)


def _run(operation: Operation, emitter: Eager, given: list[Any], more: dict[str, Any]) -> Any:
    try:
        return operation.rule.body(emitter, *given, **more)
    except TypeError as error:  # an argument that the rule does not take
        raise Refused(
            f"the rule of aten::{operation.name} does not take these arguments ({error})"
        ) from error


def _torch(operation: Operation, made: Tensor, emitter: Eager) -> torch.Tensor:
    if operation.rule.wide:
        return wrap(widened(made), torch.int64, emitter.index, made.type.shape)
    return wrap(made, torch_dtype(made.dtype), emitter.index)


def prepare(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """(emitter, arguments with values for tensors, the same of keywords). Raises Refused, and torch's error
    for tensors on several devices."""
    refuse_in_child()
    index = check_devices(operation.op, args, kwargs)
    if index is None:
        raise Refused("it has no tensor among its arguments")
    emitter, at = Eager(index), operation.rule.indices

    def value(x: Any, may_be_wide: bool) -> Any:
        if isinstance(x, torch.Tensor):
            return _value(x, emitter, may_be_wide)
        if isinstance(x, (list, tuple)):
            return type(x)(value(item, may_be_wide) for item in x)
        return x

    return (
        emitter,
        [value(arg, i in at) for i, arg in enumerate(args)],
        {
            key: value(arg, False)
            for key, arg in kwargs.items()
            if key not in ("device", "layout", "pin_memory") or arg is not None
        },
    )


def _value(x: torch.Tensor, emitter: Eager, may_be_wide: bool) -> Any:
    if x.device.type == "cpu":
        if x.dim() == 0:
            return x.item()
        raise Refused("an index is on the CPU")
    if not x.numel():
        raise Refused("a tensor has no elements")
    if may_be_wide and x.dtype == torch.int64:
        return narrowed(x)
    return content.image(x)


# **************** everything else ****************

_operations: dict[Any, Operation | None] = {}


def _functional(op: Any) -> Operation | None:
    """The Operation of a form that writes into an argument: out=, or in place."""
    found = _operations.get(op, _operations)
    if found is _operations:
        name = op._schema.name.removeprefix("aten::").removesuffix("_")
        try:
            found = Operation(op, rules.find(name)) if op._schema.is_mutable else None
        except Refused:
            found = None
        _operations[op] = found
    return found


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The kernel of all overloads without one of their own."""
    operation = _functional(op)
    if operation is None:
        return on_host(op, args, kwargs, f"no rule for {op._schema.name}")
    try:
        return _write(operation, args, kwargs)
    except Refused as refused:
        return on_host(op, args, kwargs, refused.args[0])


def _write(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A rule's result written into the argument that the operation writes."""
    schema = operation.op._schema
    outs = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if len(outs) != 1 or operation.rule.wide:
        raise Refused("it writes several arguments")
    (name,) = outs
    in_place = schema.arguments[0].name == name
    target = args[0] if in_place else kwargs[name]
    rest = {key: value for key, value in kwargs.items() if key != name}
    check_devices(operation.op, args, kwargs)
    if target.dtype not in (torch.float32, torch.bfloat16, torch.int32, torch.bool):
        raise Refused(f"the device does not compute with {target.dtype}".replace("torch.", ""))
    emitter, given, more = prepare(operation, args, rest)
    made = _run(operation, emitter, given, more)
    if not isinstance(made, Tensor):
        raise Refused("it has several results")
    stored = kind_of(target.dtype).stored
    if made.dtype != stored:
        made = content.apply("cast", (("to", stored),), made)
    if tuple(target.shape) != made.type.shape:
        if in_place:
            raise Refused("the result has another shape")
        target.resize_(made.type.shape)
    if math.prod(made.type.shape):
        content.assign(target, made)
    count("device")
    return target
