"""Rotary positions: pairs of elements of a head, which are neighbours or lie half a head apart, are turned by
angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE
from ...tensors.tensor import Tensor
from ..bodies import TiledValue
from ..operation import operation
from ..results import target

_TILED = {"tiled": "Inputs to rotary embedding must be tilized"}


def rotated(x: WideValue) -> WideValue:
    """The halves of the last dimension as (-second, first)."""
    axis, size = len(x.shape) - 1, x.shape[-1]
    first, second = x.part(axis, 0, size // 2), x.part(axis, size // 2, size)
    return (-second).op("concatenate", first, axis=axis)


def turned_by(x: WideValue, cos: WideValue, sin: WideValue, trans_mat: WideValue) -> WideValue:
    """x cos + (x trans_mat) sin, where the first 32 rows of trans_mat [.., 32] map the columns of each tile
    of x."""
    *outer, width = x.shape
    expect(width % TILE_SIZE == 0, f"the head size {width} must be a multiple of 32")
    turn = trans_mat.reshape((trans_mat.size // TILE_SIZE, TILE_SIZE))
    if turn.shape[0] > TILE_SIZE:
        turn = turn.part(0, 0, TILE_SIZE)
    parts = x.reshape((*outer, width // TILE_SIZE, TILE_SIZE))
    turned = parts.run("matmul", turn, to=kernels.WIDE).reshape(x.shape)
    return x * cos + turned * sin


@operation("experimental.rotate_half", "slice, negative, concatenate", takes="memory_config")
def rotate_half(input: WideValue) -> WideValue:
    """The halves of the last dimension, swapped with a sign: (-second, first)."""
    return rotated(input)


@operation(
    "experimental.rotary_embedding",
    "slice, negative, concatenate, multiply, add",
    takes="memory_config",
    **_TILED,
)
def rotary_embedding(
    input_tensor: TiledValue, cos_cache: WideValue, sin_cache: WideValue, token_index: int | None = None
) -> WideValue:
    """x cos + rotated(x) sin, where rotated(x) is (-second half, first half) of the last dimension."""
    x = input_tensor
    start, stop = (0, x.shape[-2]) if token_index is None else (token_index, token_index + 1)
    return x * cos_cache.part(2, start, stop) + rotated(x) * sin_cache.part(2, start, stop)


@operation(
    "experimental.rotary_embedding_llama", "matmul, multiply, add", takes="..., memory_config", **_TILED
)
def rotary_embedding_llama(
    input_tensor: TiledValue,
    cos_cache: WideValue,
    sin_cache: WideValue,
    trans_mat: WideValue,
    *,
    is_decode_mode: bool = False,
) -> WideValue:
    """x cos + (x trans_mat) sin, where the caller's trans_mat [32, 32] maps neighbours (a, b) to (-b, a). x
    is [b, h, s, d]; in decode mode, which has one token a user, x is [1, b, h, d]."""
    count = 1 if is_decode_mode else input_tensor.shape[2]
    cos, sin = (t.part(2, 0, count) if t.shape[2] > count else t for t in (cos_cache, sin_cache))
    return turned_by(input_tensor, cos, sin, trans_mat)


@operation("experimental.rotary_embedding_llama_fused_qk", "slice, matmul, multiply, add")
def rotary_embedding_llama_fused_qk(
    q_input_tensor: Tensor,
    k_input_tensor: Tensor,
    cos_cache: WideValue,
    sin_cache: WideValue,
    trans_mat: WideValue,
    *,
    compute_kernel_config: Any = None,
) -> tuple[Tensor, Tensor]:
    """experimental.rotary_embedding_llama in decode mode of queries [1, b, h, d] and of keys [1, b, kv, d].
    The first b rows of cos_cache and sin_cache [1, 2 b, 1 or 32, d] are the queries', the others the
    keys'."""
    users = q_input_tensor.shape[1]

    def made(x: Tensor, at: int) -> Tensor:
        cos, sin = (t.part(1, at, at + users).part(2, 0, 1) for t in (cos_cache, sin_cache))
        return target(x).wrap(turned_by(x._value, cos, sin, trans_mat))

    return made(q_input_tensor, 0), made(k_input_tensor, users)


@operation(
    "experimental.rotary_embedding_hf",
    "slice, negative, concatenate, multiply, add",
    takes="..., memory_config, compute_kernel_config",
    **_TILED,
)
def rotary_embedding_hf(
    input_tensor: TiledValue, cos_cache: TiledValue, sin_cache: TiledValue, *, is_decode_mode: bool = False
) -> WideValue:
    """x cos + rotated(x) sin of [b, h, s, d] by caches [1, 1, s or more, d]; in decode mode of [1, b, h, d]
    by caches [1, b, 1, d]."""
    x = input_tensor
    count = 1 if is_decode_mode else x.shape[2]
    cos, sin = (t.part(2, 0, count) if t.shape[2] > count else t for t in (cos_cache, sin_cache))
    return x * cos + rotated(x) * sin


@operation("experimental.deepseek_prefill.rotary_embedding_indexed", "take, matmul, multiply, add")
def rotary_embedding_indexed(
    input: Tensor,
    cos: TiledValue,
    sin: TiledValue,
    trans_mat: TiledValue,
    kv_actual_global: Any,
    cluster_axis: int,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    seq_subshard_axis: int | None = None,
    rotary_dim: int | None = None,
    rotary_offset: int = 0,
    concat_prefix: TiledValue | None = None,
) -> Tensor:
    """experimental.rotary_embedding_llama of [1, h, s, d] at the positions from ``kv_actual_global`` (a
    number or a tensor of one uint32) on. Only ``rotary_dim`` columns from ``rotary_offset`` on are turned;
    ``concat_prefix`` comes before the columns of the result."""
    x, count = input._value, input.shape[2]
    width = input.shape[3] if rotary_dim is None else rotary_dim
    expect(rotary_offset + width <= input.shape[3], f"{width} columns from {rotary_offset} of {input.shape}")
    own = cos.scalar(np.arange(count, dtype=np.int32), "int32")
    if isinstance(kv_actual_global, Tensor):
        own = own + kv_actual_global._value.int32().reshape((kv_actual_global.logical_volume(),)).part(
            0, 0, 1
        )
    else:
        text = f"kv_actual_global ({kv_actual_global}) must be tile-aligned (a multiple of 32)"
        expect(kv_actual_global % TILE_SIZE == 0, text)
        text = (
            f"kv_actual_global ({kv_actual_global} tok) + chunk would index past the per-device cos/sin shard"
        )
        expect(kv_actual_global + count <= cos.shape[2], text)
        own = own + kv_actual_global
    here = [table.wide().run("take", own, axis=2) for table in (cos, sin)]
    ends = (rotary_offset, rotary_offset + width)
    parts = [x.part(3, *ends) if width < x.shape[3] else x]
    parts[0] = turned_by(parts[0], here[0], here[1], trans_mat)
    if rotary_offset:
        parts.insert(0, x.part(3, 0, rotary_offset))
    if ends[1] < x.shape[3]:
        parts.append(x.part(3, ends[1], x.shape[3]))
    if concat_prefix is not None:
        parts.insert(0, concat_prefix)
    made = parts[0] if len(parts) == 1 else parts[0].op("concatenate", *parts[1:], axis=3)
    return target(input, memory_config).wrap(made)
