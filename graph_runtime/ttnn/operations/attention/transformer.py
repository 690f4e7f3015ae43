"""Attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....compositions.attention import visible
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.values import MathFidelity
from ...programs.configs import numerics
from ..bodies import TiledTensor, TiledValue
from ..norms.normalization import soft
from ..operation import operation


def _attention_softmax(name: str, in_place: bool) -> None:
    @operation(
        f"transformer.{name}",
        "multiply, add, exp, sum, divide",
        doc="softmax(x / sqrt(head_size) + mask). exp overflows at large arguments, as on silicon.",
        takes="..., program_config, causal_mask, memory_config",
        tiled="Inputs to softmax must be tilized",
        in_place=in_place,
    )
    def function(
        input_tensor: TiledTensor,
        *,
        head_size: int | None = None,
        attention_mask: WideValue | None = None,
        causal_mask: bool = False,
    ) -> WideValue:
        if causal_mask:
            raise Unsupported(f"{called()}: causal_mask is not supported: give attention_mask")
        expect(
            attention_mask is not None or not in_place,
            "Cannot apply divide by sqrt(head_size) using in-place version!",
        )
        x = input_tensor._value
        made = x if head_size is None else x * (1 / math.sqrt(head_size))
        if attention_mask is not None:
            made = made + attention_mask
        return soft(made, len(x.shape) - 1, False, input_tensor.dtype)


_attention_softmax("attention_softmax", False)
_attention_softmax("attention_softmax_", True)

TILED = "Inputs to SDPA must be tilized"
SDPA = {"takes": "..., memory_config, program_config, compute_kernel_config", "tiled": TILED}


@operation(
    "transformer.scaled_dot_product_attention",
    "attention",
    takes="..., memory_config, program_config, compute_kernel_config, attention_sink",
    tiled=TILED,
)
def scaled_dot_product_attention(
    input_tensor_q: TiledValue,
    input_tensor_k: TiledValue,
    input_tensor_v: TiledValue,
    *,
    attn_mask: WideValue | None = None,
    is_causal: bool = True,
    scale: float | None = None,
    sliding_window_size: int | None = None,
    compute_kernel_config: Any = None,
    attention_sink: WideValue | None = None,
) -> WideValue:
    """softmax(q k^T scale + mask) v; the number of key and value heads divides the number of query heads."""
    q, k, v, mask, sink = input_tensor_q, input_tensor_k, input_tensor_v, attn_mask, attention_sink
    expect(all(len(x.shape) == 4 for x in (q, k, v)), "q, k and v must have 4 dimensions")
    if sliding_window_size:
        if not is_causal:
            raise Unsupported(f"{called()} with a sliding window that is not causal is not supported")
        mask = _window(q, q.shape[2], k.shape[2], int(sliding_window_size))
    if sink is not None:
        expect(sink.shape[:2] == (1, q.shape[1]), f"the sink {sink.shape} must be [1, h, 1, 1]")
    words = numerics(compute_kernel_config, MathFidelity.HiFi2)
    return attend(q, k, v, mask, scale, words, is_causal and not sliding_window_size, sink)


def attend(
    q: WideValue,
    k: WideValue,
    v: WideValue,
    mask: WideValue | None,
    scale: float | None,
    words: dict[str, str],
    causal: bool = False,
    sink: WideValue | None = None,
) -> WideValue:
    """softmax(q k^T scale + mask) v of operands [b, heads, length, d]; key and value heads are repeated if
    there are fewer. ``sink`` [1, heads, 1, 1] is an additional score, scaled like those of the keys, whose
    value is 0."""
    heads, groups = q.shape[1], k.shape[1]
    expect(heads % groups == 0, f"{groups} key heads do not divide {heads} query heads")
    k, v = (_repeated(x, heads // groups) for x in (k, v))
    if sink is None:
        others = [k, v] if mask is None else [k, v, mask]
        attrs: dict[str, Any] = {"causal": causal, **words}
        if scale is not None:
            attrs["scale"] = float(scale)
        return q.run("attention", *others, to=kernels.WIDE, **attrs)
    scores = q.run("matmul", k, to=kernels.WIDE, transpose_b=True, **words)
    factor = 1 / math.sqrt(q.shape[3]) if scale is None else float(scale)
    scores = scores * factor
    if causal:
        mask = _window(q, q.shape[2], k.shape[2], k.shape[2])
    scores = scores if mask is None else scores + mask
    sink = sink.wide() * factor
    column = sink.run("broadcast_to", shape=(*scores.shape[:3], 1))
    weights = scores.op("concatenate", column, axis=3).op("softmax", axis=3).part(3, 0, k.shape[2])
    return weights.run("matmul", v, to=kernels.WIDE, **words)


def _window(like: WideValue, queries: int, keys: int, size: int) -> WideValue:
    """A mask: 0 at each query's own key and at the ``size`` - 1 keys before that key, minus infinity
    elsewhere."""
    seen = visible(queries, keys, left=size - 1)
    return like.scalar(np.where(seen, 0, -np.inf).astype(np.float32)[None, None], "float32")


def _repeated(x: WideValue, times: int) -> WideValue:
    """Each head repeated ``times`` times, with its copies side by side."""
    if times == 1:
        return x
    batch, heads, length, size = x.shape
    made = x.reshape((batch, heads, 1, length * size)).run("tile", repeats=(1, 1, times, 1))
    return made.reshape((batch, heads * times, length, size))
