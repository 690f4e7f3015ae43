"""Calls of matrix products, as in accepted_calls beside this folder."""

from __future__ import annotations

from graph_runtime.compat import ttnn


def product(name, a=(32, 64), b=(64, 96), memory="INTERLEAVED", **more):
    """A call of operands of these shapes, the second one in shards of the ``memory``."""

    def call(t):
        x, y = t("input_tensor_a", list(a)), t("input_tensor_b", list(b), memory=memory)
        return getattr(ttnn, name)(x, y, **more)

    return call


def added(shape, dtype="BFLOAT16", layout="TILE"):
    def call(t):
        x, y = t("input_tensor_a", [32, 64]), t("input_tensor_b", [64, 96])
        return ttnn.linear(x, y, bias=t("", shape, dtype, layout))

    return call


def addmm(size=96, **more):
    def call(t):
        x, a, b = (t(name, shape) for name, shape in matrices(size))
        return ttnn.addmm(x, a, b, **more)

    return call


def matrices(size):
    return (("input_tensor", [32, size]), ("mat1_tensor", [32, 64]), ("mat2_tensor", [64, 96]))


INSIDE = {"matmul": product("matmul"), "linear": product("linear"), "addmm": addmm()}
OUTSIDE = {
    ("linear", "bias: floats, or inside of the product in TILE"): (
        added([1, 96], "INT32", "ROW_MAJOR"),
        added([1, 96], "INT32", "TILE"),
    ),
    (
        "addmm",
        "alpha is not 0, no output_tile; input_tensor of the product's shape, or beta 0",
    ): (addmm(64), addmm(64, beta=0.0)),
}
for _name in ("matmul", "linear"):
    OUTSIDE |= {
        (_name, "in shards: no activation"): (
            product(_name, b=(64, 1024), memory="WIDTH_SHARDED", activation="relu"),
            product(_name, b=(64, 1024), memory="WIDTH_SHARDED"),
        ),
        (_name, "a second tensor of a higher rank: its first dimensions are 1"): (
            product(_name, b=(2, 64, 96)),
            product(_name, b=(1, 64, 96)),
        ),
        (_name, "the width of the first is the height of the second"): (
            product(_name, b=(65, 96)),
            product(_name, b=(64, 97)),
        ),
        (_name, "a second tensor with batches: of the first one's rank and batches"): (
            product(_name, (2, 3, 32, 64), (1, 3, 64, 96)),
            product(_name, (1, 1, 32, 64), (2, 3, 64, 96)),
        ),
        (_name, "a second tensor in shards of L1: WIDTH_SHARDED, of an interleaved first"): (
            product(_name, b=(64, 1024), memory="BLOCK_SHARDED"),
            product(_name, b=(64, 1024), memory="WIDTH_SHARDED"),
        ),
    }
