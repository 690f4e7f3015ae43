"""lstm, gru, rnn: a cell that runs over all steps of sequences. The inputs' share of the gates (x W^T + the
biases) is computed before the cell runs, by one product for all steps.

C contract, for S steps, B rows, D directions, hidden size H and G gates. Args:
    gates      [S, B, D G H], the inputs' share
    weights    [D, G H, H]. If packed, the weights are in panels: of float32 or pairs of bfloat16 (panels_of;
               with pairs the state is rounded, too), or of bytes (byte_panels_of)
    h, c       [D, B, H], the initial states; c for lstm only
    optional   the inputs that the flags name, in this order: the late bias [D, H], peepholes [D, 3 H], scales
               of the columns of panels of bytes [panels, 32], lengths int32 [B]
    outputs    y [S, D, B, H], the last h, for lstm the last c
Gates are in ONNX's order: lstm input, output, forget, cell; gru update, reset, hidden; peepholes input,
output, forget. Attribute words:
    [0] direction: 0 forward, 1 reverse, 2 both
    [1] clip, the bits of a double
    [2] flags: 1 peepholes, 2 lengths, 4 the forget gate is 1 - the input gate, 8 linear before reset,
        16 panels of bytes
    [3] packed
    then three words for each function of each direction: its code, and alpha and beta as the bits of doubles
    at the end, on tt only, the words of numerics.py
A row whose sequence has ended keeps its state, and its y is 0. The formulas are those of ONNX's LSTM, GRU and
RNN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..numerics import ATTRS
from ..registry import Attr, Body, Case, define
from ..work import Pass, Product, Work
from .byte_panels import MOST_K
from .cells import (
    CELL_BYTES,
    CELL_ROWS,
    CELLS,
    FUNCTIONS,
    apply_function,
    byte_panels_of,
    flags_of,
    function_numbers,
    held_columns,
    is_in_bytes,
    panels_of,
    plain_of,
    real_of_bytes,
    round_up,
    state_in_bytes,
)
from .packed import PAIRED, is_paired, packed_attr, paired_type, refuse_panels, unpair

_WAYS = ("forward", "reverse", "bidirectional")


# ---------------------------------------------------------------- types and words


def _functions(op: str, directions: int, attrs) -> list[tuple[str, float, float]]:
    """(name, alpha, beta) of each function, direction after direction."""
    own = CELLS[op].functions * directions
    names = attrs["activations"] or own
    if len(names) != len(own):
        rules.fail(op, f"activations must name {len(own)} functions, got {len(names)}", got=len(names))
    given = [list(attrs["alphas"]), list(attrs["betas"])]
    for what, numbers in zip(("alphas", "betas"), given, strict=True):
        if numbers and len(numbers) != len(own):
            rules.fail(op, f"{what} must be {len(own)} numbers or none, got {len(numbers)}", got=len(numbers))
    for name in names:
        if name not in FUNCTIONS:
            rules.fail(op, f"there is no function {name!r}", got=name, wanted=FUNCTIONS)
    alphas, betas = (
        numbers or [function_numbers(name)[k] for name in names] for k, numbers in enumerate(given)
    )
    return list(zip(names, alphas, betas, strict=True))


def _words(op, inputs, outputs, attrs):
    way = _WAYS.index(attrs["direction"])
    clip = math.inf if attrs["clip"] is None else attrs["clip"]
    flags = flags_of(attrs) | 16 * is_in_bytes(inputs[1], attrs)
    words = [way, rules.float_word(clip), flags, int(attrs["packed"] > 0)]
    for name, alpha, beta in _functions(op, inputs[2].shape[0], attrs):
        words += [FUNCTIONS.index(name), rules.float_word(alpha), rules.float_word(beta)]
    return words


def _shapes(op, steps, state, weights, flags, in_bytes=False):
    """The shape of each input, given states [directions, batch, hidden]."""
    directions, batch, hidden = state
    found = [(steps, batch, directions * CELLS[op].gates * hidden), weights, *[state] * CELLS[op].states]
    found += [(directions, hidden)] if flags & 8 else []
    found += [(directions, 3 * hidden)] if flags & 1 else []
    found += [(weights[0], 32)] if in_bytes else []
    return found + ([(batch,)] if flags & 2 else [])


def _infer(op, inputs, attrs):
    cell, flags = CELLS[op], flags_of(attrs)
    in_bytes = len(inputs) > 1 and is_in_bytes(inputs[1], attrs)
    count = 2 + cell.states + bin(flags & 11).count("1") + in_bytes
    if len(inputs) != count:
        rules.fail(op, f"with these attributes it takes {count} inputs, got {len(inputs)}", got=len(inputs))
    paired = is_paired(inputs[1], attrs)
    rest = inputs[:-1] if flags & 2 else inputs
    floats = [t for i, t in enumerate(rest) if i != 1 or not (paired or in_bytes)]
    dtype = rules.one_dtype(op, floats, ("float32",) if in_bytes else ("float32", "float64"))
    gates, h = inputs[0].shape, inputs[2].shape
    if len(gates) != 3 or len(h) != 3:
        rules.fail(op, f"gates and states have 3 dimensions, got {inputs[0]} and {inputs[2]}", got=gates)
    directions, batch, hidden = h
    if directions != (2 if attrs["direction"] == "bidirectional" else 1):
        rules.fail(op, f"it is {attrs['direction']}, its states are of {directions} directions", got=h)
    weights: tuple[int, ...] = (directions, cell.gates * hidden, hidden)
    if attrs["packed"]:
        panels = (byte_panels_of if in_bytes else panels_of)(op, directions, hidden)
        weights = (paired_type(panels) if paired else panels).shape
    wanted = _shapes(op, gates[0], h, weights, flags, in_bytes)
    for i, (t, shape) in enumerate(zip(inputs, wanted, strict=True)):
        if t.shape != shape:
            rules.fail(op, f"input {i} must be {list(shape)}, got {t}", got=t.shape, wanted=shape)
    if flags & 2 and inputs[-1] != TensorType("int32", (batch,)):
        rules.fail(op, f"lengths must be int32, got {inputs[-1]}", got=inputs[-1].dtype)
    if not hidden:
        rules.fail(op, "the hidden size is 0", got=h)
    if in_bytes and hidden > MOST_K:
        rules.fail(op, f"sums of {hidden} products of bytes do not fit int32", got=hidden, wanted=MOST_K)
    _functions(op, directions, attrs)
    y = TensorType(dtype, (gates[0], directions, batch, hidden))
    return [y, *[TensorType(dtype, h)] * cell.states]


# ---------------------------------------------------------------- memory


def _scratch(op, i, o, a):
    """Bytes for the gates of a step, a gru's second product, and panels if the weights are plain. With
    weights in bytes also for the numbers of each column, the state in bytes, and a scale for each row."""
    directions, batch, hidden = i[2].shape
    size = dtypes.to_numpy(i[0].dtype).itemsize
    floats = batch * directions * hidden * (CELLS[op].gates + (op == "gru"))
    if is_in_bytes(i[1], a):
        return 4 * (floats + 3 * 32 * i[1].shape[0] + batch * directions) + batch * directions * hidden
    if size == 4 and not a["packed"]:
        floats += panels_of(op, directions, hidden).size
    return size * floats


def _refuse_on_tt(op, i, o, a):
    if a["packed"]:
        return "it reads plain weights, these are in panels (packed)"
    _, batch, hidden = i[2].shape
    _, nbytes = held_columns(op, batch, hidden, flags_of(a))
    if nbytes > CELL_BYTES:
        states = f"the states of {min(CELL_ROWS, batch)} rows of {hidden}"
        return f"{states} take {nbytes} B of a core, more than {CELL_BYTES}"
    return None


# ---------------------------------------------------------------- reference


def _reference(op, arrays, attrs):
    cell, flags = CELLS[op], flags_of(attrs)
    gates, weights, *states = (np.asarray(a) for a in arrays[: 2 + cell.states])
    rest = list(arrays[2 + cell.states :])
    directions, batch, hidden = states[0].shape
    in_bytes = is_in_bytes(TensorType(weights.dtype.name, weights.shape), attrs)
    paired = weights.dtype.name == PAIRED
    if paired:
        weights = unpair(weights, hidden)
    if attrs["packed"] and not in_bytes:
        weights = plain_of(op, weights, directions, hidden)
    late = rest.pop(0) if flags & 8 else None
    peep = rest.pop(0) if flags & 1 else np.zeros((directions, 3 * hidden))
    if in_bytes:
        weights = real_of_bytes(op, weights, rest.pop(0), directions, hidden)
    steps = gates.shape[0]
    lengths = rest.pop(0) if flags & 2 else np.full(batch, steps)
    functions = _functions(op, directions, attrs)
    y = np.zeros((steps, directions, batch, hidden))
    final = [np.array(state, np.float64) for state in states]
    for d in range(directions):
        backward = attrs["direction"] == "reverse" or d == 1
        each = len(cell.functions)
        calls = [_call(f, attrs["clip"]) for f in functions[d * each : (d + 1) * each]]
        width = cell.gates * hidden
        part = gates[:, :, d * width : (d + 1) * width].astype(np.float64)
        times = partial(_times, weights[d].astype(np.float64), paired)
        for t in reversed(range(steps)) if backward else range(steps):
            own = [state[d] for state in final]
            read = [state_in_bytes(own[0]), *own[1:]] if in_bytes else own
            extra = peep[d].reshape(3, hidden) if op == "lstm" else None if late is None else late[d]
            made = _STEPS[op](part[t], times, read, calls, extra, attrs)
            active = (t < np.asarray(lengths))[:, None]
            for state, old, new in zip(final, own, made, strict=True):
                state[d] = np.where(active, new, old)
            y[t, d] = np.where(active, final[0][d], 0)
    return [a.astype(arrays[0].dtype) for a in (y, *final)]


def _call(function, clip):
    """(the function of a clipped argument, the function itself)."""
    name, alpha, beta = function
    plain = partial(apply_function, name, alpha, beta)
    return (plain if clip is None else lambda x: plain(np.clip(x, -clip, clip))), plain


def _times(w, paired, state, first=0, last=None):
    """The product of a state (rounded to bfloat16 if ``paired``) and the columns ``first`` to ``last`` of the
    weights."""
    return (rules.narrow(state, PAIRED).astype(np.float64) if paired else state) @ w[first:last].T


def _lstm(gates, times, states, calls, peep, attrs):
    h, c = states
    i, o, f, g = np.split(gates + times(h), 4, axis=1)
    i = calls[0][0](i + peep[0] * c)
    f = 1 - i if attrs["input_forget"] else calls[0][0](f + peep[2] * c)
    c = f * c + i * calls[1][0](g)
    return [calls[0][0](o + peep[1] * c) * calls[2][1](c), c]


def _gru(gates, times, states, calls, late, attrs):
    (h,), ahead = states, 2 * states[0].shape[1]
    z, r = np.split(calls[0][0](gates[:, :ahead] + times(h, 0, ahead)), 2, axis=1)
    n = r * (times(h, ahead) + late) if attrs["linear_before_reset"] else times(r * h, ahead)
    n = calls[1][0](gates[:, ahead:] + n)
    return [(1 - z) * n + z * h]


def _rnn(gates, times, states, calls, extra, attrs):
    return [calls[0][0](gates + times(states[0]))]


_STEPS = {"lstm": _lstm, "gru": _gru, "rnn": _rnn}


# ---------------------------------------------------------------- the ops


def _work(op, i, o, a):
    """The work of the steps, one after the other; each direction of every 32 rows has a core of its own."""
    steps = i[0].shape[0]
    directions, batch, hidden = i[2].shape
    blocks = -(-batch // CELL_ROWS)
    cores, width = directions * blocks, CELLS[op].gates * hidden
    product = Product(steps * cores, min(batch, CELL_ROWS), hidden, width, cores=cores)
    states, gates = steps * cores * -(-hidden // 32), steps * cores * -(-width // 32)
    passes = [Pass("add", gates, cores), Pass("sigmoid", gates, cores), Pass("multiply", 3 * states, cores)]
    if held_columns(op, batch, hidden, flags_of(a))[0] < round_up(width):  # the weights are read in each step
        passes.append(Pass("nop", gates * -(-hidden // 32), cores))
    return Work(product, tuple(passes))


def _paired_case(case: Case) -> Case:
    """The case with its panels in bfloat16, rows in pairs."""
    panels = TensorType(*case.inputs[1])
    inputs = (case.inputs[0], (PAIRED, paired_type(panels).shape), *case.inputs[2:])
    return replace(case, name=f"bf16_{case.name}", inputs=inputs, nmse=rules.SUMMED[PAIRED])


def _case(op: str, name: str, sizes: Sequence[int], dtype: str = "float32", **attrs: Any) -> Case:
    steps, batch, hidden = sizes
    cell, directions = CELLS[op], 2 if attrs.get("direction") == "bidirectional" else 1
    flags = flags_of(attrs)
    weights: tuple[int, ...] = (directions, cell.gates * hidden, hidden)
    if attrs.get("packed"):
        weights = panels_of(op, directions, hidden).shape
    inputs = [(dtype, shape) for shape in _shapes(op, steps, (directions, batch, hidden), weights, flags)]
    if flags & 2:
        inputs[-1] = ("int32", (batch,))
    make = ("uniform",) * (len(inputs) - bool(flags & 2)) + (f"index:{steps + 1}",) * bool(flags & 2)
    on_cpu = 1e-9 if dtypes.to_numpy(dtype).itemsize == 4 else 1e-22
    nmse = rules.SUMMED["float32"] | {"cpu": on_cpu, "tt/f32": 1e-9}
    return Case(name, tuple(inputs), attrs, make=make, nmse=nmse)


def _byte_cases():
    for name, sizes, way, attrs in (
        ("bytes", (6, 5, 48), "bidirectional", {}),
        ("bytes_one_row", (7, 1, 64), "forward", {}),
        ("bytes_odd", (4, 9, 37), "reverse", dict[str, Any](peepholes=True, lengths=True)),
        ("bytes_rows", (3, 37, 9), "bidirectional", {}),
    ):
        case = _case("lstm", name, sizes, direction=way, packed=1, narrow=True, **attrs)
        hidden = sizes[2]
        panels = byte_panels_of("lstm", 2 if way == "bidirectional" else 1, hidden)
        at = len(case.inputs) - bool(attrs.get("lengths"))
        scales = ("float32", (panels.shape[0], 32))
        inputs = (case.inputs[0], ("int8", panels.shape), *case.inputs[2:at], scales, *case.inputs[at:])
        make = (case.make[0], f"byte_panels:{hidden}", *case.make[2:at], "thousandths", *case.make[at:])
        # float32 may round a number between two steps of the grid to the other step
        yield replace(case, inputs=inputs, make=make, nmse=case.nmse | {"cpu": 1e-6})


def _cases(op: str):
    own, both = len(CELLS[op].functions), {"direction": "bidirectional"}
    yield _case(op, "forward", (5, 3, 40))
    yield _case(op, "reverse", (4, 1, 33), direction="reverse")
    yield _case(op, "both", (7, 9, 32), **both)
    yield _case(op, "rows", (3, 37, 16))
    yield _case(op, "packed", (4, 5, 48), packed=1, **both)
    yield _case(op, "packed_odd", (3, 2, 17), packed=1, **both)
    yield _paired_case(_case(op, "packed", (4, 5, 48), packed=1, **both))
    yield _paired_case(_case(op, "packed_odd", (3, 2, 17), packed=1, **both))
    yield _paired_case(_case(op, "packed_row", (4, 1, 70), packed=1))
    yield _case(op, "lengths", (6, 8, 20), lengths=True, **both)
    yield _case(op, "clip", (5, 2, 24), clip=0.5)
    yield _case(op, "wide", (5, 3, 20), "float64", **both)
    yield _case(op, "one", (1, 1, 1))
    yield _case(op, "no_steps", (0, 2, 8))
    for first in range(0, len(FUNCTIONS), own):
        names = (FUNCTIONS * 2)[first : first + own]
        yield _case(op, f"functions_{first}", (4, 3, 18), activations=names)
    yield _case(
        op,
        "numbers",
        (4, 3, 18),
        activations=("leaky_relu", "scaled_tanh", "elu")[:own],
        alphas=(0.3, 0.7, 0.4)[:own],
        betas=(0, 0.9, 0)[:own],
    )
    if op == "lstm":
        yield from _byte_cases()
        yield _case(op, "peepholes", (5, 4, 33), peepholes=True, lengths=True, **both)
        yield _case(op, "coupled", (5, 4, 24), input_forget=True, peepholes=True)
    if op == "gru":
        yield _case(op, "late", (5, 6, 33), linear_before_reset=True, lengths=True, **both)
        late = _case(op, "late_packed", (5, 2, 24), linear_before_reset=True, packed=1)
        yield from (late, _paired_case(late))


_OWN = {
    "lstm": (
        Attr("peepholes", "bool", False, "whether peephole weights follow"),
        Attr("input_forget", "bool", False, "the forget gate is 1 - the input gate"),
        Attr("narrow", "bool", False, "each step may round the state that it multiplies to bytes"),
    ),
    "gru": (
        Attr("linear_before_reset", "bool", False, "the hidden gate's product and bias come before reset"),
    ),
    "rnn": (),
}


def _register(op: str, doc: str) -> None:
    cell = CELLS[op]
    define(
        op,
        doc,
        (2 + cell.states, 5 + cell.states),
        partial(_infer, op),
        partial(_reference, op),
        lambda i, o, a: i[0].size * (2 * i[2].shape[2] + 8),
        attrs=(
            Attr("direction", "str", "forward", "direction of the steps", _WAYS),
            Attr("activations", "strs", (), "functions of each direction; () for the default ones"),
            Attr("alphas", "floats", (), "their first numbers; () for ONNX's"),
            Attr("betas", "floats", (), "their second numbers; () for ONNX's"),
            Attr("clip", "float", None, "gates are kept in -clip .. clip before their functions"),
            Attr("lengths", "bool", False, "whether the lengths of the sequences follow"),
            packed_attr("columns of all gates"),
            *_OWN[op],
            *ATTRS,
        ),
        words=partial(_words, op),
        bodies={
            "cpu": Body(
                op,
                ("float32", "float64"),
                rules.by_dtype,
                scratch=partial(_scratch, op),
                prebuilt=("float32", "float64"),
            ),
            "tt": Body(op, ("float32",), accepts=partial(_refuse_on_tt, op), numerics=True),
        },
        walk="recurrent",
        parts="recurrent",
        pace={"cpu": "product"},
        work=partial(_work, op),
        weights=(1,),
        panels=lambda i, o, a: 0 if refuse_panels(i, o, a) else i[0].shape[2],
        cases=tuple(_cases(op)),
    )


_register("lstm", "a long short-term memory over all steps, after the product of its inputs")
_register("gru", "a gated recurrent unit over all steps, after the product of its inputs")
_register("rnn", "a plain recurrent cell over all steps, after the product of its inputs")
