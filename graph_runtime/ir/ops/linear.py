"""Linear ops: dense, matmul.

C contract (args are the inputs, then the output). Attribute words; those of the epilogue (steps.py) follow:
    dense     none            x [.., K], w [N, K], optional bias [N] -> y [.., N];  y = x @ w.T + bias
              with packed: [0] N; w is in panels (packed.py), also of bfloat16 beside an x of float32
              with packed and levels: [0] N  [1] bits  [2] block; w is of few bits (levels.py)
    matmul    [0] transpose_a  [1] transpose_b (0 or 1): the last two dimensions of that input are swapped
              before the product; the dimensions before them broadcast as in numpy; optional bias [N]
Products and sums of integers wrap; matmul takes all of them, dense int32. On tt dense and matmul read the
words of numerics.py after these.
"""

from __future__ import annotations

import math

from ...base import dtypes
from ..graph import TensorType
from . import rules
from .epilogue import own_inputs, register_product
from .levels import LEVEL_BITS, level_type, takes_levels, unpack_levels
from .numerics import ATTRS, STREAM_DIRS
from .packed import (
    PAIRED,
    PANEL_ROWS,
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
from .registry import Attr, Body, Case, Op
from .work import Product, with_bias

_TYPES = (*rules.FLOATS, "int32")
_MATMUL_TYPES = (*_TYPES, *(t for t in rules.INTS if t != "int32"))
_NMSE = rules.ROUNDED | {"cpu": 1e-11, "tt/f32": 1e-11}
_TYPED = {
    **rules.summed(_NMSE),
    **dict.fromkeys(rules.INTS, _NMSE | {"cpu": 0.0}),
}
_PANEL = 16  # no panel of native/kernels/cpu/gemm.h has more rows or columns than this


def gemm_scratch(m: int, n: int, k: int, dtype: str) -> int:
    """Host bytes for the packed operands of an m x n x k product, each padded to whole panels."""
    return (m + n + 2 * _PANEL) * max(k, 1) * max(4, dtypes.parse(dtype).itemsize)


# ---------------------------------------------------------------- dense


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
    return [paired_type(wanted) if is_paired(w, attrs) and x.dtype == "float32" else wanted]


def _dense_levels(attrs):
    """Refuses levels that the kernel does not read."""
    if attrs["levels"] and not attrs["packed"]:
        rules.fail("dense", "levels are of packed weights", got=attrs["levels"])
    if attrs["levels"] and (len(attrs["levels"]) != 2 or not takes_levels(*attrs["levels"])):
        rules.fail(
            "dense",
            f"levels is {list(attrs['levels'])}: bits of {LEVEL_BITS}, and a block that fills 32-bit words",
            got=list(attrs["levels"]),
        )


def _dense_infer(inputs, attrs):
    x, w = inputs[:2]
    _dense_levels(attrs)
    alone = is_paired(w, attrs) or attrs["levels"]
    dtype = rules.one_dtype("dense", (x, *inputs[2:]) if alone else inputs, _TYPES)
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
        if w.dtype != x.dtype:
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


def _dense_panels(i, o, a):
    return 0 if refuse_panels(i, o, a) or len(i[1].shape) != 2 else i[1].shape[0]


def _takes_panels(inputs, outputs, attrs):
    if attrs["levels"]:
        return "it reads panels of float32 or bfloat16, these are of few bits (levels)"
    return takes_packed(inputs, outputs, attrs)


_PACKED = Body(
    "dense_packed", ("float32",), rules.by_dtype, accepts=_takes_panels, epilogue=True, prebuilt=True
)

_LEVELS = Body(
    "dense_levels",
    ("float32",),
    rules.by_dtype,
    accepts=lambda i, o, a: None if a["levels"] else "it reads weights of few bits (levels)",
    epilogue=True,
    prebuilt=True,
)


def _takes_library(inputs, outputs, attrs):
    """Sizes that 32-bit integers hold."""
    shapes = [t.shape for t in (*inputs[:2], *outputs)]
    if math.prod(outputs[0].shape[:-1]) >= 2**31 or any(n >= 2**31 for shape in shapes for n in shape):
        return "OpenBLAS counts rows and columns in 32 bits"
    return refuse_packed(inputs, outputs, attrs) if "packed" in attrs else None


_DENSE_BLAS = Body(
    "dense_blas",
    ("float32",),
    rules.by_dtype,
    accepts=_takes_library,
    epilogue=True,
    prebuilt=True,
    library="openblas",
)


def _few_bits_case(name, x, n, bits, block, tail, **attrs):
    """Levels with zeros where a block has 32."""
    levels = level_type(n, x[-1], bits, block, block == 32)
    types = (("float32", x), (levels.dtype, levels.shape), *tail)
    made = {"packed": n, "levels": [bits, block], **attrs}
    return Case(name, types, made, make=("normal", f"levels:{bits}:{block}"), nmse=_NMSE)


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
        yield Case(name, (("float32", x), ("float32", (n, x[-1])), *tail), nmse=_NMSE)
        if name in ("tiles", "vector", "batch", "ragged", "one", "no_k"):
            panels = panel_type(n, x[-1])
            yield Case(
                f"packed_{name}",
                (("float32", x), ("float32", panels.shape), *tail),
                {"packed": n},
                nmse=_NMSE,
            )
            pairs = (PAIRED, paired_type(panels).shape)
            yield Case(f"bf16_{name}", (("float32", x), pairs, *tail), {"packed": n}, nmse=_NMSE)
            for bits, block in ((4, 32), (8, 16)):
                yield _few_bits_case(f"bits{bits}_{name}", x, n, bits, block, tail)
    for t in _TYPES[1:]:
        yield Case(t, ((t, (33, 65)), (t, (40, 65)), (t, (40,))), nmse=_TYPED[t])


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
            nmse=_NMSE,
        )
        own = (("float32", x), ("float32", panel_type(n, x[-1]).shape), ("float32", (n,)))
        yield Case(f"packed_{name}", (*own, *extra), {"packed": n, "epilogue": scaled}, nmse=_NMSE)
        bounded = {"packed": n, "epilogue": [["add", [-1, 3], {}], ["relu", [-2], {}]]}
        pairs = (PAIRED, paired_type(panel_type(n, x[-1])).shape)
        in_pairs = (own[0], pairs, own[2], *extra)
        yield Case(f"bf16_{name}", in_pairs, {"packed": n, "epilogue": scaled}, nmse=_NMSE)
        yield _few_bits_case(f"bits4_{name}", x, n, 4, 16, (own[2], *extra), epilogue=scaled)
        yield Case(f"packed_{name}_bounds", (*own, ("float32", (*x[:-1], n))), bounded, nmse=_NMSE)
    yield Case(
        "epilogue_bf16",
        (("bfloat16", (33, 65)), ("bfloat16", (40, 65)), ("bfloat16", (33, 40))),
        {"epilogue": [["gelu", [-1], {}], ["add", [-2, 2], {}]]},
        nmse=_TYPED["bfloat16"],
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
            *ATTRS,
            STREAM_DIRS,
        ),
        words=lambda i, o, a: [a["packed"], *a["levels"]] if a["packed"] else [],
        bodies={
            "cpu": Body("dense", _TYPES, rules.by_dtype, _dense_scratch, refuse_packed, epilogue=True),
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
        cases=tuple(_dense_cases()),
    ),
    _dense_split,
    tuple(_dense_epilogue_cases()),
)


# ---------------------------------------------------------------- matmul


def _planes(inputs, attrs):
    """Shapes (m, k), (k, n) of the two planes after the transposes."""
    a, b = (t.shape[-2:] for t in inputs[:2])
    return (a[::-1] if attrs["transpose_a"] else a), (b[::-1] if attrs["transpose_b"] else b)


def _matmul_infer(inputs, attrs):
    dtype = rules.one_dtype("matmul", inputs, _MATMUL_TYPES)
    for i, t in enumerate(inputs[:2]):
        if len(t.shape) < 2:
            rules.fail(
                "matmul", f"input {i} must have at least 2 dimensions, got {t}; unsqueeze it", got=t.shape
            )
    (m, k), (k2, n) = _planes(inputs, attrs)
    if k != k2:
        rules.fail(
            "matmul",
            f"inner dimensions differ: {inputs[0]} gives [{m},{k}] and {inputs[1]} gives [{k2},{n}]"
            f" (transpose_a={attrs['transpose_a']}, transpose_b={attrs['transpose_b']})",
            got=k2,
            wanted=k,
        )
    if len(inputs) == 3 and inputs[2].shape != (n,):
        rules.fail("matmul", f"bias must have shape [{n}], got {inputs[2]}", got=inputs[2].shape, wanted=(n,))
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
    """The kernel of integers but int32 makes products only."""
    if i[0].dtype not in _TYPES and (len(i) == 3 or a["epilogue"]):
        return f"products of {i[0].dtype} take neither a bias nor an epilogue"
    return None


def _panels_scratch(i, o, a):
    """The right operand's planes, in panels."""
    (_, k), (_, n) = _planes(i, a)
    return math.prod(i[1].shape[:-2]) * panel_type(n, k).nbytes


def _matmul_work(i, o, a):
    """Planes of A that meet the same B are the rows of one product."""
    (_, k), (m, n) = _planes(i, a)[0], o[0].shape[-2:]
    batch = math.prod(o[0].shape[:-2])
    shared = math.prod(i[1].shape[:-2]) == 1
    product = Product(1, batch * m, k, n) if shared else Product(batch, m, k, n)
    return with_bias(product, o[0], own_inputs(len(i), a) == 3)


def _matmul_panels(i, o, a):
    able = len(i[1].shape) == 2 and not a["transpose_a"] and not refuse_panels(i, o, a)
    return i[1].shape[0 if a["transpose_b"] else 1] if able else 0


def _matmul_prefers(i, a):
    if i[0].dtype != "float32" or a["epilogue"]:
        return None
    return _MATMUL_PANELS.name if _planes(i, a)[0][0] >= PANEL_ROWS else None


_MATMUL_PANELS = Body("matmul_panels", ("float32",), rules.by_dtype, scratch=_panels_scratch, prebuilt=True)

_MATMUL_BLAS = Body(
    "matmul_blas", ("float32",), rules.by_dtype, accepts=_takes_library, prebuilt=True, library="openblas"
)


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
        attrs, inputs = {"transpose_a": bool(ta), "transpose_b": bool(tb)}, (("float32", a), ("float32", b))
        yield Case(name, inputs, attrs, nmse=_NMSE)
        yield Case(f"panels_{name}", inputs, attrs | {"kernel": "matmul_panels"}, nmse=_NMSE)
    for t in _MATMUL_TYPES[1:]:
        yield Case(t, ((t, (2, 33, 65)), (t, (65, 40))), nmse=_TYPED[t])


_BOOL = "swap the last two dimensions of input {} first"


def _matmul_split(made, attrs):
    return len(made.shape) - 2, len(made.shape) - 1


def _matmul_epilogue_cases():
    scaled = [["multiply", [-1, 3], {}], ["add", [-2, 4], {}]]
    biased = (("float32", (2, 33, 40)), ("float32", (40, 31)), ("float32", (31,)))
    yield Case("bias", biased, nmse=_NMSE)
    yield Case("panels_bias", biased, {"kernel": "matmul_panels"}, nmse=_NMSE)
    inputs = ((3, 33, 40), (2, 1, 40, 31), (31,), (), (2, 1, 33, 31))
    yield Case("epilogue", tuple(("float32", s) for s in inputs), {"epilogue": scaled}, nmse=_NMSE)


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
            "cpu": Body(
                "matmul", _MATMUL_TYPES, rules.by_dtype, _matmul_scratch, _bare_integers, epilogue=True
            ),
            "tt": Body("matmul", rules.TT_FLOATS, numerics=True, epilogue=True),
        },
        variants={"cpu": (_MATMUL_PANELS, _MATMUL_BLAS)},
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
    _matmul_split,
    tuple(_matmul_epilogue_cases()),
)
