"""What operations of operations/movement accept. Many of them bring a tensor in tiles into rows and back,
where the release has no kernel for tiles: untilizing lacks BFLOAT4_B, and tilizing lacks UINT8.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from ..memory.configs import parts_of
from ..memory.values import TILE_SIZE, BufferType, DataType, Layout, TensorMemoryLayout
from ..tensors.tensor import Tensor
from .rules import Given, Operand, Rule, accepts

_MOVES = "ttnn/cpp/ttnn/operations/data_movement/"
_TILIZED = "BFLOAT16 FLOAT32 INT32 UINT32 UINT16"
_NOT_TILIZED = "Can only tilize bfloat16/float32 or int32/uint32/uint16 tensors"
_NOT_UNTILIZED = "Only TILE layout is supported for BFLOAT4_B dtype!"


def through_rows(x: Tensor) -> str:
    """The refusal of a tensor in tiles that must become rows and then tiles again, or ""."""
    if x.layout is not Layout.TILE:
        return ""
    if x.dtype is DataType.BFLOAT4_B:
        return _NOT_UNTILIZED
    return _NOT_TILIZED if x.dtype is DataType.UINT8 else ""


def on_device(x: Tensor) -> bool:
    """Whether a tensor is on a device; the host moves all types."""
    return x._device is not None


def _axis(dim: int, rank: int) -> int:
    return dim % rank if rank else 0


def _sizes(shape: Sequence[int]) -> tuple[int, int]:
    """The last two sizes of a shape, 1 for a missing one."""
    last = [1, 1, *shape][-2:]
    return last[0], last[1]


# **************** layouts ****************


def _rows_and_back(given: Given) -> str:
    x, to = given.tensor, given.layout
    if on_device(x) and x.layout is not to:
        if to is Layout.ROW_MAJOR and x.dtype is DataType.BFLOAT4_B:
            return _NOT_UNTILIZED
        if to is Layout.TILE and x.dtype is DataType.UINT8:
            return _NOT_TILIZED
    return ""


accepts(
    "to_layout",
    Rule("BFLOAT4_B stays in TILE, UINT8 in ROW_MAJOR cannot become TILE", _rows_and_back),
    source=_MOVES + "tilize_with_val_padding/device/tilize_with_val_padding_device_operation.cpp",
)
accepts(
    "tilize",
    Operand("input_tensor", layouts="ROW_MAJOR", text="Can only tilize row major data"),
    Operand(
        "input_tensor",
        dtypes=_TILIZED,
        text="data type must be bfloat16, float32, uint32, int32, or uint16",
    ),
    source=_MOVES + "tilize/device/tilize_device_operation.cpp",
)
_TILIZABLE = Operand("input_tensor", dtypes=_TILIZED, text=_NOT_TILIZED, within="ROW_MAJOR")


def _tilizable_shape(given: Given) -> str:
    rows = given.input_tensor.layout is Layout.ROW_MAJOR
    if not rows or len(given.output_tensor_shape) > 1:
        return ""
    text = f"To be tilizable output tensor shape {list(given.output_tensor_shape)} must be divisible by"
    return f"{text} tile size ({TILE_SIZE}, {TILE_SIZE})"


accepts(
    "tilize_with_val_padding",
    _TILIZABLE,
    Rule("output_tensor_shape of rows: rank 2 or more", _tilizable_shape),
    source=_MOVES + "tilize_with_val_padding/device/tilize_with_val_padding_device_operation.cpp",
)
accepts(
    "tilize_with_zero_padding",
    _TILIZABLE,
    source=_MOVES + "tilize_with_val_padding/device/tilize_with_val_padding_device_operation.cpp",
)
accepts(
    "untilize untilize_with_unpadding",
    Operand("input_tensor", layouts="TILE", text="Can only untilize tile major data"),
    Operand(
        "input_tensor",
        dtypes="BFLOAT16 FLOAT32 BFLOAT8_B INT32 UINT32 UINT16 UINT8",
        text=_NOT_UNTILIZED,
    ),
    source=_MOVES + "untilize/device/untilize_device_operation.cpp",
)


# **************** shapes ****************


def is_view(x: Tensor, shape: Sequence[int], config: Any = None) -> bool:
    """Whether a reshape keeps a tensor's memory: the last size stays, and rows of tiles do."""
    own, wanted = x.memory_config(), config or x.memory_config()
    (rows, columns), (new_rows, new_columns) = _sizes(x.shape), _sizes(shape)
    if columns != new_columns or own.is_sharded() != wanted.is_sharded():
        return False
    if own.buffer_type is not wanted.buffer_type:
        return False
    whole = rows % TILE_SIZE == 0 and new_rows % TILE_SIZE == 0
    return x.layout is Layout.ROW_MAJOR or rows == new_rows or whole


_RESHAPED = (DataType.BFLOAT16, DataType.UINT32, DataType.FLOAT32, DataType.INT32)


def _reshaped(x: Tensor, shape: Sequence[int], config: Any = None) -> str:
    """The refusal of a reshape of tiles, which needs a kernel unless it is a view. Block formats become
    BFLOAT16."""
    sizes = [int(size) for size in shape]
    if not on_device(x) or not x.logical_volume():
        return ""
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.logical_volume() // -math.prod(sizes)
    if tuple(sizes) == tuple(x.shape) or is_view(x, sizes, config):
        return ""
    if not x.dtype.is_block and x.dtype not in _RESHAPED:
        return "Can only work with bfloat16/float32 or int32/uint32 tensors"
    return _unaligned_shards(x, sizes)


def _unaligned_shards(x: Tensor, sizes: Sequence[int]) -> str:
    """The refusal of shards of rows, of the tensor or the result, that the memory would fill up."""
    config = x.memory_config()
    if x.layout is Layout.TILE or config.shard_spec is None:
        return ""
    if config.shard_spec.shape[1] * x.element_size() % 16:
        return "Shard page size must be aligned to 16B for L1 Tensor"
    kept = config.memory_layout in (TensorMemoryLayout.HEIGHT_SHARDED, TensorMemoryLayout.WIDTH_SHARDED)
    if kept and sizes[-1] * x.element_size() % 16:
        return "Shard page size must currently have L1 aligned page size"
    return ""


def _with_one(given: Given) -> list[int]:
    shape = list(given.input_tensor.shape)
    shape.insert(given.dim % (len(shape) + 1), 1)
    return shape


_A_VIEW = "UINT16 and UINT8: a view; shards of rows have pages of whole 16 bytes, unless it is a view"

accepts(
    "reshape",
    Rule(_A_VIEW, lambda given: _reshaped(given.input_tensor, given.shape, given.memory_config)),
    source=_MOVES + "reshape_view/device/reshape_device_operation.cpp",
)
accepts(
    "unsqueeze",
    Rule(_A_VIEW, lambda given: _reshaped(given.input_tensor, _with_one(given))),
    source=_MOVES + "reshape_view/device/reshape_device_operation.cpp",
)


# **************** parts ****************


def begins_whole(x: Tensor, begins: Sequence[int]) -> bool:
    """Whether a part of tiles begins at a whole tile, so that it is cut without rows between."""
    return len(begins) > 1 and not any(begin % TILE_SIZE for begin in begins[-2:])


def _cut_of_tiles(x: Tensor, begins: Sequence[int], strided: bool) -> str:
    """The refusal of a slice of tiles that does not begin at a whole tile."""
    if x.layout is not Layout.TILE or not on_device(x) or (begins_whole(x, begins) and not strided):
        return ""
    if strided and x.dtype is DataType.BFLOAT8_B:
        return "Strided slice is not supported for BFLOAT8 tensors"
    return through_rows(x)


def _sliced(given: Given) -> str:
    x, begins, ends = given.input_tensor, given.starts or given.slice_start, given.ends or given.slice_end
    steps = given.steps or given.slice_step or [1] * len(begins)
    begins = [b + n if b < 0 else b for b, n in zip(begins, x.shape, strict=True)]
    strided = any(step != 1 for step in steps)
    if not strided and not any(begins) and list(ends) == list(x.shape):
        return ""
    ends = [e + n if e < 0 else e for e, n in zip(ends, x.shape, strict=True)]
    made = [-(-(e - b) // step) for b, e, step in zip(begins, ends, steps, strict=True)]
    rows = x.layout is Layout.TILE and not (begins_whole(x, begins) and not strided)
    text = _broken_shards(x, made) if rows and given.memory_config is None and all(made) else ""
    return _cut_of_tiles(x, begins, strided) or text


def _broken_shards(x: Tensor, shape: Sequence[int]) -> str:
    """The refusal of shards of rows that become tiles again, unless they are whole tiles."""
    spec = x.memory_config().shard_spec
    if spec is None or len(shape) < 2:
        return ""
    cut = parts_of(x.memory_config().memory_layout, spec.orientation, spec.grid)
    both = math.prod(shape[:-1]), shape[-1]
    sizes = tuple(-(-size // parts) for size, parts in zip(both, cut, strict=True))
    if all(size % TILE_SIZE == 0 for size in sizes):
        return ""
    return f"Physical shard shape {sizes} must be tile {{{TILE_SIZE}, {TILE_SIZE}}} sized!"


def _split(given: Given) -> str:
    x, axis = given.input_tensor, _axis(given.dim, len(given.input_tensor.shape))
    size, parts = x.shape[axis], given.split_size
    if isinstance(parts, int):
        parts = [parts] * (-(-size // parts))
    if any(part <= 0 for part in parts):
        return f"split_size should be greater than 0, instead got: {list(parts)}"
    if len(parts) == 1:
        return ""
    starts = list(itertools.accumulate(parts))[:-1]
    begins = [[start if at == axis else 0 for at in range(len(x.shape))] for start in starts]
    return next(filter(None, (_cut_of_tiles(x, begin, False) for begin in begins)), "")


def _chunked(given: Given) -> str:
    x, axis = given.input_tensor, _axis(given.dim, len(given.input_tensor.shape))
    part = -(-x.shape[axis] // given.num_chunks)
    return _split(Given({"input_tensor": x, "dim": axis, "split_size": part}))


_WHOLE_TILES = "TILE of BFLOAT4_B or UINT8: each part begins at whole tiles, without steps"

accepts(
    "slice",
    Rule(_WHOLE_TILES + "; TILE of BFLOAT8_B: without steps; shards of the rest are whole tiles", _sliced),
    source=_MOVES + "slice/slice.cpp",
)
accepts(
    "split", Rule(_WHOLE_TILES + "; sizes of parts are above 0", _split), source=_MOVES + "split/split.cpp"
)
accepts("chunk", Rule(_WHOLE_TILES, _chunked), source=_MOVES + "chunk/chunk.cpp")


# **************** together ****************


def _concatenated(given: Given) -> str:
    tensors = list(given.tensors)
    first, rank = tensors[0], len(tensors[0].shape)
    axis = _axis(given.dim, rank)
    if len(tensors) == 1:
        return ""
    cut = through_rows_along(tensors, axis)
    if cut and any(x.layout is Layout.ROW_MAJOR for x in tensors):
        return "ttnn.concat: expected all input tensors to be in tile layout"
    if cut and any(x.dtype is DataType.BFLOAT4_B for x in tensors):
        return _NOT_UNTILIZED
    if any(x.dtype is not first.dtype for x in tensors):
        return "All Tensors should have same dtypes."
    alone = first.is_sharded() and rank > 2 and axis > 0 and (cut or first.layout is Layout.ROW_MAJOR)
    if any(x.is_sharded() != first.is_sharded() for x in tensors) and not alone:
        return "All tensors must be sharded or all must be interleaved"
    return through_rows(first) if cut else ""


def alignment(x: Tensor) -> int:
    """Bytes to which a page is aligned in the tensor's memory (Wormhole)."""
    return 32 if x.memory_config().buffer_type is BufferType.DRAM else 16


def through_rows_along(tensors: Sequence[Tensor], axis: int) -> bool:
    """Whether tiles have padding along an axis, so that they are put together as rows."""
    rank = len(tensors[0].shape)
    padded = (axis >= rank - 2 and x.shape[axis] % TILE_SIZE for x in tensors if x.layout is Layout.TILE)
    return any(padded) or (rank == 1 and any(x.layout is Layout.TILE for x in tensors))


accepts(
    "concat",
    Rule("one dtype, all sharded or none; TILE of BFLOAT4_B or UINT8: whole tiles along dim", _concatenated),
    source=_MOVES + "concat/device/concat_device_operation.cpp",
)

_REPEATED = "UINT16 BFLOAT16 UINT32 INT32 FLOAT32"


def _repeated(x: Tensor, times: Sequence[int]) -> str:
    """The refusal of a repetition. Up to rank 4 whole tiles are repeated as they are, others as rows."""
    times = [1] * (len(x.shape) - len(times)) + [int(n) for n in times]
    if all(n == 1 for n in times):
        return ""
    sizes, high = [1, 1, *x.shape], len(times) > 4
    cut = high or any(n != 1 and size % TILE_SIZE for n, size in zip(times[-2:], sizes[-2:], strict=False))
    if high and x.dtype is DataType.UINT8:
        return f"Can only work with {', '.join(_REPEATED.split())} data types"
    return through_rows(x) if cut else ""


def _times(given: Given) -> Any:
    return given.repeat_dims if given.repeat_dims is not None else given.repetition_vector


def _expanded(given: Given) -> str:
    x, shape = given.input_tensor, list(given.shape)
    own = [1] * (len(shape) - len(x.shape)) + list(x.shape)
    return _repeated(x, [n if size == 1 and n > 0 else 1 for n, size in zip(shape, own, strict=True)])


_IN_TILES = "TILE of BFLOAT4_B or UINT8: whole tiles, at most rank 4; ROW_MAJOR of UINT8: at most rank 4"

accepts(
    "repeat",
    Rule(_IN_TILES, lambda given: _repeated(given.input_tensor, _times(given))),
    source=_MOVES + "repeat/device/repeat_device_operation.cpp",
)
accepts("expand", Rule(_IN_TILES, _expanded), source=_MOVES + "repeat/device/repeat_device_operation.cpp")


# **************** padding ****************


def pairs_of(x: Tensor, padding: Any) -> list[tuple[int, int]]:
    """(before, after) of each dimension, by the argument ``padding`` of pad. Raises TypeError for the form
    that names an output shape."""
    pairs = [(int(before), int(after)) for before, after in padding]
    return [(0, 0)] * (len(x.shape) - len(pairs)) + pairs


def _outgrown(x: Tensor, pairs: Sequence[tuple[int, int]]) -> str:
    """The refusal of rows that the tensor's shards do not hold. Height shards that get wider are cut anew."""
    config, spec = x.memory_config(), x.memory_config().shard_spec
    wider = any(pairs[-1])
    if spec is None or (config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED and wider):
        return ""
    shape = [before + n + after for n, (before, after) in zip(x.shape, pairs, strict=True)]
    rows = math.prod(shape[:-1])
    if config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED and rows != spec.shape[0]:
        return f"Shard height {spec.shape[0]} must match physical height {rows} for width sharded"
    down, across = parts_of(config.memory_layout, spec.orientation, spec.grid)
    for side, size, shard, parts in (
        ("height", rows, spec.shape[0], down),
        ("width", shape[-1], spec.shape[1], across),
    ):
        if -(-size // shard) > parts:
            return (
                f"Number of shards along {side} {-(-size // shard)} must not exceed number of cores {parts}"
            )
    return ""


def _padded_by(given: Given) -> str:
    x = given.input_tensor
    pairs, rank = pairs_of(x, given.padding), len(x.shape)
    if not on_device(x) or not any(map(any, pairs)):
        return ""
    first = next((at for at, (_, after) in enumerate(pairs) if after), rank)
    if rank > 4 and first < rank - 3:
        text = "ttnn::pad only supports padding on the lowest 3 dimensions for tensors with rank > 4"
        return f"{text} {first}"
    if x.layout is Layout.ROW_MAJOR:
        if x.dtype.name not in _TILIZED.split():
            return "Cannot pad RM tensor with specified format"
        return _outgrown(x, pairs) if given.memory_config is None else ""
    if any(before for before, _ in pairs):
        return "ttnn.pad: on device tile padding does not support front padding"
    sizes, wider = _sizes(x.shape), _sizes([n + after for n, (_, after) in zip(x.shape, pairs, strict=True)])
    in_place = all(-(-a // TILE_SIZE) == -(-b // TILE_SIZE) for a, b in zip(sizes, wider, strict=True))
    if x.dtype is DataType.UINT8 and any(size % TILE_SIZE for size in sizes):
        return "Unsupported datatype DataType::UINT8"
    if rank == 1:
        return "" if in_place else "MeshBuffer must be large enough to hold the tensor."
    if in_place and not any(after for _, after in pairs[:-2]):
        return ""
    kinds = (*_TILIZED.split(), "BFLOAT8_B")
    return "" if x.dtype.name in kinds else "Cannot pad tilized tensor with specified format"


accepts(
    "pad",
    Rule(
        "TILE: nothing before, and a row stays in its tiles; ROW_MAJOR or more tiles: no BFLOAT4_B, no "
        "UINT8; above rank 4 the last three dimensions",
        _padded_by,
    ),
    source=_MOVES + "pad/device/pad_device_operation.cpp",
)
