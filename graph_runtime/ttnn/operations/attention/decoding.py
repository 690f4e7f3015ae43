"""Attention of one token a user over a cache, of chunks, and the heads that go with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.configs import MemoryConfig
from ...memory.values import MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import device_tensor, target, tiled_input
from ..wide import Wide
from .caches import paged
from .transformer import attend, rotated

__all__: list[str] = []

_TILED = "Inputs to SDPA must be tilized"


def _mask(w: Wide, length: int, last: Handle, window: int | None = None) -> Handle:
    """0 at the keys up to ``last`` [b, 1, s, 1], of a window the last so many; minus infinity elsewhere."""
    keys = w.number(np.arange(length, dtype=np.int32).reshape(1, 1, 1, length), "int32")
    seen = w("less_equal", keys, last)
    if window:
        seen = w("logical_and", seen, w("greater", keys, w("subtract", last, int(window))))
    return w.select(seen, 0.0, -math.inf)


class Decode:
    """A token a user: queries [1, users, heads, d] over keys and values [users, groups, length, d]."""

    def __init__(self, op: str, q: Tensor, k: Handle, v: Handle):
        self.op, self.q = op, tiled_input(op, q, _TILED)
        check(len(self.q.shape) == 4 and self.q.shape[0] == 1, op, f"queries must be [1, b, h, d]: {q.shape}")
        self.w, self.k, self.v = Wide(self.q._handle.device), k, v
        _, self.users, self.heads, self.width = self.q.shape
        if k.shape[0] == 1 < self.users:  # a cache that all users share
            self.k, self.v = (
                kernels.run("tile", [x], {"repeats": (self.users, 1, 1, 1)}) for x in (self.k, self.v)
            )

    def result(
        self,
        *,
        is_causal: bool = True,
        attn_mask: Tensor | None = None,
        cur_pos: Sequence[int] = (),
        cur_pos_tensor: Tensor | None = None,
        attention_sink: Tensor | None = None,
        scale: float | None = None,
        sliding_window_size: int | None = None,
        memory_config: MemoryConfig | None = None,
        program_config: Any = None,
        compute_kernel_config: Any = None,
        share_cache: Any = None,
    ) -> Tensor:
        w, length = self.w, self.k.shape[2]
        q = w.reshape(w.rows(self.q._handle), (self.users, self.heads, 1, self.width))
        mask = None
        if is_causal:
            named = bool(len(cur_pos)) or cur_pos_tensor is not None
            check(named, self.op, "cur_pos or cur_pos_tensor must be given")
            mask = _mask(w, length, self._last(cur_pos, cur_pos_tensor), sliding_window_size)
        elif attn_mask is not None:
            mask = self._given(attn_mask, length)
        words = numerics(compute_kernel_config, MathFidelity.HiFi2)
        made = attend(w, q, self.k, self.v, mask, scale, words, sink=self._sink(attention_sink))
        shape = (1, self.users, self.heads, self.v.shape[3])
        return target(self.op, self.q, memory_config).wrap(w.reshape(w.rows(made), shape))

    def _last(self, listed: Sequence[int], tensor: Tensor | None) -> Handle:
        w = self.w
        if tensor is None:
            last = w.number(np.asarray([int(at) for at in listed], np.int32), "int32")
        else:
            last = w.int32(device_tensor(self.op, tensor)._handle)
        check(math.prod(last.shape) == self.users, self.op, f"{last.shape} positions for {self.users} users")
        return w("maximum", w.reshape(w.rows(last), (self.users, 1, 1, 1)), 0)

    def _given(self, mask: Tensor, length: int) -> Handle:
        """[b, h, 1, length] of a mask [b, 1, heads, length]."""
        w, found = self.w, device_tensor(self.op, mask)
        heads = found.shape[2]
        check(found.shape[3] == length, self.op, f"the mask {mask.shape} does not fit {length} keys")
        made = w.reshape(w.rows(found._handle), (found.shape[0], heads, 1, length))
        if heads > self.heads:
            made = w("slice", made, starts=(0,), ends=(self.heads,), axes=(1,))
        return made

    def _sink(self, sink: Tensor | None) -> Handle | None:
        """[1, h, 1, 1] of a sink [heads, a tile]."""
        if sink is None:
            return None
        w, found = self.w, device_tensor(self.op, sink)
        flat = w.reshape(w.rows(found._handle), (found.logical_volume() // found.shape[-1], found.shape[-1]))
        column = w("slice", flat, starts=(0, 0), ends=(self.heads, 1), axes=(0, 1))
        return w.reshape(w.rows(column), (1, self.heads, 1, 1))


@operation("transformer.scaled_dot_product_attention_decode", "attention, less_equal, where")
def decode(input_tensor_q: Tensor, input_tensor_k: Tensor, input_tensor_v: Tensor, **given: Any) -> Tensor:
    """Queries [1, b, h, d] over caches [b, groups, length, d], up to and with the position of each user."""
    op = "ttnn.transformer.scaled_dot_product_attention_decode"
    k, v = (tiled_input(op, x, _TILED)._handle for x in (input_tensor_k, input_tensor_v))
    return Decode(op, input_tensor_q, k, v).result(**given)


@operation("transformer.paged_scaled_dot_product_attention_decode", "take, attention, less_equal, where")
def paged_decode(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    page_table_tensor: Tensor,
    **given: Any,
) -> Tensor:
    """Queries [1, b, h, d] over caches in pages [blocks, groups, rows, d] that the table [b, n] names."""
    op = "ttnn.transformer.paged_scaled_dot_product_attention_decode"
    caches = (tiled_input(op, x, _TILED)._handle for x in (input_tensor_k, input_tensor_v))
    w = Wide(device_tensor(op, input_tensor_q)._handle.device)
    table = device_tensor(op, page_table_tensor, "page table")
    k, v = (paged(w, cache, table) for cache in caches)
    return Decode(op, input_tensor_q, k, v).result(**given)


@operation("transformer.chunked_scaled_dot_product_attention", "take, attention, less_equal, where")
def chunked(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    page_table_tensor: Tensor,
    chunk_start_idx: int | None = None,
    *,
    chunk_start_idx_tensor: Tensor | None = None,
    scale: float | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Queries [b, h, s, d] that begin at a position, over caches in pages, each up to its own position."""
    op = "ttnn.transformer.chunked_scaled_dot_product_attention"
    q = tiled_input(op, input_tensor_q, _TILED)
    w, table = Wide(q._handle.device), device_tensor(op, page_table_tensor, "page table")
    k, v = (paged(w, device_tensor(op, x)._handle, table) for x in (input_tensor_k, input_tensor_v))
    count = q.shape[2]
    own = w.number(np.arange(count, dtype=np.int32).reshape(1, 1, count, 1), "int32")
    if chunk_start_idx_tensor is not None:
        start = w.reshape(w.rows(w.int32(device_tensor(op, chunk_start_idx_tensor)._handle)), (1, 1, 1, 1))
    else:
        start = w.number(int(chunk_start_idx or 0), "int32")
    mask = _mask(w, k.shape[2], w("add", own, start))
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    return target(op, q, memory_config).wrap(attend(w, q._handle, k, v, mask, scale, words))


@operation("transformer.joint_scaled_dot_product_attention", "concatenate, attention, slice")
def joint(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    joint_tensor_q: Tensor,
    joint_tensor_k: Tensor,
    joint_tensor_v: Tensor,
    *,
    joint_strategy: str,
    program_config: Any = None,
    scale: float | None = None,
    compute_kernel_config: Any = None,
    memory_config: MemoryConfig | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of two sequences, the second after the first, without a mask: the results of both."""
    op = "ttnn.transformer.joint_scaled_dot_product_attention"
    check(joint_strategy == "rear", op, f'joint_strategy must be "rear", got {joint_strategy!r}')
    first, second = device_tensor(op, input_tensor_q), device_tensor(op, joint_tensor_q)
    w = Wide(first._handle.device)
    q, k, v = (
        w("concatenate", device_tensor(op, a)._handle, device_tensor(op, b)._handle, axis=2)
        for a, b in (
            (input_tensor_q, joint_tensor_q),
            (input_tensor_k, joint_tensor_k),
            (input_tensor_v, joint_tensor_v),
        )
    )
    made = attend(w, q, k, v, None, scale, numerics(compute_kernel_config, MathFidelity.HiFi2))
    cut = first.shape[2]
    ends = ((first, 0, cut), (second, cut, q.shape[2]))
    a, b = (
        target(op, x, memory_config).wrap(w("slice", made, starts=(start,), ends=(end,), axes=(2,)))
        for x, start, end in ends
    )
    return a, b


@operation("transformer.flash_mla_prefill", "slice, attention")
def flash_mla_prefill(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    head_dim_v: Any,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """Attention whose values are the first ``head_dim_v`` columns of the keys, or a tensor."""
    op = "ttnn.transformer.flash_mla_prefill"
    q, k = (tiled_input(op, x, _TILED) for x in (input_tensor_q, input_tensor_k))
    w = Wide(q._handle.device)
    if isinstance(head_dim_v, Tensor):
        v = tiled_input(op, head_dim_v, _TILED)._handle
    else:
        v = w("slice", k._handle, starts=(0,), ends=(int(head_dim_v),), axes=(3,))
    mask = None if attn_mask is None else device_tensor(op, attn_mask)._handle
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    made = attend(w, q._handle, k._handle, v, mask, scale, words, causal=is_causal)
    return target(op, q, memory_config).wrap(made)


# **************** positions ****************


@operation("experimental.rotate_half", "slice, negative, concatenate")
def rotate_half(input: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """The halves of the last dimension turned: (-second, first)."""
    op = "ttnn.experimental.rotate_half"
    x = device_tensor(op, input)
    return target(op, x, memory_config).wrap(rotated(Wide(x._handle.device), x._handle))


def _llama(op: str, x: Tensor, cos: Tensor, sin: Tensor, trans_mat: Tensor, decode: bool) -> Handle:
    w = Wide(x._handle.device)
    *outer, width = x.shape
    check(width % 32 == 0, op, f"the head size {width} must be a multiple of 32")
    matrix = device_tensor(op, trans_mat)
    turn = w.reshape(w.rows(matrix._handle), (matrix.logical_volume() // 32, 32))
    if turn.shape[0] > 32:
        turn = w("slice", turn, starts=(0,), ends=(32,), axes=(0,))
    parts = w.reshape(w.rows(x._handle), (*outer, width // 32, 32))
    turned = w.reshape(w.rows(kernels.run("matmul", [parts, turn], {}, kernels.WIDE)), tuple(x.shape))
    count = 1 if decode else x.shape[2]
    angles = []
    for table in (cos, sin):
        handle = device_tensor(op, table)._handle
        if handle.shape[2] > count:
            handle = w("slice", handle, starts=(0,), ends=(count,), axes=(2,))
        angles.append(handle)
    return w("add", w("multiply", x._handle, angles[0]), w("multiply", turned, angles[1]))


@operation("experimental.rotary_embedding_llama", "matmul, multiply, add")
def rotary_embedding_llama(
    input_tensor: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    trans_mat: Tensor,
    *,
    is_decode_mode: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """x cos + (x trans_mat) sin, where trans_mat [32, 32] turns neighbours. Of [b, h, s, d]; of a token a
    user, [1, b, h, d], in decode mode."""
    op = "ttnn.experimental.rotary_embedding_llama"
    x = tiled_input(op, input_tensor, "Inputs to rotary embedding must be tilized")
    made = _llama(op, x, cos_cache, sin_cache, trans_mat, is_decode_mode)
    return target(op, x, memory_config).wrap(made)
