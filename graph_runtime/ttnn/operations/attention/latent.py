"""Multi-head latent attention: the values are the first columns of the keys, which all query heads share."""

from __future__ import annotations

from typing import Any

from ...devices.wide_value import WideValue
from ...errors import expect
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor, TiledValue
from ..operation import operation
from .caches import paged
from .decoding import Decode, chunk_attended
from .transformer import SDPA, TILED

_SERVED = "slice, attention, less_equal, where"


def _values(q: Tensor, k: WideValue, v: WideValue | None, width: int | None) -> WideValue:
    """The first ``width`` columns of ``v``, by default of the keys."""
    expect(width is not None, "head_dim_v must be given")
    assert width is not None
    text = f"got {width} and {q.shape[3]}"
    expect(width <= q.shape[3], f"Head dimension of V must be less than or equal to head dim of Q, {text}")
    source = k if v is None else v
    return source.part(3, 0, int(width)) if width < source.shape[3] else source


@operation("transformer.flash_multi_latent_attention_decode", _SERVED, tiled=TILED)
def flash_multi_latent_attention_decode(
    input_tensor_q: TiledTensor,
    input_tensor_k: TiledValue,
    input_tensor_v: TiledValue | None = None,
    head_dim_v: int | None = None,
    **given: Any,
) -> Tensor:
    """transformer.scaled_dot_product_attention_decode [1, b, h, head_dim_v] whose values are the first
    ``head_dim_v`` columns of the keys [b, groups, length, d], or of ``input_tensor_v`` if that is given."""
    v = _values(input_tensor_q, input_tensor_k, input_tensor_v, head_dim_v)
    return Decode(input_tensor_q, input_tensor_k, v).result(**given)


@operation("transformer.paged_flash_multi_latent_attention_decode", f"take, {_SERVED}", tiled=TILED)
def paged_flash_multi_latent_attention_decode(
    input_tensor_q: TiledTensor,
    input_tensor_k: TiledValue,
    input_tensor_v: TiledValue | None = None,
    head_dim_v: int | None = None,
    page_table_tensor: WideValue | None = None,
    **given: Any,
) -> Tensor:
    """flash_multi_latent_attention_decode over caches in pages [blocks, groups, rows, d] that the table
    [b, n] names."""
    expect(page_table_tensor is not None, "page_table_tensor must be given")
    assert page_table_tensor is not None
    k = paged(input_tensor_k, page_table_tensor)
    v = None if input_tensor_v is None else paged(input_tensor_v, page_table_tensor)
    return Decode(input_tensor_q, k, _values(input_tensor_q, k, v, head_dim_v)).result(**given)


@operation("transformer.chunked_flash_mla_prefill", f"take, {_SERVED}", **SDPA)
def chunked_flash_mla_prefill(
    input_tensor_q: TiledTensor,
    input_tensor_k: WideValue,
    head_dim_v: int,
    page_table_tensor: WideValue,
    chunk_start_idx: int,
    *,
    scale: float | None = None,
    compute_kernel_config: Any = None,
) -> WideValue:
    """transformer.chunked_scaled_dot_product_attention whose values are the first ``head_dim_v`` columns of
    the keys."""
    k = paged(input_tensor_k, page_table_tensor)
    v = _values(input_tensor_q, k, None, head_dim_v)
    start = k.scalar(int(chunk_start_idx), "int32")
    return chunk_attended(input_tensor_q._value, k, v, start, scale, compute_kernel_config)
