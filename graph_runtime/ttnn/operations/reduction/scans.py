"""Running results of state space models, and the sums of rectangles of images."""

from __future__ import annotations

from typing import Any

from ....compositions.scans import moved as shifted
from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import MemoryConfig
from ...memory.values import TILE_SIZE, DataType, Layout
from ...tensors.tensor import Tensor
from ..bodies import TiledTensor
from ..operation import operation
from ..results import target


@operation("experimental.intimg", "cumsum")
def intimg(input_tensor: Tensor) -> WideValue:
    """[1, w, h, c]: for each element the sum of the rectangle that ends at it, in each channel."""
    x = input_tensor
    rank = len(x.shape)
    expect(rank == 4, f"intimg supports only 4D tensors, the input tensor has {rank} instead")
    expect(x.shape[0] == 1, f"intimg supports only one batch, found {x.shape[0]} instead")
    tiles = x.layout is Layout.TILE
    expect(tiles, f"only tile layout is supported, Layout::{x.layout.name} was provided instead")
    kinds = (DataType.BFLOAT16, DataType.FLOAT32)
    text = f"only bf16 and fp32 dtypes are supported, DataType::{x.dtype.name} was provided instead"
    expect(x.dtype in kinds, text)
    return x._value.op("cumsum", axis=1).op("cumsum", axis=2)


_LATENT = 32  # hc_sum_reduce_device_operation.cpp


@operation("experimental.hc_sum_reduce", "reshape, sum", takes="memory_config, dtype, math_fidelity")
def hc_sum_reduce(input: TiledTensor) -> WideValue:
    """[1, 1, n, 32 m]: the sums [1, 1, n, m] of 32 neighbours, of Mamba's hidden states."""
    x = input
    kinds = (DataType.BFLOAT16, DataType.BFLOAT8_B)
    expect(not x.is_sharded(), "Unsupported memory layout for input a!")
    expect(x.dtype in kinds, "Unsupported data format for input a!")
    padded = x.padded_shape
    expect(len(padded) == 4 and tuple(padded[:2]) == (1, 1), "Dim 1 and 2 are expected to be 1 in input a!")
    text = "Final dim/TILE_SIZE must be a multiple of latent size!"
    expect(padded[3] // TILE_SIZE % _LATENT == 0, text)
    rows, width = x.shape[2:]
    return x._value.reshape((1, 1, rows, width // _LATENT, _LATENT)).sum(axes=(4,), keepdims=False)


@operation("experimental.prefix_scan", "multiply, add, slice, pad")
def prefix_scan(
    a: Tensor,
    bx: Tensor,
    h_prev: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    math_fidelity: Any = None,
) -> Tensor:
    """The hidden states h[t] = a[t] h[t - 1] + bx[t] of [1, 1, length, width], with h[-1] = ``h_prev`` [1, 1,
    1, width], which then holds the last state. The work takes log2(length) steps."""
    _check_scan(a, bx, h_prev)
    length, factors, made = a.shape[2], a._value, bx._value
    before = h_prev._value.reshape((1, 1, 1, a.shape[3]))
    first = made.part(2, 0, 1) + factors.part(2, 0, 1) * before
    made = first if length == 1 else first.op("concatenate", made.part(2, 1, length), axis=2)
    reach = 1
    while reach < length:
        made = made + factors * shifted(made, 2, reach, 0.0)
        factors = factors * shifted(factors, 2, reach, 1.0)
        reach *= 2
    h_prev._value.overwrite(made.part(2, length - 1, length).reshape(h_prev.shape))
    return target(a, memory_config, None, dtype).wrap(made)


def _check_scan(a: Tensor, bx: Tensor, h_prev: Tensor) -> None:
    expect(a.dtype is bx.dtype, "Expected input tensors to have the same data type")
    tiles = a.layout is Layout.TILE and bx.layout is Layout.TILE
    expect(tiles, "Expected input tensors to be tile layout")
    expect(a.shape == bx.shape, "Expected input tensors to have the same shape")
    expect(len(a.shape) == 4, "Expected input tensors to be rank 4")
    expect(tuple(a.shape[:2]) == (1, 1), "Dimension 0 and 1 should be size 1")
    expect(a.padded_shape[2] % TILE_SIZE == 0, "Sequence length should be a multiple of 32")
    expect(h_prev.dtype is DataType.BFLOAT16, "Expected initial hidden state to be bfloat16")
    expect(h_prev.layout is Layout.ROW_MAJOR, "Expected initial hidden state to be row-major")
    for x in (a, bx, h_prev):
        expect(x.is_sharded(), "Expected input tensors to be sharded")
    expect(h_prev.logical_volume() == a.shape[3], f"{h_prev.shape} is no state of {a.shape}")
