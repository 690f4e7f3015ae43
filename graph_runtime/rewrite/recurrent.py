"""The rule that takes lstm, gru and rnn apart, step by step, for devices that have no kernel of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..base import dtypes
from ..ir.model import Constant
from ..ir.ops import get
from ..ir.ops.products.cells import CELLS, function_attrs, function_numbers
from .net import Net, NetNode, NetValue

__all__ = ["unroll"]

_MOST_STEPS = 4096  # that are unrolled


def unroll(net: Net) -> None:
    """A recurrent node that no device which may run it has a kernel of: a few ops a step."""
    done = []
    for node in net.nodes(*CELLS):
        kinds = [node.device.partition(":")[0]] if node.device else net.kinds
        if not any(map(node.supported_on, kinds)) and node.output_types[0].shape[0] <= _MOST_STEPS:
            done.append(node)
            net.replace_all(node, _Unrolled(net, node).results())
    if done:
        net.note("unroll", f"{len(done)} recurrent nodes have no kernel where they run: step by step", done)


class _Unrolled:
    """One node, taken apart."""

    def __init__(self, net: Net, node: NetNode):
        self.net, self.node, self.attrs, self.cell = net, node, node.attrs, CELLS[node.op_name]
        self.gates, self.weights, *rest = node.inputs
        self.initial, rest = rest[: self.cell.states], rest[self.cell.states :]
        self.late = rest.pop(0) if self.attrs.get("linear_before_reset") else None
        self.peep = rest.pop(0) if self.attrs.get("peepholes") else None
        self.lengths = rest.pop(0) if self.attrs["lengths"] else None
        self.directions, self.batch, self.hidden = self.initial[0].shape

    # ---------------------------------------------------------------- emitting

    def op(self, name: str, *inputs: NetValue, **attrs: Any) -> NetValue:
        made = self.net.add(name, inputs, before=self.node, name=f"{self.node.name}.{name}", **attrs)
        assert isinstance(made, NetValue)  # ops of one result alone are emitted
        return made

    def number(self, value: float, dtype: str) -> NetValue:
        array = np.asarray(value, dtypes.to_numpy(dtype))
        return self.net.constant(
            Constant.of(array, f"{value} of {self.node.name}"), f"{self.node.name}.number"
        )

    def part(self, x: NetValue, axis: int, start: int, end: int) -> NetValue:
        if (start, end) == (0, x.shape[axis]):
            return x
        return self.op("slice", x, starts=[start], ends=[end], axes=[axis], steps=[1])

    def of(self, x: NetValue, d: int) -> NetValue:
        """One direction's plane."""
        return self.op("reshape", self.part(x, 0, d, d + 1), shape=x.shape[1:])

    def gate(self, x: NetValue, index: int) -> NetValue:
        return self.part(x, 1, index * self.hidden, (index + 1) * self.hidden)

    # ---------------------------------------------------------------- functions

    def functions(self, d: int) -> list[Callable[[NetValue], NetValue]]:
        each, attrs = len(self.cell.functions), self.attrs
        names = attrs["activations"] or self.cell.functions * self.directions
        alphas = attrs["alphas"] or [function_numbers(name)[0] for name in names]
        betas = attrs["betas"] or [function_numbers(name)[1] for name in names]
        rows = list(zip(names, alphas, betas, strict=True))[d * each : (d + 1) * each]
        return [partial(self.function, name=name, alpha=a, beta=b) for name, a, b in rows]

    def function(self, x: NetValue, name: str, alpha: float, beta: float) -> NetValue:
        if get(name) is not None:
            return self.op(name, x, **function_attrs(name, alpha, beta))
        scaled = self.op("multiply", x, self.number(alpha if name == "affine" else beta, x.dtype))
        if name == "affine":
            return self.op("add", scaled, self.number(beta, x.dtype))
        return self.op("multiply", self.op("tanh", scaled), self.number(alpha, x.dtype))

    def clipped(self, x: NetValue) -> NetValue:
        clip = self.attrs["clip"]
        return x if clip is None else self.op("clip", x, min=-clip, max=clip)

    # ---------------------------------------------------------------- steps

    def results(self) -> list[NetValue]:
        steps = self.gates.shape[0]
        outputs: list[list[NetValue]] = [[] for _ in range(steps)]
        finals: list[list[NetValue]] = [[] for _ in self.initial]
        for d in range(self.directions):
            state = [self.of(value, d) for value in self.initial]
            own = self.of(self.weights, d)
            backward = self.attrs["direction"] == "reverse" or d == 1
            calls, width = self.functions(d), own.shape[0]
            mine = self.part(self.gates, 2, d * width, (d + 1) * width)
            for t in reversed(range(steps)) if backward else range(steps):
                x = self.op("reshape", self.part(mine, 0, t, t + 1), shape=(self.batch, width))
                made = _CELLS[self.node.op_name](self, x, own, state, calls, d)
                state, y = self.kept(t, state, made)
                outputs[t].append(y)
            for states, value in zip(finals, state, strict=True):
                states.append(value)
        if not steps:
            return [self.number_like(self.node.outputs[0]), *self.initial]
        y = self.stacked([self.stacked(both) for both in outputs])
        return [y, *map(self.stacked, finals)]

    def number_like(self, value: NetValue) -> NetValue:
        return self.op("broadcast_to", self.number(0, value.dtype), shape=value.shape)

    def stacked(self, values: list[NetValue]) -> NetValue:
        made = [self.op("unsqueeze", value, axes=[0]) for value in values]
        return made[0] if len(made) == 1 else self.op("concatenate", *made, axis=0)

    def kept(self, t: int, old: list[NetValue], new: list[NetValue]) -> tuple[list[NetValue], NetValue]:
        """(the states after a step, its output): a sequence that has ended keeps its state."""
        if self.lengths is None:
            return new, new[0]
        active = self.op("greater", self.lengths, self.number(t, "int32"))
        active = self.op("reshape", active, shape=(self.batch, 1))
        state = [self.op("where", active, n, o) for n, o in zip(new, old, strict=True)]
        return state, self.op("where", active, new[0], self.number(0, new[0].dtype))

    def product(self, h: NetValue, weights: NetValue) -> NetValue:
        return self.op("matmul", h, weights, transpose_b=True)

    def lstm(
        self, x: NetValue, weights: NetValue, state: list[NetValue], calls: Any, d: int
    ) -> list[NetValue]:
        h, c = state
        gates = self.op("add", x, self.product(h, weights))

        def peeped(index: int, value: NetValue, part: int) -> NetValue:
            gate = self.gate(gates, index)
            if self.peep is None:
                return gate
            own = self.part(self.of(self.peep, d), 0, part * self.hidden, (part + 1) * self.hidden)
            return self.op("add", gate, self.op("multiply", own, value))

        i = calls[0](self.clipped(peeped(0, c, 0)))
        if self.attrs["input_forget"]:
            f = self.op("subtract", self.number(1, i.dtype), i)
        else:
            f = calls[0](self.clipped(peeped(2, c, 2)))
        new = self.op("multiply", i, calls[1](self.clipped(self.gate(gates, 3))))
        c = self.op("add", self.op("multiply", f, c), new)
        o = calls[0](self.clipped(peeped(1, c, 1)))
        return [self.op("multiply", o, calls[2](c)), c]

    def gru(
        self, x: NetValue, weights: NetValue, state: list[NetValue], calls: Any, d: int
    ) -> list[NetValue]:
        (h,), hidden = state, self.hidden
        own = self.part(weights, 0, 2 * hidden, 3 * hidden)
        past = self.product(h, self.part(weights, 0, 0, 2 * hidden))
        z, r = (calls[0](self.clipped(self.op("add", self.gate(x, i), self.gate(past, i)))) for i in range(2))
        if self.late is not None:
            new = self.op("multiply", r, self.op("add", self.product(h, own), self.of(self.late, d)))
        else:
            new = self.product(self.op("multiply", r, h), own)
        new = calls[1](self.clipped(self.op("add", self.gate(x, 2), new)))
        return [self.op("add", new, self.op("multiply", z, self.op("subtract", h, new)))]

    def rnn(
        self, x: NetValue, weights: NetValue, state: list[NetValue], calls: Any, d: int
    ) -> list[NetValue]:
        return [calls[0](self.clipped(self.op("add", x, self.product(state[0], weights))))]


_CELLS: dict[str, Callable[..., list[NetValue]]] = {
    "lstm": _Unrolled.lstm,
    "gru": _Unrolled.gru,
    "rnn": _Unrolled.rnn,
}
