"""RNN, GRU and LSTM, also on a grid: the product of all inputs, then the cell's op over all steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir.ops.products.cells import CELLS
from ..context import Context, Results, converter
from ..tape import TapeValue
from .contrib.ops import CONTRIB
from .quantize import dense_of_integers, dynamic_grid, from_grid, numbers_of

# ONNX's activation -> (that of ir/ops/products/recurrent.py, its numbers of activation_alpha and _beta)
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


@dataclass(frozen=True)
class _Parts:
    """What a cell's op is made of: the gates of all inputs, [S, B, D G H], without biases; the weights of the
    state [D, G H, H]; the element type of what the node is given."""

    gates: TapeValue
    weights: TapeValue
    dtype: str


def _plain(ctx: Context) -> _Parts:
    given, w, r = (ctx.input(i) for i in range(3))
    x, w, r = (ctx.cast(value, _wide(given)) for value in (_steps_first(ctx, given), w, r))
    rows = (w.shape[0] * w.shape[1], w.shape[2])
    return _Parts(ctx.op("matmul", x, ctx.reshape(w, rows), transpose_b=True), r, given.dtype)


def _steps_first(ctx: Context, x: TapeValue) -> TapeValue:
    return ctx.transpose(x, [1, 0, 2]) if ctx.attr("layout", 0) else x


def _grid_rows(ctx: Context, index: int, scale_at: int) -> tuple[TapeValue, TapeValue, TapeValue]:
    """Weights [D, I, G H] on a grid as [D G H, I], and the scale and the zero point of each of these rows: a
    grid is of a direction, or of a column."""
    given = ctx.input(index)
    directions, _, width = given.shape
    numbers = []
    for param in (ctx.input(scale_at), ctx.input(scale_at + 1)):
        wide = ctx.reshape(param, (directions, param.type.size // directions))
        numbers.append(ctx.reshape(ctx.expand(wide, (directions, width)), (directions * width,)))
    rows = ctx.reshape(ctx.transpose(given, [0, 2, 1]), (directions * width, given.shape[1]))
    return rows, numbers[0], numbers[1]


def _on_grids(ctx: Context) -> _Parts:
    """As _plain, in integers: x goes to the grid that fits it."""
    given, (w, scale, zero) = ctx.input(0), _grid_rows(ctx, 1, 8)
    x, x_scale, x_zero = dynamic_grid(ctx, _steps_first(ctx, given))
    sums = dense_of_integers(ctx, x, x_zero, numbers_of(ctx, w, zero, 0))
    gates = ctx.op("multiply", ctx.cast(sums, "float32"), ctx.op("multiply", x_scale, scale))
    r, scale, zero = _grid_rows(ctx, 2, 10)
    directions, width = ctx.input(2).shape[0], ctx.input(2).shape[2]
    real = from_grid(ctx, r, scale, zero)
    return _Parts(gates, ctx.reshape(real, (directions, width, r.shape[1])), given.dtype)


def _cell(
    ctx: Context,
    op: str,
    read: Callable[[Context], _Parts] = _plain,
    **own: Any,
) -> Results:
    cell, first = CELLS[op], bool(ctx.attr("layout", 0))
    way = ctx.attr("direction", "forward")
    parts = read(ctx)
    gates, r, dtype = parts.gates, parts.weights, parts.gates.dtype
    directions, _, hidden = r.shape
    ctx.attr("hidden_size", hidden)
    bias, apart = _biases(ctx, cell.gates, hidden, bool(own.get("linear_before_reset")))
    gates = gates if bias is None else ctx.op("add", gates, bias)
    steps, batch = gates.shape[:2]
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
    return tuple(ctx.cast(value, parts.dtype) for value in (y, *last))


@converter("RNN")
def _rnn(ctx: Context) -> Results:
    return _cell(ctx, "rnn")


@converter("GRU")
def _gru(ctx: Context) -> Results:
    return _cell(ctx, "gru", linear_before_reset=bool(ctx.attr("linear_before_reset", 0)))


@converter("LSTM")
def _lstm(ctx: Context, read: Any = _plain, **more: Any) -> Results:
    own = {"peepholes": ctx.has(7), "input_forget": bool(ctx.attr("input_forget", 0))}
    return _cell(ctx, "lstm", read, **own, **more)


@converter("DynamicQuantizeLSTM", domain=CONTRIB, limits="on tt the state stays in float32")
def _dynamic_lstm(ctx: Context) -> Results:
    """Hosts bring the state to a grid in each step, as ONNX Runtime does."""
    return _lstm(ctx, _on_grids, narrow=True)
