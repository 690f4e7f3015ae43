"""Calls of rules: arguments of torch's as values of an Emitter."""

from __future__ import annotations

from typing import Any

import torch

from . import content
from .counters import Unsupported
from .device.device_module import refuse_in_child
from .direct import Eager
from .host import check_devices
from .store import collect
from .wide import narrowed

__all__ = ["prepare", "run"]


def prepare(operation: Any, args: tuple[Any, ...], kwargs: dict[str, Any], narrow: bool = False) -> Any:
    """(emitter, arguments with values for tensors, the same of keywords); ``narrow``: 64-bit integers are
    given as 32-bit ones. Raises Unsupported, and torch's error for tensors on several devices."""
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
    """Of tensors that are joined, those that add something."""
    found = [x for x in tensors if x.numel()]
    return found if found and len({x.dtype for x in tensors}) == 1 else tensors


def _value(x: Any, emitter: Eager, may_be_wide: bool) -> Any:
    """An argument with values of the emitter for its tensors. A function of the module: a closure that calls
    itself is a cycle, and keeps the tensors of a call until Python looks for cycles."""
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
        return narrowed(x)
    return content.image(x)


def run(operation: Any, emitter: Eager, given: list[Any], more: dict[str, Any]) -> Any:
    """What a rule makes of arguments as ``prepare`` gives them. Raises Unsupported."""
    try:
        return operation.rule.body(emitter, *given, **more)
    except TypeError as error:  # an argument that the rule does not take
        raise Unsupported(
            f"the rule of aten::{operation.name} does not take these arguments ({error})"
        ) from error
