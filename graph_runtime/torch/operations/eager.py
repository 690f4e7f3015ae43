"""Single operations on tt tensors: run on the device by a rule, else on the host.

torch calls ``Operation`` for each overload that has a rule, and writes.fallback for all others.
"""

from __future__ import annotations

from typing import Any

import torch

from ...run.tensors.tensor import Tensor
from .. import rules
from ..calls import prepare, run
from ..counters import Unsupported, count
from ..host import on_host
from ..kinds import torch_dtype
from ..magnitudes import MOST
from ..narrow import in_32_bits
from ..store import wrap
from ..wide import widened
from .repeats import Repeating


class Operation(Repeating):
    """The kernel of an overload that has a rule. ``rule``: that rule; ``rule_name``: aten's name of the
    operation."""

    name: str
    rule: rules.Rule
    rule_name: str

    def __init__(self, op: Any, rule: rules.Rule):
        super().__init__(op, _written(op._schema))
        self.rule, self.name, self.indices = rule, op._schema.name.removeprefix("aten::"), rule.indices
        self.rule_name = _rule_name(self.name)

    def plain(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            return _on_device(self, args, kwargs)
        except Unsupported as refused:
            made = in_32_bits(self, args, kwargs)
            return on_host(self.op, args, kwargs, refused.args[0]) if made is None else made


def _written(schema: Any) -> str | int | None:
    """The one argument that an operation writes: its name, or 0 for the first argument. None if the operation
    writes no argument or several."""
    names = [a.name for a in schema.arguments if a.alias_info is not None and a.alias_info.is_write]
    if len(names) != 1:
        return None
    return 0 if schema.arguments[0].name == names[0] else names[0]


def _on_device(operation: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a rule as torch tensors. Raises Unsupported."""
    emitter, given, more = prepare(operation, args, kwargs)
    made = run(operation, emitter, given, more)
    count("device")

    def of_torch(value: Tensor, position: int) -> torch.Tensor:
        if position in operation.rule.wide and value.dtype == "int32":
            return wrap(widened(value), torch.int64, emitter.index, value.type.shape, _most_place(args))
        return wrap(value, torch_dtype(value.dtype), emitter.index)

    if isinstance(made, (tuple, list)):
        return type(made)(None if m is None else of_torch(m, i) for i, m in enumerate(made))
    return of_torch(made, 0)


def _most_place(args: tuple[Any, ...]) -> int:
    """A bound of results that are positions: the number of elements of the largest argument."""
    return min(max((x.numel() for x in args if isinstance(x, torch.Tensor)), default=MOST), MOST)


def _rule_name(name: str) -> str:
    """An operation's name without the trailing underscore of in-place forms, which names like __lshift__ do
    not have."""
    return name if name.endswith("__") else name.removesuffix("_")
