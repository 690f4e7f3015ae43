"""RNN, GRU and LSTM, also on a grid: the product of all inputs, then the cell's op over all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....ir.ops.cells import CELLS
from ..context import Context, Results, converter
from ..tape import TapeValue
from .contrib import CONTRIB
from .quantize import _dynamic_grid

# ONNX's activation -> (that of ir/ops/recurrent.py, how many numbers of activation_alpha and _beta it takes)
_ACTIVATIONS = {
    "relu": ("relu", 0, 0),
    "tanh": ("tanh", 0, 0),
    "sigmoid": ("sigmoid", 0, 0),
    "affine": ("affine", 1, 1),
    "leakyrelu": ("leaky_relu", 1, 0),
    "thresholdedrelu": ("thresholded_relu", 1, 0),
    "scaledtanh": ("scaled_tanh", 1, 1),
    "hardsigmoid": ("hard_sigmoid", 1, 1),
    "elu": ("elu", 1, 0),
    "softsign": ("softsign", 0, 0),
    "softplus": ("softplus", 0, 0),
}
# of the ops above, where a node gives too few numbers: ONNX's defaults
_ALPHA = {"affine": 1.0, "leaky_relu": 0.01, "thresholded_relu": 1.0, "scaled_tanh": 1.0, "hard_sigmoid": 0.2}
_BETA = {"scaled_tanh": 1.0, "hard_sigmoid": 0.5}


def _activations(ctx: Context, count: int) -> dict[str, Any]:
    """The attributes of the functions of all directions; none where they are the usual ones."""
    names = ctx.attr("activations", None)
    alphas, betas = list(ctx.attr("activation_alpha", [])), list(ctx.attr("activation_beta", []))
    if not names:
        return {}
    if len(names) < count:
        ctx.fail(f"activations has {len(names)} names, {count} are wanted")
    found: list[tuple[str, float, float]] = []
    for name in names[:count]:  # ONNX's own default of RNN has one too many
        if name.lower() not in _ACTIVATIONS:
            ctx.fail(f"activation {name!r} is not supported")
        own, takes_alpha, takes_beta = _ACTIVATIONS[name.lower()]
        alpha = alphas.pop(0) if takes_alpha and alphas else _ALPHA.get(own, 1.0)
        beta = betas.pop(0) if takes_beta and betas else _BETA.get(own, 0.0)
        found.append((own, alpha, beta))
    own_names, own_alphas, own_betas = zip(*found, strict=True)
    return {"activations": own_names, "alphas": own_alphas, "betas": own_betas}


def _biases(ctx: Context, gates: int, hidden: int, late: bool) -> tuple[TapeValue | None, TapeValue | None]:
    """(what is added to all gates at once, [D * gates * hidden]; [D, hidden] what a gru that is linear before
    reset adds to its hidden gate's own product)"""
    given = ctx.optional(3)
    if given is None:
        return None, None
    half, given = gates * hidden, ctx.cast(given, _wide(given))
    inputs, own = ctx.slice(given, 1, 0, half), ctx.slice(given, 1, half, 2 * half)
    apart = None
    if late:
        apart = ctx.slice(own, 1, 2 * hidden, half)
        keep = np.arange(half) < 2 * hidden
        own = ctx.op("where", ctx.const(keep), own, ctx.scalar(0, own))
    both = ctx.op("add", inputs, own)
    return ctx.reshape(both, (both.type.size,)), apart


def _wide(x: TapeValue) -> str:
    """What a cell computes in: floats of 16 bits as float32."""
    return x.dtype if x.type.nbytes >= 4 * x.type.size else "float32"


def _states(ctx: Context, count: int, shape: tuple[int, ...], dtype: str) -> list[TapeValue]:
    """The initial ones, [D, B, H]."""
    found = []
    for index in range(5, 5 + count):
        if not ctx.has(index):
            found.append(ctx.full(shape, 0, dtype))
            continue
        state = ctx.cast(ctx.input(index), dtype)
        found.append(ctx.transpose(state, [1, 0, 2]) if ctx.attr("layout", 0) else state)
    return found


def _plain(ctx: Context) -> tuple[TapeValue, TapeValue, TapeValue]:
    """x, the weights of the inputs [D, G H, I] and of the state [D, G H, H]."""
    x, w, r = (ctx.input(i) for i in range(3))
    return x, w, r


def _from_grid(ctx: Context, index: int, scale_at: int) -> TapeValue:
    """float32 [D, G H, I] of weights [D, I, G H] on a grid, which has a scale and a zero point for each
    direction, or for each of its columns."""
    given, numbers = ctx.input(index), []
    for param in (ctx.input(scale_at), ctx.input(scale_at + 1)):
        shape = (param.shape[0], 1, 1) if param.rank == 1 else (param.shape[0], 1, *param.shape[1:])
        numbers.append(ctx.cast(ctx.reshape(param, shape), "float32"))
    scale, zero = numbers
    real = ctx.op("multiply", ctx.op("subtract", ctx.cast(given, "float32"), zero), scale)
    return ctx.transpose(real, [0, 2, 1])


def _on_grids(ctx: Context) -> tuple[TapeValue, TapeValue, TapeValue]:
    """As _plain: x goes to the grid that fits it and back, weights come from theirs."""
    on_grid, scale, zero = _dynamic_grid(ctx, ctx.input(0))
    wide = ctx.op("subtract", ctx.cast(on_grid, "float32"), ctx.cast(zero, "float32"))
    return ctx.op("multiply", wide, scale), _from_grid(ctx, 1, 8), _from_grid(ctx, 2, 10)


def _cell(
    ctx: Context,
    op: str,
    read: Callable[[Context], tuple[TapeValue, TapeValue, TapeValue]] = _plain,
    **own: Any,
) -> Results:
    cell, first = CELLS[op], bool(ctx.attr("layout", 0))
    way = ctx.attr("direction", "forward")
    given, w, r = read(ctx)
    dtype, (directions, _, hidden) = _wide(given), r.shape
    x = ctx.transpose(given, [1, 0, 2]) if first else given
    x, w, r = (ctx.cast(value, dtype) for value in (x, w, r))
    ctx.attr("hidden_size", hidden)
    width = cell.gates * hidden
    gates = ctx.op("matmul", x, ctx.reshape(w, (directions * width, w.shape[2])), transpose_b=True)
    bias, apart = _biases(ctx, cell.gates, hidden, bool(own.get("linear_before_reset")))
    gates = gates if bias is None else ctx.op("add", gates, bias)
    steps, batch = x.shape[:2]
    inputs = [gates, r, *_states(ctx, cell.states, (directions, batch, hidden), dtype)]
    if own.get("linear_before_reset"):
        inputs.append(ctx.full((directions, hidden), 0, dtype) if apart is None else apart)
    if own.get("peepholes"):
        inputs.append(ctx.cast(ctx.input(7), dtype))
    lengths = ctx.optional(4)
    known = None if lengths is None else lengths.known()
    if lengths is not None and (known is None or (known != steps).any()):
        if known is not None and (known.min() < 0 or known.max() > steps):
            ctx.fail(f"sequence_lens are from {known.min()} to {known.max()}, there are {steps} steps")
        inputs.append(ctx.cast(lengths, "int32"))
        own["lengths"] = True
    functions = _activations(ctx, len(cell.functions) * directions)
    y, *last = ctx.op(op, *inputs, direction=way, clip=ctx.attr("clip", None), **functions, **own)
    if first:
        y, last = ctx.transpose(y, [2, 0, 1, 3]), [ctx.transpose(state, [1, 0, 2]) for state in last]
    return tuple(ctx.cast(value, given.dtype) for value in (y, *last))


@converter("RNN")
def _rnn(ctx: Context) -> Results:
    return _cell(ctx, "rnn")


@converter("GRU")
def _gru(ctx: Context) -> Results:
    return _cell(ctx, "gru", linear_before_reset=bool(ctx.attr("linear_before_reset", 0)))


@converter("LSTM")
def _lstm(ctx: Context, read: Any = _plain) -> Results:
    own = {"peepholes": ctx.has(7), "input_forget": bool(ctx.attr("input_forget", 0))}
    return _cell(ctx, "lstm", read, **own)


@converter("DynamicQuantizeLSTM", domain=CONTRIB, limits="the state stays in float32")
def _dynamic_lstm(ctx: Context) -> Results:
    """ONNX Runtime brings the state to a grid in each step, too, which only loses precision."""
    return _lstm(ctx, _on_grids)
