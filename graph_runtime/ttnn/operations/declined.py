"""ttnn's functions that this package declines: their names and the reasons."""

from __future__ import annotations

from typing import Any

from ..errors import Unsupported
from ..registry import OPERATIONS
from .operation import declined

# reason -> names of functions
DECLINED: dict[str, str] = {
    "it talks to other chips, and there is one": (
        "all_gather all_reduce reduce_scatter all_broadcast all_to_all_combine all_to_all_dispatch "
        "broadcast mesh_partition point_to_point reduce_to_root experimental.all_gather_async "
        "experimental.all_reduce_async experimental.reduce_scatter_minimal_async "
        "experimental.send_async experimental.recv_async experimental.all_gather_async_reversed "
        "experimental.all_gather_concat experimental.all_gather_matmul_async "
        "experimental.all_gather_minimal_matmul_async experimental.all_reduce_create_qkv_heads "
        "experimental.all_to_all_async experimental.all_to_all_async_generic "
        "experimental.all_to_all_dispatch_metadata experimental.deepseek_moe_post_combine_tilize "
        "experimental.deepseek_moe_reduce_scatter experimental.get_moe_combine_cores "
        "experimental.llama_all_gather_matmul_async experimental.llama_reduce_scatter "
        "experimental.llama_rs_create_heads experimental.llama_rs_matmul "
        "experimental.matmul_reduce_scatter_async "
        "experimental.minimal_matmul_strided_reduce_scatter_async experimental.neighbor_pad_async "
        "experimental.ring_attention_all_gather_async experimental.selective_reduce_combine "
        "experimental.slice_reshard_async experimental.strided_all_gather_async "
        "experimental.strided_all_gather_minimal_matmul_async "
        "experimental.strided_reduce_scatter_async "
        "transformer.exp_ring_joint_scaled_dot_product_attention "
        "transformer.ring_distributed_scaled_dot_product_attention "
        "transformer.ring_joint_scaled_dot_product_attention"
    ),
    "it runs kernels of the caller's": (
        "generic_op create_global_semaphore create_global_circular_buffer "
        "global_semaphore.create_global_semaphore get_global_semaphore_address "
        "reset_global_semaphore_value SubDevice SubDeviceId ProgramDescriptor KernelDescriptor "
        "CBDescriptor CBFormatDescriptor SemaphoreDescriptor"
    ),
    "no kernel serves it": (
        "nextafter cdist "
        "alt_complex_rotate90 grid_sample intimg experimental.slice_write "
        "experimental.padded_slice isin interleaved_to_sharded_partial sharded_to_interleaved_partial "
        "sparse_matmul tosa_gather fill_ones_rm fill_rm moe "
        "moe_expert_token_remap moe_routing_remap fused_rms_minimal prepare_grid_sample_grid "
    ),
    "convolutions of volumes are not served": ("experimental.conv3d"),
    "no kernel serves it in this form": (
        "transformer.windowed_scaled_dot_product_attention "
        "transformer.flash_multi_latent_attention_decode "
        "transformer.paged_flash_multi_latent_attention_decode transformer.chunked_flash_mla_prefill "
        "kv_cache.zero_cache_range "
        "experimental.nlp_kv_cache_load_slice"
    ),
    "an older form": ("bcast moreh_fold"),
    "it is a kernel of one model's": (
        "experimental.convert_to_chw experimental.convert_to_hwc "
        "experimental.deepseek_grouped_gate "
        "experimental.deepseek_moe_fast_reduce_nc "
        "experimental.hc_sum_reduce experimental.intimg "
        "experimental.isin experimental.moe_compute "
        "experimental.moe_gpt "
        "experimental.prefix_scan experimental.prepare_conv3d_weights "
        "experimental.topk_router_gpt "
    ),
}

# classes, values and helpers of ttnn that scripts mention; each use of such a name raises Unsupported
ABSENT = (
    "BinaryOpType ComputeConfigDescriptor CoreType D2HSocket DataMovementConfigDescriptor "
    "DataMovementProcessor DumpTensorMode FabricManagerMode FabricNodeId FabricReliabilityMode "
    "FabricRouterConfig FabricTensixConfig FabricUDMMode H2DMode H2DSocket LayerNormDeviceOperation "
    "LightMetalReplay MatmulDeviceOperation "
    "MatmulMultiCoreReuseMultiCastBatchedDRAMShardedProgramConfig MeshCoordinateRangeSet MeshCoreCoord "
    "MeshEvent MeshId MeshProgramDescriptor MeshSocket NOC NOC_MODE OverlappedTensor QueueId Rank "
    "ReaderConfigDescriptor ReduceType RuntimeArgs RuntimeArgsColProxy Size SlidingWindowParallelConfig "
    "Topology distributed_context_get_size distributed_context_barrier distributed_context_get_rank "
    "enable_asynchronous_slow_dispatch visualize_mesh_device get_tt_fabric_max_payload_size_bytes "
    "get_tt_fabric_packet_header_size_bytes dram_prefetcher DispatchAlgorithm "
    "GlobalCircularBuffer LayerNormType LayerNormProgramConfig LayerNormInputs "
    "SocketConfig SocketConnection SocketEndpoint SocketMemoryConfig SubDeviceManagerId "
    "TensorAccessorArgs TensorTopology TileDescriptor UnpackToDestMode WriterConfigDescriptor "
    "aggregate_tensor apply_device_delay cb_descriptor_from_sharded_tensor "
    "copy_host_to_device_tensor_partial "
    "compute_program_descriptor_hash create_layernorm_program_config create_matmul_attributes "
    "create_socket_pair distribute_tensor dump_device_memory_state dump_operations "
    "get_all_programs_perf_data get_cb_address get_fabric_config get_latest_programs_perf_data "
    "get_optimal_worker_cores_for_sharded_tensor init_distributed_context "
    "layernorm_default_compute_config light_metal_begin_capture light_metal_end_capture "
    "merge_program_descriptors pad_to_tile_shape query_registered_operations register_cpp_operation "
    "register_python_operation rmsnorm_default_compute_config setup_fabric_connection "
    "setup_routing_plane_connection start_tracy_zone stop_tracy_zone tracy_frame tracy_message "
    "using_distributed_env"
).split()


class Absent:
    """A name of ttnn that this package does not define. It can be imported; each use of it raises
    Unsupported."""

    def __init__(self, name: str):
        self.__name__ = name

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Unsupported(f"{self.__name__} is not supported", op=self.__name__)

    __call__ = __getitem__ = __truediv__ = __or__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()


def decline_the_rest() -> None:
    """Make each declined name that is not served a function that raises Unsupported with the reason."""
    for reason, names in DECLINED.items():
        for name in names.split():
            if name not in OPERATIONS:
                declined(name, reason)
