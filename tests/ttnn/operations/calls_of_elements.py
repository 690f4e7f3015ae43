"""Calls of elementwise functions, as in accepted_calls beside this folder; most from the tables' names."""

from __future__ import annotations

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.accepted.elementwise import UNARY
from graph_runtime.ttnn.accepted.pairs import BINARY

SHAPE = [32, 32]
# further arguments of functions of one tensor
_MORE = {
    "fill": (2.0,),
    "heaviside": (1.0,),
    "leaky_relu": (0.1,),
    "polygamma": (2,),
    "polyval": ([1.0, 2.0],),
    "rpow": (2.0,),
    "threshold": (1.0, 2.0),
}
_ALPHA = ("addalpha", "subalpha")


def unary(name, types):
    return lambda t: getattr(ttnn, name)(t("input_tensor", SHAPE, types.split()[0]), *_MORE.get(name, ()))


def pair(name, types="BFLOAT16", layout="TILE", operands=None, **more):
    """A call of two tensors of the first of the types, or of these ``operands``."""

    def call(t):
        kind = types.split()[0]
        a, b = operands or (t(f"input_tensor_{at}", SHAPE, kind, layout) for at in "ab")
        if name in _ALPHA:
            return getattr(ttnn, name)(a, b, 2.0, **more)
        return getattr(ttnn, name)(a, b, **more)

    return call


def into(name, types, layout):
    """A call whose result is written into a tensor of its operands' layout."""

    def call(t):
        kind = types.split()[0]
        return pair(name, types, layout, output_tensor=t("", SHAPE, kind, layout))(t)

    return call


def by(name, number, dtype="INT32", layout="TILE"):
    """A call of a tensor and a number."""

    def call(t):
        a = t("input_tensor_a", SHAPE, dtype, layout)
        return getattr(ttnn, name)(a, number)

    return call


def sharded(name, types, width):
    """A call of a tensor in rows, in shards of this width, and of one in tiles."""

    def call(t):
        kind = types.split()[0]
        a, b = t("", [32, 2 * width], kind, "ROW_MAJOR"), t("", [32, 2 * width], kind)
        spec = ttnn.create_sharded_memory_config(
            [32, 2 * width], ttnn.CoreGrid(y=1, x=2), ttnn.ShardStrategy.WIDTH
        )
        return pair(name, operands=(ttnn.to_memory_config(a, spec), b))(t)

    return call


def three(name, *types, layout="TILE"):
    def call(t):
        kinds = types or ("BFLOAT16",) * 3
        return getattr(ttnn, name)(
            *(
                t(f"input_tensor_{at}", SHAPE, kind, layout) if isinstance(kind, str) else kind
                for at, kind in zip("abc", kinds, strict=True)
            )
        )

    return call


def clamped(name, low, high, dtype="BFLOAT16"):
    def call(t):
        bounds = (t("", SHAPE, one) if isinstance(one, str) else one for one in (low, high))
        return getattr(ttnn, name)(t("input_tensor", SHAPE, dtype), *bounds)

    return call


def chosen(layout, true_value, false_value):
    def call(t):
        values = (t("", SHAPE, one) if isinstance(one, str) else one for one in (true_value, false_value))
        return ttnn.where(t("predicate", SHAPE, "BFLOAT16", layout), *values)

    return call


INSIDE = {name: unary(name, types) for types, names in UNARY.items() for name in names.split()}
INSIDE |= {name: pair(name, types) for names, types, _, _ in BINARY for name in names.split()}
INSIDE |= {name: unary(name, "BFLOAT16") for name in ("tril", "triu")}
INSIDE |= {name: three(name) for name in ("lerp", "addcmul", "addcdiv", "mac")}
INSIDE |= {
    name: lambda t, name=name: getattr(ttnn, name)(t("input_tensor", [1, 1, 32, 64]))
    for name in ("glu", "reglu", "geglu", "swiglu")
}
INSIDE |= {
    "clamp": clamped("clamp", 0.1, 0.5),
    "clip": clamped("clip", 0.1, 0.5),
    "outer": lambda t: ttnn.outer(*(t(f"input_tensor_{at}", [1, 1, 1, 32]) for at in "ab")),
    "rdiv": lambda t: ttnn.rdiv(t("input_tensor_a", SHAPE), 2.0),
    "prelu": lambda t: ttnn.prelu(t("input_tensor_a", SHAPE), 0.2),
    "typecast": lambda t: ttnn.typecast(t("input_tensor", SHAPE), ttnn.float32),
    "where": chosen("TILE", "BFLOAT16", "BFLOAT16"),
}

_IN_TILES = "input_tensor_a: in TILE or in shards"
OUTSIDE = {
    ("typecast", "to BFLOAT8_B, BFLOAT4_B: TILE"): tuple(
        lambda t, at=at: ttnn.typecast(t("input_tensor", SHAPE, "FLOAT32", at), ttnn.bfloat8_b)
        for at in ("ROW_MAJOR", "TILE")
    ),
    ("clamp", "two numbers: of one kind"): (clamped("clamp", 0, 0.5), clamped("clamp", 0, 1)),
    ("divide_", "integers: by floats"): (by("divide_", 2), by("divide_", 2, "FLOAT32")),
    ("floor_div", "two tensors: not both UINT32"): (
        pair("floor_div", "UINT32"),
        by("floor_div", 2, "UINT32"),
    ),
    ("floor_div", "integers: not by the number 0"): (by("floor_div", 0), by("floor_div", 1)),
    ("div_no_nan", "two tensors: not both UINT32 or UINT16"): (
        pair("div_no_nan", "UINT16"),
        by("div_no_nan", 2, "UINT16"),
    ),
    ("remainder", "UINT32: a whole number above 0"): (
        by("remainder", 0, "UINT32"),
        by("remainder", 1, "UINT32"),
    ),
    ("pow", "integers: only as the base of a number; UINT8 with 0 and 1"): (
        by("pow", 2, "UINT8"),
        by("pow", 1, "UINT8"),
    ),
    ("pow", "INT32, UINT32, UINT16: a whole number of 0 or above; above 1 in TILE"): (
        by("pow", 2, layout="ROW_MAJOR"),
        by("pow", 1, layout="ROW_MAJOR"),
    ),
    (
        "where",
        "three tensors: a predicate in TILE or in shards; with a number: one type, not UINT16, UINT8",
    ): (
        chosen("ROW_MAJOR", "BFLOAT16", "BFLOAT16"),
        chosen("ROW_MAJOR", "BFLOAT16", 1.0),
    ),
    ("lerp", "no UINT32; INT32 not with a number; in TILE or in shards"): (
        three("lerp", "INT32", "INT32", 0.5),
        three("lerp", "INT32", "BFLOAT16", 0.5),
    ),
    ("addcdiv", "not all INT32"): (three("addcdiv", *["INT32"] * 3), three("addcdiv", *["UINT16"] * 3)),
    ("mac", "the product mixes with input_tensor_c; floats of one type: in TILE or in shards"): (
        three("mac", "BFLOAT16", "INT32", "INT32"),
        three("mac", "BFLOAT16", "INT32", "BFLOAT16"),
    ),
}
OUTSIDE |= {
    (name, _IN_TILES): (three(name, layout="ROW_MAJOR"), three(name)) for name in ("addcmul", "addcdiv")
}
OUTSIDE |= {
    (name, "min, max or both; by numbers BFLOAT16, FLOAT32, BFLOAT8_B, BFLOAT4_B, INT32"): (
        clamped(name, 1, 2, "UINT32"),
        clamped(name, 1, 2, "INT32"),
    )
    for name in ("clamp", "clip")
}
OUTSIDE |= {
    (name, "bounds that are tensors: the tensor's type; by two not UINT16, UINT8"): (
        clamped(name, "FLOAT32", "FLOAT32"),
        clamped(name, "FLOAT32", None),
    )
    for name in ("clamp", "clip")
}
OUTSIDE |= {
    (name, "in ROW_MAJOR: whole tiles"): tuple(
        lambda t, name=name, size=size: getattr(ttnn, name)(t("input_tensor", [32, size], layout="ROW_MAJOR"))
        for size in (50, 64)
    )
    for name in ("tril", "triu")
}
for _names, _types, _, _rules in BINARY:
    for _name in _names.split():
        _said = [rule.says for rule in _rules]
        if "a number beside INT32, UINT32: a whole one of 32 bits" in _said:
            OUTSIDE[_name, _said[0]] = (by(_name, 2.5), by(_name, 2**32 - 1))
        if "UINT32: by or of floats" in _said:
            OUTSIDE[_name, "UINT32: by or of floats"] = (by(_name, 2, "UINT32"), by(_name, 2.5, "UINT32"))
        OUTSIDE[_name, "the result's shards are of whole tiles"] = (
            sharded(_name, _types, 16),
            sharded(_name, _types, 32),
        )
        if _name.endswith("_"):
            OUTSIDE[_name, "an operand in TILE"] = (
                pair(_name, _types, "ROW_MAJOR"),
                pair(_name, _types, "TILE"),
            )
        else:
            OUTSIDE[_name, "into a tensor: an operand in TILE"] = (
                into(_name, _types, "ROW_MAJOR"),
                into(_name, _types, "TILE"),
            )
