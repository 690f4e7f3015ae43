"""Products of experts, and sums over the experts of a token."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....ir.value import where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, L1_MEMORY_CONFIG, MemoryConfig
from ...memory.values import DataType, Layout, MathFidelity, Tile
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import on_blackhole, target
from .tokens import Region

_TILED = "Inputs to matmul must be tilized"


@operation("sparse_matmul", "matmul, where, take, add", tiled=_TILED)
def sparse_matmul(
    input_tensor_a: TiledTensor,
    input_tensor_b: TiledTensor,
    *,
    sparsity: WideValue,
    program_config: Any,
    nnz: int | None = None,
    is_input_a_sparse: bool = False,
    is_input_b_sparse: bool = True,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    core_grid: Any = None,
    output_tile: Tile | None = None,
    optional_output_tensor: Tensor | None = None,
    global_cb: Any = None,
    sub_device_id: Any = None,
    indices: Tensor | None = None,
    bias: WideValue | None = None,
) -> Tensor:
    """Products with the matrices of experts [1, e, k, n], 0 where ``sparsity`` is 0. With b sparse alone,
    [a, b, m, k] gives [a, b, 1, e, m, n], or with ``indices`` the experts that these list; with a sparse
    alone, [a, e, m, k] gives [a, e, m, n]; with both, [1, e, m, k] gives [1, e, m, n]."""
    a, b = input_tensor_a, input_tensor_b
    expect(is_input_a_sparse or is_input_b_sparse, "At least one of the inputs must be sparse")
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    experts, (outer, inner, rows, _) = b.shape[1], a.shape
    left, right = a._value, b._value
    held: WideValue | None = sparsity
    if indices is not None:
        expect(is_input_b_sparse, "indices need is_input_b_sparse")
        places = indices._value.int32().reshape((indices.logical_volume(),))
        right, held, experts = right.run("take", places, axis=1), None, places.shape[0]
    if is_input_a_sparse:
        made = left.run("matmul", right, to=kernels.WIDE, **words)
        shape: tuple[int, ...] = (outer, inner, rows, b.shape[3])
    else:
        left = left.reshape((outer * inner, 1, rows, a.shape[3]))
        right = right.run("broadcast_to", shape=(outer * inner, *right.shape[1:]))
        left = left.run("broadcast_to", shape=(outer * inner, experts, rows, a.shape[3]))
        made = left.run("matmul", right, to=kernels.WIDE, **words)
        shape = (outer, inner, 1, experts, rows, b.shape[3])
    if bias is not None:
        expect(indices is not None, "a bias needs indices")
        made = made + bias.part(1, 0, 1).run("take", places, axis=0).reshape((1, experts, 1, b.shape[3]))
    if held is not None:
        expect(math.prod(held.shape) == made.shape[0] * made.shape[1], f"sparsity {held.shape} does not fit")
        made = where(held.not_equal(0.0).reshape((*made.shape[:2], 1, 1)), made, 0.0)
    return _product(a, b, made.reshape(shape), memory_config, dtype, output_tile, optional_output_tensor)


def _product(
    a: Tensor, b: Tensor, made: WideValue, config: Any, dtype: Any, tile: Tile | None, into: Tensor | None
) -> Tensor:
    if into is not None and tuple(into.shape) != made.shape:
        raise Unsupported(f"{called()} into a tensor of the results that are not 0 alone is not supported")
    goal = target(a, config or DRAM_MEMORY_CONFIG, into, dtype)
    goal.tile = tile or Tile((a.tile.tile_shape[0], b.tile.tile_shape[1]))
    return goal.wrap(made)


@operation("experimental.deepseek_prefill.routed_expert_ffn", "matmul, silu, multiply", tiled=_TILED)
def routed_expert_ffn(
    x: TiledTensor,
    gate_proj: TiledValue,
    up_proj: TiledValue,
    down_proj: TiledValue,
    *,
    compute_kernel_config: Any = None,
    output: Tensor | None = None,
) -> Tensor:
    """(silu(x @ gate_proj) (x @ up_proj)) @ down_proj."""
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    return target(x, None, output).wrap(_fed_forward(x._value, [gate_proj, up_proj, down_proj], words))


def _fed_forward(x: WideValue, weights: list[WideValue], words: dict[str, str]) -> WideValue:
    def product(a: WideValue, b: WideValue) -> WideValue:
        return a.run("matmul", b, to=kernels.WIDE, **words)

    gate, up, down = weights
    return product(product(x, gate).op("silu") * product(x, up), down)


@operation("experimental.deepseek_prefill.unified_routed_expert_moe", "take, matmul, silu, multiply, where")
def unified_routed_expert_moe(
    dispatched_buffer: TiledTensor,
    expert_region_offsets: WideValue,
    expert_token_counts: WideValue,
    global_expert_idx_table: WideValue,
    gate_projs: Sequence[Tensor],
    up_projs: Sequence[Tensor],
    down_projs: Sequence[Tensor],
    max_dispatched_tokens_per_expert: int,
    *,
    compute_kernel_config: Any = None,
    activation: Any = None,
    gate_biases: Any = None,
    up_biases: Any = None,
    down_biases: Any = None,
    min_active_tokens: int = 0,
    max_active_tokens: int = 0xFFFFFFFF,
) -> Tensor:
    """routed_expert_ffn of each local expert's rows of a buffer [rows, d], as rows of a new buffer; rows of
    no expert have no defined values."""
    on_blackhole(dispatched_buffer, "unified_routed_expert_ffn: expected at least 11x8 compute grid, got 8x8")
    others = (gate_biases, up_biases, down_biases, min_active_tokens, max_active_tokens != 0xFFFFFFFF)
    if any(others) or getattr(activation, "name", "Silu") != "Silu":
        raise Unsupported(f"{called()} with biases, limits of tokens or another activation is not supported")
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    x, size = dispatched_buffer._value.wide(), max_dispatched_tokens_per_expert
    made = x * 0.0
    for local, weights in enumerate(zip(gate_projs, up_projs, down_projs, strict=True)):
        region = Region(expert_region_offsets, expert_token_counts, global_expert_idx_table, local)
        found = _fed_forward(region.rows(x, size), [one._value for one in weights], words)
        made = region.put(made, found)
    return target(dispatched_buffer).wrap(made)


# **************** sums over experts ****************


def _split(x: Tensor, made: WideValue, sizes: list[int], config: MemoryConfig) -> list[Tensor]:
    """Parts of the given sizes of the last dimension."""
    parts, at, axis = [], 0, len(made.shape) - 1
    for size in sizes:
        goal = target(x, config, layout=Layout.TILE)
        parts.append(goal.wrap(made.part(axis, at, at + size)))
        at += size
    return parts


def _equal_parts(width: int, size: int) -> list[int]:
    fits = 0 < size and width % size == 0
    expect(fits, f"split_size ({size}) must be greater than 0 and divide the last dim ({width})")
    return [size] * (width // size)


@operation("experimental.deepseek_moe_fast_reduce_nc", "sum, slice")
def deepseek_moe_fast_reduce_nc(
    input_tensor: TiledTensor,
    dim: int,
    *,
    split_size: int,
    output_memory_config: MemoryConfig = DRAM_MEMORY_CONFIG,
    compute_kernel_config: Any = None,
) -> list[Tensor]:
    """The sum over a leading dimension, which keeps size 1, in parts of ``split_size`` columns."""
    x, rank = input_tensor, len(input_tensor.shape)
    expect(-rank <= dim < rank and dim % rank < rank - 2, f"dim {dim} must be a leading one")
    sizes = _equal_parts(x.shape[-1], split_size)
    return _split(x, x._value.sum([dim % rank]), sizes, output_memory_config)


@operation("experimental.deepseek_moe_fast_reduce_nc_fused", "multiply, sum, slice")
def deepseek_moe_fast_reduce_nc_fused(
    input_tensor: TiledTensor,
    expert_indices_tensor: Tensor,
    expert_mapping_tensor: Tensor,
    reduce_dim: int,
    *,
    split_size: int,
    cluster_axis: int,
    output_memory_config: MemoryConfig = DRAM_MEMORY_CONFIG,
    scores_tensor: WideValue | None = None,
    num_shared_experts: int = 0,
    shared_expert_scale: float = 1.0,
    compute_kernel_config: Any = None,
) -> list[Tensor]:
    """The sum [1, 1, t, d] over the experts of a token [k, 1, t, d], each times its score, in parts of
    ``split_size`` columns. ``scores_tensor`` has [t, 1, 1, k] scores; the last ``num_shared_experts`` experts
    have the score shared_expert_scale."""
    x = input_tensor._value
    sizes = _equal_parts(x.shape[-1], split_size)
    if scores_tensor is None:
        return _split(input_tensor, x.sum([reduce_dim]), sizes, output_memory_config)
    expect(reduce_dim == 0 and len(x.shape) == 4, "it takes [experts, 1, tokens, d] and reduces dim 0")
    count, _, tokens, _ = x.shape
    routed = count - num_shared_experts
    scores = scores_tensor.reshape((tokens, routed)).wide().op("transpose", perm=(1, 0))
    made = (x[:routed] * scores.reshape((routed, 1, tokens, 1)).wide()).sum([0])
    if num_shared_experts:
        made = made + x[routed:].sum([0]) * shared_expert_scale
    return _split(input_tensor, made, sizes, output_memory_config)


@operation("experimental.fast_reduce_nc_split", "sum, slice")
def fast_reduce_nc_split(
    input: TiledTensor,
    *,
    dim: int,
    split_output_width: int,
    memory_config: MemoryConfig = DRAM_MEMORY_CONFIG,
    compute_kernel_config: Any = None,
) -> list[Tensor]:
    """The sum over dim 0 or 1, which keeps size 1, cut after ``split_output_width`` columns."""
    width = input.shape[-1]
    sizes = [split_output_width, width - split_output_width]
    return _split(input, input._value.sum([dim]), sizes, memory_config)


@operation("experimental.deepseek_prefill.post_combine_reduce", "multiply, where, sum")
def post_combine_reduce(
    combine_output: Tensor,
    weights: WideValue,
    indices: WideValue | None = None,
    expert_dispatch_table: WideValue | None = None,
    *,
    expert_dim: int = 3,
    output_memory_config: MemoryConfig | None = None,
) -> Tensor:
    """The sum over experts [.., t, d] of their outputs [.., t, k, d] times their weights, in tiles. Experts
    whose entry of the dispatch table is -1, or whose weight is 0, are left out."""
    x = combine_output
    both = (indices is None) == (expert_dispatch_table is None)
    text = "indices and expert_dispatch_table must be provided together or omitted together"
    expect(both, text)
    shape, axis = tuple(x.shape), expert_dim % len(x.shape)
    expect(axis == len(shape) - 2, f"expert_dim {expert_dim} must be the last but one of {list(shape)}")
    factors = weights.reshape((*shape[:-1], 1)).wide()
    if indices is not None and expert_dispatch_table is not None:
        table = expert_dispatch_table.int32().reshape((math.prod(expert_dispatch_table.shape),))
        chips = table.run("take", indices.int32().reshape((math.prod(shape[:-1]),)), axis=0)
        held = (chips >= 0).reshape((*shape[:-1], 1))
    else:
        held = factors.not_equal(0.0)
    made = where(held, x._value.wide() * factors, 0.0).sum([axis], keepdims=False)
    goal = target(x, output_memory_config or L1_MEMORY_CONFIG, layout=Layout.TILE)
    return goal.wrap(made)


@operation("experimental.deepseek_prefill.attn_res_weighted_reduce_nc", "transpose, matmul")
def attn_res_weighted_reduce_nc(
    input: TiledTensor,
    weight: TiledValue,
    *,
    dim: int = 1,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The sums [r, 1, h, w] over dim 1 of an input [1, c, h, w] times each of r sets of weights
    [r, c, h, 1]."""
    x = input
    on_blackhole(x, "AttnResWeightedReduceNC is only supported on Blackhole, got wormhole_b0")
    text = "it reduces dim 1 of [1, c, h, w] by weights [r, c, h, 1]"
    fits = len(x.shape) == len(weight.shape) == 4 and dim == 1 and x.shape[0] == weight.shape[3] == 1
    expect(fits and tuple(x.shape[1:3]) == weight.shape[1:3], text)
    return target(x, memory_config).wrap((x._value * weight).sum([1]))
