"""dense: a product with a weight [N, K], plain or packed for a host.

C contract (args are the inputs, then the output). Attribute words; those of the epilogue (steps.py) follow:
    dense     none            x [.., K], w [N, K], optional bias [N] -> y [.., N];  y = x @ w.T + bias
              with packed: [0] N; w is in panels (packed.py), also of bfloat16, beside which x and y may be so
              with packed and levels: [0] N  [1] bits  [2] block  [3] rounded + 2 narrow; w is of few bits
Products and sums of int32 wrap. On tt it reads the words of numerics.py after these.
"""

from __future__ import annotations

import math

from ....base import dtypes
from ...graph import TensorType
from .. import rules
from ..epilogue import own_inputs, register_product
from ..numerics import ATTRS, STREAM_DIRS
from ..registry import Attr, Body, Case, Op
from ..work import Product, with_bias
from .halves import SUMMED_IN, half_cases, in_float32, product_dtype, refuse_halves
from .levels import LEVEL_BITS, level_type, takes_levels, unpack_levels
from .packed import (
    PAIRED,
    is_paired,
    packed_attr,
    paired_type,
    panel_type,
    refuse_packed,
    refuse_panels,
    takes_packed,
    unpack,
    unpair,
)

__all__ = ["PRODUCT_NMSE", "PRODUCT_TYPED", "PRODUCT_TYPES", "TWICE_ROUNDED", "gemm_scratch", "takes_library"]

# of matmul, too
PRODUCT_TYPES = (*rules.FLOATS, "int32")
PRODUCT_NMSE = rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}
PRODUCT_TYPED = {
    **rules.summed(PRODUCT_NMSE),
    **dict.fromkeys(rules.INTS, PRODUCT_NMSE | {"cpu": 0.0}),
}
TWICE_ROUNDED = PRODUCT_NMSE | {"cpu": 1e-5}  # both operands to 8 bits, each 1e-6 to 2e-6 off in the square
_NARROW = PRODUCT_NMSE | {"cpu": 1e-3}  # rows to 8 bits a block
_PANEL = 16  # no panel of native/kernels/cpu/gemm.h has more rows or columns than this


def gemm_scratch(m: int, n: int, k: int, dtype: str) -> int:
    """Host bytes for the packed operands of an m x n x k product, each padded to whole panels."""
    return (m + n + 2 * _PANEL) * max(k, 1) * max(4, dtypes.parse(dtype).itemsize)


def _dense_sizes(inputs, attrs):
    """N and K."""
    return (attrs["packed"], inputs[0].shape[-1]) if attrs["packed"] else inputs[1].shape


def _packed_types(x, w, attrs):
    """The types that a weight may have which is packed as the attributes say."""
    n, k = attrs["packed"], x.shape[-1]
    if attrs["levels"]:
        bits, block = attrs["levels"]
        return [level_type(n, k, bits, block, zeros) for zeros in (False, True)]
    wanted = panel_type(n, k)
    return [paired_type(wanted) if is_paired(w, attrs) else wanted]


def _dense_levels(attrs):
    """Refuses levels that the kernel does not read."""
    if attrs["levels"] and not attrs["packed"]:
        rules.fail("dense", "levels are of packed weights", got=attrs["levels"])
    for name in ("rounded", "narrow"):
        if attrs[name] and not attrs["levels"]:
            rules.fail("dense", f"{name} is for weights of few bits (levels)", got=True)
    if attrs["levels"] and (len(attrs["levels"]) != 2 or not takes_levels(*attrs["levels"])):
        rules.fail(
            "dense",
            f"levels is {list(attrs['levels'])}: bits of {LEVEL_BITS}, and a block that fills 32-bit words",
            got=list(attrs["levels"]),
        )


def _dense_infer(inputs, attrs):
    x, w = inputs[:2]
    _dense_levels(attrs)
    dtype = product_dtype("dense", inputs, attrs, PRODUCT_TYPES)
    if not x.shape:
        rules.fail("dense", f"input 0 must have at least 1 dimension [..,K], got {x}", got=x.shape)
    if attrs["packed"]:
        rules.limit("dense", "packed", (attrs["packed"],), 1, 1)
        wanted = _packed_types(x, w, attrs)
        if w not in wanted:
            rules.fail(
                "dense",
                f"packed={attrs['packed']}: the weight must be {' or '.join(map(str, wanted))}, got {w}",
                got=str(w),
                wanted=str(wanted[0]),
            )
    else:
        rules.rank("dense", "input 1 (weight)", w, 2, "N,K")
    n, k = _dense_sizes(inputs, attrs)
    if x.shape[-1] != k:
        rules.fail(
            "dense",
            f"input 0 is {x}, so K is {x.shape[-1]}, but the weight [N,K] is {w}",
            got=x.shape[-1],
            wanted=k,
        )
    if len(inputs) == 3 and inputs[2].shape != (n,):
        rules.fail(
            "dense",
            f"bias must have shape [{n}] (N of the weight), got {inputs[2]}",
            got=inputs[2].shape,
            wanted=(n,),
        )
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


def _dense_flops(i, o, a):
    return 2 * o[0].size * _dense_sizes(i, a)[1] + (o[0].size if len(i) == 3 else 0)


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


_LEVELS = Body(
    "dense_levels",
    ("float32",),
    rules.by_dtype,
    accepts=lambda i, o, a: None if a["levels"] else "it reads weights of few bits (levels)",
    epilogue=True,
    prebuilt=("float32",),
)


def takes_library(inputs, outputs, attrs):
    """Body.accepts of OpenBLAS: sizes that 32-bit integers hold."""
    shapes = [t.shape for t in (*inputs[:2], *outputs)]
    if math.prod(outputs[0].shape[:-1]) >= 2**31 or any(n >= 2**31 for shape in shapes for n in shape):
        return "OpenBLAS counts rows and columns in 32 bits"
    return refuse_packed(inputs, outputs, attrs) if "packed" in attrs else None


_DENSE_BLAS = Body(
    "dense_blas",
    ("float32",),
    rules.by_dtype,
    accepts=takes_library,
    epilogue=True,
    prebuilt=("float32",),
    library="openblas",
)


def _few_bits_case(name, x, n, bits, block, tail, nmse=PRODUCT_NMSE, **attrs):
    """Levels with zeros where a block has 32."""
    levels = level_type(n, x[-1], bits, block, block == 32)
    types = (("float32", x), (levels.dtype, levels.shape), *tail)
    made = {"packed": n, "levels": [bits, block], **attrs}
    return Case(name, types, made, make=("normal", f"levels:{bits}:{block}"), nmse=nmse)


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
        tail = (("float32", (n,)),) if bias else ()
        yield Case(name, (("float32", x), ("float32", (n, x[-1])), *tail), nmse=PRODUCT_NMSE)
        if name in ("tiles", "vector", "batch", "ragged", "one", "no_k"):
            panels = panel_type(n, x[-1])
            yield Case(
                f"packed_{name}",
                (("float32", x), ("float32", panels.shape), *tail),
                {"packed": n},
                nmse=PRODUCT_NMSE,
            )
            pairs = (PAIRED, paired_type(panels).shape)
            yield Case(f"bf16_{name}", (("float32", x), pairs, *tail), {"packed": n}, nmse=PRODUCT_NMSE)
            for bits, block in ((4, 32), (8, 16)):
                yield _few_bits_case(f"bits{bits}_{name}", x, n, bits, block, tail)
                yield _few_bits_case(
                    f"rounded{bits}_{name}", x, n, bits, block, tail, TWICE_ROUNDED, rounded=True
                )
                yield _few_bits_case(f"narrow{bits}_{name}", x, n, bits, block, tail, _NARROW, narrow=True)
    for t in PRODUCT_TYPES[1:]:
        yield Case(t, ((t, (33, 65)), (t, (40, 65)), (t, (40,))), nmse=PRODUCT_TYPED[t])


def _dense_split(made, attrs):
    return 0, len(made.shape) - 1


def _dense_epilogue_cases():
    scaled = [["multiply", [-1, 3], {}], ["sigmoid", [-2], {}], ["add", [-3, 4], {}]]
    for name, x, n in (("epilogue", (2, 33, 40), 65), ("epilogue_row", (2, 40), 70)):
        extra = (("float32", (n,)), ("float32", (*x[:-1], 1)))
        yield Case(
            name,
            (("float32", x), ("float32", (n, x[-1])), ("float32", (n,)), *extra),
            {"epilogue": scaled},
            nmse=PRODUCT_NMSE,
        )
        own = (("float32", x), ("float32", panel_type(n, x[-1]).shape), ("float32", (n,)))
        yield Case(f"packed_{name}", (*own, *extra), {"packed": n, "epilogue": scaled}, nmse=PRODUCT_NMSE)
        bounded = {"packed": n, "epilogue": [["add", [-1, 3], {}], ["relu", [-2], {}]]}
        pairs = (PAIRED, paired_type(panel_type(n, x[-1])).shape)
        in_pairs = (own[0], pairs, own[2], *extra)
        yield Case(f"bf16_{name}", in_pairs, {"packed": n, "epilogue": scaled}, nmse=PRODUCT_NMSE)
        yield _few_bits_case(f"bits4_{name}", x, n, 4, 16, (own[2], *extra), epilogue=scaled)
        yield Case(f"packed_{name}_bounds", (*own, ("float32", (*x[:-1], n))), bounded, nmse=PRODUCT_NMSE)
    yield Case(
        "epilogue_bf16",
        (("bfloat16", (33, 65)), ("bfloat16", (40, 65)), ("bfloat16", (33, 40))),
        {"epilogue": [["gelu", [-1], {}], ["add", [-2, 2], {}]]},
        nmse=PRODUCT_TYPED["bfloat16"],
    )


register_product(
    Op(
        "dense",
        "x @ w.T + bias, TVM's nn.dense",
        (2, 3),
        _dense_infer,
        _dense,
        _dense_flops,
        attrs=(
            packed_attr("outputs N"),
            Attr("levels", "ints", (), "of a packed weight of few bits: bits of a level, levels of a block"),
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
    _dense_split,
    (*_dense_epilogue_cases(), *half_cases(_dense_epilogue_cases())),
)
