"""attention: softmax(q k^T scale + bias) v.

C contract (args: q [.., s, d], k [.., t, d], v [.., t, e], optional bias that broadcasts to [.., s, t]; then
the output [.., s, e]; nargs tells whether there is a bias). The leading dimensions broadcast as in numpy.
Attribute words:
    attention    [0] scale, the bits of a double
                 [1] causal: query i sees only keys 0 .. i
                 [2] number of heads beside each other, 0 for none. Only if there are any, these words follow:
                 [3] d [4] e, and for each of q, k, v and the output the first column of the first head and
                 the number of columns from one head to the next.
                 On tt, which takes no heads beside each other, the words of numerics.py for both products
                 follow
With heads beside each other (cpu only) a tensor is [.., rows, columns], as the product before attention made
it, and one tensor may be q, k and v at the same time. Such a tensor counts as one whose last leading
dimension is the heads. If a tensor has a dimension for the heads, its number of columns from head to head is
given as 0. Sums are in float32 (float64
for float64). A query that sees no key gives NaN. On tt scores and weights are float32 in L1, whatever format
the tensors have.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...graph import TensorType
from .. import rules
from ..cases import case, per_dtype
from ..numerics import ATTRS
from ..registry import Attr, Body, define
from ..work import SOFTMAX, Product, Work, each, tiles_of
from .packed import PANEL, PANEL_ROWS, float32_body

_NMSE = rules.SUMMED | {"float32": rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}}
_ROUNDED = _NMSE["float32"] | {"cpu": 5e-5}  # bound if both products round operands to 8 bits


def _apart(inputs, attrs):
    """The types of all inputs, with the heads as a dimension of their own."""
    if not attrs["heads"]:
        return list(inputs)
    count, d, e, *lie = attrs["heads"]
    apart = list(inputs)
    for i, columns in enumerate((d, d, e)):
        if lie[2 * i + 1]:
            *batch, rows, _ = inputs[i].shape
            apart[i] = TensorType(inputs[i].dtype, (*batch, count, rows, columns))
    return apart


def _check_heads(inputs, attrs):
    """Raise GraphError unless the inputs have the columns that ``heads`` requires."""
    heads = attrs["heads"]
    if not heads:
        return
    if len(heads) != 11 or min(heads) < 0 or not heads[0]:
        text = "heads must be their number, d, e, and first column and step of each of q, k, v and the output"
        rules.fail("attention", f"{text}: 11 numbers, got {list(heads)}", got=heads)
    count, d, e, *lie = heads
    if lie[6:] not in ([0, 0], [0, e]):
        rules.fail("attention", f"heads of the output have no columns between them, got {lie[6:]}", got=heads)
    for name, t, columns, first, step in zip("qkv", inputs, (d, d, e), lie[::2], lie[1::2], strict=False):
        there = first + (count - 1) * step + columns
        if there > t.shape[-1] if step else first or t.shape[-1] != columns:
            text = f"{count} heads of {columns} columns from {first} on, {step} apart, are not in {name}, {t}"
            rules.fail("attention", text, got=t.shape, wanted=heads)


def _infer(inputs, attrs):
    dtype = rules.one_dtype("attention", inputs, rules.FLOATS)
    for name, t in zip("qkv", inputs, strict=False):
        rules.at_least("attention", name, t, 2, "..,rows,columns")
    _check_heads(inputs, attrs)
    *batch, s, e = _together(_apart(inputs, attrs))
    if attrs["heads"] and batch[-1:] != [attrs["heads"][0]]:
        rules.fail("attention", f"{attrs['heads'][0]} heads, but q, k and v have {batch}", got=batch)
    beside = attrs["heads"] and attrs["heads"][-1]
    return [TensorType(dtype, (*batch[:-1], s, batch[-1] * e) if beside else (*batch, s, e))]


def _together(inputs):
    """The shape [.., s, e] of the result, with the heads as a leading dimension."""
    q, k, v = inputs[:3]
    (s, d), (t, e) = q.shape[-2:], v.shape[-2:]
    if k.shape[-2:] != (t, d):
        text = f"k must be [..,{t},{d}] (rows of v, columns of q), got {k}"
        rules.fail("attention", text, got=k.shape, wanted=(t, d))
    if not t * d:
        rules.fail("attention", f"k must have rows and columns, got {k}", got=k.shape)
    batch = rules.broadcast("attention", *(x.shape[:-2] for x in (q, k, v)))
    if len(inputs) == 4:
        bias, wanted = inputs[3].shape, (*batch, s, t)
        if len(bias) > len(wanted) or rules.broadcast("attention", bias, wanted) != wanted:
            text = f"bias {inputs[3]} does not broadcast to {list(wanted)}"
            rules.fail("attention", text, got=bias, wanted=wanted)
    return (*batch, s, e)


def _depth(inputs, attrs) -> int:
    return attrs["heads"][1] if attrs["heads"] else inputs[0].shape[-1]


def _scale(inputs, attrs) -> float:
    return 1 / math.sqrt(_depth(inputs, attrs)) if attrs["scale"] is None else attrs["scale"]


def _columns(x, count, first, step, columns):
    """The array with the heads, which lie beside each other in its rows, as a dimension before the rows."""
    if not step:
        return x
    return np.stack([x[..., first + i * step :][..., :columns] for i in range(count)], -3)


def _attention(arrays, attrs):
    q, k, v, *bias = (rules.wide(a) for a in arrays)
    if not q.size:
        types = [TensorType(arrays[0].dtype.name, a.shape) for a in arrays]
        return [np.zeros(_infer(types, attrs)[0].shape, arrays[0].dtype)]
    if not attrs["heads"]:
        return [rules.narrow(_weighed(q, k, v, bias, arrays, attrs), arrays[0].dtype.name)]
    count, d, e, *lie = attrs["heads"]
    parts = zip((q, k, v), lie[::2], lie[1::2], (d, d, e), strict=False)
    q, k, v = (_columns(x, count, first, step, n) for x, first, step, n in parts)
    y = _weighed(q, k, v, bias, arrays, attrs)
    if lie[-1]:
        y = np.moveaxis(y, -3, -2)
        y = y.reshape(*y.shape[:-2], count * e)
    return [rules.narrow(np.ascontiguousarray(y), arrays[0].dtype.name)]


def _weighed(q, k, v, bias, arrays, attrs):
    scores = q @ k.swapaxes(-1, -2) * _scale(arrays, attrs)
    scores = scores + bias[0] if bias else scores
    if attrs["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return e / e.sum(axis=-1, keepdims=True) @ v


def _sizes(i, a):
    """(heads, queries, keys, columns of q, columns of v): the number of each."""
    apart = _apart(i, a)
    *batch, s, e = _together(apart)
    return math.prod(batch), s, *apart[1].shape[-2:], e


_STRIP, _SLOTS = 128, 16  # GR_STRIP, GR_SLOTS of native/kernels/cpu/attention_panels.h


def _panels_scratch(i, o, a):
    """Bytes for _SLOTS slots, each with the keys and values of one head in panels, and the scores of a strip
    of queries."""
    _, s, t, d, e = _sizes(i, a)
    t_panels, e_panels = -(-t // PANEL), -(-e // PANEL)
    return _SLOTS * (t_panels * d + e_panels * t + t_panels * min(s, _STRIP)) * PANEL * 4


_PANELS = float32_body("attention_panels", epilogue=False, scratch=_panels_scratch)
_PAIRS = replace(_PANELS, name="attention_pairs", rounds=_PANELS.name)


def _work(i, o, a):
    """A product of s x (d + e) by t, which has as many multiplications as both products together, and a
    softmax of the scores."""
    batch, rows, keys, depth, columns = _sizes(i, a)
    scores = (batch, rows, keys)
    biased = each(tiles_of(scores), "add") if len(i) == 4 else ()
    return Work(Product(batch, rows, depth + columns, keys), SOFTMAX.passes(scores) + biased)


def _prefers(i, a):
    return _PANELS.name if i[0].dtype == "float32" and i[0].shape[-2] >= PANEL_ROWS else None


def softmax_flops(inputs, outputs, attrs) -> int:
    """Number of operations between the two products: 8 for each score."""
    heads, rows, keys, _, _ = _sizes(inputs, attrs)
    return 8 * heads * rows * keys


def _flops(i, o, a):
    heads, rows, keys, d, e = _sizes(i, a)
    return heads * rows * keys * (2 * d + 2 * e) + softmax_flops(i, o, a)


def _refuse_heads(i, o, a):
    return "it takes no heads beside each other (heads)" if a["heads"] else None


_JOINED = 3, 7, 11, 0, 25, 7, 25, 14, 25, 0, 11
_JOINT = ((2, 131, 75),) * 3  # q, k and v, each with its heads side by side


def _cases():
    for name, q, k, v, bias, attrs in (
        ("heads", (2, 3, 33, 16), (2, 3, 33, 16), (2, 3, 33, 16), None, {}),
        ("keys", (2, 5, 40), (2, 97, 40), (2, 97, 33), None, {"scale": 0.3}),
        ("causal", (2, 35, 8), (2, 35, 8), (2, 35, 8), None, {"causal": True}),
        ("mask", (2, 3, 17, 8), (2, 3, 70, 8), (2, 3, 70, 8), (2, 1, 17, 70), {}),
        ("rows_of_mask", (2, 5, 8), (2, 33, 8), (2, 33, 8), (33,), {"causal": True}),
        ("shared_keys", (2, 4, 5, 8), (2, 1, 40, 8), (1, 40, 300), None, {}),
        ("one", (1, 64), (40, 64), (40, 64), None, {}),
        ("beside", (2, 33, 48), (2, 35, 48), (2, 35, 48), None, {"heads": (3, 16, 16, *(0, 16) * 4)}),
        ("joint", *_JOINT, None, {"heads": _JOINED}),
        ("joint_mask", *_JOINT, (3, 1, 131), {"heads": _JOINED, "scale": 0.3}),
        ("joint_planes", *_JOINT, None, {"heads": (3, 7, 11, 0, 25, 7, 25, 14, 25, 0, 0), "causal": True}),
        ("some_beside", (3, 5, 8), (40, 24), (1, 40, 9), None, {"heads": (3, 8, 9, 0, 0, 0, 8, 0, 0, 0, 9)}),
        ("empty", (0, 3, 8), (0, 5, 8), (0, 5, 8), None, {}),
    ):
        shapes = (q, k, v) if bias is None else (q, k, v, bias)
        yield case(name, *shapes, attrs, nmse=_NMSE)
        for kind, nmse in (("panels", _NMSE), ("pairs", _ROUNDED)):
            yield case(f"{kind}_{name}", *shapes, attrs | {"kernel": f"attention_{kind}"}, nmse=nmse)
    yield from per_dtype(rules.FLOATS[1:], (3, 9, 16), (3, 33, 16), (3, 33, 8), (9, 33), nmse=_NMSE)


define(
    "attention",
    "softmax(q k^T scale + bias) v",
    (3, 4),
    _infer,
    _attention,
    _flops,
    attrs=(
        Attr("scale", "float", None, "factor of the scores; 1 / sqrt(d) by default"),
        Attr("causal", "bool", False, "query i sees keys 0 .. i only"),
        Attr("heads", "ints", (), "places of heads beside each other in rows, on cpu (docs/cpu.md)"),
        *ATTRS,
    ),
    words=lambda i, o, a: [rules.float_word(_scale(i, a)), int(a["causal"]), *(a["heads"] or (0,))],
    bodies={
        "cpu": Body("attention", rules.FLOATS, rules.by_dtype),
        "tt": Body("attention", rules.TT_FLOATS, accepts=_refuse_heads, numerics=True),
    },
    variants={"cpu": (_PANELS, _PAIRS)},
    pace={"cpu": "simple"},
    work=_work,
    parts="attention",
    prefers=_prefers,
    cases=tuple(_cases()),
)
