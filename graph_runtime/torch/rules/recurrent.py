"""nn.LSTM, nn.GRU and nn.RNN: each layer, with all its steps and both directions, is one op of the
registry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..counters import Unsupported
from .operands import joined, reshape
from .table import rule

# for each gate of our op, its position among torch's gates: input, forget, new, output; or reset, update, new
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


def why_not(
    states: Any, params: Sequence[Any], biases: bool, layers: int, dropout: float, train: bool, both: bool
) -> str | None:
    """Why a layer with these arguments cannot be one op of the registry; None if it can."""
    if train and dropout and layers > 1:
        return "dropout between its layers is drawn step by step"
    if len(params) != layers * (1 + both) * (4 if biases else 2):
        return "its states are projected"
    return None


rule("lstm")(lambda e, x, states, *more: _layers(e, "lstm", "", x, states, *more))
rule("gru")(lambda e, x, state, *more: _layers(e, "gru", "", x, [state], *more))
rule("rnn_tanh")(lambda e, x, state, *more: _layers(e, "rnn", "", x, [state], *more))
rule("rnn_relu")(lambda e, x, state, *more: _layers(e, "rnn", "relu", x, [state], *more))


def _layers(
    e: Any,
    op: str,
    function: str,
    x: Any,
    states: Sequence[Any],
    params: Sequence[Any],
    biases: bool,
    layers: int,
    dropout: float,
    train: bool,
    both: bool,
    batch_first: bool,
) -> Any:
    """(results [steps, batch, directions * width], then the last states). ``states``: one value, or two for
    an lstm, each [layers * directions, batch, width]. ``params``: for each direction of each layer the weight
    of inputs, the weight of states, and if there are biases the bias of each."""
    if reason := why_not(states, params, biases, layers, dropout, train, both):
        raise Unsupported(reason)
    dtype, ways = x.dtype, 1 + both
    wide = "float64" if dtype == "float64" else "float32"
    x, *states = (value.cast(wide) for value in (x, *states))
    x = x.op("transpose", perm=(1, 0, 2)) if batch_first else x
    attrs: dict[str, Any] = {"direction": "bidirectional" if both else "forward"}
    attrs |= {"activations": (function,) * ways} if function else {}
    attrs |= {"linear_before_reset": True} if op == "gru" else {}
    each, ends = len(params) // layers, []
    for layer in range(layers):
        own = [value.cast(wide) for value in params[layer * each : (layer + 1) * each]]
        first = [_part(state, layer * ways, (layer + 1) * ways) for state in states]
        x, *last = _inputs(e, op, x, own, ways, first)
        x, *last = x.op(op, *last, **attrs)
        x = x.op("transpose", perm=(0, 2, 1, 3)) if both else x
        steps, batch = (x.shape[0], x.shape[1]) if both else (x.shape[0], x.shape[2])
        x = reshape(x, (steps, batch, ways * last[0].shape[2]))
        ends.append(last)
    x = x.op("transpose", perm=(1, 0, 2)) if batch_first else x
    return tuple(value.cast(dtype) for value in (x, *(joined(part) for part in zip(*ends, strict=True))))


def _inputs(e: Any, op: str, x: Any, own: Sequence[Any], ways: int, states: Sequence[Any]) -> list[Any]:
    """The inputs of a layer's op: the gates' values from x, the weights of the states, the states, and for a
    gru the bias of the new gate's state part, which the reset gate multiplies."""
    (steps, batch, width), hidden, each = x.shape, states[0].shape[2], len(own) // ways
    gates, biased = len(_ORDER[op]), each == 4
    none, late = e.filled((hidden,), 0, x.dtype) if op == "gru" else None, []
    kinds: list[list[Any]] = [[] for _ in range(each)]
    for way in range(ways):
        for kind, value in enumerate(own[way * each : (way + 1) * each]):
            parts = [_part(value, gate * hidden, (gate + 1) * hidden) for gate in _ORDER[op]]
            if op == "gru" and kind == 3:
                late.append(parts[-1])
                parts[-1] = none
            kinds[kind] += parts
    weight, recurrent, *biases = (joined(parts) for parts in kinds)
    bias = [biases[0] + biases[1]] if biases else []
    made = reshape(x, (steps * batch, width)).op("dense", weight, *bias)
    made = reshape(made, (steps, batch, ways * gates * hidden))
    found = [made, reshape(recurrent, (ways, gates * hidden, hidden)), *states]
    if op == "gru":
        found.append(reshape(joined(late if biased else [none] * ways), (ways, hidden)))
    return found


def _part(value: Any, first: int, last: int) -> Any:
    """Rows first to last - 1 of a value."""
    if (first, last) == (0, value.shape[0]):
        return value
    return value.op("slice", axes=(0,), starts=(first,), ends=(last,))
