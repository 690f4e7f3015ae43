"""Ops that repeat, pad or reverse elements: broadcast_to tile pad reverse. Their cpu bodies are chosen by
element size.

C contract (args are x, then the output). Attribute words:
    broadcast_to   none: the shapes of the args are enough
    tile           none: out[i0, i1, ..] = x[i0 mod n0, i1 mod n1, ..]
    pad            [0] mode: 0 constant, 1 edge, 2 reflect, 3 wrap   [1] the bits of the value
                   [2 + d] elements before dimension d; a negative number leaves out as many elements of x
    reverse        the words of slice (slicing.py), whose bodies reverse uses
"""

from __future__ import annotations

import numpy as np

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..cases import cases, per_dtype
from ..registry import REQUIRED, Attr, define

_MODES = ("constant", "edge", "reflect", "wrap")


def _movement(name, doc, infer, reference, attrs, words, cases, kernel=None, accepts=None, **traits):
    """Register an op that moves elements of any type by the bodies of ``kernel`` (by default the op's name).
    ``accepts``: Body.accepts of the tt body."""
    kernel = kernel or name
    define(
        name,
        doc,
        (1, 1),
        infer,
        reference,
        attrs=attrs,
        words=words,
        bodies=rules.bodies(kernel, rules.ALL, rules.TT_MOVED, rules.by_bytes, accepts=accepts),
        cases=tuple(cases),
        **{"kind": "movement", "moves": (), "walk": kernel, **traits},
    )


def _rows(rows, *typed):
    return [*cases(rows, rules.MOVED), *per_dtype(rules.ALL[1:], *typed, nmse=rules.MOVED)]


# ---------------------------------------------------------------- broadcast_to


def _broadcast_infer(inputs, attrs):
    (x,) = inputs
    dtype = rules.one_dtype("broadcast_to", inputs, rules.ALL)
    shape = rules.limit("broadcast_to", "shape", attrs["shape"], len(attrs["shape"]), 0)
    if len(shape) > rules.MAX_DIMS:
        text = f"shape {list(shape)} has more than {rules.MAX_DIMS} dimensions"
        rules.fail("broadcast_to", text, got=shape)
    if len(shape) < len(x.shape) or rules.broadcast("broadcast_to", x.shape, shape) != shape:
        rules.fail("broadcast_to", f"{x} cannot be broadcast to {list(shape)}", got=x.shape, wanted=shape)
    return [TensorType(dtype, shape)]


_movement(
    "broadcast_to",
    "repeat dimensions of size 1, and add dimensions in front, as numpy",
    _broadcast_infer,
    lambda x, a: [np.array(np.broadcast_to(x[0], a["shape"]))],
    (Attr("shape", "ints", REQUIRED, "the shape of the result"),),
    None,
    _rows(
        (
            ("rows", (65,), {"shape": (3, 33, 65)}),
            ("columns", (40, 1), {"shape": (2, 40, 33)}),
            ("planes", (3, 1, 33, 1), {"shape": (3, 2, 33, 40)}),
            ("scalar", (), {"shape": (33, 40)}),
            ("same", (5, 33), {"shape": (5, 33)}),
            ("empty", (1, 4), {"shape": (0, 4)}),
        ),
        (33, 1),
        {"shape": (2, 33, 40)},
    ),
    kind="elementwise",
    pace={"cpu": "simple", "tt": "nop"},
    walk="broadcast",
    ttnn={"experimental.broadcast_to": {"output_shape": "shape"}},
)


# ---------------------------------------------------------------- tile


def _tile_infer(inputs, attrs):
    (x,) = inputs
    dtype = rules.one_dtype("tile", inputs, rules.ALL)
    repeats = rules.limit("tile", "repeats", attrs["repeats"], len(x.shape), 0)
    return [TensorType(dtype, tuple(n * r for n, r in zip(x.shape, repeats, strict=True)))]


_movement(
    "tile",
    "the tensor, repeated along each dimension",
    _tile_infer,
    lambda x, a: [np.tile(x[0], a["repeats"])],
    (Attr("repeats", "ints", REQUIRED, "number of copies, one integer a dimension"),),
    None,
    _rows(
        (
            ("matrix", (33, 40), {"repeats": (2, 3)}),
            ("rows", (3, 33, 5), {"repeats": (1, 2, 1)}),
            ("outer", (2, 3, 40), {"repeats": (4, 1, 1)}),
            ("scalar", (), {"repeats": ()}),
            ("nothing", (3, 4), {"repeats": (2, 0)}),
        ),
        (5, 33),
        {"repeats": (2, 2)},
    ),
)


# ---------------------------------------------------------------- pad


def _pads(x: TensorType, attrs) -> list[tuple[int, int]]:
    """(elements added before, elements added after) for each dimension."""
    pads, ndim = attrs["pads"], len(x.shape)
    rules.limit("pad", "pads", pads, 2 * ndim, 1 - 2**31)
    return list(zip(pads[:ndim], pads[ndim:], strict=True))


def _pad_infer(inputs, attrs):
    (x,) = inputs
    dtype = rules.one_dtype("pad", inputs, rules.ALL)
    shape = []
    for d, (n, (before, after)) in enumerate(zip(x.shape, _pads(x, attrs), strict=True)):
        size = n + before + after
        if size < 0:
            rules.fail("pad", f"pads {list(attrs['pads'])} leave {size} of dimension {d} of {x}", got=size)
        if size and not n and attrs["mode"] != "constant":
            text = f"mode {attrs['mode']} has nothing to pad dimension {d} of {x} with"
            rules.fail("pad", text, got=x.shape)
        shape.append(size)
    return [TensorType(dtype, tuple(shape))]


def _source(n: int, size: int, before: int, mode: str) -> np.ndarray:
    """int [size]: for each result along a dimension of ``n`` elements, the index of the element that the
    result copies, -1 for the padding value."""
    at = np.arange(size) - before
    if mode == "edge":
        return np.clip(at, 0, n - 1)
    if mode == "wrap":
        return at % max(n, 1)
    if mode == "reflect":
        at = np.abs(at) % max(2 * n - 2, 1)
        return np.minimum(at, 2 * n - 2 - at) if n > 1 else 0 * at
    return np.where((at >= 0) & (at < n), at, -1)


def _pad(arrays, attrs):
    x = arrays[0]
    types = [TensorType(dtypes.from_numpy(x.dtype), x.shape)]
    shape = _pad_infer(types, attrs)[0].shape
    value = np.asarray(attrs["value"]).astype(x.dtype)
    index = [
        _source(n, size, before, attrs["mode"])
        for n, size, (before, _) in zip(x.shape, shape, _pads(types[0], attrs), strict=True)
    ]
    if not x.size:
        return [np.full(shape, value, x.dtype)]
    out = np.array(x[np.ix_(*index)]) if index else x.copy()
    for d, at in enumerate(index):
        out[(slice(None),) * d + (at < 0,)] = value
    return [out]


def _pad_tt(inputs, outputs, attrs):
    return None if attrs["mode"] == "constant" else f"it has no mode {attrs['mode']}, only constant"


def _pad_words(inputs, outputs, attrs):
    with np.errstate(over="ignore", invalid="ignore"):
        value = np.asarray(attrs["value"]).astype(dtypes.to_numpy(inputs[0].dtype))
    bits = int.from_bytes(value.tobytes(), "little")
    return [
        _MODES.index(attrs["mode"]),
        bits - 2**64 if bits >= 2**63 else bits,
        *(before for before, _ in _pads(inputs[0], attrs)),
    ]


_movement(
    "pad",
    "more elements around a tensor; fewer where pads are negative",
    _pad_infer,
    _pad,
    (
        Attr("pads", "ints", REQUIRED, "elements before each dimension, then after each dimension"),
        Attr("mode", "str", "constant", "source of the new elements", _MODES),
        Attr("value", "float", 0.0, "value of the new elements in mode constant"),
    ),
    _pad_words,
    _rows(
        (
            ("constant", (2, 33, 40), {"pads": (1, 0, 2, 0, 3, 1), "value": 1.5}),
            ("crop", (35, 70), {"pads": (-2, 1, 3, -4)}),
            ("edge", (3, 33, 40), {"pads": (1, 2, 3, 0, 1, 2), "mode": "edge"}),
            ("reflect", (33, 40), {"pads": (3, 4, 5, 6), "mode": "reflect"}),
            ("reflect_far", (3, 2), {"pads": (7, 3, 5, 9), "mode": "reflect"}),
            ("wrap", (4, 33), {"pads": (3, 70, 9, 2), "mode": "wrap"}),
            ("one", (1, 33), {"pads": (2, 0, 1, 0), "mode": "reflect"}),
            ("rows", (3, 9, 19), {"pads": (0, 1, 0, 0, 2, 0), "value": 1.5}),
            ("rows_wrap", (5, 4, 3), {"pads": (3, 0, 0, 4, 0, 0), "mode": "wrap"}),
            ("rows_cropped", (6, 5, 33), {"pads": (-2, 0, 0, 1, 0, 0), "mode": "edge"}),
            ("scalar", (), {"pads": ()}),
            ("from_nothing", (0, 3), {"pads": (1, 0, 1, 1), "value": 2.0}),
        ),
        (5, 33),
        {"pads": (1, 2, 0, 3), "value": 1.0},
    ),
    accepts=_pad_tt,
)


# ---------------------------------------------------------------- reverse


def _reverse_infer(inputs, attrs):
    rules.one_dtype("reverse", inputs, rules.ALL)
    rules.axes_of("reverse", attrs["axes"], len(inputs[0].shape))
    return [inputs[0]]


def _reverse_words(inputs, outputs, attrs):
    (x,) = inputs
    turned = rules.axes_of("reverse", attrs["axes"], len(x.shape))
    pairs = [(n - 1, -1) if d in turned and n > 1 else (0, 1) for d, n in enumerate(x.shape)]
    return [word for pair in pairs for word in pair]


_movement(
    "reverse",
    "the elements along some axes in reverse order",
    _reverse_infer,
    lambda x, a: [np.ascontiguousarray(np.flip(x[0], a["axes"])).reshape(x[0].shape)],
    (Attr("axes", "ints", REQUIRED, "the axes to turn around"),),
    _reverse_words,
    _rows(
        (
            ("last", (33, 40), {"axes": (-1,)}),
            ("first", (65, 3, 5), {"axes": (0,)}),
            ("both", (3, 33, 40), {"axes": (1, 2)}),
            ("empty", (0, 3), {"axes": (0,)}),
        ),
        (5, 33),
        {"axes": (0, 1)},
    ),
    kernel="slice",
)
