"""Calls of movement, norms and indexing, as in accepted_calls beside this folder."""

from __future__ import annotations

from graph_runtime.compat import ttnn

ROWS, T = ttnn.ROW_MAJOR_LAYOUT, ttnn.transformer
SHARDED = ttnn.L1_WIDTH_SHARDED_MEMORY_CONFIG
CHANNELS = [1, 32, 1, 1]


def x(t, shape=(64, 64), dtype="BFLOAT16", layout="TILE", memory="INTERLEAVED"):
    return t("input_tensor", list(shape), dtype, layout, memory)


def two(t, shape, other="BFLOAT16", **how):
    return [t("tensors", shape), t("other", shape, other, **how)]


def gathered(t, shape, dim=-1, layout="TILE", index=(32, 64)):
    return ttnn.gather(t("input", list(shape), layout=layout), dim, t("index", list(index), "UINT32"))


def weighed(t, width=64, bias="TILE", function=ttnn.layer_norm):
    how = {"dtype": "BFLOAT16", "layout": bias}
    weight, shape = t("weight", [1, width]), [1, 64] if bias == "TILE" else [2, 32]
    return function(x(t, (32, 64)), weight=weight, bias=t("bias", shape, **how))


def biased(t, width, function):
    return function(x(t, (32, 64)), bias=t("bias", [1, width]))


def channelled(t, dtype="BFLOAT16", channels=32):
    mean, var = t("running_mean", [1, channels, 1, 1]), t("running_var", CHANNELS, dtype)
    weight, bias = t("weight", CHANNELS, dtype), t("bias", CHANNELS, dtype)
    return ttnn.batch_norm(
        t("input", [1, 32, 32, 32]), running_mean=mean, running_var=var, weight=weight, bias=bias
    )


def masked(t, mask, function, scale=0.5):
    given = None if mask is None else t("mask", list(mask))
    return function(x(t, (1, 1, 32, 64)), scale, given)


def attended(t, keys=32, width=32, causal=False, mask=False, function=T.scaled_dot_product_attention):
    q, k = t("input_tensor_q", [1, 2, 32, 32]), t("input_tensor_k", [1, 2, keys, 32])
    given = {"attn_mask": t("attn_mask", [1, 1, 32, keys])} if mask else {}
    return function(q, k, t("input_tensor_v", [1, 2, keys, width]), is_causal=causal, **given)


def decoded(t, queries="TILE", dtype="BFLOAT16"):
    q = t("input_tensor_q", [1, 1, 32, 32], dtype, queries)
    k, v = t("input_tensor_k", [1, 2, 32, 32]), t("input_tensor_v", [1, 2, 32, 32])
    return T.scaled_dot_product_attention_decode(q, k, v, is_causal=False)


def cut(t, width=192, **how):
    made = x(t, (1, 32, width), **how)
    return T.split_query_key_value_and_split_heads(made, num_heads=2)


def turned(t, size=32):
    return T.concatenate_heads(x(t, (1, 2, 32, size)))


def scattered(t, layout="ROW_MAJOR", dtype="BFLOAT16", other="BFLOAT16", function=ttnn.scatter):
    src = t("src", [32, 32], other, layout)
    return function(t("input", [32, 32], dtype, layout), 0, t("index", [32, 32], "INT32", layout), src)


def filled(t, dim=1, value=1.0):
    return ttnn.index_fill(
        t("input", [32, 32], layout="ROW_MAJOR"), dim, t("index", [4], "UINT32", "ROW_MAJOR"), value
    )


def replaced(t, count=1, layout="TILE"):
    ids = t("batch_id", [1], "UINT32", "ROW_MAJOR")
    b = t("input_tensor_b", [count, 32, 32], layout=layout)
    return ttnn.indexed_fill(ids, t("input_tensor_a", [4, 32, 32]), b)


def gradient(t, index=32, shape=(1, 1, 32, 32)):
    where = x(t, (1, index), "UINT32", "ROW_MAJOR")
    return ttnn.embedding_bw(where, t("weight", [64, 32]), t("output_gradient", list(shape)))


def copied(t, layout="TILE", dtype="BFLOAT16"):
    return ttnn.copy(t("input_a", [32, 32], layout=layout), t("input_b", [32, 32], dtype, layout))


def resharded(t, config=None):
    made = x(t, memory="HEIGHT_SHARDED")
    return ttnn.reshard(made, config or made.memory_config())


def given(t, function, places="UINT32", values="BFLOAT16"):
    into = t("values", [32, 64], values), t("places", [32, 64], places)
    if function is ttnn.topk:
        return ttnn.topk(x(t, (32, 64)), 64, output_tensor=into)
    return ttnn.sort(x(t, (32, 64)), out=into)


INSIDE = {
    "to_layout": lambda t: ttnn.to_layout(t("tensor", [32, 32]), ROWS),
    "tilize": lambda t: ttnn.tilize(x(t, layout="ROW_MAJOR")),
    "tilize_with_val_padding": lambda t: ttnn.tilize_with_val_padding(x(t, layout="ROW_MAJOR"), [64, 64], 0),
    "tilize_with_zero_padding": lambda t: ttnn.tilize_with_zero_padding(x(t, layout="ROW_MAJOR")),
    "untilize": lambda t: ttnn.untilize(x(t)),
    "untilize_with_unpadding": lambda t: ttnn.untilize_with_unpadding(x(t), [31, 63]),
    "reshape": lambda t: ttnn.reshape(x(t), [4096]),
    "unsqueeze": lambda t: ttnn.unsqueeze(x(t), -1),
    "slice": lambda t: ttnn.slice(x(t), [3, 0], [5, 64]),
    "split": lambda t: ttnn.split(x(t), 32, 0),
    "chunk": lambda t: ttnn.chunk(x(t), 2, 0),
    "concat": lambda t: ttnn.concat(two(t, [64, 64]), 0),
    "repeat": lambda t: ttnn.repeat(x(t), [2, 1]),
    "expand": lambda t: ttnn.expand(x(t, (1, 64)), [2, 64]),
    "pad": lambda t: ttnn.pad(x(t), [(0, 32), (0, 0)], 0.0),
    "softmax": lambda t: ttnn.softmax(x(t)),
    "softmax_in_place": lambda t: ttnn.softmax_in_place(x(t, (1, 1, 32, 32))),
    "scale_mask_softmax": lambda t: masked(t, (1, 1, 32, 64), ttnn.scale_mask_softmax),
    "scale_mask_softmax_in_place": lambda t: masked(t, (1, 1, 32, 64), ttnn.scale_mask_softmax_in_place),
    "layer_norm": lambda t: ttnn.layer_norm(x(t)),
    "rms_norm": lambda t: ttnn.rms_norm(x(t)),
    "batch_norm": channelled,
    "topk": lambda t: ttnn.topk(x(t), 8, indices_tensor=t("indices_tensor", [64, 64], "UINT16")),
    "sort": lambda t: ttnn.sort(x(t)),
    "embedding": lambda t: ttnn.embedding(x(t, (2, 32), "UINT32", "ROW_MAJOR"), t("weight", [32, 32])),
    "gather": lambda t: gathered(t, (32, 64)),
    "scatter": scattered,
    "scatter_add": lambda t: scattered(t, function=ttnn.scatter_add),
    "index_fill": filled,
    "indexed_fill": lambda t: replaced(t),
    "arange": lambda t: ttnn.arange(0, 8, dtype=ttnn.uint16, device=t("any", [1]).device()),
    "embedding_bw": gradient,
    "transformer.scaled_dot_product_attention": lambda t: attended(t, mask=True),
    "transformer.scaled_dot_product_attention_decode": decoded,
    "transformer.split_query_key_value_and_split_heads": cut,
    "transformer.concatenate_heads": turned,
    "narrow": lambda t: ttnn.narrow(x(t, (1, 64, 64)), 1, 32, 32),
    "clone": lambda t: ttnn.clone(x(t)),
    "fill_implicit_tile_padding": lambda t: ttnn.fill_implicit_tile_padding(t("tensor", [33, 32]), 1.0),
    "copy": copied,
    "to_memory_config": lambda t: ttnn.to_memory_config(t("tensor", [32, 32]), ttnn.L1_MEMORY_CONFIG),
    "reshard": resharded,
}


def rules(name, *cases):
    """{(name, the rule in words): (a call outside, a call inside)} of ``cases``, in the order of the row."""
    from graph_runtime.ttnn.accepted.rules import ACCEPTED, Rule

    says = [one.says for one in ACCEPTED[name].rules if isinstance(one, Rule)]
    return {(name, one): case for one, case in zip(says, cases, strict=True)}


def _of_softmax(name):
    function = getattr(ttnn, name)
    return rules(
        name,
        (
            lambda t: function(x(t, (1, 1, 32, 64)), 0.5, t("mask", [1, 1, 32, 32], layout="ROW_MAJOR")),
            lambda t: function(x(t, (1, 1, 32, 64)), 0.5, t("mask", [1, 1, 2, 32], layout="ROW_MAJOR")),
        ),
        (lambda t: masked(t, (2, 1, 32, 64), function), lambda t: masked(t, (1, 1, 32, 64), function)),
        (lambda t: masked(t, None, function), lambda t: masked(t, None, function, None)),
    )


def _of_norm(name):
    function = getattr(ttnn, name)
    rows = (lambda t: function(x(t, (32, 33), layout="ROW_MAJOR")), lambda t: function(x(t, (32, 33))))
    return rules(
        name,
        *([rows] if name == "layer_norm" else []),
        (lambda t: weighed(t, 96, function=function), lambda t: weighed(t, function=function)),
        (lambda t: weighed(t, bias="ROW_MAJOR", function=function), lambda t: weighed(t, function=function)),
        (lambda t: biased(t, 96, function), lambda t: biased(t, 64, function)),
        (lambda t: function(x(t, memory="HEIGHT_SHARDED")), lambda t: function(x(t))),
    )


def _of_order(name, first):
    function = getattr(ttnn, name)
    k = [first] if name == "topk" else []
    return rules(
        name,
        (lambda t: function(x(t), dim=2), lambda t: function(x(t), dim=1)),
        *k,
        *([(lambda t: function(x(t), memory_config=SHARDED), lambda t: function(x(t)))] if k else []),
        (lambda t: given(t, function, "FLOAT32"), lambda t: given(t, function)),
    )


def _of_scatter(name, function):
    return rules(
        name,
        (
            lambda t: scattered(t, "TILE", "FLOAT32", "FLOAT32", function),
            lambda t: scattered(t, function=function),
        ),
        (lambda t: scattered(t, other="INT32", function=function), lambda t: scattered(t, function=function)),
    )


OUTSIDE = {
    **rules(
        "to_layout",
        (
            lambda t: ttnn.to_layout(t("tensor", [32, 32], "BFLOAT4_B"), ROWS),
            lambda t: ttnn.to_layout(t("tensor", [32, 32], "BFLOAT8_B"), ROWS),
        ),
    ),
    **rules(
        "reshape",
        (
            lambda t: ttnn.reshape(x(t, dtype="UINT8"), [4096]),
            lambda t: ttnn.reshape(x(t, dtype="UINT8"), [2, 32, 64]),
        ),
    ),
    **rules(
        "unsqueeze",
        (
            lambda t: ttnn.unsqueeze(x(t, dtype="UINT16"), -1),
            lambda t: ttnn.unsqueeze(x(t, dtype="UINT16"), 0),
        ),
    ),
    **rules(
        "slice",
        (
            lambda t: ttnn.slice(x(t, dtype="UINT8"), [3, 0], [5, 64]),
            lambda t: ttnn.slice(x(t, dtype="UINT8"), [32, 0], [35, 64]),
        ),
    ),
    **rules(
        "split",
        (lambda t: ttnn.split(x(t, dtype="UINT8"), 16, 0), lambda t: ttnn.split(x(t, dtype="UINT8"), 32, 0)),
    ),
    **rules(
        "chunk",
        (
            lambda t: ttnn.chunk(x(t, dtype="BFLOAT4_B"), 4, 0),
            lambda t: ttnn.chunk(x(t, dtype="BFLOAT4_B"), 2, 0),
        ),
    ),
    **rules(
        "concat",
        (lambda t: ttnn.concat(two(t, [64, 64], "FLOAT32"), 0), lambda t: ttnn.concat(two(t, [64, 64]), 0)),
    ),
    **rules(
        "repeat",
        (
            lambda t: ttnn.repeat(x(t, (33, 64), "UINT8"), [2, 1]),
            lambda t: ttnn.repeat(x(t, (33, 64), "UINT8"), [1, 2]),
        ),
    ),
    **rules(
        "expand",
        (
            lambda t: ttnn.expand(x(t, (1, 64), "BFLOAT4_B"), [2, 64]),
            lambda t: ttnn.expand(x(t, (1, 64), "BFLOAT4_B"), [2, 1, 64]),
        ),
    ),
    **rules(
        "pad",
        (lambda t: ttnn.pad(x(t), [(1, 0), (0, 0)], 0.0), lambda t: ttnn.pad(x(t), [(0, 1), (0, 0)], 0.0)),
    ),
    **rules(
        "softmax",
        (lambda t: ttnn.softmax(x(t), 2), lambda t: ttnn.softmax(x(t), 1)),
        (
            lambda t: ttnn.softmax(x(t, layout="ROW_MAJOR")),
            lambda t: ttnn.softmax(x(t, (1, 1, 32, 33), layout="ROW_MAJOR")),
        ),
    ),
    **rules(
        "softmax_in_place",
        (
            lambda t: ttnn.softmax_in_place(x(t, (1, 32, 32))),
            lambda t: ttnn.softmax_in_place(x(t, (1, 1, 32, 32))),
        ),
    ),
    **_of_softmax("scale_mask_softmax"),
    **_of_softmax("scale_mask_softmax_in_place"),
    **_of_norm("layer_norm"),
    **_of_norm("rms_norm"),
    **rules(
        "batch_norm",
        (lambda t: channelled(t, "FLOAT32"), channelled),
        (lambda t: channelled(t, channels=1), channelled),
    ),
    **_of_order("topk", (lambda t: ttnn.topk(x(t), 65), lambda t: ttnn.topk(x(t), 64))),
    **_of_order("sort", None),
    **rules(
        "embedding",
        (
            lambda t: ttnn.embedding(x(t, (2, 32), "UINT32", "ROW_MAJOR"), t("weight", [2, 1, 32, 32])),
            lambda t: ttnn.embedding(x(t, (2, 32), "UINT32", "ROW_MAJOR"), t("weight", [1, 1, 32, 32])),
        ),
    ),
    **rules(
        "gather",
        (lambda t: gathered(t, (32, 64), 2), lambda t: gathered(t, (32, 64), 1)),
        (lambda t: gathered(t, (31, 64)), lambda t: gathered(t, (33, 64))),
        (lambda t: gathered(t, (32, 64), layout="ROW_MAJOR"), lambda t: gathered(t, (32, 64))),
    ),
    **{
        key: case
        for name, function in (("scatter", ttnn.scatter), ("scatter_add", ttnn.scatter_add))
        for key, case in _of_scatter(name, function).items()
    },
    **rules(
        "tilize_with_val_padding",
        (
            lambda t: ttnn.tilize_with_val_padding(x(t, (33,), layout="ROW_MAJOR"), [64], 0),
            lambda t: ttnn.tilize_with_val_padding(x(t, (1, 33), layout="ROW_MAJOR"), [32, 64], 0),
        ),
    ),
    **rules(
        "arange",
        (
            lambda t: ttnn.arange(0, 8, dtype=ttnn.uint8, device=t("any", [1]).device()),
            lambda t: ttnn.arange(0, 8, dtype=ttnn.float32, device=t("any", [1]).device()),
        ),
    ),
    **rules(
        "indexed_fill",
        (lambda t: replaced(t, 2), replaced),
        (lambda t: replaced(t, layout="ROW_MAJOR"), replaced),
    ),
    **rules(
        "index_fill",
        (lambda t: filled(t, 2), filled),
        (lambda t: filled(t, value=1), filled),
    ),
    **rules(
        "embedding_bw",
        (lambda t: gradient(t, 31), gradient),
        (lambda t: gradient(t, shape=(2, 16, 32)), gradient),
    ),
    **rules(
        "transformer.scaled_dot_product_attention",
        (lambda t: attended(t, width=64), attended),
        (lambda t: attended(t, 64, causal=True), lambda t: attended(t, causal=True)),
        (lambda t: attended(t, causal=True, mask=True), lambda t: attended(t, mask=True)),
    ),
    **rules(
        "transformer.scaled_dot_product_attention_decode",
        (lambda t: decoded(t, "ROW_MAJOR"), decoded),
        (lambda t: decoded(t, dtype="BFLOAT8_B"), decoded),
    ),
    **rules(
        "transformer.split_query_key_value_and_split_heads",
        (lambda t: cut(t, 96), cut),
    ),
    **rules("transformer.concatenate_heads", (lambda t: turned(t, 48), turned)),
    **rules(
        "narrow",
        (lambda t: ttnn.narrow(x(t), 0, 3, 32), lambda t: ttnn.narrow(x(t, layout="ROW_MAJOR"), 0, 3, 32)),
    ),
    **rules(
        "clone",
        (
            lambda t: ttnn.clone(x(t, memory="HEIGHT_SHARDED"), memory_config=ttnn.L1_MEMORY_CONFIG),
            lambda t: ttnn.clone(x(t), memory_config=ttnn.L1_MEMORY_CONFIG),
        ),
    ),
    **rules("copy", (lambda t: copied(t, "ROW_MAJOR", "FLOAT32"), lambda t: copied(t, "TILE", "FLOAT32"))),
    **rules(
        "to_memory_config",
        (
            lambda t: ttnn.to_memory_config(
                t("tensor", [32, 32], layout="ROW_MAJOR"), ttnn.L1_MEMORY_CONFIG, ttnn.float32
            ),
            lambda t: ttnn.to_memory_config(t("tensor", [32, 32]), ttnn.L1_MEMORY_CONFIG, ttnn.float32),
        ),
    ),
    **rules("reshard", (lambda t: resharded(t, ttnn.L1_MEMORY_CONFIG), resharded)),
}
