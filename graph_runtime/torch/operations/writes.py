"""Operations without a kernel of their own. Some of them write an argument: the out= forms, from which torch
makes in-place operations."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...run.tensors.tensor import Tensor
from .. import content, rules
from ..calls import prepare, run
from ..counters import Unsupported, count
from ..host import check_devices, on_host
from ..kinds import kind_of
from ..magnitudes import result_bound
from ..wide import widened
from .eager import Operation

_operations: dict[Any, Operation | None] = {}
_UNKNOWN: Any = object()  # marks an overload without an entry; an entry may be None


class WritingOperation(Operation):
    """The kernel of an overload that writes into an argument, out= or in place."""

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return _write(self, args, kwargs)
        except Unsupported as refused:
            return on_host(self.op, args, kwargs, refused.args[0])


def operation_of(op: Any) -> Operation | None:
    """The Operation of an overload that writes into an argument; None if there is no rule."""
    found = _operations.get(op, _UNKNOWN)
    if found is _UNKNOWN:
        name = op._schema.name.removeprefix("aten::").removesuffix("_")
        try:
            found = WritingOperation(op, rules.find(name)) if op._schema.is_mutable else None
        except Unsupported:
            found = None
        _operations[op] = found
    return found


def fallback(op: Any, *args: Any, **kwargs: Any) -> Any:
    """The kernel of all overloads without a kernel of their own."""
    operation = operation_of(op)
    if operation is None:
        return on_host(op, args, kwargs, f"no rule for {op._schema.name}")
    return operation(*args, **kwargs)


def _write(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Write a rule's result into the argument that the operation writes."""
    name = operation.written
    if name is None or operation.rule.wide:
        raise Unsupported("it writes several arguments")
    in_place, rest = name == 0, kwargs
    target = kwargs[name] if isinstance(name, str) else args[name]
    if not in_place:
        check_devices(operation.op, args, kwargs)
        rest = {key: value for key, value in kwargs.items() if key != name}
    kind = kind_of(target.dtype)
    if kind.raw and operation.name in ("fill_", "zero_") and target.numel() and _is_number(args[1:]):
        content.fill(target, 0 if len(args) == 1 else args[1])
        count("device")
        return target
    wide = target.dtype == torch.int64
    if kind.raw and not wide:
        raise Unsupported(f"the device does not compute with {target.dtype}".replace("torch.", ""))
    bound = None
    try:
        made = _made(operation, args, rest)
        if wide:
            raise Unsupported("the result is of 64-bit integers")
    except Unsupported:
        bound = result_bound(operation.rule_name, args, rest)
        if bound is None:
            raise
        made = _made(operation, args, rest, narrow=True)
    stored = "int32" if wide else kind.stored
    if made.dtype != stored:
        made = content.apply("cast", (("to", stored),), made)
    if tuple(target.shape) != made.type.shape:
        if in_place:
            raise Unsupported("the result has another shape")
        target.resize_(made.type.shape)
    if math.prod(made.type.shape):
        content.assign(target, widened(made) if wide else made, bound)
    return target


def _is_number(rest: tuple[Any, ...]) -> bool:
    return not rest or (len(rest) == 1 and isinstance(rest[0], (int, float, complex, bool)))


def _made(operation: Operation, args: tuple[Any, ...], rest: dict[str, Any], narrow: bool = False) -> Tensor:
    emitter, given, more = prepare(operation, args, rest, narrow)
    made = run(operation, emitter, given, more)
    if not isinstance(made, Tensor):
        raise Unsupported("it has several results")
    count("device")
    return made
