"""Functions that ttnn has for kernels of single models: products of attention in decoding, the state space
model's product, norms of diffusion transformers in two steps."""

from __future__ import annotations

from typing import Any

from ...run.tensors.tensor import Tensor as Handle
from ..devices import kernels
from ..errors import check
from ..memory.values import TILE_SIZE, DataType, MathFidelity
from ..programs.configs import numerics
from ..registry import OPERATIONS
from ..tensors.tensor import Tensor
from .operation import operation
from .results import device_tensor, target, tiled_input
from .wide import Wide

__all__: list[str] = []


@operation("experimental.repeat_and_interleave_eltwise_mul", "reshape, multiply")
def repeat_and_interleave_eltwise_mul(
    a: Tensor,
    b: Tensor,
    *,
    memory_config: Any = None,
    dtype: DataType | None = None,
    math_fidelity: Any = None,
) -> Tensor:
    """[1, 1, n, 32] repeated to the width of the result, or that already, times [1, 1, n, m] with each
    element 32 times, or that already: [1, 1, n, 32 m]."""
    op = "ttnn.experimental.repeat_and_interleave_eltwise_mul"
    x, y = device_tensor(op, a), device_tensor(op, b)
    w, rows = Wide(x._handle.device), x.shape[-2]
    narrow = x.shape[-1] == TILE_SIZE
    spread = y.shape[-1] == _HIDDEN or not narrow
    count = y.shape[-1] if spread else y.shape[-1] // TILE_SIZE
    fits = y.shape[-2] == rows and (narrow or x.shape[-1] == count * TILE_SIZE)
    check(fits and (spread or y.shape[-1] % TILE_SIZE == 0), op, f"{x.shape} and {y.shape} do not fit")
    first = w.reshape(w.rows(x._handle), (rows, 1 if narrow else count, TILE_SIZE))
    second = w.reshape(w.rows(y._handle), (rows, count, 1 if spread else TILE_SIZE))
    made = w.reshape(w.rows(w("multiply", first, second)), (1, 1, rows, count * TILE_SIZE))
    return target(op, x, memory_config, None, dtype).wrap(made)


_HIDDEN = 5120  # repeat_and_interleave_eltwise_mul_device_operation.cpp: HIDDEN_SIZE


# **************** attention in decoding ****************


def _attended(
    op: str, x: Tensor, second: Handle, memory_config: Any, dtype: Any, config: Any, into: Any
) -> Tensor:
    """[1, heads, batch, k] @ [batch, heads or 1, k, n] of each batch: [1, heads, batch, n]."""
    w = Wide(x._handle.device)
    first = kernels.run("transpose", [x._handle], {"perm": (2, 1, 0, 3)})
    words = numerics(config, MathFidelity.LoFi)
    made = kernels.run("matmul", [first, second], words, kernels.WIDE)
    made = w("transpose", made, perm=(2, 1, 0, 3))
    return target(op, x, memory_config, into, None if into is not None else dtype).wrap(made)


def _check_attended(op: str, x: Tensor, y: Tensor) -> None:
    fits = len(x.shape) == len(y.shape) == 4 and x.shape[0] == 1 and x.shape[2] == y.shape[0]
    check(fits, op, f"{x.shape} and {y.shape} must be [1, heads, batch, k] and [batch, heads, k, n]")


@operation("experimental.attn_matmul", "transpose, matmul")
def attn_matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    compute_with_storage_grid_size: Any,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    memory_config: Any = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """[1, heads, batch, k] @ [batch, 1, k, n] of each batch."""
    op = "ttnn.experimental.attn_matmul"
    x, y = device_tensor(op, input_tensor_a), device_tensor(op, input_tensor_b)
    _check_attended(op, x, y)
    check(y.shape[1] == 1 and x.shape[3] == y.shape[2], op, f"{x.shape} and {y.shape} do not fit")
    return _attended(op, x, y._handle, memory_config, dtype, compute_kernel_config, output_tensor)


@operation("experimental.attn_matmul_from_cache", "slice, transpose, matmul")
def attn_matmul_from_cache(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    num_tokens: int,
    transpose_hw: bool,
    compute_with_storage_grid_size: Any,
    memory_config: Any = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """As attn_matmul with the first tokens of a cache [batch, 1, tokens, k], transposed or as they are."""
    op = "ttnn.experimental.attn_matmul_from_cache"
    x, y = device_tensor(op, input_tensor_a), device_tensor(op, input_tensor_b)
    _check_attended(op, x, y)
    count = -(-num_tokens // TILE_SIZE) * TILE_SIZE
    check(0 < count <= y.shape[2], op, f"{num_tokens} tokens of a cache {y.shape}")
    w = Wide(x._handle.device)
    cache = w("slice", y._handle, starts=(0,), ends=(count,), axes=(2,))
    if transpose_hw:
        cache = w("transpose", cache, perm=(0, 1, 3, 2))
    check(x.shape[3] == cache.shape[2], op, f"{x.shape} and a cache {list(cache.shape)} do not fit")
    return _attended(op, x, cache, memory_config, dtype, compute_kernel_config, output_tensor)


@operation("experimental.group_attn_matmul", "reshape, transpose, matmul")
def group_attn_matmul(
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    compute_with_storage_grid_size: Any,
    memory_config: Any = None,
    dtype: DataType | None = None,
    compute_kernel_config: Any = None,
    optional_output_tensor: Tensor | None = None,
) -> Tensor:
    """As attn_matmul with several heads in the second operand, each for as many heads of the first."""
    op = "ttnn.experimental.group_attn_matmul"
    x, y = device_tensor(op, input_tensor_a), device_tensor(op, input_tensor_b)
    _check_attended(op, x, y)
    heads, groups = x.shape[1], y.shape[1]
    check(heads % groups == 0 and x.shape[3] == y.shape[2], op, f"{x.shape} and {y.shape} do not fit")
    w, (batch, _, k, n) = Wide(x._handle.device), tuple(y.shape)
    second = w.reshape(w.rows(y._handle), (batch, groups, 1, k, n))
    second = kernels.run("broadcast_to", [second], {"shape": (batch, groups, heads // groups, k, n)})
    second = w.reshape(second, (batch, heads, k, n))
    return _attended(op, x, second, memory_config, dtype, compute_kernel_config, optional_output_tensor)


def _one_for_shapes(args: Any, given: Any) -> Any:
    """One program for all shapes with as many columns of tiles at a time, 8 at most."""
    tensors = args[:2] or (given["input_tensor_a"], given["input_tensor_b"])
    kinds = [(x.dtype, x.memory_config().memory_layout, x.memory_config().buffer_type) for x in tensors]
    columns = -(-tensors[1].shape[-1] // TILE_SIZE)
    return (*kinds, max(n for n in range(1, 9) if columns % n == 0), given.get("dtype"))


group_attn_matmul.program_key = _one_for_shapes


# **************** norms of diffusion transformers ****************


@operation("experimental.dit_layernorm_pre_allgather", "sum_squares, sum, pad, concatenate")
def dit_layernorm_pre_allgather(
    input_tensor: Tensor,
    recip_tensor: Tensor | None = None,
    *,
    dtype: DataType = DataType.BFLOAT16,
    compute_kernel_config: Any = None,
    memory_config: Any = None,
) -> Tensor:
    """The statistics of rows, as layer_norm_pre_all_gather's."""
    made: Tensor = OPERATIONS["layer_norm_pre_all_gather"](
        input_tensor, dtype=dtype, memory_config=memory_config
    )
    return made


@operation("experimental.dit_layernorm_post_allgather", "slice, sum, divide, rsqrt, multiply")
def dit_layernorm_post_allgather(
    input_tensor: Tensor,
    stats: Tensor,
    *,
    epsilon: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
    dtype: DataType | None = None,
) -> Tensor:
    """The norm of rows by the statistics of all their parts."""
    op = "ttnn.experimental.dit_layernorm_post_allgather"
    post, x = OPERATIONS["layer_norm_post_all_gather"], device_tensor(op, input_tensor)
    batched = [t is not None and len(t.shape) == 3 and t.shape[0] > 1 for t in (weight, bias)]
    if not any(batched):
        given = {"weight": weight, "bias": bias, "memory_config": memory_config, "dtype": dtype}
        plain: Tensor = post(x, stats, epsilon=epsilon, **given)
        return plain
    w = Wide(x._handle.device)
    made = post(x, stats, epsilon=epsilon, dtype=DataType.FLOAT32)._handle
    for name, operand in (("multiply", weight), ("add", bias)):
        if operand is not None:
            made = w(name, made, _of_batches(op, w, x, operand))
    return target(op, x, memory_config, None, dtype).wrap(made)


def _of_batches(op: str, w: Wide, x: Tensor, operand: Tensor) -> Handle:
    """A weight [batch, 1 or 32, n], the first row of which counts, beside an input of that batch."""
    check(operand.shape[0] == x.shape[0], op, f"{operand.shape} has another batch than {x.shape}")
    first = w("slice", device_tensor(op, operand)._handle, starts=(0,), ends=(1,), axes=(1,))
    sizes = (operand.shape[0], *(1,) * (len(x.shape) - 2), operand.shape[-1])
    return w.reshape(w.rows(first), sizes)


@operation("experimental.wan_fused_rmsnorm_pre_allgather", "sum_squares, pad")
def wan_fused_rmsnorm_pre_allgather(
    input_tensor: Tensor,
    *,
    dtype: DataType = DataType.BFLOAT16,
    compute_kernel_config: Any = None,
    memory_config: Any = None,
) -> Tensor:
    """The sums of squares of rows, as rms_norm_pre_all_gather's."""
    made: Tensor = OPERATIONS["rms_norm_pre_all_gather"](
        input_tensor, dtype=dtype, memory_config=memory_config
    )
    return made


@operation("experimental.wan_fused_rmsnorm_post_allgather", "sum, rsqrt, multiply, transpose, matmul, add")
def wan_fused_rmsnorm_post_allgather(
    input_tensor: Tensor,
    stats: Tensor,
    *,
    epsilon: float = 1e-5,
    num_heads_per_device: int = 1,
    weight: Tensor | None = None,
    transformation_mat: Tensor | None = None,
    rope_cos: Tensor | None = None,
    rope_sin: Tensor | None = None,
    memory_config: Any = None,
    compute_kernel_config: Any = None,
    dtype: DataType | None = None,
) -> Tensor:
    """The norm of rows [1, 1, n, heads d] by the statistics of all their parts, cut into heads [1, heads, n,
    d], and the rotary embedding of those: x cos + (x @ transformation_mat) sin."""
    op = "ttnn.experimental.wan_fused_rmsnorm_post_allgather"
    x = tiled_input(op, input_tensor, "Only tilized inputs supported.")
    given = {"epsilon": epsilon, "weight": weight, "dtype": DataType.FLOAT32}
    normal: Tensor = OPERATIONS["rms_norm_post_all_gather"](x, stats, **given)
    w, (b, one, n, width) = Wide(x._handle.device), tuple(x.shape)
    heads = num_heads_per_device
    check(one == 1 and width % heads == 0, op, f"{x.shape} cannot be cut into {heads} heads")
    made = w.reshape(w.rows(normal._handle), (b, n, heads, width // heads))
    made = w("transpose", made, perm=(0, 2, 1, 3))
    if rope_cos is not None:
        check(rope_sin is not None and transformation_mat is not None, op, "rope_cos needs the other two")
        cos, sin, turn = (device_tensor(op, t)._handle for t in (rope_cos, rope_sin, transformation_mat))
        # the matrix turns neighbours in a tile: of wider heads each tile by itself
        parts = w.reshape(w.rows(made), (b, heads, n * (width // heads) // TILE_SIZE, TILE_SIZE))
        turned = kernels.run("matmul", [parts, turn], {}, kernels.WIDE)
        turned = w.reshape(w.rows(turned), tuple(made.shape))
        made = w("add", w("multiply", made, cos), w("multiply", turned, sin))
    return target(op, x, memory_config, None, dtype).wrap(made)
