"""Elements that are in a set, and rows and columns by the indices of other standards."""

from __future__ import annotations

from typing import Any

from ....ir.value import where
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, expect
from ...memory.configs import MemoryConfig
from ...memory.values import DataType, Layout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor
from ..elementwise.gates import blackhole_only
from ..operation import operation
from ..results import finish, target

_TRUE = (1 << 32) - 1  # isin_common.hpp: all bits


@operation("experimental.isin", "equal, any, where")
def isin(
    elements: Tensor,
    test_elements: Tensor,
    *,
    assume_unique: bool = False,
    invert: bool = False,
    out: Tensor | None = None,
) -> Tensor:
    """0xFFFFFFFF for elements that are among ``test_elements``, 0 for others, as uint32; with ``invert`` the
    other way round. ``assume_unique`` has no effect, in ttnn, too."""
    x, other = elements, test_elements
    expect(
        x.dtype is other.dtype,
        f"elements.dtype: {x.dtype}, test_elements.dtype: {other.dtype}, they must be equal",
    )
    for one, name in ((x, "Elements"), (other, "Test elements")):
        expect(not one.is_sharded(), f"{name} tensor is sharded")
    if out is not None:
        expect(out.dtype is DataType.UINT32, "Preallocated output should be of uint32 dtype")
    column = x._value.int32().reshape((x.logical_volume(), 1))
    row = other._value.int32().reshape((1, other.logical_volume()))
    found = column.equal(row).any(axes=(1,), keepdims=False)
    yes, no = (x._value.scalar(value, "int32") for value in ((0, -1) if invert else (-1, 0)))
    made = where(found, yes, no).reshape(x.shape)
    kind = None if out is not None else DataType.UINT32
    return finish(target(x, None, out, kind), made)


@operation("tosa_gather", "take_along_axis")
def tosa_gather(input: Tensor, index: Tensor, *, memory_config: MemoryConfig | None = None) -> Tensor:
    """[n, k, c] and indices [n, w]: the rows [n, w, c] that the indices name, as TOSA's GATHER."""
    x, places = input, index
    for one, rank, name in ((x, 3, "Input"), (places, 2, "Index")):
        expect(len(one.shape) == rank, f"{name} tensor rank must be {rank}, got: {len(one.shape)}")
    text = "Index tensor first dimension must be equal to input tensor first dimension"
    expect(x.shape[0] == places.shape[0], text)
    # the indices are reshaped first, which takes no uint16 (reshape_device_operation.cpp)
    expect(places.dtype is DataType.UINT32, "Can only work with bfloat16/float32 or int32/uint32 tensors")
    n, wide, channels = *places.shape, x.shape[2]
    spread = places._value.int32().reshape((n, wide, 1)).run("broadcast_to", shape=(n, wide, channels))
    return target(x, memory_config).run(
        "take_along_axis", [x._value, spread], {"axis": 1}, (n, wide, channels)
    )


@operation("index_fill_new", "scatter_elements")
def index_fill_new(
    input: Tensor, dim: int, index: Tensor, value: Any, *, memory_config: MemoryConfig | None = None
) -> Tensor:
    """index_fill under another name."""
    made: Tensor = OPERATIONS["index_fill"](input, dim, index, value, memory_config)
    return made


_LEAST, _MOST = 16, 2048  # topk_large_indices_device_operation.cpp
_LOW = -3.4e38  # below all bfloat16 numbers but -inf


@operation("experimental.topk_large_indices", "topk, where")
def topk_large_indices(
    input_tensor: Tensor,
    *,
    k: int,
    valid_length: int | None = None,
    valid_length_tensor: Tensor | None = None,
    valid_length_offset: int = 0,
    subdevice_id: Any = None,
    sub_core_grids: Any = None,
    valid_end_tensor: Tensor | None = None,
) -> Tensor:
    """Indices of the k greatest elements of the last dimension, best first, as uint32 in rows; 0xFFFFFFFF in
    place of the index of -inf. ``valid_length``: number of columns that are read. Blackhole has it only."""
    x = input_tensor
    blackhole_only(x, "topk_large_indices")
    if valid_length_tensor is not None or valid_end_tensor is not None or valid_length_offset:
        raise Unsupported("topk_large_indices with a length in a tensor is not supported: give valid_length")
    right = x.layout is Layout.ROW_MAJOR and x.dtype is DataType.BFLOAT16
    expect(right, f"the input must be BFLOAT16 in ROW_MAJOR, got {x.dtype.name} in {x.layout.name}")
    expect(_LEAST <= k <= _MOST and k % _LEAST == 0, f"k must be a multiple of 16 in [16, 2048], got {k}")
    size = x.shape[-1] if valid_length is None else valid_length
    expect(k <= size <= x.shape[-1], f"{size} columns must be in [{k}, {x.shape[-1]}]")
    rows = x._value.part(len(x.shape) - 1, 0, size)
    attrs = {"k": k, "axis": -1, "largest": True, "dtype": "int32"}
    best, places = map(WideValue, kernels.outputs("topk", [rows.handle], attrs))
    made = where(best < _LOW, places.scalar(-1), places)
    return finish(target(x, None, None, DataType.UINT32, Layout.ROW_MAJOR).resharded(), made)
