"""Attention over a cache, for one token of each user or for chunks of tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ....ir.value import where
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import MemoryConfig
from ...memory.values import MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from ..results import device_tensor, target, tiled_input
from .caches import paged
from .transformer import SDPA, TILED, attend


def _mask(length: int, last: WideValue, window: int | None = None) -> WideValue:
    """A mask: 0 at the keys up to the position ``last`` [b, 1, s, 1], minus infinity at the other keys. With
    ``window``, only the last ``window`` keys up to that position have 0."""
    keys = last.scalar(np.arange(length, dtype=np.int32).reshape(1, 1, 1, length), "int32")
    seen = keys <= last
    if window:
        seen = seen & (keys > last - int(window))
    return where(seen, 0.0, -math.inf)


class Decode:
    """Attention of one token a user: queries [1, users, heads, d] over keys and values [users, groups,
    length, d]."""

    def __init__(self, q: Tensor, k: WideValue, v: WideValue):
        expect(len(q.shape) == 4 and q.shape[0] == 1, f"queries must be [1, b, h, d]: {q.shape}")
        self.q, self.k, self.v = q, k, v
        _, self.users, self.heads, self.width = self.q.shape
        if k.shape[0] == 1 < self.users:  # one cache for all users
            self.k, self.v = (x.run("tile", repeats=(self.users, 1, 1, 1)) for x in (self.k, self.v))

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
        length = self.k.shape[2]
        q = self.q._value.reshape((self.users, self.heads, 1, self.width))
        mask = None
        if is_causal:
            named = bool(len(cur_pos)) or cur_pos_tensor is not None
            expect(named, "cur_pos or cur_pos_tensor must be given")
            mask = _mask(length, self._last(cur_pos, cur_pos_tensor), sliding_window_size)
        elif attn_mask is not None:
            mask = self._given(attn_mask, length)
        words = numerics(compute_kernel_config, MathFidelity.HiFi2)
        made = attend(q, self.k, self.v, mask, scale, words, sink=self._sink(attention_sink))
        shape = (1, self.users, self.heads, self.v.shape[3])
        return target(self.q, memory_config).wrap(made.reshape(shape))

    def _last(self, listed: Sequence[int], tensor: Tensor | None) -> WideValue:
        if tensor is None:
            last = self.k.scalar(np.asarray([int(at) for at in listed], np.int32), "int32")
        else:
            last = device_tensor(tensor)._value.int32()
        expect(math.prod(last.shape) == self.users, f"{last.shape} positions for {self.users} users")
        return last.reshape((self.users, 1, 1, 1)).maximum(0)

    def _given(self, mask: Tensor, length: int) -> WideValue:
        """A mask [b, 1, heads or more, length] as [b, heads, 1, length]."""
        batch, _, heads, width = device_tensor(mask).shape
        expect(width == length, f"the mask {mask.shape} does not fit {length} keys")
        made = mask._value.reshape((batch, heads, 1, length))
        return made.part(1, 0, self.heads) if heads > self.heads else made

    def _sink(self, sink: Tensor | None) -> WideValue | None:
        """An attention sink [heads, width of a tile] as [1, heads, 1, 1]: the first column."""
        if sink is None:
            return None
        found = device_tensor(sink)
        flat = found._value.reshape((found.logical_volume() // found.shape[-1], found.shape[-1]))
        column = flat.op("slice", starts=(0, 0), ends=(self.heads, 1), axes=(0, 1))
        return column.reshape((1, self.heads, 1, 1))


@operation("transformer.scaled_dot_product_attention_decode", "attention, less_equal, where", tiled=TILED)
def decode(
    input_tensor_q: TiledTensor, input_tensor_k: TiledValue, input_tensor_v: TiledValue, **given: Any
) -> Tensor:
    """Attention of queries [1, b, h, d] over caches [b, groups, length, d]. Each user's query sees the keys
    up to the user's position, included."""
    return Decode(input_tensor_q, input_tensor_k, input_tensor_v).result(**given)


@operation(
    "transformer.paged_scaled_dot_product_attention_decode",
    "take, attention, less_equal, where",
    tiled=TILED,
)
def paged_decode(
    input_tensor_q: TiledTensor,
    input_tensor_k: TiledValue,
    input_tensor_v: TiledValue,
    page_table_tensor: WideValue,
    **given: Any,
) -> Tensor:
    """decode over caches in pages [blocks, groups, rows, d] that the table [b, n] names; queries are [1, b,
    h, d]."""
    k, v = (paged(cache, page_table_tensor) for cache in (input_tensor_k, input_tensor_v))
    return Decode(input_tensor_q, k, v).result(**given)


@operation("transformer.chunked_scaled_dot_product_attention", "take, attention, less_equal, where", **SDPA)
def chunked(
    input_tensor_q: TiledValue,
    input_tensor_k: WideValue,
    input_tensor_v: WideValue,
    page_table_tensor: WideValue,
    chunk_start_idx: int | None = None,
    *,
    chunk_start_idx_tensor: WideValue | None = None,
    scale: float | None = None,
    compute_kernel_config: Any = None,
) -> WideValue:
    """Attention over caches in pages. Queries [b, h, s, d] begin at a given position of the sequence; each
    sees the keys up to its own position, included."""
    k, v = (paged(x, page_table_tensor) for x in (input_tensor_k, input_tensor_v))
    if chunk_start_idx_tensor is not None:
        start = chunk_start_idx_tensor.int32().reshape((1, 1, 1, 1))
    else:
        start = k.scalar(int(chunk_start_idx or 0), "int32")
    return chunk_attended(input_tensor_q, k, v, start, scale, compute_kernel_config)


def chunk_attended(
    q: WideValue, k: WideValue, v: WideValue, start: WideValue, scale: float | None, config: Any
) -> WideValue:
    """Attention of queries that begin at the position ``start``; each sees the keys up to its own position,
    included."""
    count = q.shape[2]
    own = k.scalar(np.arange(count, dtype=np.int32).reshape(1, 1, count, 1), "int32")
    words = numerics(config, MathFidelity.HiFi2)
    return attend(q, k, v, _mask(k.shape[2], own + start), scale, words)


@operation("transformer.joint_scaled_dot_product_attention", "concatenate, attention, slice")
def joint(
    input_tensor_q: Tensor,
    input_tensor_k: WideValue,
    input_tensor_v: WideValue,
    joint_tensor_q: Tensor,
    joint_tensor_k: WideValue,
    joint_tensor_v: WideValue,
    *,
    joint_strategy: str,
    program_config: Any = None,
    scale: float | None = None,
    compute_kernel_config: Any = None,
    memory_config: MemoryConfig | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of two sequences joined, the second after the first, without a mask; the results for both."""
    expect(joint_strategy == "rear", f'joint_strategy must be "rear", got {joint_strategy!r}')
    first, second = input_tensor_q, joint_tensor_q
    q, k, v = (
        a.op("concatenate", b, axis=2)
        for a, b in (
            (first._value, second._value),
            (input_tensor_k, joint_tensor_k),
            (input_tensor_v, joint_tensor_v),
        )
    )
    made = attend(q, k, v, None, scale, numerics(compute_kernel_config, MathFidelity.HiFi2))
    cut = first.shape[2]
    ends = ((first, 0, cut), (second, cut, q.shape[2]))
    a, b = (target(x, memory_config).wrap(made.part(2, start, end)) for x, start, end in ends)
    return a, b


@operation("transformer.flash_mla_prefill", "slice, attention", **SDPA)
def flash_mla_prefill(
    input_tensor_q: TiledValue,
    input_tensor_k: TiledValue,
    head_dim_v: Any,
    *,
    attn_mask: WideValue | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    compute_kernel_config: Any = None,
) -> WideValue:
    """Attention whose values are the first ``head_dim_v`` columns of the keys. If a tensor is given in place
    of ``head_dim_v``, that tensor has the values."""
    q, k = input_tensor_q, input_tensor_k
    given = isinstance(head_dim_v, Tensor)
    v = tiled_input(head_dim_v, TILED)._value if given else k.part(3, 0, int(head_dim_v))
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    return attend(q, k, v, attn_mask, scale, words, causal=is_causal)
