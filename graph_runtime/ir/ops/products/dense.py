"""dense: a product with a weight [N, K], plain or packed for a host.

C contract (args are the inputs, then the output). Attribute words; those of the epilogue (steps.py) follow:
    dense                   none: x [.., K], w [N, K], optional bias [N] -> y [.., N];  y = x @ w.T + bias
    with packed             [0] N; w is in panels (packed.py); the panels, x and y may be bfloat16
    with packed and levels  [0] N  [1] bits  [2] block  [3] rounded + 2 * narrow; w has few bits (levels.py)
Products and sums of int32 wrap. On tt the words of numerics.py follow.
"""

from __future__ import annotations

import math

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..cases import case, per_dtype
from ..epilogue import own_inputs, register_product
from ..numerics import ATTRS, STREAM_DIRS
from ..registry import Attr, Body, Op
from ..rules import SUMMED_IN, product_dtype, refuse_packed
from ..work import Product, with_bias
from .halves import half_cases, in_float32, refuse_halves
from .levels import LEVEL_BITS, level_type, takes_levels, unpack_levels
from .packed import (
    PAIRED,
    float32_body,
    is_paired,
    packed_attr,
    paired_type,
    panel_type,
    refuse_panels,
    takes_packed,
    unpack,
    unpair,
)

# the attributes that dense shares with matmul
PRODUCT_TYPES = (*rules.FLOATS, "int32")
PRODUCT_NMSE = rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}
PRODUCT_TYPED = {
    **rules.summed(PRODUCT_NMSE),
    **dict.fromkeys(rules.INTS, PRODUCT_NMSE | {"cpu": 0.0}),
}
TWICE_ROUNDED = PRODUCT_NMSE | {
    "cpu": 1e-5
}  # both operands are rounded to 8 significant bits, each with a squared error of 1e-6 to 2e-6
_NARROW = PRODUCT_NMSE | {"cpu": 1e-3}  # rows are rounded to 8 bits, block by block
_PANEL = 16  # most rows or columns of a panel in native/kernels/cpu/gemm.h


def gemm_scratch(m: int, n: int, k: int, dtype: str) -> int:
    """Host bytes of the packed operands of an m x n x k product, both padded to whole panels."""
    return (m + n + 2 * _PANEL) * max(k, 1) * max(4, dtypes.parse(dtype).itemsize)


def _dense_sizes(inputs, attrs):
    """(N, K) of the weight, plain or packed."""
    return (attrs["packed"], inputs[0].shape[-1]) if attrs["packed"] else inputs[1].shape


def _packed_types(x, w, attrs):
    """The types that a packed weight with these attributes may have."""
    n, k = attrs["packed"], x.shape[-1]
    if attrs["levels"]:
        bits, block = attrs["levels"]
        return [level_type(n, k, bits, block, zeros) for zeros in (False, True)]
    wanted = panel_type(n, k)
    return [paired_type(wanted) if is_paired(w, attrs) else wanted]


def _dense_levels(attrs):
    """Raise GraphError for levels that the kernel cannot read."""
    if attrs["levels"] and not attrs["packed"]:
        rules.fail("dense", "levels are for packed weights: give packed, too", got=attrs["levels"])
    for name in ("rounded", "narrow"):
        if attrs[name] and not attrs["levels"]:
            rules.fail("dense", f"{name} is for weights of few bits (levels)", got=True)
    if attrs["levels"] and (len(attrs["levels"]) != 2 or not takes_levels(*attrs["levels"])):
        text = f"levels is {list(attrs['levels'])}: bits of {LEVEL_BITS}, and a block that fills 32-bit words"
        rules.fail("dense", text, got=list(attrs["levels"]))


def _dense_infer(inputs, attrs):
    x, w = inputs[:2]
    _dense_levels(attrs)
    dtype = product_dtype("dense", inputs, attrs, PRODUCT_TYPES)
    rules.at_least("dense", "input 0", x, 1, "..,K")
    if attrs["packed"]:
        rules.limit("dense", "packed", (attrs["packed"],), 1, 1)
        wanted = _packed_types(x, w, attrs)
        if w not in wanted:
            text = f"packed={attrs['packed']}: the weight must be {' or '.join(map(str, wanted))}, got {w}"
            rules.fail("dense", text, got=str(w), wanted=str(wanted[0]))
    else:
        rules.rank("dense", "input 1 (weight)", w, 2, "N,K")
    n, k = _dense_sizes(inputs, attrs)
    if x.shape[-1] != k:
        text = f"input 0 is {x}, so K is {x.shape[-1]}, but the weight [N,K] is {w}"
        rules.fail("dense", text, got=x.shape[-1], wanted=k)
    if len(inputs) == 3:
        rules.shape("dense", "bias", inputs[2], (n,), "N of the weight")
    return [TensorType(dtype, (*x.shape[:-1], n))]


def _dense(arrays, attrs):
    x, w, *bias = arrays
    name = x.dtype.name
    if attrs["levels"]:
        w = unpack_levels(w, attrs["packed"], x.shape[-1], *attrs["levels"])
    elif attrs["packed"]:
        if w.dtype.name == PAIRED:
            x, w = rules.narrow(x, PAIRED), unpair(w, x.shape[-1])
        w = unpack(w, attrs["packed"])
    else:
        w = w.T
    y = rules.wide(x) @ rules.wide(w)
    return [rules.narrow(y + rules.wide(bias[0]) if bias else y, name)]


def _dense_scratch(i, o, a):
    n, k = i[1].shape
    return gemm_scratch(math.prod(i[0].shape[:-1]), n, k, i[0].dtype)


def _dense_work(i, o, a):
    n, k = _dense_sizes(i, a)
    product = Product(1, math.prod(i[0].shape[:-1]), k, n)
    return with_bias(product, o[0], own_inputs(len(i), a) == 3)


def _dense_words(i, o, a):
    levels = [*a["levels"], a["rounded"] + 2 * a["narrow"]] if a["levels"] else []
    return [a["packed"], *levels] if a["packed"] else []


def _dense_panels(i, o, a):
    return 0 if refuse_panels(i, o, a) or len(i[1].shape) != 2 else i[1].shape[0]


def _takes_panels(inputs, outputs, attrs):
    if attrs["levels"]:
        return "it reads panels of float32 or bfloat16, these are of few bits (levels)"
    return takes_packed(inputs, outputs, attrs) or refuse_halves(inputs, outputs, attrs)


_PACKED = Body(
    "dense_packed", SUMMED_IN, in_float32, accepts=_takes_panels, epilogue=True, prebuilt=SUMMED_IN
)
_LEVELS = float32_body(
    "dense_levels", accepts=lambda i, o, a: None if a["levels"] else "it reads weights of few bits (levels)"
)


def takes_library(inputs, outputs, attrs):
    """Body.accepts of the body that calls OpenBLAS, whose sizes are 32-bit integers."""
    shapes = [t.shape for t in (*inputs[:2], *outputs)]
    if math.prod(outputs[0].shape[:-1]) >= 2**31 or any(n >= 2**31 for shape in shapes for n in shape):
        return "OpenBLAS counts rows and columns in 32 bits"
    return refuse_packed(inputs, outputs, attrs) if "packed" in attrs else None


_DENSE_BLAS = float32_body("dense_blas", accepts=takes_library, library="openblas")


def _few_bits_case(name, x, n, bits, block, tail, nmse=PRODUCT_NMSE, **attrs):
    """A case with a weight of few bits; the weight has zero points if its blocks have 32 numbers."""
    levels = level_type(n, x[-1], bits, block, block == 32)
    row = x, (levels.dtype, levels.shape), *tail, {"packed": n, "levels": [bits, block], **attrs}
    return case(name, *row, make=("normal", f"levels:{bits}:{block}"), nmse=nmse)


def _dense_cases():
    for name, x, n, bias in (
        ("tiles", (65, 97), 70, True),
        ("small", (1, 8), 4, False),
        ("vector", (33,), 31, True),
        ("batch", (2, 3, 33, 40), 65, False),
        ("ragged", (31, 33), 33, True),
        ("one", (1, 1), 1, True),
        ("empty", (0, 5), 3, True),
        ("no_k", (2, 0), 3, True),
    ):
        tail = ((n,),) if bias else ()
        yield case(name, x, (n, x[-1]), *tail, nmse=PRODUCT_NMSE)
        if name in ("empty", "small"):
            continue
        for kind, panels in _panels(n, x[-1]):
            yield case(f"{kind}_{name}", x, panels, *tail, {"packed": n}, nmse=PRODUCT_NMSE)
        for bits, block in ((4, 32), (8, 16)):
            row = x, n, bits, block, tail
            yield _few_bits_case(f"bits{bits}_{name}", *row)
            yield _few_bits_case(f"rounded{bits}_{name}", *row, TWICE_ROUNDED, rounded=True)
            yield _few_bits_case(f"narrow{bits}_{name}", *row, _NARROW, narrow=True)
    yield from per_dtype(PRODUCT_TYPES[1:], (33, 65), (40, 65), (40,), nmse=PRODUCT_TYPED)


def _panels(n, k):
    """(name, type) of a weight [n, k] in float32 panels, and in panels with rows in pairs."""
    panels = panel_type(n, k)
    return ("packed", panels.shape), ("bf16", (PAIRED, paired_type(panels).shape))


def _dense_epilogue_cases():
    scaled = [["multiply", [-1, 3], {}], ["sigmoid", [-2], {}], ["add", [-3, 4], {}]]
    for name, x, n in (("epilogue", (2, 33, 40), 65), ("epilogue_row", (2, 40), 70)):
        own, extra = (n,), ((n,), (*x[:-1], 1))
        yield case(name, x, (n, x[-1]), own, *extra, {"epilogue": scaled}, nmse=PRODUCT_NMSE)
        for kind, panels in _panels(n, x[-1]):
            attrs = {"packed": n, "epilogue": scaled}
            yield case(f"{kind}_{name}", x, panels, own, *extra, attrs, nmse=PRODUCT_NMSE)
        yield _few_bits_case(f"bits4_{name}", x, n, 4, 16, (own, *extra), epilogue=scaled)
        panels = panel_type(n, x[-1]).shape
        attrs = {"packed": n, "epilogue": [["add", [-1, 3], {}], ["relu", [-2], {}]]}
        yield case(f"packed_{name}_bounds", x, panels, own, (*x[:-1], n), attrs, nmse=PRODUCT_NMSE)
    attrs = {"epilogue": [["gelu", [-1], {}], ["add", [-2, 2], {}]]}
    row = (33, 65), (40, 65), (33, 40), attrs
    yield case("epilogue_bf16", *row, nmse=PRODUCT_TYPED, dtype="bfloat16")


register_product(
    Op(
        "dense",
        "x @ w.T + bias, TVM's nn.dense",
        (2, 3),
        _dense_infer,
        _dense,
        lambda i, o, a: o[0].size * (2 * _dense_sizes(i, a)[1] + (len(i) == 3)),
        attrs=(
            packed_attr("outputs N"),
            Attr(
                "levels", "ints", (), "bits of a level and levels of a block, for a packed weight of few bits"
            ),
            Attr("rounded", "bool", False, "beside levels: x and the weight may be rounded to bfloat16"),
            Attr("narrow", "bool", False, "beside levels: x may be rounded to 8 bits, block by block"),
            *ATTRS,
            STREAM_DIRS,
        ),
        words=_dense_words,
        bodies={
            "cpu": Body("dense", PRODUCT_TYPES, rules.by_dtype, _dense_scratch, refuse_packed, epilogue=True),
            "tt": Body("dense", rules.TT_FLOATS, accepts=refuse_packed, numerics=True, epilogue=True),
        },
        variants={"cpu": (_PACKED, _LEVELS, _DENSE_BLAS)},
        pace={"cpu": "product"},
        work=_dense_work,
        parts="product_of_rows",
        walk="product_of_rows",
        weights=(1, 2),
        panels=_dense_panels,
        sums=True,
        cases=(*_dense_cases(), *half_cases(_dense_cases())),
    ),
    lambda made, attrs: (0, len(made.shape) - 1),
    (*_dense_epilogue_cases(), *half_cases(_dense_epilogue_cases())),
)
