"""Calls of rules: torch's arguments as values of an Emitter."""

from __future__ import annotations

from typing import Any

import torch

from . import content
from .counters import Unsupported
from .device.device_module import refuse_in_child
from .direct import Eager, EagerValue
from .host import check_devices
from .store import collect
from .wide import narrowed


def prepare(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], narrow: bool = False) -> Any:
    """(emitter, arguments, keyword arguments), with the emitter's values in the place of tensors. ``narrow``:
    whether 64-bit integers are passed as 32-bit integers. Raises Unsupported, and torch's error for tensors
    on several devices."""
    refuse_in_child()
    collect()
    index = check_devices(operation.op, args, kwargs)
    if index is None:
        raise Unsupported("it has no tensor among its arguments")
    emitter, at = Eager(index), operation.rule.indices
    emitter.narrow = narrow
    if operation.name == "cat" and args and not kwargs.get("out"):
        args = (_with_elements(args[0]), *args[1:])

    return (
        emitter,
        [_value(arg, emitter, narrow or i in at) for i, arg in enumerate(args)],
        {
            key: _value(arg, emitter, narrow)
            for key, arg in kwargs.items()
            if key not in ("device", "layout", "pin_memory") or arg is not None
        },
    )


def _with_elements(tensors: Any) -> Any:
    """The tensors to concatenate, without those that have no elements. All tensors if none has elements, or
    if the dtypes of the tensors with elements differ."""
    found = [x for x in tensors if x.numel()]
    return found if found and len({x.dtype for x in tensors}) == 1 else tensors


def _value(x: Any, emitter: Eager, may_be_wide: bool) -> Any:
    """The argument ``x``, with the emitter's values in the place of its tensors. The function is no closure,
    because a closure that calls itself is a reference cycle, which keeps the tensors of a call alive until
    Python collects cycles."""
    if isinstance(x, torch.Tensor):
        return _tensor(x, emitter, may_be_wide)
    if isinstance(x, (list, tuple)):
        return type(x)(_value(item, emitter, may_be_wide) for item in x)
    return x


def _tensor(x: torch.Tensor, emitter: Eager, may_be_wide: bool) -> Any:
    if x.device.type == "cpu":
        if x.dim() == 0:
            return x.item()
        if not may_be_wide or x.dtype not in (torch.int64, torch.int32) or not x.numel():
            raise Unsupported("a mask is on the CPU")
        return emitter.array(x.numpy().astype("int32"), "int32")
    if not x.numel():
        raise Unsupported("a tensor has no elements")
    if may_be_wide and x.dtype == torch.int64:
        return EagerValue(emitter, narrowed(x))
    return EagerValue(emitter, content.image(x))


def run(operation: Any, emitter: Eager, given: list[Any], more: dict[str, Any]) -> Any:
    """The runtime's tensors that a rule computes. ``given``, ``more``: positional and keyword arguments, made
    by ``prepare``. Raises Unsupported."""
    try:
        return _tensors(operation.rule(emitter, *given, **more))
    except TypeError as error:  # the rule does not take one of the arguments
        raise Unsupported(
            f"the rule of aten::{operation.name} does not take these arguments ({error})"
        ) from error


def _tensors(made: Any) -> Any:
    if isinstance(made, (list, tuple)):
        return type(made)(_tensors(item) for item in made)
    return made.tensor if isinstance(made, EagerValue) else made
