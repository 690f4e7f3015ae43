"""Functions of ttnn that were made for single models: products of attention in decoding, the product of state
space models."""

from __future__ import annotations

from typing import Any

from ..devices import kernels
from ..devices.mesh_device import MeshDevice
from ..devices.wide_value import WideValue
from ..errors import expect
from ..memory.values import TILE_SIZE, MathFidelity
from ..programs.configs import numerics
from .operation import operation


@operation(
    "experimental.repeat_and_interleave_eltwise_mul",
    "reshape, multiply",
    takes="memory_config, dtype, math_fidelity",
)
def repeat_and_interleave_eltwise_mul(a: WideValue, b: WideValue) -> WideValue:
    """The product [1, 1, n, 32 m] of a and b. a has this shape, or is [1, 1, n, 32] and is repeated m times;
    b has this shape, or is [1, 1, n, m] and each of its elements is repeated 32 times."""
    x, y = a, b
    rows = x.shape[-2]
    narrow = x.shape[-1] == TILE_SIZE
    spread = y.shape[-1] == _HIDDEN or not narrow
    count = y.shape[-1] if spread else y.shape[-1] // TILE_SIZE
    fits = y.shape[-2] == rows and (narrow or x.shape[-1] == count * TILE_SIZE)
    fits = fits and (spread or y.shape[-1] % TILE_SIZE == 0)
    expect(fits, f"{list(x.shape)} and {list(y.shape)} do not fit")
    first = x.reshape((rows, 1 if narrow else count, TILE_SIZE))
    second = y.reshape((rows, count, 1 if spread else TILE_SIZE))
    return (first * second).reshape((1, 1, rows, count * TILE_SIZE))


_HIDDEN = 5120  # repeat_and_interleave_eltwise_mul_device_operation.cpp: HIDDEN_SIZE


# **************** attention in decoding ****************


def _attended(x: WideValue, y: WideValue, config: Any) -> WideValue:
    """The product of each batch: [1, heads, batch, k] @ [batch, heads or 1, k, n] is [1, heads, batch, n]."""
    expect(x.shape[3] == y.shape[2], f"{list(x.shape)} and {list(y.shape)} do not fit")
    words = numerics(config, MathFidelity.LoFi)
    made = x.run("transpose", perm=(2, 1, 0, 3)).run("matmul", y, to=kernels.WIDE, **words)
    return made.op("transpose", perm=(2, 1, 0, 3))


def _check_attended(x: WideValue, y: WideValue, groups: int) -> None:
    fits = len(x.shape) == len(y.shape) == 4 and x.shape[0] == 1 and x.shape[2] == y.shape[0]
    text = f"{list(x.shape)} and {list(y.shape)}"
    expect(fits, f"{text} must be [1, heads, batch, k] and [batch, heads, k, n]")
    expect(x.shape[1] % groups == 0 and y.shape[1] == groups, f"{text} do not fit")


@operation(
    "experimental.attn_matmul",
    "transpose, matmul",
    takes="..., dtype, compute_kernel_config, memory_config, output_tensor",
    into_wins=True,
)
def attn_matmul(
    input_tensor_a: WideValue,
    input_tensor_b: WideValue,
    *,
    compute_with_storage_grid_size: Any,
    compute_kernel_config: Any = None,
) -> WideValue:
    """The product of each batch: [1, heads, batch, k] @ [batch, 1, k, n]."""
    _check_attended(input_tensor_a, input_tensor_b, 1)
    return _attended(input_tensor_a, input_tensor_b, compute_kernel_config)


@operation(
    "experimental.attn_matmul_from_cache",
    "slice, transpose, matmul",
    takes="..., memory_config, dtype, compute_kernel_config, output_tensor",
    into_wins=True,
)
def attn_matmul_from_cache(
    input_tensor_a: WideValue,
    input_tensor_b: WideValue,
    *,
    num_tokens: int,
    transpose_hw: bool,
    compute_with_storage_grid_size: Any,
    compute_kernel_config: Any = None,
) -> WideValue:
    """attn_matmul whose second operand is the first ``num_tokens`` tokens of a cache [batch, 1, tokens, k],
    transposed if ``transpose_hw`` says so."""
    x, y = input_tensor_a, input_tensor_b
    _check_attended(x, y, y.shape[1])
    count = -(-num_tokens // TILE_SIZE) * TILE_SIZE
    expect(0 < count <= y.shape[2], f"{num_tokens} tokens of a cache {list(y.shape)}")
    cache = y.part(2, 0, count)
    if transpose_hw:
        cache = cache.op("transpose", perm=(0, 1, 3, 2))
    return _attended(x, cache, compute_kernel_config)


@operation(
    "experimental.group_attn_matmul",
    "reshape, transpose, matmul",
    takes="..., memory_config, dtype, compute_kernel_config, optional_output_tensor",
    into_wins=True,
)
def group_attn_matmul(
    input_tensor_a: WideValue,
    input_tensor_b: WideValue,
    *,
    compute_with_storage_grid_size: Any,
    compute_kernel_config: Any = None,
) -> WideValue:
    """attn_matmul in which the second operand has several heads; each serves an equal number of heads of the
    first operand."""
    x, y = input_tensor_a, input_tensor_b
    _check_attended(x, y, y.shape[1])
    heads, (batch, groups, k, n) = x.shape[1], y.shape
    second = y.reshape((batch, groups, 1, k, n))
    second = second.run("broadcast_to", shape=(batch, groups, heads // groups, k, n))
    return _attended(x, second.reshaped((batch, heads, k, n)), compute_kernel_config)


def _one_for_shapes(args: Any, given: Any) -> Any:
    """The key of the ttnn program. It has types and memories of the operands, and the greatest number, up to
    8, that divides the number of tile columns of the second operand; operands of other sizes share the ttnn
    program."""
    tensors = args[:2] or (given["input_tensor_a"], given["input_tensor_b"])
    kinds = [(x.dtype, x.memory_config().memory_layout, x.memory_config().buffer_type) for x in tensors]
    columns = -(-tensors[1].shape[-1] // TILE_SIZE)
    return (*kinds, max(n for n in range(1, 9) if columns % n == 0), given.get("dtype"))


group_attn_matmul.program_key = _one_for_shapes


@operation("experimental.is_tensor_prefetcher_supported")
def is_tensor_prefetcher_supported(mesh_device: MeshDevice) -> bool:
    """False: the DRAM cores of a card that prefetch tensors are not simulated."""
    return False
