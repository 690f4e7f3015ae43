"""What operations of operations/indexing accept."""

from __future__ import annotations

from typing import Any

from ..memory.values import DataType, Layout
from .rules import INTERLEAVED, Given, Operand, Rule, accepts

_MOVES = "ttnn/cpp/ttnn/operations/data_movement/"
_UNSIGNED = "UINT32 UINT16"
MOST_IN_UINT16 = 65536  # sizes of a dimension whose places uint16 holds


def _dim_in_range(what: str, argument: str = "input_tensor") -> Rule:
    def fault(given: Given) -> str:
        rank = len(getattr(given, argument).shape)
        if -rank <= given.dim < max(rank, 1):
            return ""
        return f"{what}: dim {given.dim} is out of range for tensor rank {rank}"

    return Rule("-rank <= dim < rank", fault)


# **************** order ****************


def _k_fits(given: Given) -> str:
    size = given.input_tensor.shape[given.dim]
    if 0 < given.k <= size:
        return ""
    return f"K cannot be larger than the dimension size! K={given.k}, dimension size={size}"


def _given_outputs(given: Given) -> str:
    """The refusal of tensors for the values and their places."""
    into: Any = given.output_tensor or given.out
    if into is None:
        return ""
    x, (values, places) = given.input_tensor, into
    if values.dtype is not x.dtype:
        return (
            f"Preallocated output tensor dtype must match input tensor dtype. "
            f"Got output: DataType::{values.dtype.name}, input: DataType::{x.dtype.name}"
        )
    if places.dtype.name not in _UNSIGNED.split():
        return f"Preallocated indices tensor must be UINT16 or UINT32 got: DataType::{places.dtype.name}"
    size = x.shape[given.dim]
    if places.dtype is DataType.UINT16 and size > MOST_IN_UINT16:
        return f"Preallocated indices tensor must be UINT32 for a dimension of {size} elements, got: UINT16"
    return ""


def _interleaved_result(given: Given) -> str:
    config = given.memory_config or given.input_tensor.memory_config()
    return "Sharded implementation not supported yet" if config.is_sharded() else ""


_OUTPUTS = Rule(
    "given tensors: values of the input's dtype, places UINT32 or UINT16 that hold them", _given_outputs
)
_SORTED = Operand("input_tensor", layouts="TILE", text="The input must be in tiled format")

accepts(
    "topk",
    _dim_in_range("topk"),
    Rule("0 < k <= the size of dim", _k_fits),
    Operand(
        "input_tensor",
        dtypes="BFLOAT16 BFLOAT8_B FLOAT32",
        text="Input tensor must be BFLOAT16, BFLOAT8_B or FLOAT32, got: {dtype}",
    ),
    _SORTED,
    Operand(
        "indices_tensor",
        dtypes=_UNSIGNED,
        text="Optional input tensor must be UINT16, or UINT32, got: {dtype}",
    ),
    Rule("the result is interleaved", _interleaved_result),
    _OUTPUTS,
    source="ttnn/cpp/ttnn/operations/reduction/topk/device/topk_device_operation.cpp",
)
accepts(
    "sort",
    _dim_in_range("sort"),
    _SORTED,
    Operand(
        "input_tensor",
        dtypes="BFLOAT16 UINT16 FLOAT32",
        text="Input tensor data type must be BFLOAT16, UINT16, or FLOAT32, got {dtype}",
    ),
    Rule("the result is interleaved", _interleaved_result),
    _OUTPUTS,
    source=_MOVES + "sort/device/sort_device_operation.cpp",
)


# **************** elements by index ****************


def _table(given: Given) -> str:
    weight = given.weight
    if len(weight.shape) > 2 and any(size != 1 for size in weight.shape[:-2]):
        return f"First two dimensions for the weights must be 1 but got {weight.shape}"
    return ""


accepts(
    "embedding",
    Operand("input_tensor", dtypes="UINT32 BFLOAT16", text="Input must be UINT32 or BFLOAT16, got: {dtype}"),
    Operand("weight", dtypes="BFLOAT16", text="Weights tensor must have BFLOAT16 dtype, got: {dtype}"),
    Operand("input_tensor", memories=INTERLEAVED, text="Embedding does not currently support sharded inputs"),
    Operand("weight", memories=INTERLEAVED, text="Embedding does not currently support sharded weights"),
    Rule("weight: the dimensions before the last two are 1", _table),
    source="ttnn/cpp/ttnn/operations/embedding/device/embedding_device_operation.cpp",
)


def _index_fits(given: Given) -> str:
    x, index = given.input, given.index
    rank, places = len(x.shape), len(index.shape)
    if rank != places:
        return (
            "Input and index tensor must have the same number of dimensions. "
            f"Got input dim: {rank} and index dim: {places}"
        )
    axis = given.dim % rank if rank else 0
    for at, (n, size) in enumerate(zip(index.shape, x.shape, strict=True)):
        if at != axis and n > size:
            return (
                f"Index tensor shape dimension {at} must be less than or equal to input tensor shape "
                f"dimension {at}. Got index tensor shape: {index.shape} and input tensor shape: {x.shape}"
            )
    return ""


def _one_layout(given: Given) -> str:
    x, index = given.input, given.index
    if x.layout is index.layout is Layout.TILE:
        return ""
    return (
        "Input tensor and index tensor must have the same layout, TILE. "
        f"Got input layout: Layout::{x.layout.name} and index layout: Layout::{index.layout.name}"
    )


accepts(
    "gather",
    _dim_in_range("gather", "input"),
    Operand("index", dtypes=_UNSIGNED, text="Index tensor must be of type UINT32 or UINT16. Got: {dtype}"),
    Rule("index: as many dimensions, none but dim above the input's", _index_fits),
    Rule("input and index are in TILE", _one_layout),
    source=_MOVES + "gather/device/gather_device_operation.cpp",
)
