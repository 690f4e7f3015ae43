"""attention: softmax(q k^T scale + bias) v.

C contract (args: q [.., s, d], k [.., t, d], v [.., t, e], optional bias that broadcasts to [.., s, t]; then
the output [.., s, e]; nargs tells). The leading dimensions broadcast as in numpy. Attribute words:
    attention    [0] scale, the bits of a double [1] causal: query i sees keys 0 .. i only; then, on tt, those
                 of numerics.py, whose fidelity and Dst are both products'
Sums are in float32 (float64 of float64). A query that sees no key at all gives NaN. On tt scores and weights
are float32 in L1, whatever format the tensors have.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ..graph import TensorType
from . import rules
from .numerics import ATTRS
from .packed import PANEL, PANEL_ROWS
from .registry import Attr, Body, Case, Op, register
from .work import SOFTMAX, Product, Work, each, tiles_of

_NMSE = rules.SUMMED | {"float32": rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}}
_ROUNDED = _NMSE["float32"] | {"cpu": 5e-5}  # operands of both products may have 8 bits


def _infer(inputs, attrs):
    q, k, v = inputs[:3]
    dtype = rules.one_dtype("attention", inputs, rules.FLOATS)
    for name, t in zip("qkv", (q, k, v), strict=True):
        if len(t.shape) < 2:
            text = f"{name} must have at least 2 dimensions [..,rows,columns], got {t}"
            rules.fail("attention", text, got=t.shape)
    (s, d), (t, e) = q.shape[-2:], v.shape[-2:]
    if k.shape[-2:] != (t, d):
        text = f"k must be [..,{t},{d}] (rows of v, columns of q), got {k}"
        rules.fail("attention", text, got=k.shape, wanted=(t, d))
    if not t * d:
        rules.fail("attention", f"there is nothing to attend to in {k}", got=k.shape)
    batch = rules.broadcast("attention", *(x.shape[:-2] for x in (q, k, v)))
    if len(inputs) == 4:
        bias, wanted = inputs[3].shape, (*batch, s, t)
        if len(bias) > len(wanted) or rules.broadcast("attention", bias, wanted) != wanted:
            text = f"bias {inputs[3]} does not broadcast to {list(wanted)}"
            rules.fail("attention", text, got=bias, wanted=wanted)
    return [TensorType(dtype, (*batch, s, e))]


def _scale(inputs, attrs) -> float:
    return 1 / math.sqrt(inputs[0].shape[-1]) if attrs["scale"] is None else attrs["scale"]


def _attention(arrays, attrs):
    q, k, v, *bias = (rules.wide(a) for a in arrays)
    if not q.size:
        types = [TensorType(arrays[0].dtype.name, a.shape) for a in arrays]
        return [np.zeros(_infer(types, attrs)[0].shape, arrays[0].dtype)]
    scores = q @ k.swapaxes(-1, -2) * _scale(arrays, attrs)
    scores = scores + bias[0] if bias else scores
    if attrs["causal"]:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(axis=-1, keepdims=True))
        return [rules.narrow(e / e.sum(axis=-1, keepdims=True) @ v, arrays[0].dtype.name)]


_STRIP, _SLOTS = 128, 16  # GR_STRIP, GR_SLOTS of native/kernels/cpu/attention_panels.h


def _panels_scratch(i, o, a):
    """Bytes of _SLOTS slots: keys and values of a head in panels, and the scores of a strip."""
    (s, e), (t, d) = o[0].shape[-2:], i[1].shape[-2:]
    t_panels, e_panels = -(-t // PANEL), -(-e // PANEL)
    return _SLOTS * (t_panels * d + e_panels * t + t_panels * min(s, _STRIP)) * PANEL * 4


_PANELS = Body(
    "attention_panels", ("float32",), rules.by_dtype, scratch=_panels_scratch, prebuilt=("float32",)
)
_PAIRS = replace(_PANELS, name="attention_pairs", rounds=_PANELS.name)


def _work(i, o, a):
    """Both products are one of s x (d + e) by t in multiplications; between them a softmax of the scores."""
    (rows, columns), (keys, depth) = o[0].shape[-2:], i[1].shape[-2:]
    batch = math.prod(o[0].shape[:-2])
    scores = (batch, rows, keys)
    biased = each(tiles_of(scores), "add") if len(i) == 4 else ()
    return Work(Product(batch, rows, depth + columns, keys), SOFTMAX.passes(scores) + biased)


def _prefers(i, a):
    return _PANELS.name if i[0].dtype == "float32" and i[0].shape[-2] >= PANEL_ROWS else None


def _flops(i, o, a):
    rows, keys = o[0].size // max(o[0].shape[-1], 1), i[1].shape[-2]
    return rows * keys * (2 * i[0].shape[-1] + 2 * o[0].shape[-1] + 8)


def _cases():
    for name, q, k, v, bias, attrs in (
        ("heads", (2, 3, 33, 16), (2, 3, 33, 16), (2, 3, 33, 16), None, {}),
        ("keys", (2, 5, 40), (2, 97, 40), (2, 97, 33), None, {"scale": 0.3}),
        ("causal", (2, 35, 8), (2, 35, 8), (2, 35, 8), None, {"causal": True}),
        ("mask", (2, 3, 17, 8), (2, 3, 70, 8), (2, 3, 70, 8), (2, 1, 17, 70), {}),
        ("rows_of_mask", (2, 5, 8), (2, 33, 8), (2, 33, 8), (33,), {"causal": True}),
        ("shared_keys", (2, 4, 5, 8), (2, 1, 40, 8), (1, 40, 300), None, {}),
        ("one", (1, 64), (40, 64), (40, 64), None, {}),
        ("empty", (0, 3, 8), (0, 5, 8), (0, 5, 8), None, {}),
    ):
        shapes = (q, k, v) if bias is None else (q, k, v, bias)
        yield Case(name, tuple(("float32", s) for s in shapes), attrs, nmse=_NMSE["float32"])
        for body, nmse in ((_PANELS, _NMSE["float32"]), (_PAIRS, _ROUNDED)):
            named = attrs | {"kernel": body.name}
            kind = body.name.removeprefix("attention_")
            yield Case(f"{kind}_{name}", tuple(("float32", s) for s in shapes), named, nmse=nmse)
    for t in rules.FLOATS[1:]:
        yield Case(t, ((t, (3, 9, 16)), (t, (3, 33, 16)), (t, (3, 33, 8)), (t, (9, 33))), nmse=_NMSE[t])


register(
    Op(
        "attention",
        "softmax(q k^T scale + bias) v",
        (3, 4),
        _infer,
        _attention,
        _flops,
        attrs=(
            Attr("scale", "float", None, "factor of the scores; 1 / sqrt(d) by default"),
            Attr("causal", "bool", False, "query i sees keys 0 .. i only"),
            *ATTRS,
        ),
        words=lambda i, o, a: [rules.float_word(_scale(i, a)), int(a["causal"])],
        bodies={
            "cpu": Body("attention", rules.FLOATS, rules.by_dtype),
            "tt": Body("attention", rules.TT_FLOATS, numerics=True),
        },
        variants={"cpu": (_PANELS, _PAIRS)},
        pace={"cpu": "simple"},
        work=_work,
        parts="attention",
        prefers=_prefers,
        cases=tuple(_cases()),
    )
)
