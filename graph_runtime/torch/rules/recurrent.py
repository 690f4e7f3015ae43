"""nn.LSTM, nn.GRU and nn.RNN as the registry's ops over all steps, one a layer; both directions are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..counters import Unsupported
from .operands import cast, reshape
from .table import rule

__all__ = ["why_not"]

# where our gates stand among torch's, which are input, forget, new and output, or reset, update and new
_ORDER = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}


def why_not(
    states: Any, params: Sequence[Any], biases: bool, layers: int, dropout: float, train: bool, both: bool
) -> str | None:
    """Why a layer of these arguments is no op of the registry; None where it is."""
    if train and dropout and layers > 1:
        return "dropout between its layers is drawn step by step"
    if len(params) != layers * (1 + both) * (4 if biases else 2):
        return "its states are projected"
    return None


@rule("lstm")
def lstm(e: Any, x: Any, states: Any, params: Any, *more: Any) -> Any:
    return _layers(e, "lstm", "", x, states, params, *more)


@rule("gru")
def gru(e: Any, x: Any, state: Any, params: Any, *more: Any) -> Any:
    return _layers(e, "gru", "", x, [state], params, *more)


@rule("rnn_tanh")
def rnn_tanh(e: Any, x: Any, state: Any, params: Any, *more: Any) -> Any:
    return _layers(e, "rnn", "", x, [state], params, *more)


@rule("rnn_relu")
def rnn_relu(e: Any, x: Any, state: Any, params: Any, *more: Any) -> Any:
    return _layers(e, "rnn", "relu", x, [state], params, *more)


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
    """(results [steps, batch, directions * width], the last states). States, an lstm has two, are [layers *
    directions, batch, width]; ``params`` of each direction of each layer are the weights of inputs and of
    states, and the biases of both."""
    if reason := why_not(states, params, biases, layers, dropout, train, both):
        raise Unsupported(reason)
    dtype, ways = x.dtype, 1 + both
    wide = "float64" if dtype == "float64" else "float32"
    x, *states = (cast(e, value, wide) for value in (x, *states))
    x = e.op("transpose", x, perm=(1, 0, 2)) if batch_first else x
    attrs: dict[str, Any] = {"direction": "bidirectional" if both else "forward"}
    attrs |= {"activations": (function,) * ways} if function else {}
    attrs |= {"linear_before_reset": True} if op == "gru" else {}
    each, ends = len(params) // layers, []
    for layer in range(layers):
        own = [cast(e, value, wide) for value in params[layer * each : (layer + 1) * each]]
        first = [_part(e, state, layer * ways, (layer + 1) * ways) for state in states]
        x, *last = e.op(op, *_inputs(e, op, x, own, ways, first), **attrs)
        x = e.op("transpose", x, perm=(0, 2, 1, 3)) if both else x
        steps, batch = (x.shape[0], x.shape[1]) if both else (x.shape[0], x.shape[2])
        x = reshape(e, x, (steps, batch, ways * last[0].shape[2]))
        ends.append(last)
    x = e.op("transpose", x, perm=(1, 0, 2)) if batch_first else x
    return tuple(
        cast(e, value, dtype) for value in (x, *(_joined(e, part) for part in zip(*ends, strict=True)))
    )


def _inputs(e: Any, op: str, x: Any, own: Sequence[Any], ways: int, states: Sequence[Any]) -> list[Any]:
    """The inputs of a layer's op: gates of all inputs, the weights of the states, the states, and of a gru
    the bias of its new gate by the state, on which reset acts."""
    (steps, batch, width), hidden, each = x.shape, states[0].shape[2], len(own) // ways
    gates, biased = len(_ORDER[op]), each == 4
    none, late = e.filled((hidden,), 0, x.dtype) if op == "gru" else None, []
    kinds: list[list[Any]] = [[] for _ in range(each)]
    for way in range(ways):
        for kind, value in enumerate(own[way * each : (way + 1) * each]):
            parts = [_part(e, value, gate * hidden, (gate + 1) * hidden) for gate in _ORDER[op]]
            if op == "gru" and kind == 3:
                late.append(parts[-1])
                parts[-1] = none
            kinds[kind] += parts
    weight, recurrent, *biases = (_joined(e, parts) for parts in kinds)
    bias = [e.op("add", *biases)] if biases else []
    made = e.op("dense", reshape(e, x, (steps * batch, width)), weight, *bias)
    made = reshape(e, made, (steps, batch, ways * gates * hidden))
    found = [made, reshape(e, recurrent, (ways, gates * hidden, hidden)), *states]
    if op == "gru":
        found.append(reshape(e, _joined(e, late if biased else [none] * ways), (ways, hidden)))
    return found


def _part(e: Any, value: Any, first: int, last: int) -> Any:
    """Rows first .. last - 1."""
    if (first, last) == (0, value.shape[0]):
        return value
    return e.op("slice", value, axes=(0,), starts=(first,), ends=(last,))


def _joined(e: Any, values: Sequence[Any]) -> Any:
    return values[0] if len(values) == 1 else e.op("concatenate", *values, axis=0)
