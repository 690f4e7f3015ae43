"""RNN, GRU and LSTM, also quantized: one product for the inputs of all steps, then the cell's op over the
steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ....ir.ops.products.cells import CELLS
from ....ir.value import where
from ..context import Context, Results, converter
from ..tape import TapeValue
from .contrib.ops import CONTRIB
from .quantize import dense_of_integers, dynamic_grid, from_grid, numbers_of

# {ONNX's activation: its name in ir/ops/products/recurrent.py}
_ACTIVATIONS = {
    name.replace("_", ""): name
    for name in (
        "relu tanh sigmoid affine leaky_relu thresholded_relu scaled_tanh hard_sigmoid elu softsign softplus"
    ).split()
}
# {activation: default of the number that it takes from activation_alpha (_ALPHA) or activation_beta (_BETA)}
_ALPHA = {"affine": 1.0, "leaky_relu": 0.01, "thresholded_relu": 1.0, "scaled_tanh": 1.0, "hard_sigmoid": 0.2,
          "elu": 1.0}  # fmt: skip
_BETA = {"affine": 0.0, "scaled_tanh": 1.0, "hard_sigmoid": 0.5}


def _activations(ctx: Context, count: int) -> dict[str, Any]:
    """Attributes with the activation functions of all directions; empty if the node has the default
    functions."""
    names = ctx.attr("activations", None)
    alphas, betas = list(ctx.attr("activation_alpha", [])), list(ctx.attr("activation_beta", []))
    if not names:
        return {}
    if len(names) < count:
        ctx.fail(f"activations has {len(names)} names instead of {count}")
    found: list[tuple[str, float, float]] = []
    for name in names[:count]:  # for RNN, ONNX's default has one name too many
        if name.lower() not in _ACTIVATIONS:
            ctx.fail(f"activation {name!r} is not supported")
        own = _ACTIVATIONS[name.lower()]
        alpha = alphas.pop(0) if own in _ALPHA and alphas else _ALPHA.get(own, 1.0)
        beta = betas.pop(0) if own in _BETA and betas else _BETA.get(own, 0.0)
        found.append((own, alpha, beta))
    own_names, own_alphas, own_betas = zip(*found, strict=True)
    return {"activations": own_names, "alphas": own_alphas, "betas": own_betas}


def _biases(ctx: Context, gates: int, hidden: int, late: bool) -> tuple[TapeValue | None, TapeValue | None]:
    """(biases [D * gates * hidden] that are added to all gates at once; biases [D, hidden] that a GRU with
    linear_before_reset adds to the recurrent product of its hidden gate)."""
    given = ctx.optional(3)
    if given is None:
        return None, None
    half, given = gates * hidden, given.cast(_wide(given))
    inputs, own = ctx.slice(given, 1, 0, half), ctx.slice(given, 1, half, 2 * half)
    apart = None
    if late:
        apart = ctx.slice(own, 1, 2 * hidden, half)
        keep = np.arange(half) < 2 * hidden
        own = where(ctx.const(keep), own, 0)
    both = inputs + own
    return ctx.reshape(both, (both.type.size,)), apart


def _wide(x: TapeValue) -> str:
    """dtype in which a cell computes: float32 for 16-bit floats, else the dtype of x."""
    return x.dtype if x.type.nbytes >= 4 * x.type.size else "float32"


@dataclass(frozen=True)
class _Parts:
    """Inputs of a cell's op. ``gates``: products of the inputs of all steps [S, B, D G H], without biases.
    ``weights``: recurrent weights [D, G H, H]. ``dtype``: element type of the node's input."""

    gates: TapeValue
    weights: TapeValue
    dtype: str


def _plain(ctx: Context) -> _Parts:
    given, w, r = (ctx.input(i) for i in range(3))
    x, w, r = (value.cast(_wide(given)) for value in (_steps_first(ctx, given), w, r))
    rows = (w.shape[0] * w.shape[1], w.shape[2])
    return _Parts(ctx.op("matmul", x, ctx.reshape(w, rows), transpose_b=True), r, given.dtype)


def _steps_first(ctx: Context, x: TapeValue) -> TapeValue:
    return ctx.transpose(x, [1, 0, 2]) if ctx.attr("layout", 0) else x


def _grid_rows(ctx: Context, index: int, scale_at: int) -> tuple[TapeValue, TapeValue, TapeValue]:
    """(quantized weights [D, I, G H] as rows [D G H, I], the scale of each row, the zero point of each row).
    The node gives scales and zero points per direction or per column."""
    given = ctx.input(index)
    directions, _, width = given.shape
    numbers = []
    for param in (ctx.input(scale_at), ctx.input(scale_at + 1)):
        wide = ctx.reshape(param, (directions, param.type.size // directions))
        numbers.append(ctx.reshape(ctx.expand(wide, (directions, width)), (directions * width,)))
    rows = ctx.reshape(ctx.transpose(given, [0, 2, 1]), (directions * width, given.shape[1]))
    return rows, numbers[0], numbers[1]


def _on_grids(ctx: Context) -> _Parts:
    """The same parts as _plain makes, computed by a product of integers: x is quantized to the grid that fits
    its values."""
    given, (w, scale, zero) = ctx.input(0), _grid_rows(ctx, 1, 8)
    x, x_scale, x_zero = dynamic_grid(ctx, _steps_first(ctx, given))
    sums = dense_of_integers(ctx, x, x_zero, numbers_of(ctx, w, zero, 0))
    gates = sums.cast("float32") * (x_scale * scale)
    r, scale, zero = _grid_rows(ctx, 2, 10)
    directions, width = ctx.input(2).shape[0], ctx.input(2).shape[2]
    real = from_grid(ctx, r, scale, zero)
    return _Parts(gates, ctx.reshape(real, (directions, width, r.shape[1])), given.dtype)


def _cell(ctx: Context, op: str, read: Callable[[Context], _Parts] = _plain, **own: Any) -> Results:
    cell, parts = CELLS[op], read(ctx)
    gates, r, dtype = parts.gates, parts.weights, parts.gates.dtype
    directions, _, hidden = r.shape
    ctx.attr("hidden_size", hidden)
    bias, apart = _biases(ctx, cell.gates, hidden, bool(own.get("linear_before_reset")))
    gates = gates if bias is None else gates + bias
    steps, batch = gates.shape[:2]
    shape, states = (directions, batch, hidden), map(ctx.optional, range(5, 5 + cell.states))
    inputs = [gates, r]
    inputs += [ctx.full(shape, 0, dtype) if s is None else _steps_first(ctx, s.cast(dtype)) for s in states]
    if own.get("linear_before_reset"):
        inputs.append(ctx.full((directions, hidden), 0, dtype) if apart is None else apart)
    if own.get("peepholes"):
        inputs.append(ctx.input(7).cast(dtype))
    lengths = ctx.optional(4)
    known = None if lengths is None else lengths.known()
    if lengths is not None and (known is None or (known != steps).any()):
        if known is not None and (known.min() < 0 or known.max() > steps):
            ctx.fail(f"sequence_lens are from {known.min()} to {known.max()}, but there are {steps} steps")
        inputs.append(lengths.cast("int32"))
        own["lengths"] = True
    functions = _activations(ctx, len(cell.functions) * directions)
    y, *last = ctx.op(
        op,
        *inputs,
        direction=ctx.attr("direction", "forward"),
        clip=ctx.attr("clip", None),
        **functions,
        **own,
    )
    if ctx.attr("layout", 0):
        y, last = ctx.transpose(y, [2, 0, 1, 3]), [ctx.transpose(state, [1, 0, 2]) for state in last]
    return tuple(value.cast(parts.dtype) for value in (y, *last))


converter("RNN")(lambda ctx: _cell(ctx, "rnn"))
converter("GRU")(lambda ctx: _cell(ctx, "gru", linear_before_reset=bool(ctx.attr("linear_before_reset", 0))))


@converter("LSTM")
def _lstm(ctx: Context, read: Any = _plain, **more: Any) -> Results:
    own = {"peepholes": ctx.has(7), "input_forget": bool(ctx.attr("input_forget", 0))}
    return _cell(ctx, "lstm", read, **own, **more)


@converter("DynamicQuantizeLSTM", domain=CONTRIB, limits="on tt the state stays in float32")
def _dynamic_lstm(ctx: Context) -> Results:
    """A quantized LSTM: hosts quantize the state in each step, as ONNX Runtime does."""
    return _lstm(ctx, _on_grids, narrow=True)
