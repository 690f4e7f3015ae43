"""The rule that unrolls lstm, gru and rnn step by step for devices without a kernel for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ..ir.ops import get
from ..ir.ops.products.cells import CELLS, function_attrs, function_numbers
from ..ir.value import where
from .net import Net, NetNode
from .part_value import PartValue

_MOST_STEPS = 4096  # most steps to unroll


def unroll(net: Net) -> None:
    """Unroll a recurrent node into a few ops per step if no allowed device has a kernel for the node."""
    done = []
    for node in net.nodes(*CELLS):
        kinds = [node.device.partition(":")[0]] if node.device else net.kinds
        if not any(map(node.supported_on, kinds)) and node.output_types[0].shape[0] <= _MOST_STEPS:
            done.append(node)
            net.replace_all(node, [value.held for value in _Unrolled(net, node).results()])
    if done:
        net.note("unroll", f"{len(done)} recurrent nodes have no kernel where they run: step by step", done)


class _Unrolled:
    """One node being unrolled."""

    def __init__(self, net: Net, node: NetNode):
        self.net, self.node, self.attrs, self.cell = net, node, node.attrs, CELLS[node.op_name]
        self.gates, self.weights, *rest = (PartValue(net, node, value) for value in node.inputs)
        self.initial, rest = rest[: self.cell.states], rest[self.cell.states :]
        self.late = rest.pop(0) if self.attrs.get("linear_before_reset") else None
        self.peep = rest.pop(0) if self.attrs.get("peepholes") else None
        self.lengths = rest.pop(0) if self.attrs["lengths"] else None
        self.directions, self.batch, self.hidden = self.initial[0].shape

    def part(self, x: PartValue, axis: int, start: int, end: int) -> PartValue:
        return x[(slice(None),) * axis + (slice(start, end),)]

    def plane(self, x: PartValue, index: int) -> PartValue:
        """Index ``index`` of dimension 0, which counts directions or steps."""
        return self.part(x, 0, index, index + 1).op("reshape", shape=x.shape[1:])

    def gate(self, x: PartValue, index: int) -> PartValue:
        return self.part(x, 1, index * self.hidden, (index + 1) * self.hidden)

    # ---------------------------------------------------------------- functions

    def functions(self, d: int) -> list[Callable[[PartValue], PartValue]]:
        each, attrs = len(self.cell.functions), self.attrs
        names = attrs["activations"] or self.cell.functions * self.directions
        alphas = attrs["alphas"] or [function_numbers(name)[0] for name in names]
        betas = attrs["betas"] or [function_numbers(name)[1] for name in names]
        rows = list(zip(names, alphas, betas, strict=True))[d * each : (d + 1) * each]
        return [partial(self.function, name=name, alpha=a, beta=b) for name, a, b in rows]

    def function(self, x: PartValue, name: str, alpha: float, beta: float) -> PartValue:
        if get(name) is not None:
            return x.op(name, **function_attrs(name, alpha, beta))
        return x * alpha + beta if name == "affine" else (x * beta).tanh() * alpha

    def clipped(self, x: PartValue) -> PartValue:
        clip = self.attrs["clip"]
        return x if clip is None else x.clip(-clip, clip)

    # ---------------------------------------------------------------- steps

    def results(self) -> list[PartValue]:
        steps = self.gates.shape[0]
        outputs: list[list[PartValue]] = [[] for _ in range(steps)]
        finals: list[list[PartValue]] = [[] for _ in self.initial]
        for d in range(self.directions):
            state = [self.plane(value, d) for value in self.initial]
            own = self.plane(self.weights, d)
            backward = self.attrs["direction"] == "reverse" or d == 1
            calls, width = self.functions(d), own.shape[0]
            mine = self.part(self.gates, 2, d * width, (d + 1) * width)
            for t in reversed(range(steps)) if backward else range(steps):
                x = self.plane(mine, t)
                made = _CELLS[self.node.op_name](self, x, own, state, calls, d)
                state, y = self.kept(t, state, made)
                outputs[t].append(y)
            for states, value in zip(finals, state, strict=True):
                states.append(value)
        if not steps:
            nothing = self.initial[0].scalar(0).op("broadcast_to", shape=self.node.outputs[0].shape)
            return [nothing, *self.initial]
        y = self.stacked([self.stacked(both) for both in outputs])
        return [y, *map(self.stacked, finals)]

    def stacked(self, values: list[PartValue]) -> PartValue:
        made, *more = (value.op("unsqueeze", axes=[0]) for value in values)
        return made.op("concatenate", *more, axis=0) if more else made

    def kept(self, t: int, old: list[PartValue], new: list[PartValue]) -> tuple[list[PartValue], PartValue]:
        """(the states after step t, the step's output). A sequence that has ended keeps its state."""
        if self.lengths is None:
            return new, new[0]
        active = (self.lengths > t).op("reshape", shape=(self.batch, 1))
        state = [where(active, n, o) for n, o in zip(new, old, strict=True)]
        return state, where(active, new[0], 0)

    def product(self, h: PartValue, weights: PartValue) -> PartValue:
        return h.op("matmul", weights, transpose_b=True)

    def lstm(
        self, x: PartValue, weights: PartValue, state: list[PartValue], calls: Any, d: int
    ) -> list[PartValue]:
        h, c = state
        gates = x + self.product(h, weights)

        def peeped(index: int, value: PartValue, part: int) -> PartValue:
            gate = self.gate(gates, index)
            if self.peep is None:
                return gate
            own = self.part(self.plane(self.peep, d), 0, part * self.hidden, (part + 1) * self.hidden)
            return gate + own * value

        i = calls[0](self.clipped(peeped(0, c, 0)))
        f = 1 - i if self.attrs["input_forget"] else calls[0](self.clipped(peeped(2, c, 2)))
        new = i * calls[1](self.clipped(self.gate(gates, 3)))
        c = f * c + new
        o = calls[0](self.clipped(peeped(1, c, 1)))
        return [o * calls[2](c), c]

    def gru(
        self, x: PartValue, weights: PartValue, state: list[PartValue], calls: Any, d: int
    ) -> list[PartValue]:
        (h,), hidden = state, self.hidden
        own = self.part(weights, 0, 2 * hidden, 3 * hidden)
        past = self.product(h, self.part(weights, 0, 0, 2 * hidden))
        z, r = (calls[0](self.clipped(self.gate(x, i) + self.gate(past, i))) for i in range(2))
        if self.late is not None:
            new = r * (self.product(h, own) + self.plane(self.late, d))
        else:
            new = self.product(r * h, own)
        new = calls[1](self.clipped(self.gate(x, 2) + new))
        return [new + z * (h - new)]

    def rnn(
        self, x: PartValue, weights: PartValue, state: list[PartValue], calls: Any, d: int
    ) -> list[PartValue]:
        return [calls[0](self.clipped(x + self.product(state[0], weights)))]


_CELLS: dict[str, Callable[..., list[PartValue]]] = {
    "lstm": _Unrolled.lstm,
    "gru": _Unrolled.gru,
    "rnn": _Unrolled.rnn,
}
