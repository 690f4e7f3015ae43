"""The parts of a Net: values, and the nodes that make and read them. Only net.py changes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..base.errors import UnsupportedOpError
from ..ir.graph import COPY, NOP, Func, TensorType
from ..ir.model import Constant
from ..ir.ops import registry
from ..ir.ops.rules import select


class NetValue:
    """A tensor of the graph: an input, a constant or a result of a node.

    ``producer``: the node that makes the value; None for inputs and constants. ``constant``: the Constant;
    None for other values. ``heads``: number of outputs of the graph that are this value. Compared by
    identity.
    """

    __slots__ = ("_name", "constant", "device", "heads", "index", "producer", "readers", "type")

    index: int
    producer: NetNode | None
    type: TensorType
    heads: int

    def __init__(self, type: TensorType, producer: NetNode | None, index: int, name: str = ""):
        self.type, self.producer, self.index, self._name = type, producer, index, name
        self.constant: Constant | None = None
        self.device: str | None = None  # device that the file's column gives an input
        self.heads = 0
        self.readers: dict[NetNode, int] = {}  # {node: number of its inputs that are this value}

    def __repr__(self) -> str:
        return f"<NetValue {self.name}: {self.type}>"

    @property
    def name(self) -> str:
        """The name of the input or of the node; "node:k" for result k of a node with several."""
        if self.producer is None:
            return self._name
        return f"{self.producer.name}:{self.index}" if len(self.producer.outputs) > 1 else self.producer.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def op(self) -> str | None:
        """The op that makes the value; None for an input, a constant or the result of a library's
        function."""
        return None if self.producer is None else self.producer.op

    @property
    def maker(self) -> NetNode:
        """The producer of a value whose ``op`` is known."""
        assert self.producer is not None, f"nothing makes {self.name}"
        return self.producer

    def users(self) -> list[NetNode]:
        """The nodes that read the value, each once."""
        return list(self.readers)

    @property
    def used_once(self) -> bool:
        """Whether just one input of one node reads the value, and it is not an output. Then a change of the
        value affects nothing else."""
        return not self.heads and sum(self.readers.values()) == 1

    def look(self) -> np.ndarray | None:
        """The elements of a small constant that can be read now; None for any other value. A rule may depend
        on no other elements."""
        return None if self.constant is None else self.constant.peek()

    def scalar(self) -> float | None:
        """The number of a small constant whose elements are all equal, else None."""
        array = self.look()
        if array is None or not array.size or not (array == array.flat[0]).all():
            return None
        return float(array.flat[0])


class NetNode:
    """A call of a registered op (``op`` and decoded ``attrs``), or of a library's function, a copy or a nop
    (``op`` is None; ``func`` has the name). ``device``: the device to which the node is pinned, or None.
    ``origins``: as in Model.origins. Compared by identity."""

    __slots__ = ("after", "alive", "before", "device", "func", "inputs", "name", "origins", "outputs")

    func: Func
    inputs: list[NetValue]
    name: str
    device: str | None
    origins: tuple[str, ...]
    outputs: list[NetValue]
    alive: bool

    def __init__(
        self,
        func: Func,
        inputs: list[NetValue],
        types: tuple[TensorType, ...],
        name: str,
        device: str | None,
        origins: tuple[str, ...],
    ):
        self.func, self.inputs, self.name = func, inputs, name
        self.device, self.origins = device, origins
        self.outputs = [NetValue(t, self, i) for i, t in enumerate(types)]
        self.alive = True
        self.before: NetNode | None = None  # neighbours of the node in the order of the graph
        self.after: NetNode | None = None
        for value in inputs:
            value.readers[self] = value.readers.get(self, 0) + 1

    def __repr__(self) -> str:
        return f"<NetNode {self.name}: {self.op or self.func.name}>"

    @property
    def op(self) -> str | None:
        return self.func.op

    @property
    def op_name(self) -> str:
        """The op of a node known to have one."""
        assert self.func.op is not None, f"{self.name} calls {self.func.name}, which is no op"
        return self.func.op

    @property
    def attrs(self) -> dict[str, Any]:
        """Decoded attributes, with defaults. Do not change the dict: add another node."""
        return self.func.attrs

    def given_attrs(self) -> dict[str, Any]:
        """A new dict of the attributes that have a value, to be passed to Net.add for a similar node."""
        return {name: value for name, value in self.attrs.items() if value is not None}

    @property
    def output(self) -> NetValue:
        """The node's first result, which is the only one of most ops."""
        return self.outputs[0]

    @property
    def input_types(self) -> list[TensorType]:
        return [v.type for v in self.inputs]

    @property
    def output_types(self) -> list[TensorType]:
        return [v.type for v in self.outputs]

    @property
    def is_pure(self) -> bool:
        """Whether the node may be removed when nothing reads its results. False only for functions that only
        a library knows."""
        return self.func.op is not None or self.func.name in (COPY, NOP)

    @property
    def is_nop(self) -> bool:
        return self.func.name == NOP

    def supported_on(self, kind: str) -> bool:
        """Whether a device kind has a kernel for the node, as far as the registry knows."""
        return self.func.op is None or supports(
            self.func.op, self.attrs, kind, self.input_types, self.output_types
        )


def supports(
    op: str, attrs: Mapping[str, Any], kind: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> bool:
    """Whether the registry has a kernel for an op with these types on a device kind; ``attrs`` are
    decoded."""
    entry = registry.get(op)
    if entry is None or entry.is_nop:
        return True
    try:
        select(entry, dict(attrs), kind, inputs, outputs)
    except UnsupportedOpError:
        return False
    return True
