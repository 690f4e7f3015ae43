"""matmul: products of planes, the last two dimensions of the inputs.

C contract (args are the inputs, then the output). Attribute words; those of the epilogue (steps.py) follow:
    matmul    [0] transpose_a  [1] transpose_b (0 or 1): whether the last two dimensions of that input are
              swapped before the product; the dimensions before them broadcast as in numpy; optional bias [N]
Products and sums of integers of any dtype wrap. On tt the words of numerics.py follow.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ...graph import TensorType
from .. import rules
from ..cases import case, cases, per_dtype
from ..epilogue import own_inputs, register_product
from ..numerics import ATTRS, STREAM_DIRS
from ..registry import Attr, Body, Op
from ..work import Product, with_bias
from .dense import (
    PRODUCT_NMSE,
    PRODUCT_TYPED,
    PRODUCT_TYPES,
    TWICE_ROUNDED,
    gemm_scratch,
    takes_library,
)
from .packed import PANEL_ROWS, float32_body, panel_type, refuse_panels

_TYPES = (*PRODUCT_TYPES, *(t for t in rules.INTS if t != "int32"))


def _planes(inputs, attrs):
    """Shapes (m, k) and (k, n) of the planes to multiply, after the transposes."""
    a, b = (t.shape[-2:] for t in inputs[:2])
    return (a[::-1] if attrs["transpose_a"] else a), (b[::-1] if attrs["transpose_b"] else b)


def _matmul_infer(inputs, attrs):
    dtype = rules.one_dtype("matmul", inputs, _TYPES)
    for i, t in enumerate(inputs[:2]):
        if len(t.shape) < 2:
            text = f"input {i} must have at least 2 dimensions, got {t}; unsqueeze it"
            rules.fail("matmul", text, got=t.shape)
    (m, k), (k2, n) = _planes(inputs, attrs)
    if k != k2:
        text = f"inner dimensions differ: {inputs[0]} gives [{m},{k}] and {inputs[1]} gives [{k2},{n}]"
        how = f"transpose_a={attrs['transpose_a']}, transpose_b={attrs['transpose_b']}"
        rules.fail("matmul", f"{text} ({how})", got=k2, wanted=k)
    if len(inputs) == 3:
        rules.shape("matmul", "bias", inputs[2], (n,))
    return [TensorType(dtype, (*rules.broadcast("matmul", *(t.shape[:-2] for t in inputs[:2])), m, n))]


def _matmul(arrays, attrs):
    a, b, *bias = (rules.wide(x) for x in arrays)
    a = a.swapaxes(-1, -2) if attrs["transpose_a"] else a
    b = b.swapaxes(-1, -2) if attrs["transpose_b"] else b
    return [rules.narrow(a @ b + bias[0] if bias else a @ b, arrays[0].dtype.name)]


def _matmul_scratch(i, o, a):
    (m, k), (_, n) = _planes(i, a)
    return gemm_scratch(m, n, k, i[0].dtype)


def _bare_integers(i, o, a):
    """Body.accepts: the kernel of integers other than int32 has no bias and no epilogue."""
    if i[0].dtype not in PRODUCT_TYPES and (len(i) == 3 or a["epilogue"]):
        return f"products of {i[0].dtype} take neither a bias nor an epilogue"
    return None


def _panels_scratch(i, o, a):
    """Bytes for the right operand's planes in panels."""
    (_, k), (_, n) = _planes(i, a)
    return math.prod(i[1].shape[:-2]) * panel_type(n, k).nbytes


def _matmul_work(i, o, a):
    """The work of one product for each plane of B: planes of A that meet the same plane of B are the rows of
    one product."""
    (_, k), (m, n) = _planes(i, a)[0], o[0].shape[-2:]
    batch = math.prod(o[0].shape[:-2])
    shared = math.prod(i[1].shape[:-2]) == 1
    product = Product(1, batch * m, k, n) if shared else Product(batch, m, k, n)
    return with_bias(product, o[0], own_inputs(len(i), a) == 3)


def _matmul_panels(i, o, a):
    able = len(i[1].shape) == 2 and not a["transpose_a"] and not refuse_panels(i, o, a)
    return i[1].shape[0 if a["transpose_b"] else 1] if able else 0


def _matmul_prefers(i, a):
    if i[0].dtype != "float32":
        return None
    return _MATMUL_PANELS.name if _planes(i, a)[0][0] >= PANEL_ROWS else None


_MATMUL_PANELS = float32_body("matmul_panels", scratch=_panels_scratch)
_MATMUL_PAIRS = replace(_MATMUL_PANELS, name="matmul_pairs", rounds=_MATMUL_PANELS.name)
_MATMUL_BLAS = float32_body("matmul_blas", epilogue=False, accepts=takes_library, library="openblas")
_PANELS, _PAIRS = {"kernel": "matmul_panels"}, {"kernel": "matmul_pairs"}


def _matmul_cases():
    for name, a, b, ta, tb in (
        ("tiles", (65, 97), (97, 70), 0, 0),
        ("transpose_a", (97, 65), (97, 40), 1, 0),
        ("batch", (2, 3, 33, 40), (2, 3, 40, 31), 0, 0),
        ("transpose_b", (65, 97), (33, 97), 0, 1),
        ("transpose_both", (40, 65), (33, 40), 1, 1),
        ("left", (3, 1, 8, 33), (33, 4), 0, 0),
        ("cross", (2, 1, 33, 8), (3, 8, 65), 0, 0),
        ("row", (1, 65), (65, 33), 0, 0),
        ("empty", (0, 3, 4), (4, 5), 0, 0),
    ):
        attrs = {"transpose_a": bool(ta), "transpose_b": bool(tb)}
        yield case(name, a, b, attrs, nmse=PRODUCT_NMSE)
        yield case(f"panels_{name}", a, b, attrs | _PANELS, nmse=PRODUCT_NMSE)
        yield case(f"pairs_{name}", a, b, attrs | _PAIRS, nmse=TWICE_ROUNDED)
    yield from per_dtype(_TYPES[1:], (2, 33, 65), (65, 40), nmse=PRODUCT_TYPED)


_BOOL = "swap the last two dimensions of input {} first"


def _matmul_epilogue_cases():
    scaled = {"epilogue": [["multiply", [-1, 3], {}], ["add", [-2, 4], {}]]}
    bounded = {"epilogue": [["add", [-1, 2], {}], ["relu", [-2], {}]]}
    biased = (2, 33, 40), (40, 31), (31,)
    finished = (3, 33, 40), (2, 1, 40, 31), (31,), (), (2, 1, 33, 31)
    residual = (3, 33, 40), (2, 1, 40, 31), (2, 3, 33, 31)
    rows = (
        ("bias", *biased),
        ("panels_bias", *biased, _PANELS),
        ("epilogue", *finished, scaled),
        ("panels_epilogue", *finished, {**scaled, **_PANELS}),
        ("panels_residual", *residual, {**bounded, **_PANELS}),
    )
    yield from cases(rows, PRODUCT_NMSE)
    yield case("pairs_epilogue", *finished, {**scaled, **_PAIRS}, nmse=TWICE_ROUNDED)
    yield case("pairs_residual", *residual, {**bounded, **_PAIRS}, nmse=TWICE_ROUNDED)


register_product(
    Op(
        "matmul",
        "batched matrix product with numpy's broadcasting of the batch dimensions, + bias",
        (2, 3),
        _matmul_infer,
        _matmul,
        lambda i, o, a: 2 * o[0].size * _planes(i, a)[0][1] + (o[0].size if len(i) == 3 else 0),
        attrs=(
            Attr("transpose_a", "bool", False, _BOOL.format(0)),
            Attr("transpose_b", "bool", False, _BOOL.format(1)),
            *ATTRS,
            STREAM_DIRS,
        ),
        words=lambda i, o, a: [int(a["transpose_a"]), int(a["transpose_b"])],
        bodies={
            "cpu": Body("matmul", _TYPES, rules.by_dtype, _matmul_scratch, _bare_integers, epilogue=True),
            "tt": Body("matmul", rules.TT_FLOATS, numerics=True, epilogue=True),
        },
        variants={"cpu": (_MATMUL_PANELS, _MATMUL_PAIRS, _MATMUL_BLAS)},
        pace={"cpu": "product"},
        work=_matmul_work,
        parts="product",
        walk="product",
        torch=("mm", "bmm", "matmul"),
        ttnn={"matmul": {"transpose_a": "transpose_a", "transpose_b": "transpose_b"}},
        panels=_matmul_panels,
        prefers=_matmul_prefers,
        sums=True,
        cases=tuple(_matmul_cases()),
    ),
    lambda made, attrs: (len(made.shape) - 2, len(made.shape) - 1),
    tuple(_matmul_epilogue_cases()),
)
