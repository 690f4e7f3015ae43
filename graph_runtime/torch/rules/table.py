"""The table of lowering rules: aten operations in terms of the registry's ops.

A rule is a function of the aten op's arguments with tensors as Values (ir/value.py). The same rules serve
eager operations (each op is launched at once) and compiled graphs (each op becomes a node):

    @rule("addmm")
    def addmm(bias, a, b, *, beta=1, alpha=1): return a @ b * alpha + bias * beta

A rule whose first parameter is called ``e`` gets the Emitter there, for constants and for questions about the
device. A rule that cannot serve a call raises Unsupported with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass
from inspect import unwrap
from typing import Any, Protocol

import torch

from ...base.errors import InputError, did_you_mean
from ..counters import Unsupported


class Emitter(Protocol):
    """What rules use to compute. ``graph``: whether ops become nodes rather than launches; ``narrow``:
    whether 64-bit integers may be computed as dtype ``integers``; ``used``: numbers of those results of the
    rule that a graph reads."""

    graph: bool
    narrow: bool
    integers: str
    used: Set[Any]

    def op(self, name: str, *values: Any, **attrs: Any) -> Any:
        """The output of a registry op, or a tuple of several outputs. Raises Unsupported."""

    def scalar(self, number: Any, dtype: str) -> Any:
        """A value without dimensions."""

    def array(self, values: Any, dtype: str) -> Any:
        """A value of the numbers in nested lists or an array."""

    def filled(self, shape: tuple[int, ...], number: Any, dtype: str) -> Any:
        """A value of a shape, filled with one number."""

    def has(self, name: str, value: Any) -> bool:
        """Whether the value's device has a kernel for an op."""


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule. ``emits``: whether its function takes an Emitter first. ``indices``: positions of arguments
    that are indices and may be 64-bit integers, which the function gets as int32. ``wide``: positions of
    results that are positions of elements; the function returns these as int32, and torch gets 64-bit
    integers."""

    body: Callable[..., Any]
    emits: bool = False
    indices: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()

    def __call__(self, e: Any, *args: Any, **more: Any) -> Any:
        """The results, computed by emitter ``e``. Raises Unsupported."""
        return self.body(e, *args, **more) if self.emits else self.body(*args, **more)


_rules: dict[str, Rule] = {}


def rule(*names: str, indices: tuple[int, ...] = (), wide: tuple[int, ...] = ()) -> Callable[..., Any]:
    """Decorates the rule of the aten operations ``names``, all their overloads; "prims::NAME" is an operation
    of another library. Raises InputError for a name that aten does not have, with "did you mean", and for an
    operation that has a rule already."""

    def decorate(body: Callable[..., Any]) -> Callable[..., Any]:
        emits = unwrap(body).__code__.co_varnames[:1] == ("e",)
        for name in map(_named, names):
            if name in _rules:
                raise InputError(f"aten::{name} has a rule already", got=name)
            _rules[name] = Rule(body, emits, indices, wide)
        return body

    return decorate


def _named(name: str) -> str:
    space, _, plain = name.rpartition("::")
    if not space and not hasattr(torch.ops.aten, name):
        full = (name.split(".")[0] for name in torch._C._dispatch_get_all_op_names())
        known = {name.removeprefix("aten::") for name in full if name.startswith("aten::")}
        raise InputError(f"torch has no operation aten::{name}{did_you_mean(name, known)}", got=name)
    return plain


def find(name: str) -> Rule:
    """The rule of aten::name. Raises Unsupported if there is none."""
    found = _rules.get(name)
    if found is None:
        raise Unsupported(f"no rule for aten::{name}")
    return found


def table() -> dict[str, Rule]:
    """{name of the aten operation: rule} of all rules."""
    return dict(_rules)
