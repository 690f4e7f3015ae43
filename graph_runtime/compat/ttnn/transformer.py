"""Attention and its heads."""

from __future__ import annotations

import math
from typing import Any

from ...run.tensors.tensor import Tensor as Handle
from . import kernels
from .errors import Unsupported, check
from .kernel_configs import numerics
from .memory import MemoryConfig
from .normalization import soft
from .operation import Operation, operation
from .results import Target, device_tensor, target, tiled_input
from .tensor import Tensor
from .values import Layout, MathFidelity
from .wide import Wide

__all__: list[str] = []


@operation("transformer.split_query_key_value_and_split_heads", "slice, reshape, transpose")
def split_heads(
    input_tensor: Tensor,
    kv_input_tensor: Tensor | None = None,
    *,
    num_heads: int,
    num_kv_heads: int | None = None,
    transpose_key: bool = True,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    """[b, s, (h + 2 kv) d] as queries [b, h, s, d], keys [b, kv, d, s] (unless transpose_key is False) and
    values [b, kv, s, d]."""
    op = "ttnn.transformer.split_query_key_value_and_split_heads"
    x = tiled_input(op, input_tensor, f"Invalid layout: expected TILE, got {input_tensor.layout}")
    if x.is_sharded():
        raise Unsupported(f"{op} of a sharded tensor is not supported", op=op)
    check(len(x.shape) == 3, op, f"Input tensor must have 3 dimensions, got {len(x.shape)}")
    w, kv = Wide(x._handle.device), num_kv_heads or num_heads
    width = x.shape[2]
    if kv_input_tensor is None:
        parts = num_heads + 2 * kv
        check(width % parts == 0, op, f"the width {width} cannot be cut into {parts} heads")
        size = width // parts
        sources = [(x, 0, num_heads), (x, num_heads * size, kv), (x, (num_heads + kv) * size, kv)]
    else:
        other = tiled_input(op, kv_input_tensor, "Invalid layout: expected TILE")
        size = width // num_heads
        sources = [(x, 0, num_heads), (other, 0, kv), (other, kv * size, kv)]
    text = f"Head size must be a multiple of 32, but was found to be {size}! Update the heads that fit"
    check(size % 32 == 0, op, text)
    goal = target(op, x, memory_config)
    perms = ((0, 2, 1, 3), (0, 2, 3, 1) if transpose_key else (0, 2, 1, 3), (0, 2, 1, 3))
    made = [
        _heads(w, source, at, count, size, perm)
        for (source, at, count), perm in zip(sources, perms, strict=True)
    ]
    query, key, value = (Target(op, goal.dtype, goal.layout, goal.config, goal.device).wrap(h) for h in made)
    return query, key, value


def _heads(w: Wide, x: Tensor, at: int, count: int, size: int, perm: tuple[int, ...]) -> Handle:
    batch, length, _ = x.shape
    part = kernels.run("slice", [x._handle], {"starts": (at,), "ends": (at + count * size,), "axes": (2,)})
    return kernels.run("transpose", [w.reshape(w.rows(part), (batch, length, count, size))], {"perm": perm})


def _concatenated(name: str, rank: int) -> Operation:
    full = f"ttnn.{name}"

    def function(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None, **_: Any) -> Tensor:
        x = device_tensor(full, input_tensor)
        check(len(x.shape) == 4, full, f"Input tensor must have 4 dimensions, got {len(x.shape)}")
        batch, heads, length, size = x.shape
        w = Wide(x._handle.device)
        turned = kernels.run("transpose", [w.rows(x._handle)], {"perm": (0, 2, 1, 3)})
        shape = (batch, length, heads * size) if rank == 3 else (batch, 1, length, heads * size)
        text = (
            f"Head size must be a multiple of 32, but was found to be {size}! Update matmul that uses the "
            "output of this operation to include the padding in the weights!"
        )
        check(size % 32 == 0, full, text)
        return target(full, x, memory_config, layout=Layout.TILE).wrap(w.reshape(w.rows(turned), shape))

    function.__doc__ = "[b, h, s, d] as the heads side by side in the last dimension."
    return Operation(name, function, "transpose, reshape")


_concatenated("transformer.concatenate_heads", 3)
_concatenated("experimental.nlp_concat_heads", 4)


def _attention_softmax(name: str, in_place: bool) -> Operation:
    full = f"ttnn.transformer.{name}"

    def function(
        tensor: Tensor,
        *,
        head_size: int | None = None,
        attention_mask: Tensor | None = None,
        program_config: Any = None,
        causal_mask: bool = False,
        memory_config: MemoryConfig | None = None,
        **_: Any,
    ) -> Tensor:
        x = tiled_input(full, tensor, "Inputs to softmax must be tilized")
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
    if sliding_window_size or attention_sink is not None:
        raise Unsupported(f"{op} with a sliding window or attention sinks is not supported", op=op)
    check(not (is_causal and attn_mask is not None), op, "is_causal and attn_mask exclude each other")
    check(all(len(x.shape) == 4 for x in (q, k, v)), op, "q, k and v must have 4 dimensions")
    heads, groups = q.shape[1], k.shape[1]
    check(heads % groups == 0, op, f"{groups} key heads do not divide {heads} query heads")
    w = Wide(q._handle.device)
    keys, values = (_repeated(w, x._handle, heads // groups) for x in (k, v))
    inputs = [q._handle, keys, values]
    if attn_mask is not None:
        inputs.append(device_tensor(op, attn_mask)._handle)
    attrs = {"causal": is_causal, **numerics(compute_kernel_config, MathFidelity.HiFi2)}
    if scale is not None:
        attrs["scale"] = float(scale)
    goal = target(op, q, memory_config)
    return goal.run("attention", inputs, attrs, (*q.shape[:3], v.shape[3]))


def _repeated(w: Wide, x: Handle, times: int) -> Handle:
    """Each head so many times, side by side."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape
    wide = w.reshape(w.rows(x), (batch, heads, 1, length * size))
    made = kernels.run("tile", [wide], {"repeats": (1, 1, times, 1)})
    return w.reshape(w.rows(made), (batch, heads * times, length, size))


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
    w, size, length = Wide(x._handle.device), x.shape[-1], x.shape[-2]
    first, second = (
        w("slice", x._handle, starts=(a,), ends=(b,), axes=(3,))
        for a, b in ((0, size // 2), (size // 2, size))
    )
    turned = w("concatenate", w("negative", second), first, axis=3)
    start = 0 if token_index is None else token_index
    stop = length if token_index is None else token_index + 1
    cos, sin = (
        w("slice", device_tensor(op, t)._handle, starts=(start,), ends=(stop,), axes=(2,))
        for t in (cos_cache, sin_cache)
    )
    made = w("add", w("multiply", x._handle, cos), w("multiply", turned, sin))
    return target(op, x, memory_config).wrap(made)
