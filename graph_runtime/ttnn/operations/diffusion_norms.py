"""Norms of diffusion transformers: in two steps, between which the chips exchange statistics, and in one."""

from __future__ import annotations

from typing import Any

from ..devices.wide_value import WideValue
from ..errors import Unsupported, called, expect
from ..memory.configs import DRAM_MEMORY_CONFIG
from ..memory.values import DataType
from ..registry import OPERATIONS
from ..tensors.tensor import Tensor
from .attention.positions import turned_by
from .bodies import TiledTensor
from .elementwise.unary import chain
from .operation import Operation, operation
from .results import target


@operation("experimental.dit_layernorm_pre_allgather", "sum_squares, sum, pad, concatenate")
def dit_layernorm_pre_allgather(
    input_tensor: Tensor,
    recip_tensor: Tensor | None = None,
    *,
    dtype: DataType = DataType.BFLOAT16,
    memory_config: Any = None,
) -> Tensor:
    """The statistics of rows that layer_norm_pre_all_gather computes."""
    pre: Operation = OPERATIONS["layer_norm_pre_all_gather"]
    return pre(input_tensor, dtype=dtype, memory_config=memory_config)


@operation("experimental.dit_layernorm_post_allgather", "slice, sum, divide, rsqrt, multiply")
def dit_layernorm_post_allgather(
    input_tensor: Tensor,
    stats: Tensor,
    *,
    epsilon: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: Any = None,
    dtype: DataType | None = None,
) -> Tensor:
    """The layer norm of rows by the statistics of all parts of the rows."""
    post, x = OPERATIONS["layer_norm_post_all_gather"], input_tensor
    batched = [t is not None and len(t.shape) == 3 and t.shape[0] > 1 for t in (weight, bias)]
    if not any(batched):
        given = {"weight": weight, "bias": bias, "memory_config": memory_config, "dtype": dtype}
        plain: Tensor = post(x, stats, epsilon=epsilon, **given)
        return plain
    made = post(x, stats, epsilon=epsilon, dtype=DataType.FLOAT32)._value
    for name, operand in (("multiply", weight), ("add", bias)):
        if operand is not None:
            made = made.op(name, _of_batches(x, operand))
    return target(x, memory_config, None, dtype).wrap(made)


def _of_batches(x: Tensor, operand: Tensor) -> WideValue:
    """The first row of a weight [batch, 1 or 32, n], in a shape that broadcasts with an input of that
    batch."""
    expect(operand.shape[0] == x.shape[0], f"{operand.shape} has another batch than {x.shape}")
    sizes = (operand.shape[0], *(1,) * (len(x.shape) - 2), operand.shape[-1])
    return operand._value.part(1, 0, 1).reshape(sizes)


@operation("experimental.wan_fused_rmsnorm_pre_allgather", "sum_squares, pad")
def wan_fused_rmsnorm_pre_allgather(
    input_tensor: Tensor, *, dtype: DataType = DataType.BFLOAT16, memory_config: Any = None
) -> Tensor:
    """The sums of squares of rows that rms_norm_pre_all_gather computes."""
    pre: Operation = OPERATIONS["rms_norm_pre_all_gather"]
    return pre(input_tensor, dtype=dtype, memory_config=memory_config)


@operation(
    "experimental.wan_fused_rmsnorm_post_allgather",
    "sum, rsqrt, multiply, transpose, matmul, add",
    takes="..., memory_config, dtype",
    tiled="Only tilized inputs supported.",
)
def wan_fused_rmsnorm_post_allgather(
    input_tensor: TiledTensor,
    stats: Tensor,
    *,
    epsilon: float = 1e-5,
    num_heads_per_device: int = 1,
    weight: Tensor | None = None,
    transformation_mat: WideValue | None = None,
    rope_cos: WideValue | None = None,
    rope_sin: WideValue | None = None,
) -> WideValue:
    """The RMS norm of rows [1, 1, n, heads d] by the statistics of all parts of the rows, cut into heads [1,
    heads, n, d]. With ``rope_cos`` the heads get a rotary embedding: x cos + (x @ transformation_mat) sin."""
    x = input_tensor
    given = {"epsilon": epsilon, "weight": weight, "dtype": DataType.FLOAT32}
    normal: Tensor = OPERATIONS["rms_norm_post_all_gather"](x, stats, **given)
    b, one, n, width = x.shape
    expect(one == 1, f"{x.shape} must be [1, 1, n, heads d]")
    rows = normal._value.reshape((1, b, n, width))
    return headed(rows, num_heads_per_device, transformation_mat, rope_cos, rope_sin)


def headed(
    rows: WideValue,
    heads: int,
    turn: WideValue | None,
    cos: WideValue | None,
    sin: WideValue | None,
) -> WideValue:
    """Rows [1, b, n, heads d] cut into heads [b, heads, n, d]. With ``cos``, the heads get a rotary
    embedding: x cos + (x @ turn) sin."""
    one, b, n, width = rows.shape
    expect(one == 1 and width % heads == 0, f"{list(rows.shape)} cannot be cut into {heads} heads")
    made = rows.reshape((b, n, heads, width // heads)).op("transpose", perm=(0, 2, 1, 3))
    if cos is None:
        return made
    expect(sin is not None and turn is not None, "rope_cos needs rope_sin and transformation_mat")
    assert sin is not None
    assert turn is not None
    return turned_by(made, cos, sin, turn)


# **************** norms in one step, of rows that one chip has whole ****************

_SERVED = "square, mean, rsqrt, multiply, transpose, matmul, add"


def _affine(x: WideValue, weight: WideValue | None, bias: WideValue | None) -> WideValue:
    """x weight + bias, each of one row or of as many rows as x has."""
    expect(bias is None or weight is not None, "bias requires weight to also be provided")
    width = x.shape[-1]
    for name, operand in (("multiply", weight), ("add", bias)):
        if operand is not None:
            last = operand.shape[-1]
            expect(last == width, f"Weight last dim ({last}) must equal input H per device ({width})")
            x = x.op(name, operand.reshape((1, 1, operand.size // width, width)).wide())
    return x


def _no_map(affine_tile_row_map: Any) -> None:
    if affine_tile_row_map is not None:
        raise Unsupported(f"{called()} with affine_tile_row_map is not supported")


@operation(
    "experimental.dit_fused_distributed_rmsnorm", _SERVED, tiled="Input layout must be TILE, got ROW_MAJOR"
)
def dit_fused_distributed_rmsnorm(
    input_tensor: TiledTensor,
    cluster_axis: int | None,
    mesh_device: Any,
    multi_device_global_semaphore: Any,
    *,
    topology: Any = None,
    epsilon: float = 1e-5,
    num_heads_per_device: int = 1,
    per_head_norm: bool = False,
    weight: WideValue | None = None,
    bias: WideValue | None = None,
    transformation_mat: WideValue | None = None,
    rope_cos: WideValue | None = None,
    rope_sin: WideValue | None = None,
    dtype: DataType | None = None,
    persistent_output_buffer: Any = None,
    num_preferred_links: Any = None,
    subdevice_id: Any = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
    affine_tile_row_map: Any = None,
) -> Tensor:
    """The RMS norm of rows [1, b, n, w], or of each head of a row with per_head_norm, times ``weight`` plus
    ``bias``, cut into heads [b, heads, n, w / heads], which then get a rotary embedding if ``rope_cos`` is
    given."""
    _no_map(affine_tile_row_map)
    x, heads = input_tensor._value, num_heads_per_device
    expect(x.shape[0] == 1, f"Input dim0 must be 1 (shape [1, batch, N, H]); got {x.shape[0]}")
    parts = x.reshape((*x.shape[:3], heads, x.shape[3] // heads)).wide() if per_head_norm else x
    made = parts * (parts.square().mean([-1]) + epsilon).rsqrt()
    made = _affine(made.reshape(x.shape).wide(), weight, bias)
    made = headed(made, heads, transformation_mat, rope_cos, rope_sin)
    return target(input_tensor, memory_config, None, dtype).wrap(made)


@operation(
    "experimental.dit_fused_distributed_layernorm",
    f"{_SERVED}, subtract",
    tiled="Input layout must be TILE, got ROW_MAJOR",
)
def dit_fused_distributed_layernorm(
    input_tensor: TiledTensor,
    cluster_axis: int | None,
    mesh_device: Any,
    multi_device_global_semaphore: Any,
    *,
    topology: Any = None,
    epsilon: float = 1e-5,
    num_heads_per_device: int = 1,
    weight: WideValue | None = None,
    bias: WideValue | None = None,
    transformation_mat: WideValue | None = None,
    rope_cos: WideValue | None = None,
    rope_sin: WideValue | None = None,
    dtype: DataType | None = None,
    persistent_output_buffer: Any = None,
    num_preferred_links: Any = None,
    subdevice_id: Any = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
    reciprocals: Any = None,
    affine_tile_row_map: Any = None,
) -> Tensor:
    """The layer norm of rows [1, b, n, w] times ``weight`` plus ``bias``, cut into heads and turned as by
    experimental.dit_fused_distributed_rmsnorm."""
    _no_map(affine_tile_row_map)
    x = input_tensor._value
    expect(x.shape[0] == 1, f"Input dim0 must be 1 (shape [1, batch, N, H]); got {x.shape[0]}")
    centred = x - x.mean([-1])
    made = _affine(centred * (centred.square().mean([-1]) + epsilon).rsqrt(), weight, bias)
    made = headed(made, num_heads_per_device, transformation_mat, rope_cos, rope_sin)
    return target(input_tensor, memory_config, None, dtype).wrap(made)


@operation("experimental.dit_fused_distributed_groupnorm", "reshape, mean, subtract, multiply")
def dit_fused_distributed_groupnorm(
    input_tensor: Tensor,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    cluster_axis: int,
    mesh_device: Any,
    multi_device_global_semaphore: Any,
    topology: Any = None,
    input_mask: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
    persistent_output_buffer: Any = None,
    subdevice_id: Any = None,
    activation: str | None = None,
) -> Tensor:
    """group_norm, with an activation before the result is rounded."""
    expect(
        input_mask is not None, "dit_fused_distributed_groupnorm requires an input_mask (welford GroupNorm)"
    )
    given = {"num_groups": num_groups, "epsilon": epsilon, "weight": weight, "bias": bias}
    normal: Tensor = OPERATIONS["group_norm"](input_tensor, **given, dtype=DataType.FLOAT32)
    goal = target(input_tensor, memory_config or DRAM_MEMORY_CONFIG)
    if activation is None:
        return goal.wrap(normal._value)
    made: Tensor = chain(normal, [activation])
    return goal.wrap(made._value)


def _no_buffer(name: str, doc: str) -> None:
    @operation(f"experimental.{name}_create_stats_buffer", doc=doc)
    def function(input_tensor: Tensor, *args: Any, **given: Any) -> None:
        expect(input_tensor.is_allocated(), "the input tensor is deallocated")


for _name in ("rmsnorm", "layernorm", "groupnorm"):
    _no_buffer(
        f"dit_fused_distributed_{_name}", "None: one chip needs no buffer for the statistics of others."
    )
