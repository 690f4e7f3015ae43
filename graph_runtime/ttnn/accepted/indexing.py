"""What operations of operations/indexing accept."""

from __future__ import annotations

from typing import Any

from ..memory.values import TILE_SIZE, DataType, Layout
from ..tensors.tensor import Tensor
from .rules import INTERLEAVED, Given, Operand, Rule, accepts

_MOVES = "ttnn/cpp/ttnn/operations/data_movement/"
_UNSIGNED = "UINT32 UINT16"
MOST_IN_UINT16 = 65535  # sizes of a dimension whose places uint16 holds


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


def _outputs(places_of: str) -> Rule:
    """A rule about tensors for the values and their places, of one of the types ``places_of``."""

    def fault(given: Given) -> str:
        into: Any = given.output_tensor or given.out
        if into is None:
            return ""
        x, (values, places) = given.input_tensor, into
        got = f"got: DataType::{places.dtype.name}"
        if values.dtype is not x.dtype:
            return (
                "Preallocated output tensor dtype must match input tensor dtype. "
                f"Got output: DataType::{values.dtype.name}, input: DataType::{x.dtype.name}"
            )
        if places.dtype.name not in places_of.split():
            return f"Preallocated indices tensor must be {places_of.replace(' ', ', ')}, {got}"
        if places.dtype is DataType.UINT16 and places_need(x, given.dim) is DataType.UINT32:
            return f"Preallocated indices tensor must be 32-bit for this input, {got}"
        return ""

    said = places_of.replace(" ", ", ")
    return Rule(f"given tensors: values of the input's dtype, places {said}, wide enough", fault)


def places_need(x: Tensor, dim: int) -> DataType:
    """The type of places of sorted elements: UINT32 beside FLOAT32 and UINT16, and for long dimensions."""
    size = x.shape[dim] if len(x.shape) else 1
    wide = x.dtype in (DataType.FLOAT32, DataType.UINT16) or size > MOST_IN_UINT16
    return DataType.UINT32 if wide else DataType.UINT16


def _interleaved_result(given: Given) -> str:
    config = given.memory_config or given.input_tensor.memory_config()
    return "Sharded implementation not supported yet" if config.is_sharded() else ""


accepts(
    "topk",
    _dim_in_range("topk"),
    Rule("0 < k <= the size of dim", _k_fits),
    Operand(
        "input_tensor",
        dtypes="BFLOAT16 BFLOAT8_B FLOAT32",
        text="Input tensor must be BFLOAT16, BFLOAT8_B or FLOAT32, got: {dtype}",
    ),
    Operand("input_tensor", layouts="TILE", text="The input must be in tiled format"),
    Operand(
        "indices_tensor",
        dtypes=_UNSIGNED,
        text="Optional input tensor must be UINT16, or UINT32, got: {dtype}",
    ),
    Rule("the result is interleaved", _interleaved_result),
    _outputs("UINT16 UINT32 INT32"),
    source="ttnn/cpp/ttnn/operations/reduction/topk/device/topk_device_operation.cpp",
)
accepts(
    "sort",
    _dim_in_range("sort"),
    Operand(
        "input_tensor",
        dtypes="BFLOAT16 UINT16 FLOAT32",
        text="Input tensor data type must be BFLOAT16, UINT16, or FLOAT32, got {dtype}",
    ),
    _outputs("UINT16 UINT32"),
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
    if x.layout is index.layout:
        return ""
    return (
        "Input tensor and index tensor must have the same layout. "
        f"Got input layout: Layout::{x.layout.name} and index layout: Layout::{index.layout.name}"
    )


accepts(
    "gather",
    _dim_in_range("gather", "input"),
    Operand("index", dtypes=_UNSIGNED, text="Index tensor must be of type UINT32 or UINT16. Got: {dtype}"),
    Rule("index: as many dimensions, none but dim above the input's", _index_fits),
    Rule("input and index have one layout", _one_layout),
    source=_MOVES + "gather/device/gather_device_operation.cpp",
)

# **************** elements written by index ****************

_SCATTERED = "ttnn/cpp/ttnn/operations/data_movement/scatter/"


def _no_float_tiles(given: Given) -> str:
    for name in ("input", "src"):
        x = getattr(given, name)
        if x.dtype is DataType.FLOAT32 and x.layout is Layout.TILE:
            return (
                f"Scatter doesn't work for fp32 tiled tensors yet - {name} tensor is DataType::FLOAT32 "
                "Layout::TILE."
            )
    return ""


def _in_rows(dtype: DataType) -> DataType:
    return DataType.BFLOAT16 if dtype is DataType.BFLOAT8_B else dtype


def _one_kind(given: Given) -> str:
    x, src = given.input, given.src
    if DataType.BFLOAT4_B in (x.dtype, src.dtype):
        return "Only TILE layout is supported for BFLOAT4_B dtype!"
    if _in_rows(x.dtype) is _in_rows(src.dtype):
        return ""
    return f"input_dtype differs from src_dtype (input_dtype: {x.dtype.name}, src_dtype: {src.dtype.name})."


def _of_scatter() -> tuple[Operand | Rule, ...]:
    return (
        Rule("input and src: FLOAT32 in ROW_MAJOR", _no_float_tiles),
        Rule("input and src: one dtype, not BFLOAT4_B", _one_kind),
        Operand(
            "index",
            dtypes="INT32 UINT8 UINT16 UINT32",
            text="index_dtype is not integer, it is {dtype}.",
        ),
        *(
            Operand(
                name,
                memories=INTERLEAVED,
                text=f"Sharded tensors are not supported - {name} tensor is sharded.",
            )
            for name in ("input", "index", "src")
        ),
    )


accepts("scatter scatter_add", *_of_scatter(), source=_SCATTERED + "scatter.cpp")


def _value_of_kind(given: Given) -> str:
    kind, value = given.input.dtype, given.value
    floats = (DataType.BFLOAT16, DataType.FLOAT32)
    if kind in floats if isinstance(value, float) else kind is DataType.INT32:
        return ""
    text = f"Got DataType::{kind.name} input dtype with {type(value).__name__} value type"
    return f"Index fill: Value type must match input tensor dtype. {text}"


accepts(
    "index_fill",
    Operand("input", layouts="ROW_MAJOR", text="Index fill: Only supporting row major layout"),
    Operand("index", ranks=(1,), text="Index fill: Index tensor must be 1D"),
    Operand("index", dtypes="UINT32", text="Index fill: Index tensor must have UINT32 dtype; got {dtype}"),
    Rule(
        "0 <= dim < rank",
        lambda given: "" if 0 <= given.dim < len(given.input.shape) else "Index fill: Invalid dimension",
    ),
    Rule("value: a float for BFLOAT16 and FLOAT32, an int for INT32", _value_of_kind),
    source="ttnn/cpp/ttnn/operations/index_fill/device/index_fill_device_operation.cpp",
)


def _gradient_rows(given: Given) -> str:
    shape = [1, 1, 1, 1, *given.output_gradient.shape][-4:]
    if shape[0] == shape[1] == 1:
        return ""
    return f"First two dimensions for the gradient tensor must be 1, but found {shape[0]} && {shape[1]}."


accepts(
    "embedding_bw",
    Operand(
        "input_tensor", layouts="ROW_MAJOR", text="Index tensor layout must be ROW_MAJOR but got {layout}"
    ),
    Operand("input_tensor", dtypes="UINT32 BFLOAT16", text="Index tensor must be UINT32 or BFLOAT16"),
    Rule(
        "input_tensor: rows of whole tiles",
        lambda given: (
            ""
            if given.input_tensor.shape[-1] % TILE_SIZE == 0
            else "Number of columns in the index tensor must be divisible by tile width"
        ),
    ),
    Operand("output_gradient", layouts="TILE", text="Gradient tensor layout must be TILE but got {layout}"),
    Operand(
        "output_gradient",
        dtypes="BFLOAT16 BFLOAT8_B",
        text="Output gradient tensor must be BFLOAT16 or BFLOAT8_B",
    ),
    Rule("output_gradient is [1, 1, ...]", _gradient_rows),
    source="ttnn/cpp/ttnn/operations/embedding_backward/device/embedding_backward_device_operation.cpp",
)


def _as_many_indices(given: Given) -> str:
    b, ids = given.input_tensor_b, given.batch_id
    dim, count = given.dim or 0, ids.padded_shape[-1]
    if b.shape[dim] == count:
        return ""
    text = f"indexed_fill: input_b.size({dim}) = {b.shape[dim]} must equal the number of indices"
    return f"{text} (batch_id count = {count})"


def _both_alike(given: Given) -> str:
    alike = given.input_tensor_a.layout is given.input_tensor_b.layout
    return "" if alike else "Inputs must be same layout"


accepts(
    "indexed_fill",
    Rule("batch_id: rows, one index for each part of b", _as_many_indices),
    Rule("a and b have one layout", _both_alike),
    Operand(
        "batch_id",
        dtypes="UINT32 INT32",
        text="indexed_fill: batch_id must be UINT32 or INT32, got {dtype}",
    ),
    source=_MOVES + "indexed_fill/device/indexed_fill_device_operation.cpp",
)
