"""What ttnn has and this module declines: by name, with the reason."""

from __future__ import annotations

from .names import OPERATIONS
from .operation import declined

__all__ = ["DECLINED", "decline_the_rest"]

# reason -> names
DECLINED: dict[str, str] = {
    "it talks to other chips, and there is one": (
        "all_gather all_reduce reduce_scatter all_broadcast all_to_all_combine all_to_all_dispatch "
        "broadcast mesh_partition point_to_point reduce_to_root experimental.all_gather_async "
        "experimental.all_reduce_async experimental.reduce_scatter_minimal_async experimental.send_async "
        "experimental.recv_async"
    ),
    "group_norm plans its cores itself": (
        "create_group_norm_input_mask create_group_norm_weight_bias_rm "
        "determine_expected_group_norm_dram_grid_size get_group_norm_cores_across_channel "
        "determine_expected_group_norm_sharded_config_and_grid_size"
    ),
    "it runs kernels of the caller's": (
        "generic_op create_global_semaphore create_global_circular_buffer "
        "global_semaphore.create_global_semaphore get_global_semaphore_address reset_global_semaphore_value "
        "SubDevice SubDeviceId ProgramDescriptor KernelDescriptor CBDescriptor CBFormatDescriptor "
        "SemaphoreDescriptor"
    ),
    "no kernel serves it": (
        "nextafter cdist nonzero index_fill indexed_fill sampling ema experimental.dropout "
        "quantize dequantize requantize complex_tensor real imag angle conj polar is_real is_imag "
        "alt_complex_rotate90 grid_sample rotate unary_chain intimg experimental.slice_write "
        "experimental.padded_slice isin"
    ),
    "convolutions of volumes are not served": "experimental.conv3d",
    "caches and decoding are not served": (
        "transformer.scaled_dot_product_attention_decode "
        "transformer.paged_scaled_dot_product_attention_decode "
        "transformer.chunked_scaled_dot_product_attention transformer.joint_scaled_dot_product_attention "
        "transformer.flash_mla_prefill transformer.windowed_scaled_dot_product_attention "
        "experimental.rotary_embedding_llama experimental.nlp_create_qkv_heads "
        "experimental.nlp_create_qkv_heads_decode experimental.nlp_concat_heads_decode "
        "experimental.paged_update_cache experimental.paged_fill_cache kv_cache.fill_cache_for_user_ "
        "kv_cache.update_cache_for_token_ update_cache fill_cache plus_one experimental.create_qkv_heads "
        "experimental.rotate_half experimental.minimal_matmul"
    ),
    "statistics are not handed from chip to chip": (
        "layer_norm_pre_all_gather layer_norm_post_all_gather rms_norm_pre_all_gather "
        "rms_norm_post_all_gather experimental.dit_rms_norm_unary_fused"
    ),
    "complex numbers are not served": "angle_bw conj_bw real_bw imag_bw polar_bw",
    "its gradient is not defined here": "fill_bw",
    "an older form": (
        "bcast moreh_cumsum moreh_sum moreh_mean moreh_matmul moreh_softmax moreh_softmin moreh_layer_norm"
    ),
}


def decline_the_rest() -> None:
    """Make each declined name a function that says so, unless something serves it."""
    for reason, names in DECLINED.items():
        for name in names.split():
            if name not in OPERATIONS:
                declined(name, reason)


decline_the_rest()
