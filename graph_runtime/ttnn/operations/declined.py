"""ttnn's functions that this package declines: their names and the reasons."""

from __future__ import annotations

from ..registry import OPERATIONS
from .operation import declined

# reason -> names of functions
DECLINED: dict[str, str] = {
    "it exchanges values between chips in a way that is not modelled": (
        "all_to_all_combine all_to_all_dispatch reduce_to_root fused_rms_minimal "
        "experimental.all_gather_async experimental.all_reduce_async "
        "experimental.reduce_scatter_minimal_async experimental.send_async experimental.recv_async "
        "experimental.all_gather_async_reversed experimental.all_gather_concat "
        "experimental.all_gather_matmul_async experimental.all_gather_minimal_matmul_async "
        "experimental.all_reduce_create_qkv_heads experimental.all_to_all_async "
        "experimental.all_to_all_async_generic experimental.all_to_all_dispatch_metadata "
        "experimental.deepseek_moe_post_combine_tilize experimental.deepseek_moe_reduce_scatter "
        "experimental.llama_all_gather_matmul_async experimental.llama_reduce_scatter "
        "experimental.llama_rs_create_heads experimental.llama_rs_matmul "
        "experimental.matmul_reduce_scatter_async "
        "experimental.minimal_matmul_strided_reduce_scatter_async experimental.neighbor_pad_async "
        "experimental.ring_attention_all_gather_async experimental.selective_reduce_combine "
        "experimental.slice_reshard_async experimental.strided_all_gather_async "
        "experimental.strided_all_gather_minimal_matmul_async experimental.strided_reduce_scatter_async "
        "transformer.exp_ring_joint_scaled_dot_product_attention "
        "transformer.ring_distributed_scaled_dot_product_attention "
        "transformer.ring_joint_scaled_dot_product_attention experimental.high_bw_all_gather "
        "experimental.neighbor_pad_halo experimental.halo_scatter "
        "experimental.reduce_scatter_minimal_async_create_intermediate_buffer "
        "experimental.reduce_scatter_minimal_direct "
        "experimental.reduce_scatter_minimal_direct_create_persistent_buffers "
        "experimental.reduce_scatter_minimal_direct_create_staging_buffer experimental.send_direct_async "
        "experimental.recv_direct_async experimental.send_async_d2h experimental.recv_async_h2d "
        "experimental.ring_indexer_score_dsa transformer.ring_mla "
        "experimental.deepseek_prefill.attn_res_gather_softmax experimental.deepseek_prefill.combine "
        "experimental.deepseek_prefill.combine_fabric2d experimental.deepseek_prefill.dispatch "
        "experimental.deepseek_prefill.dispatch_fabric2d "
        "experimental.deepseek_prefill.compressor_state_exchange "
        "experimental.deepseek_prefill.hybrid_routed_expert_moe "
        "experimental.deepseek_prefill.hybrid_routed_expert_moe_forwarding_buffer "
        "experimental.deepseek_prefill.inbound_socket_service_sync "
        "experimental.deepseek_prefill.outbound_socket_service_sync experimental.moe_compute"
    ),
    "it runs kernels of the caller's": (
        "generic_op experimental.prepare_generic_op create_global_circular_buffer"
    ),
    "it needs a card's DRAM cores, which are not simulated": (
        "dram_prefetcher experimental.start_tensor_prefetcher experimental.stop_tensor_prefetcher "
        "experimental.queue_tensor_prefetcher_request experimental.wait_for_cq_on_tensor_prefetcher "
        "experimental.tensor_prefetcher_block_count_for_matmul_1d "
        "experimental.create_global_circular_buffer_for_matmul_1d "
        "experimental.create_global_circular_buffer_for_tensor_prefetcher "
        "experimental.create_prefetcher_pipes_for_tensor_prefetcher "
        "experimental.create_prefetcher_pipe_space experimental.test_dram_prefetcher_consumer "
        "experimental.test_dram_prefetcher_validator experimental.test_tensor_prefetcher_pipe_consumer "
        "experimental.test_tensor_prefetcher_pipe_validator"
    ),
    "it hangs the device on purpose": "test_hang_device_operation",
    "it places data for experimental.moe_compute, whose exchange between chips is not modelled": (
        "experimental.add_shared_expert_weights experimental.get_moe_combine_cores "
        "experimental.get_moe_tilize_drain_core experimental.get_moe_worker_mcast_bounding_box "
        "experimental.get_weight_core_shard_maps experimental.get_weight_mem_configs "
        "experimental.prepare_w0_w1_tensor_for_moe_compute experimental.prepare_w0_w1_tensor_with_bias "
        "experimental.prepare_w2_tensor_for_moe_compute experimental.prepare_w2_tensor_with_bias"
    ),
    "it has no kernel here": (
        "prepare_grid_sample_grid cdist isin intimg transformer.windowed_scaled_dot_product_attention "
        "kv_cache.zero_cache_range experimental.can_use_fused_msda_from_offsets_l1_value"
    ),
    "it stores FP8_E4M3, which tensors here do not have": (
        "experimental.deepseek_prefill.pack_scaled_fp8_kv_cache "
        "experimental.deepseek_prefill.per_token_cast_back "
        "experimental.deepseek_prefill.per_token_cast_to_fp8"
    ),
    "it takes weights in an order of a card's DRAM banks that is not published": (
        "experimental.moe_gpt experimental.deepseek.mla.matmul_wo experimental.deepseek.moe.moe_gate_mm"
    ),
    "it computes more than the release's words say": (
        "experimental.deepseek.moe.deepseek_moe_gate experimental.deepseek.moe.generalized_moe_gate "
        "experimental.deepseek_prefill.csa_compressor experimental.deepseek_prefill.mhc_split_sinkhorn "
        "experimental.deepseek_prefill.moe_fused_swiglu experimental.kda.prepare_chunk_recurrence"
    ),
    "it sends parts of a sequence over the links between chips": (
        "experimental.kda.qkv_causal_conv1d_silu_with_carry experimental.kda.select_final_carry"
    ),
}


def decline_the_rest() -> None:
    """Make each declined name that is not served a function that raises Unsupported with the reason."""
    for reason, names in DECLINED.items():
        for name in names.split():
            if name not in OPERATIONS:
                declined(name, reason)
