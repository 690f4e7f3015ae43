"""Values of a node that a rule takes apart: the nodes that their operators and methods emit are added before
that node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.model import Constant
from ..ir.value import Value, with_constants
from .net import Net, NetNode, NetValue


@dataclass(frozen=True, eq=False, slots=True)
class PartValue(Value):
    """A Value for ``held``, a value of a net. ``node``: the node that is taken apart."""

    net: Net
    node: NetNode
    held: NetValue

    @property
    def dtype(self) -> str:
        return self.held.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.held.shape

    def emit(self, op: str, /, *operands: Any, **attrs: Any) -> PartValue:
        """The result of a new node, whose op has one result; its name comes from the node that is taken
        apart."""
        inputs = [value.held for value in with_constants(op, operands, self.scalar)]
        made = self.net.add(op, inputs, before=self.node, name=f"{self.node.name}.{op}", **attrs)
        return PartValue(self.net, self.node, made)

    def scalar(self, number: Any, dtype: str | None = None) -> PartValue:
        """A number as a constant of the net."""
        array = np.asarray(number, dtypes.to_numpy(dtype or self.dtype))
        constant = Constant.of(array, f"{number} of {self.node.name}")
        return PartValue(self.net, self.node, self.net.constant(constant, f"{self.node.name}.number"))
