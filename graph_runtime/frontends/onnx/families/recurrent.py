"""RNN, GRU and LSTM, unrolled: one product of all inputs by the weights, then a few ops a step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..context import Context, Results, converter
from ..tape import TapeValue

MOST_STEPS = 4096  # steps of a sequence that are unrolled

# ONNX's activation -> (registry op, attribute that its alpha is, that its beta is)
_ACTIVATIONS = {
    "relu": ("relu", None, None),
    "tanh": ("tanh", None, None),
    "sigmoid": ("sigmoid", None, None),
    "leakyrelu": ("leaky_relu", "alpha", None),
    "thresholdedrelu": ("thresholded_relu", "alpha", None),
    "hardsigmoid": ("hard_sigmoid", "alpha", "beta"),
    "elu": ("elu", "alpha", None),
    "softsign": ("softsign", None, None),
    "softplus": ("softplus", None, None),
}


class _Cell:
    """What the three have in common: one direction of the layer. Gates are of [batch, hidden]."""

    def __init__(self, ctx: Context, gates: int, direction: int, activations: list[Callable[..., Any]]):
        self.ctx, self.direction, self.activations = ctx, direction, activations
        x, w, r = (ctx.input(i) for i in range(3))
        self.hidden = r.shape[2]
        self.x = x if not ctx.attr("layout", 0) else ctx.transpose(x, [1, 0, 2])
        self.w, self.r = self.of(w), self.of(r)
        self.wb = self.rb = None
        if ctx.has(3):
            bias = self.of(ctx.input(3))
            half = gates * self.hidden
            self.wb, self.rb = ctx.slice(bias, 0, 0, half), ctx.slice(bias, 0, half, 2 * half)
        self.clip = ctx.attr("clip", None)

    def of(self, value: TapeValue) -> TapeValue:
        """This direction's part of weights."""
        part = self.ctx.slice(value, 0, self.direction, self.direction + 1)
        return self.ctx.reshape(part, value.shape[1:])

    def initial(self, index: int) -> TapeValue:
        ctx, batch = self.ctx, self.x.shape[1]
        if not ctx.has(index):
            return ctx.full((batch, self.hidden), 0, self.x.dtype)
        value, axis = ctx.input(index), 1 if ctx.attr("layout", 0) else 0
        part = ctx.slice(value, axis, self.direction, self.direction + 1)
        return ctx.reshape(part, (batch, self.hidden))

    def inputs(self) -> TapeValue:
        """[steps, batch, gates * hidden]: x times the weights, for all steps at once."""
        made = self.ctx.op("matmul", self.x, self.w, transpose_b=True)
        return made if self.wb is None else self.ctx.op("add", made, self.wb)

    def recurrent(self, h: TapeValue) -> TapeValue:
        made = self.ctx.op("matmul", h, self.r, transpose_b=True)
        return made if self.rb is None else self.ctx.op("add", made, self.rb)

    def gate(self, value: TapeValue, index: int) -> TapeValue:
        return self.ctx.slice(value, 1, index * self.hidden, (index + 1) * self.hidden)

    def act(self, index: int, value: TapeValue) -> TapeValue:
        if self.clip is not None:
            value = self.ctx.op("clip", value, min=-self.clip, max=self.clip)
        return self.activations[index](value)


def _activations(ctx: Context, each: list[str], directions: int) -> list[Callable[..., Any]]:
    """A function for each activation of each direction."""
    names = ctx.attr("activations", None) or each * directions
    alphas, betas = list(ctx.attr("activation_alpha", [])), list(ctx.attr("activation_beta", []))
    found = []
    for name in names:
        if name.lower() == "affine":
            alpha, beta = (alphas.pop(0) if alphas else 1.0), (betas.pop(0) if betas else 0.0)
            found.append(
                lambda v, a=alpha, b=beta: ctx.op(
                    "add", ctx.op("multiply", v, ctx.scalar(a, v)), ctx.scalar(b, v)
                )
            )
            continue
        if name.lower() not in _ACTIVATIONS:
            ctx.fail(f"activation {name!r} is not supported")
        op, alpha, beta = _ACTIVATIONS[name.lower()]
        attrs = {alpha: alphas.pop(0)} if alpha and alphas else {}
        attrs |= {beta: betas.pop(0)} if beta and betas else {}
        found.append(lambda v, op=op, attrs=attrs: ctx.op(op, v, **attrs))
    return found


def _unroll(ctx: Context, gates: int, defaults: list[str], states: int, step: Callable[..., Any]) -> Results:
    """``step(cell, x [batch, gates * hidden], *states) -> states``; the first state is the step's output."""
    way = ctx.attr("direction", "forward")
    backward = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}.get(way)
    if backward is None:
        ctx.fail(f"direction is {way!r}")
    activations, each = _activations(ctx, defaults, len(backward)), len(defaults)
    outputs, finals = [], []
    for d, reverse in enumerate(backward):
        cell = _Cell(ctx, gates, d, activations[d * each : (d + 1) * each])
        hidden, last = _direction(ctx, cell, reverse, [cell.initial(5 + i) for i in range(states)], step)
        outputs.append(hidden)
        finals.append(last)
    ctx.attr("hidden_size", cell.hidden)
    return _joined(ctx, outputs, finals)


def _direction(
    ctx: Context, cell: _Cell, reverse: bool, state: list[TapeValue], step: Callable[..., Any]
) -> tuple[list[TapeValue], list[TapeValue]]:
    """(output of each step, in the order of the input; the last state)."""
    steps, batch = cell.x.shape[:2]
    if steps > MOST_STEPS:
        ctx.fail(f"{steps} steps are unrolled, at most {MOST_STEPS} are supported")
    lengths = ctx.value(4, None)
    if lengths is not None and (lengths != steps).any():
        ctx.fail("sequence_lens that differ from the number of steps are not supported")
    projected, hidden = cell.inputs(), list[TapeValue]()
    for t in reversed(range(steps)) if reverse else range(steps):
        x = ctx.reshape(ctx.slice(projected, 0, t, t + 1), (batch, projected.shape[2]))
        state = list(step(cell, x, *state))
        hidden.append(state[0])
    return hidden[::-1] if reverse else hidden, state


def _joined(ctx: Context, outputs: list[list[TapeValue]], finals: list[list[TapeValue]]) -> Results:
    """Y [steps, directions, batch, hidden], then each final state [directions, batch, hidden]; with layout 1
    the batch comes first."""
    first = bool(ctx.attr("layout", 0))
    steps = [ctx.stack(list(both), 0) for both in zip(*outputs, strict=True)]
    y = ctx.stack(steps, 0) if steps else None
    last = [ctx.stack(list(both), 0) for both in zip(*finals, strict=True)]
    if first:
        y = None if y is None else ctx.transpose(y, [2, 0, 1, 3])
        last = [ctx.transpose(v, [1, 0, 2]) for v in last]
    return (y, *last)


@converter("RNN", limits="unrolled; sequence_lens only where all are full")
def _rnn(ctx: Context) -> Results:
    def step(cell: _Cell, x: TapeValue, h: TapeValue) -> tuple[TapeValue]:
        return (cell.act(0, ctx.op("add", x, cell.recurrent(h))),)

    return _unroll(ctx, 1, ["Tanh"], 1, step)


@converter("GRU", limits="unrolled; sequence_lens only where all are full")
def _gru(ctx: Context) -> Results:
    late = bool(ctx.attr("linear_before_reset", 0))

    def step(cell: _Cell, x: TapeValue, h: TapeValue) -> tuple[TapeValue]:
        past = cell.recurrent(h)
        z, r = (cell.act(0, ctx.op("add", cell.gate(x, i), cell.gate(past, i))) for i in (0, 1))
        if late:
            new = ctx.op("multiply", r, cell.gate(past, 2))
        else:
            new = cell.gate(cell.recurrent(ctx.op("multiply", r, h)), 2)
        new = cell.act(1, ctx.op("add", cell.gate(x, 2), new))
        kept = ctx.op("multiply", z, ctx.op("subtract", h, new))
        return (ctx.op("add", new, kept),)

    return _unroll(ctx, 3, ["Sigmoid", "Tanh"], 1, step)


@converter("LSTM", limits="unrolled; sequence_lens only where all are full")
def _lstm(ctx: Context) -> Results:
    peepholes, coupled = ctx.optional(7), bool(ctx.attr("input_forget", 0))

    def peep(cell: _Cell, value: TapeValue, state: TapeValue, index: int) -> TapeValue:
        if peepholes is None:
            return value
        own = cell.of(peepholes)
        weights = ctx.slice(own, 0, index * cell.hidden, (index + 1) * cell.hidden)
        return ctx.op("add", value, ctx.op("multiply", weights, state))

    def step(cell: _Cell, x: TapeValue, h: TapeValue, c: TapeValue) -> tuple[TapeValue, TapeValue]:
        gates = ctx.op("add", x, cell.recurrent(h))
        i = cell.act(0, peep(cell, cell.gate(gates, 0), c, 0))
        if coupled:
            f = ctx.op("subtract", ctx.scalar(1, i), i)
        else:
            f = cell.act(0, peep(cell, cell.gate(gates, 2), c, 2))
        new = ctx.op("multiply", i, cell.act(1, cell.gate(gates, 3)))
        c = ctx.op("add", ctx.op("multiply", f, c), new)
        o = cell.act(0, peep(cell, cell.gate(gates, 1), c, 1))
        return ctx.op("multiply", o, cell.activations[2](c)), c

    return _unroll(ctx, 4, ["Sigmoid", "Tanh", "Tanh"], 2, step)
