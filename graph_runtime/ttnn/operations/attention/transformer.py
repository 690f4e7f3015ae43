"""Attention, and positions that turn the halves of a row."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import MemoryConfig
from ...memory.values import MathFidelity
from ...programs.configs import numerics
from ...tensors.tensor import Tensor
from ..norms.normalization import soft
from ..operation import Operation, operation
from ..results import device_tensor, target, tiled_input
from ..wide import Wide


def _attention_softmax(name: str, in_place: bool) -> Operation:
    full = f"ttnn.transformer.{name}"

    def function(
        input_tensor: Tensor,
        *,
        head_size: int | None = None,
        attention_mask: Tensor | None = None,
        program_config: Any = None,
        causal_mask: bool = False,
        memory_config: MemoryConfig | None = None,
        **_: Any,
    ) -> Tensor:
        x = tiled_input(full, input_tensor, "Inputs to softmax must be tilized")
        if causal_mask:
            raise Unsupported(f"{full}: causal_mask is not supported: give attention_mask", op=full)
        check(
            attention_mask is not None or not in_place,
            full,
            "Cannot apply divide by sqrt(head_size) using in-place version!",
        )
        w = Wide(x._handle.device)
        made = x._handle if head_size is None else w("multiply", x._handle, 1 / math.sqrt(head_size))
        if attention_mask is not None:
            made = w("add", made, attention_mask._handle)
        goal = target(full, x, memory_config, x if in_place else None)
        return goal.wrap(soft(w, made, len(x.shape) - 1, False, x.dtype))

    function.__doc__ = (
        "softmax(x / sqrt(head_size) + mask), which overflows where that is large, as silicon's."
    )
    return Operation(f"transformer.{name}", function, "multiply, add, exp, sum, divide")


_attention_softmax("attention_softmax", False)
_attention_softmax("attention_softmax_", True)


@operation("transformer.scaled_dot_product_attention", "attention")
def scaled_dot_product_attention(
    input_tensor_q: Tensor,
    input_tensor_k: Tensor,
    input_tensor_v: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    memory_config: MemoryConfig | None = None,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    attention_sink: Any = None,
    **_: Any,
) -> Tensor:
    """softmax(q k^T scale + mask) v; key and value heads divide the heads of the queries."""
    op = "ttnn.transformer.scaled_dot_product_attention"
    q, k, v = (
        tiled_input(op, x, "Inputs to SDPA must be tilized")
        for x in (input_tensor_q, input_tensor_k, input_tensor_v)
    )
    check(not (is_causal and attn_mask is not None), op, "is_causal and attn_mask exclude each other")
    check(all(len(x.shape) == 4 for x in (q, k, v)), op, "q, k and v must have 4 dimensions")
    w = Wide(q._handle.device)
    mask = None if attn_mask is None else device_tensor(op, attn_mask)._handle
    if sliding_window_size:
        if not is_causal:
            raise Unsupported(f"{op} with a sliding window that is not causal is not supported", op=op)
        mask = _window(w, q.shape[2], k.shape[2], int(sliding_window_size))
    sink = None
    if attention_sink is not None:
        sink = device_tensor(op, attention_sink)._handle
        check(tuple(sink.shape[:2]) == (1, q.shape[1]), op, f"the sink {sink.shape} must be [1, h, 1, 1]")
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    causal = is_causal and not sliding_window_size
    operands = (q._handle, k._handle, v._handle)
    return target(op, q, memory_config).wrap(attend(w, *operands, mask, scale, words, causal, sink))


def attend(
    w: Wide,
    q: Handle,
    k: Handle,
    v: Handle,
    mask: Handle | None,
    scale: float | None,
    words: dict[str, str],
    causal: bool = False,
    sink: Handle | None = None,
) -> Handle:
    """softmax(q k^T scale + mask) v of [b, heads, length, d], key heads repeated. ``sink`` [1, heads, 1, 1]:
    a score beside those of the keys, scaled as they are, whose value is 0."""
    heads, groups = q.shape[1], k.shape[1]
    check(heads % groups == 0, "attention", f"{groups} key heads do not divide {heads} query heads")
    k, v = (_repeated(w, x, heads // groups) for x in (k, v))
    if sink is None:
        inputs = [q, k, v] if mask is None else [q, k, v, mask]
        attrs = {"causal": causal, **words}
        if scale is not None:
            attrs["scale"] = float(scale)
        return kernels.run("attention", inputs, attrs, kernels.WIDE)
    scores = kernels.run("matmul", [q, k], {"transpose_b": True, **words}, kernels.WIDE)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    scores = w("multiply", scores, factor)
    if causal:
        mask = _window(w, q.shape[2], k.shape[2], k.shape[2])
    scores = scores if mask is None else w("add", scores, mask)
    sink = w("multiply", w.wide(sink), factor)
    column = kernels.run("broadcast_to", [sink], {"shape": (*scores.shape[:3], 1)})
    weights = w("softmax", w("concatenate", scores, column, axis=3), axis=3)
    weights = w("slice", weights, starts=(0,), ends=(k.shape[2],), axes=(3,))
    return kernels.run("matmul", [weights, v], words, kernels.WIDE)


def _window(w: Wide, queries: int, keys: int, size: int) -> Handle:
    """0 at each query's own key and the ``size`` - 1 before it, minus infinity elsewhere."""
    own, other = np.arange(queries)[:, None], np.arange(keys)
    seen = (other <= own) & (other > own - size)
    return w.number(np.where(seen, 0, -np.inf).astype(np.float32)[None, None])


def _repeated(w: Wide, x: Handle, times: int) -> Handle:
    """Each head so many times, side by side."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape
    wide = w.reshape(w.rows(x), (batch, heads, 1, length * size))
    made = kernels.run("tile", [wide], {"repeats": (1, 1, times, 1)})
    return w.reshape(w.rows(made), (batch, heads * times, length, size))


def rotated(w: Wide, x: Handle) -> Handle:
    """The halves of the last dimension as (-second, first)."""
    axis, size = len(x.shape) - 1, x.shape[-1]
    first, second = (
        w("slice", x, starts=(a,), ends=(b,), axes=(axis,)) for a, b in ((0, size // 2), (size // 2, size))
    )
    return w("concatenate", w("negative", second), first, axis=axis)


@operation("experimental.rotary_embedding", "slice, negative, concatenate, multiply, add")
def rotary_embedding(
    input_tensor: Tensor,
    cos_cache: Tensor,
    sin_cache: Tensor,
    token_index: int | None = None,
    *,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """x cos + rotated x sin, where the halves of the last dimension are rotated: (-second, first)."""
    op = "ttnn.experimental.rotary_embedding"
    x = tiled_input(op, input_tensor, "Inputs to rotary embedding must be tilized")
    w, length = Wide(x._handle.device), x.shape[-2]
    turned = rotated(w, x._handle)
    start = 0 if token_index is None else token_index
    stop = length if token_index is None else token_index + 1
    cos, sin = (
        w("slice", device_tensor(op, t)._handle, starts=(start,), ends=(stop,), axes=(2,))
        for t in (cos_cache, sin_cache)
    )
    made = w("add", w("multiply", x._handle, cos), w("multiply", turned, sin))
    return target(op, x, memory_config).wrap(made)
