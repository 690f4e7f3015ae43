"""Calls of reductions, as in accepted_calls beside this folder."""

from __future__ import annotations

from graph_runtime.compat import ttnn

FULL = [1, 1, 32, 64]


def reduced(name, dim=-1, shape=FULL, dtype="BFLOAT16", layout="TILE"):
    return lambda t: getattr(ttnn, name)(t("input_tensor", shape, dtype, layout), dim=dim)


def run(name, dim=-1):
    return lambda t: getattr(ttnn, name)(t("input", FULL), dim)


def sampled(users=2, size=64, numbers=None):
    def call(t):
        x = t("input_values_tensor", [1, 1, users, size])
        names = t("input_indices_tensor", [1, 1, users, size], "INT32", "ROW_MAJOR")
        k, p, temp = (
            t(name, [numbers or users], kind, "ROW_MAJOR")
            for name, kind in (("k", "UINT32"), ("p", "BFLOAT16"), ("temp", "BFLOAT16"))
        )
        return ttnn.sampling(x, names, k=k, p=p, temp=temp, seed=1)

    return call


_GENERIC = ("sum", "mean", "max", "min", "std", "var")
INSIDE = {name: reduced(name) for name in (*_GENERIC, "prod", "argmax")}
INSIDE |= {name: run(name) for name in ("cumsum", "cumprod")}
INSIDE |= {
    name: lambda t, name=name: getattr(ttnn, name)(t("input_tensor", FULL))
    for name in ("std_hw", "var_hw", "normalize_hw", "normalize_global")
}
INSIDE |= {
    "ema": lambda t: ttnn.ema(t("input_tensor", FULL), 0.9),
    "experimental.fast_reduce_nc": lambda t: ttnn.experimental.fast_reduce_nc(
        t("input", [2, 3, 32, 32]), dims=[0]
    ),
    "sampling": sampled(),
}

_WITHIN = "dim: within the rank"
_NONE = [2, 0, 32]
OUTSIDE = {(name, _WITHIN): (reduced(name, 4), reduced(name, 3)) for name in INSIDE if name in _GENERIC}
OUTSIDE |= {(name, _WITHIN): (reduced(name, 4), reduced(name, -4)) for name in ("prod", "argmax")}
OUTSIDE |= {(name, _WITHIN): (run(name, 4), run(name, 3)) for name in ("cumsum", "cumprod")}
OUTSIDE |= {
    (name, "dim: each dimension once"): (reduced(name, [3, -1]), reduced(name, [3, -2])) for name in _GENERIC
}
OUTSIDE |= {
    (name, "dim: of a size above 0"): (reduced(name, 1, _NONE), reduced(name, 0, _NONE))
    for name in ("max", "min", "argmax")
}
OUTSIDE |= {
    ("prod", "of rank 1: in TILE"): (
        reduced("prod", 0, [64], layout="ROW_MAJOR"),
        reduced("prod", 0, [1, 64], layout="ROW_MAJOR"),
    ),
    ("prod", "with dim: not BFLOAT4_B"): (
        reduced("prod", 0, dtype="BFLOAT4_B"),
        reduced("prod", None, dtype="BFLOAT4_B"),
    ),
    ("argmax", "in ROW_MAJOR, of integers: the last dimension"): (
        reduced("argmax", 2, dtype="INT32", layout="ROW_MAJOR"),
        reduced("argmax", 3, dtype="INT32", layout="ROW_MAJOR"),
    ),
    ("argmax", "in TILE: with dim"): (reduced("argmax", None), reduced("argmax", 3)),
    ("sampling", "input_values_tensor: [1, 1, 1 to 32 users, n], n / 32 a power of 2"): (
        sampled(33, 64),
        sampled(32, 64),
    ),
    ("sampling", "input_indices_tensor: its shape; k, p, temp: an element a user"): (
        sampled(2, numbers=3),
        sampled(3),
    ),
}


def turned(name, shape):
    """A reduction over dimension 0 of a tensor in shards of 32 rows on two cores."""

    def call(t):
        x = t("input_tensor", shape, "FLOAT32")
        spec = ttnn.create_sharded_memory_config(shape, ttnn.CoreGrid(y=1, x=2), ttnn.ShardStrategy.HEIGHT)
        return getattr(ttnn, name)(ttnn.to_memory_config(x, spec), dim=0)

    return call


OUTSIDE |= {
    (name, "in HEIGHT_SHARDED: other dimensions than the last two fit the shards as rows"): (
        turned(name, [2, 64, 32]),
        turned(name, [32, 32, 32]),
    )
    for name in ("sum", "mean", "max", "min")
}


def in_rows(name, width):
    def call(t):
        x = t("input_tensor", [32, 2 * width], layout="ROW_MAJOR")
        spec = ttnn.create_sharded_memory_config(
            [32, 2 * width], ttnn.CoreGrid(y=1, x=2), ttnn.ShardStrategy.WIDTH
        )
        return getattr(ttnn, name)(ttnn.to_memory_config(x, spec), dim=-1)

    return call


OUTSIDE |= {
    (name, "in ROW_MAJOR: shards of whole tiles"): (in_rows(name, 16), in_rows(name, 32))
    for name in ("std", "var")
}
OUTSIDE |= {
    (name, "BFLOAT16, FLOAT32, BFLOAT8_B; of one element all types"): (
        reduced(name, 0, [2, 32], "UINT16"),
        reduced(name, 0, [1, 32], "UINT16"),
    )
    for name in ("std", "var")
}
