"""Arguments of ttnn's functions that change no value, memory or count here: name -> reason. Any other
argument that is not in a function's signature raises TypeError, as in ttnn."""

from __future__ import annotations

_CORES = "the choice of cores is not simulated: kernels choose their own"
_CHIPS = "it concerns several chips: a call on one chip has them not, a call on a mesh is refused"
_SPEED = "it chooses among algorithms of silicon for speed; the result here is the precise one"

NEUTRAL = {
    "sub_core_grids": _CORES,
    "use_multicore": _CORES,
    "use_low_perf": _CORES,
    "use_2d_core_grid": _CORES,
    "skip_compute_kernel_config": _CORES,
    "sub_device_id": _CORES,
    "mesh_mapper": _CHIPS,
    "mesh_composer": _CHIPS,
    "use_legacy": _SPEED,
    "fast_and_approximate_mode": _SPEED,
    "use_welford": _SPEED,
    "enable_secondary_dm": _SPEED,
    "disable_compensated_sum": _SPEED,
    "use_falcon7b_backend": _SPEED,
    "skip_padding_fill": "the padding of tiles is not read",
    "recip_tensor": _SPEED,
    "recreate_mapping_tensor": "it is how silicon's reshape finds its pages",
    "reshape_tile_mode": "it is how silicon's reshape finds its pages",
    "reallocate_halo_output": "it moves a tensor that convolutions here do not hold",
    "keep_l1_aligned": "L1 is aligned always",
    "sparse_grad": "the function has no gradient here",
    "compute_kernel_config": "the function has no matrix product: it computes in float32 and rounds once",
    "blocking": "reading waits for the values",
}

_LINKS = "it chooses links, workers and buffers of silicon's exchange between chips"

# arguments that functions have in their signatures and do not use
_TAIL = "it concerns the part of a sequence that comes after other chips' parts; each chip has the whole one"
_MASKS = "silicon's group norm needs it; here it follows from the shapes of other arguments"
NAMED = {
    "program_config": _CORES,
    "core_grid": _CORES,
    "grid_size": _CORES,
    "compute_with_storage_grid_size": _CORES,
    "math_fidelity": "a product of two numbers is rounded once, as in HiFi4",
    "num_cores_across_channel": _CORES,
    "overlap_qk_coregrid": _CORES,
    "num_out_blocks": _CORES,
    "sub_device_ids": _CORES,
    "assume_unique": "it has no effect in ttnn either",
    "share_cache": _SPEED,
    "enable_bfloat_opt": _SPEED,
    "preserve_nan_values": "NaN is kept always",
    "use_per_device_seed": _CHIPS,
    "mesh_axis": _CHIPS,
    "input_mask": _MASKS,
    "negative_mask": _MASKS,
    "reciprocals": _MASKS,
    "num_batches": _MASKS,
    "inplace": "the result has memory of its own, and the input keeps its values",
    "padding_idx": "the table's row at this index is read like any other",
    "sorted": "results are sorted always",
    "stable": "sorting is stable always",
    "stable_sort": "sorting is stable always",
    "pad_value": "the padding of tiles is not read",
    "output_shape": "it follows from the other arguments",
    "output_tile": "addmm accepts none: its rule refuses one before it runs",
    "keepdim": "a gradient's shape is its input's",
    "mode": "it concerns several hosts",
    "chunks_per_sync": _LINKS,
    "num_workers_per_link": _LINKS,
    "num_buffers_per_channel": _LINKS,
    "num_links": _LINKS,
    "intermediate_tensor": _LINKS,
    "intermediate_memory_config": _LINKS,
    "use_l1_small_for_semaphores": _LINKS,
    "device": "values come to the host from the device that they are on",
    "sequence_parallel_axis": _CHIPS,
    "cluster_axis": _CHIPS,
    "tail_a": _TAIL,
    "tail_b": _TAIL,
    "tail_entry_states": _TAIL,
    "predecessor_carry": _TAIL,
    "local_rows": "one chip has the whole sequence",
    "q_decay": "the state does not depend on it",
    "intra": "the state does not depend on it",
    "seq_shard_axes": _CHIPS,
    "seq_subshard_axis": _CHIPS,
    "block_cyclic_chunk_local": _CHIPS,
    "topology": _LINKS,
    "persistent_output_buffer": _CHIPS,
    "multi_device_global_semaphore": _CHIPS,
    "num_preferred_links": _LINKS,
    "mesh_device": "the chips are those of the tensors",
    "expert_indices_tensor": "one chip has all experts",
    "expert_mapping_tensor": "one chip has all experts",
    "non_zero_weight_size": "one chip has all experts",
    "padding_mode": "zeros are the one padding that the release takes",
    "k_chunk_size": _SPEED,
    "enable_kv_block_cache": _SPEED,
    "nnz": "it is the number of elements of sparsity that are not 0",
    "global_cb": _CORES,
    "subdevice_id": _CORES,
    "num_experts": "the weight has them",
    "actual_start": "one chip has the whole sequence",
    "L_inv": "the whole inverse is computed",
    "wy_inverse": _SPEED,
    "eye": _SPEED,
    "tril": _SPEED,
    "ones": _SPEED,
    "masks": _SPEED,
    "cq_id": "the work of two queues runs in order",
}


# arguments that name chips of a mesh or its axes; functions that are no collectives have no effect of them
ACROSS = frozenset(name for name, reason in NAMED.items() if reason is _CHIPS)
