"""Calls of functions that models use, as in accepted_calls beside this folder."""

from __future__ import annotations

from graph_runtime.compat import ttnn

E, P = ttnn.experimental, ttnn.experimental.deepseek_prefill


def rows(t, name, shape, dtype="FLOAT32"):
    return t(name, shape, dtype, "ROW_MAJOR")


def twiddles(t, rows_count, modulus):
    return E.apply_twiddles(
        rows(t, "input_real", [rows_count, 64]), rows(t, "input_imag", [rows_count, 64]), 64, modulus
    )


def twiddles_xl(t, rows_count, modulus):
    x, y = rows(t, "input_real", [rows_count, 64]), rows(t, "input_imag", [rows_count, 64])
    return E.apply_twiddles_xl(x, y, 64, modulus, 4096)


def product(t, size):
    return E.complex_mul(*(rows(t, name, [2, size]) for name in ("a_real", "a_imag", "b_real", "b_imag")))


def separate(t):
    q, kv = t("input", [1, 1, 32, 32]), t("input_kv", [1, 1, 32, 64], memory="BLOCK_SHARDED")
    q = q if q.is_sharded() else t("input", [1, 1, 32, 32], memory="BLOCK_SHARDED")
    return E.create_qkv_heads_from_separate_tensors(
        q,
        kv,
        num_heads=1,
        num_kv_heads=1,
        memory_config=ttnn.L1_HEIGHT_SHARDED_MEMORY_CONFIG,
    )


def grouped(t, experts=256, **given):
    return P.moe_grouped_topk(
        t("scores", [1, 1, 32, experts], "FLOAT32"), t("bias", [1, 1, 32, experts], "FLOAT32"), **given
    )


def gate(t, experts=256, **given):
    return E.deepseek_grouped_gate(t("scores", [1, 1, 32, experts]), t("bias", [1, 1, 32, experts]), **given)


def hashed(t):
    ids = t("input_ids", [1, 32], "UINT32", "ROW_MAJOR")
    table = t("tid2eid", [8, 8], "UINT16", "ROW_MAJOR")
    return P.moe_hash_gate(t("scores", [1, 1, 32, 64], "FLOAT32"), ids, table, n_activated_experts=4)


def counted(t, tokens=64, columns=4):
    mask = t("expert_mask", [8], "INT32", "ROW_MAJOR")
    return P.masked_bincount(t("input_tensor", [tokens, 4], "UINT16"), mask, 8, columns)


def routed(t, experts=128):
    x, weight, bias = t("input_tensor", [32, 64]), t("weight_tensor", [64, 128]), t("bias_tensor", [32, 128])
    return E.topk_router_gpt(x, weight_tensor=weight, bias_tensor=bias, num_experts=experts)


def first_expert(t, width=64, k=32):
    masks = t("expert_mask_tensor", [1, 1, 1, width]), t("topk_mask_tensor", [1, 1, 1, 32])
    return ttnn.moe(t("input_tensor", [1, 1, 32, width]), *masks, k)


def remapped(t):
    mapping = rows(t, "expert_mapping_tensor", [1, 1, 8, 1], "UINT16")
    metadata = rows(t, "expert_metadata_tensor", [1, 1, 16, 2], "UINT16")
    return ttnn.moe_expert_token_remap(rows(t, "topk_tensor", [1, 1, 16, 8], "BFLOAT16"), mapping, metadata)


def combined(t):
    x, weights = rows(t, "combine_output", [1, 32, 4, 64]), rows(t, "weights", [1, 32, 4, 1])
    table = rows(t, "expert_dispatch_table", [8], "INT32")
    return P.post_combine_reduce(x, weights, rows(t, "indices", [1, 32, 4, 1], "UINT16"), table, expert_dim=2)


def seen(t, **given):
    changes = {"columns": 2, "channels": 32} | given
    places = rows(t, "grid", [1, 4, 4, changes.pop("columns")])
    image = rows(t, "input_tensor", [1, 8, 8, changes.pop("channels")])
    return ttnn.grid_sample(image, places, **changes)


def deformed(t):
    value, weights = (
        rows(t, "value", [1, 16, 32], "BFLOAT16"),
        rows(t, "attention_weights", [1, 4, 2, 4], "BFLOAT16"),
    )
    return E.fused_msda(value, rows(t, "sampling_locations", [1, 4, 2, 8], "BFLOAT16"), weights, [(4, 4)])


def volume(t, channels=32):
    x, weight = (
        rows(t, "input_tensor", [1, 2, 4, 4, channels]),
        t("weight_tensor", [2 * channels, 32], "FLOAT32"),
    )
    return E.conv3d(
        input_tensor=x, weight_tensor=weight, dtype=ttnn.float32, output_channels=32, kernel_size=[2, 1, 1]
    )


INSIDE = {
    "grid_sample": seen,
    "experimental.fused_msda": deformed,
    "experimental.conv3d": volume,
    "experimental.deepseek_prefill.moe_grouped_topk": grouped,
    "experimental.deepseek_grouped_gate": gate,
    "experimental.deepseek_prefill.moe_hash_gate": hashed,
    "experimental.deepseek_prefill.masked_bincount": counted,
    "experimental.topk_router_gpt": routed,
    "moe": first_expert,
    "moe_routing_remap": lambda t: ttnn.moe_routing_remap(
        rows(t, "routing_weights_tensor", [1, 32]), 4, 1, 0
    ),
    "moe_expert_token_remap": remapped,
    "experimental.deepseek_prefill.post_combine_reduce": combined,
    "experimental.fast_reduce_nc_split": lambda t: E.fast_reduce_nc_split(
        t("input", [2, 2, 32, 64]), dim=1, split_output_width=32
    ),
    "experimental.fft": lambda t: E.fft(rows(t, "input_real", [2, 64])),
    "experimental.ifft": lambda t: E.ifft(
        rows(t, "spectrum_real", [2, 64]),
        rows(t, "spectrum_imag", [2, 64], "FLOAT32"),
    ),
    "experimental.bluestein_fft": lambda t: E.bluestein_fft(
        x := rows(t, "input_real", [2, 33]), N=x.shape[-1]
    ),
    "experimental.fft_three_pass": lambda t: E.fft_three_pass(
        rows(t, "input_real", [1024, 1024]), full_N=1 << 20
    ),
    "experimental.fft_radix_pass": lambda t: E.fft_radix_pass(rows(t, "input_real", [2, 64]), 64),
    "experimental.apply_twiddles": lambda t: twiddles(t, 4, 4),
    "experimental.apply_twiddles_xl": lambda t: twiddles_xl(t, 4, 4),
    "experimental.complex_mul": lambda t: product(t, 64),
    "experimental.concatenate_heads": lambda t: E.concatenate_heads(
        t("input_tensor", [7, 16, 384, 64]), ttnn.CoreCoord(8, 7)
    ),
    "experimental.split_query_key_value_and_split_heads": lambda t: E.split_query_key_value_and_split_heads(
        t("input_tensor", [7, 1, 32, 192]), ttnn.CoreCoord(8, 7), num_heads=2
    ),
    "experimental.create_qkv_heads_from_separate_tensors": separate,
    "experimental.nlp_create_qkv_heads_vit": lambda t: E.nlp_create_qkv_heads_vit(
        t("input", [1, 1, 32, 2304])
    ),
    "experimental.nlp_create_qkv_heads_falcon7b": lambda t: E.nlp_create_qkv_heads_falcon7b(
        t("input", [1, 1, 32, 4672])
    ),
    "experimental.nlp_create_qkv_heads_segformer": lambda t: E.nlp_create_qkv_heads_segformer(
        t("input", [1, 1, 32, 64])
    ),
    "experimental.nlp_create_qkv_heads_boltz": lambda t: E.nlp_create_qkv_heads_boltz(
        t("input", [1, 32, 32, 96]), num_heads=1, transpose_k_heads=False
    ),
    "experimental.nlp_concat_heads_boltz": lambda t: E.nlp_concat_heads_boltz(
        t("input_tensor", [2, 32, 32, 32])
    ),
}

ALIKE = "both parts have one type and one shape"
SHORT = "rows have at least 2 elements"
BATCH = "rows of a power of two are a power of two in number"
SEVEN = "a batch of 7 to 9, unless in shards"
TOPK, GATE = "experimental.deepseek_prefill.moe_grouped_topk", "experimental.deepseek_grouped_gate"
COUNT = "experimental.deepseek_prefill.masked_bincount"
OUTSIDE = {
    ("grid_sample", "mode is bilinear, unless the grid is precomputed"): (
        lambda t: seen(t, mode="nearest"),
        seen,
    ),
    ("grid_sample", "padding_mode is zeros"): (lambda t: seen(t, padding_mode="border"), seen),
    ("grid_sample", "channels in whole tiles"): (
        lambda t: seen(t, channels=33),
        lambda t: seen(t, channels=64),
    ),
    ("grid_sample", "image and grid have one batch"): (
        lambda t: ttnn.grid_sample(rows(t, "input_tensor", [1, 8, 8, 32]), rows(t, "grid", [2, 4, 4, 2])),
        lambda t: ttnn.grid_sample(rows(t, "input_tensor", [2, 8, 8, 32]), rows(t, "grid", [2, 4, 4, 2])),
    ),
    (TOPK, "n_groups is 1 or 8"): (lambda t: grouped(t, n_groups=4), grouped),
    (TOPK, "8 groups have 256 experts"): (
        lambda t: grouped(t, 128),
        lambda t: grouped(t, 128, n_groups=1, topk_groups=1),
    ),
    (TOPK, "topk_groups is 4 of 8 groups, 1 of 1"): (lambda t: grouped(t, topk_groups=3), grouped),
    (GATE, "n_groups is 8"): (lambda t: gate(t, n_groups=4), gate),
    (GATE, "8 groups have 256 experts"): (lambda t: gate(t, 128), gate),
    (GATE, "summed_experts_per_group is 2"): (lambda t: gate(t, summed_experts_per_group=3), gate),
    (GATE, "topk_groups is 4"): (lambda t: gate(t, topk_groups=3), gate),
    (GATE, "n_activated_experts is 8"): (lambda t: gate(t, n_activated_experts=6), gate),
    (COUNT, "a multiple of 64 tokens"): (lambda t: counted(t, 32), lambda t: counted(t, 128)),
    (COUNT, "0 < num_experts_per_token <= the columns"): (lambda t: counted(t, 64, 5), counted),
    ("experimental.topk_router_gpt", "num_experts is 128"): (lambda t: routed(t, 64), routed),
    ("moe", "k is 32"): (lambda t: first_expert(t, k=16), first_expert),
    ("moe", "the last dimension is a power of two of at least 64"): (
        lambda t: first_expert(t, 96),
        lambda t: first_expert(t, 128),
    ),
    ("experimental.fast_reduce_nc_split", "dim is 0 or 1 of a rank of 4"): (
        lambda t: E.fast_reduce_nc_split(t("input", [2, 2, 32, 64]), dim=2, split_output_width=32),
        lambda t: E.fast_reduce_nc_split(t("input", [2, 2, 32, 64]), dim=0, split_output_width=32),
    ),
    ("experimental.fft", SHORT): (
        lambda t: E.fft(rows(t, "input_real", [2, 1])),
        lambda t: E.fft(rows(t, "input_real", [2, 2])),
    ),
    ("experimental.fft", ALIKE): (
        lambda t: E.fft(rows(t, "input_real", [2, 8]), rows(t, "input_imag", [2, 8], "BFLOAT16")),
        lambda t: E.fft(rows(t, "input_real", [2, 8]), rows(t, "input_imag", [2, 8])),
    ),
    ("experimental.fft", BATCH): (
        lambda t: E.fft(rows(t, "input_real", [3, 8])),
        lambda t: E.fft(rows(t, "input_real", [4, 8])),
    ),
    ("experimental.ifft", SHORT): (
        lambda t: E.ifft(*[rows(t, "spectrum_real", [2, 1])] * 2),
        lambda t: E.ifft(*[rows(t, "spectrum_real", [2, 2])] * 2),
    ),
    ("experimental.ifft", ALIKE): (
        lambda t: E.ifft(rows(t, "spectrum_real", [2, 8]), rows(t, "spectrum_imag", [2, 4])),
        lambda t: E.ifft(rows(t, "spectrum_real", [2, 8]), rows(t, "spectrum_imag", [2, 8])),
    ),
    ("experimental.ifft", BATCH): (
        lambda t: E.ifft(*[rows(t, "spectrum_real", [3, 8])] * 2),
        lambda t: E.ifft(*[rows(t, "spectrum_real", [3, 7])] * 2),
    ),
    ("experimental.bluestein_fft", ALIKE): (
        lambda t: E.bluestein_fft(rows(t, "input_real", [2, 8]), rows(t, "input_imag", [2, 9]), 8),
        lambda t: E.bluestein_fft(rows(t, "input_real", [2, 8]), rows(t, "input_imag", [2, 8]), 8),
    ),
    ("experimental.fft_radix_pass", ALIKE): (
        lambda t: E.fft_radix_pass(rows(t, "input_real", [2, 8]), rows(t, "input_imag", [4, 8]), 8),
        lambda t: E.fft_radix_pass(rows(t, "input_real", [2, 8]), rows(t, "input_imag", [2, 8]), 8),
    ),
    ("experimental.fft_radix_pass", BATCH): (
        lambda t: E.fft_radix_pass(rows(t, "input_real", [3, 8]), 8),
        lambda t: E.fft_radix_pass(rows(t, "input_real", [4, 8]), 8),
    ),
    ("experimental.fft_radix_pass", "twiddle_N2 is 0 or a power of two up to 1024"): (
        lambda t: E.fft_radix_pass(rows(t, "input_real", [4, 8]), 8, twiddle_N2=3),
        lambda t: E.fft_radix_pass(rows(t, "input_real", [4, 8]), 8, twiddle_N2=4),
    ),
    ("experimental.apply_twiddles", "N2 is a power of two up to 1024"): (
        lambda t: twiddles(t, 6, 3),
        lambda t: twiddles(t, 6, 2),
    ),
    ("experimental.apply_twiddles_xl", "big_modulus is a power of two up to 2^20"): (
        lambda t: twiddles_xl(t, 6, 3),
        lambda t: twiddles_xl(t, 6, 2),
    ),
    ("experimental.complex_mul", "rows have at most 1024 elements"): (
        lambda t: product(t, 1025),
        lambda t: product(t, 1024),
    ),
    ("experimental.concatenate_heads", SEVEN): (
        lambda t: E.concatenate_heads(t("input_tensor", [6, 16, 384, 64]), None),
        lambda t: E.concatenate_heads(t("input_tensor", [7, 16, 384, 64]), None),
    ),
    ("experimental.concatenate_heads", "input_tensor is [any, 16, 384, 64]"): (
        lambda t: E.concatenate_heads(t("input_tensor", [7, 8, 384, 64]), None),
        lambda t: E.concatenate_heads(t("input_tensor", [7, 16, 384, 64]), None),
    ),
    ("experimental.split_query_key_value_and_split_heads", SEVEN): (
        lambda t: E.split_query_key_value_and_split_heads(
            t("input_tensor", [10, 1, 32, 96]), None, num_heads=1
        ),
        lambda t: E.split_query_key_value_and_split_heads(
            t("input_tensor", [9, 1, 32, 96]), None, num_heads=1
        ),
    ),
    ("experimental.nlp_create_qkv_heads_vit", "input is [any, 1, any, 2304]"): (
        lambda t: E.nlp_create_qkv_heads_vit(t("input", [1, 1, 32, 2336])),
        lambda t: E.nlp_create_qkv_heads_vit(t("input", [1, 1, 32, 2304])),
    ),
    ("experimental.nlp_create_qkv_heads_falcon7b", "input is [any, 1, any, 4672]"): (
        lambda t: E.nlp_create_qkv_heads_falcon7b(t("input", [1, 1, 17, 4672])),
        lambda t: E.nlp_create_qkv_heads_falcon7b(t("input", [1, 1, 64, 4672])),
    ),
    ("experimental.nlp_create_qkv_heads_segformer", "input is [any, 1, any, any]"): (
        lambda t: E.nlp_create_qkv_heads_segformer(t("input", [1, 1, 20, 64])),
        lambda t: E.nlp_create_qkv_heads_segformer(t("input", [1, 1, 32, 64])),
    ),
}
