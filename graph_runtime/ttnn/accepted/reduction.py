"""What operations of operations/reduction accept."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

from ..errors import called
from ..memory.values import DataType, Layout, TensorMemoryLayout
from .rules import FLOATS, INTERLEAVED, Given, Operand, Rule, accepts

_REDUCTION = "ttnn/cpp/ttnn/operations/reduction/"


def _dims(given: Given) -> list[int]:
    """The dimensions that a call names, from 0; all if it names none."""
    rank, dim = len(given.input_tensor.shape), given.dim
    named = [dim] if isinstance(dim, int) else dim or range(rank)
    return [one + rank if one < 0 else one for one in named]


def outside(dim: Any, rank: int) -> str:
    """The error's text for a dimension, or a list of them, that a tensor of the rank does not have; "" if it
    has all."""
    named = dim if isinstance(dim, (list, tuple)) else [dim]
    for at, one in enumerate(named):
        if one is not None and not (-rank <= one < rank or (rank == 0 and one in (0, -1))):
            return (
                f"Unsupported dim {one} at index {at}. After possible adjustment, needs to be at least 0 and "
                f"less than rank {rank}, or exactly 0 for a rank 0 tensor."
            )
    return ""


def _once(given: Given) -> str:
    dims = sorted(_dims(given))
    for at, (low, high) in enumerate(pairwise(dims), 1):
        if low == high:
            text = "reduce dim list contains a duplicate axis after sorting"
            return f"{text} (indices {at - 1} and {at}, value {low})"
    return ""


def _of_some(given: Given) -> str:
    shape = given.input_tensor.shape
    none = next((at for at in _dims(given) if len(shape) and shape[at] == 0), None)
    return "" if none is None else f"Expected reduction dim {none} to have non-zero size"


def _turned(given: Given) -> str:
    """Other dimensions than the last two are reduced as rows, in shards of the input's shape."""
    x, config = given.input_tensor, given.input_tensor.memory_config()
    spec, rank = config.shard_spec, len(x.shape)
    leading = [at for at in _dims(given) if at < rank - 2]
    if spec is None or not leading or (called() == "ttnn.sum" and x.dtype is DataType.BFLOAT16):
        return ""
    shape = list(x.shape)
    shape[leading[-1]], shape[-2] = shape[-2], shape[leading[-1]]
    shards = -(-math.prod([*shape[:-2], -(-shape[-2] // 32) * 32]) // spec.shape[0])
    most = spec.num_cores()
    if config.memory_layout is not TensorMemoryLayout.HEIGHT_SHARDED or shards <= most:
        return ""
    return f"Number of shards along height {shards} must not exceed number of cores {most}"


_WITHIN = Rule("dim: within the rank", lambda g: outside(g.dim, len(g.input_tensor.shape)))
_ONCE = Rule("dim: each dimension once", _once)


def _whole_shards(given: Given) -> str:
    """A tensor in ROW_MAJOR is laid in tiles first, in its shards."""
    x, spec = given.input_tensor, given.input_tensor.memory_config().shard_spec
    if spec is None or x.layout is Layout.TILE or spec.shape[0] % 32 == spec.shape[1] % 32 == 0:
        return ""
    return f"Physical shard shape {tuple(spec.shape)} must be tile {{32, 32}} sized!"


_SHARDS = Rule("in ROW_MAJOR: shards of whole tiles", _whole_shards)
_TURNED = Rule("in HEIGHT_SHARDED: other dimensions than the last two fit the shards as rows", _turned)
_OF_SOME = Rule("dim: of a size above 0", _of_some)


def _filled(dtypes: str, text: str) -> Operand:
    return Operand("input_tensor", dtypes, text=text + ", got {dtype}", filled=True)


_GENERIC = _filled(
    "BFLOAT16 FLOAT32 BFLOAT8_B INT32 UINT32",
    "Only FLOAT32, BFLOAT16, BFLOAT8_B, and UINT32 are supported for generic reduction (INT32 for some)",
)
_REDUCE_OP = _REDUCTION + "generic/device/reduce_op_device_operation.cpp"
accepts("sum", _WITHIN, _ONCE, _GENERIC, _TURNED, source=_REDUCE_OP)
accepts("max min", _WITHIN, _ONCE, _OF_SOME, _GENERIC, _TURNED, source=_REDUCE_OP)
accepts(
    "mean",
    Operand(
        "input_tensor",
        f"{FLOATS} UINT16 UINT8",
        text="ttnn.mean does not support integer inputs - got {dtype}.",
    ),
    _WITHIN,
    _ONCE,
    _filled(
        "BFLOAT16 FLOAT32 BFLOAT8_B", "Only FLOAT32, BFLOAT16, BFLOAT8_B are supported for generic reduction"
    ),
    _TURNED,
    source=_REDUCE_OP,
)


def _spread(given: Given) -> str:
    """The deviation of one element is no number, whatever its type."""
    x = given.input_tensor
    count = math.prod(x.shape[at] for at in _dims(given))
    if x.dtype.name in ("BFLOAT16", "FLOAT32", "BFLOAT8_B") or not math.prod(x.shape):
        return ""
    if count == 1 and given.correction is not False:
        return ""
    return f"Only FLOAT32, BFLOAT16, and BFLOAT8_B are supported, got DataType::{x.dtype.name}"


accepts(
    "std var",
    _WITHIN,
    _ONCE,
    Rule("BFLOAT16, FLOAT32, BFLOAT8_B; of one element all types", _spread),
    _SHARDS,
    source=_REDUCTION + "generic/device/welford_reduce_device_operation.cpp",
)
accepts(
    "std_hw var_hw normalize_hw normalize_global",
    Operand(
        "input_tensor", "BFLOAT16 FLOAT32 BFLOAT8_B", text="Only FLOAT32, BFLOAT16, BFLOAT8_B, got {dtype}"
    ),
    Operand("input_tensor", ranks=(4,), text="Cannot support non-rank 4 Tensor, got rank {rank}"),
    source="ttnn/cpp/ttnn/operations/eltwise/unary/device/unary_composite_op.cpp",
)


def _of_a_row(given: Given) -> str:
    x = given.input_tensor
    if len(x.shape) != 1 or x.layout is Layout.TILE or not math.prod(x.shape):
        return ""
    return f"To be tilizable output tensor shape {list(x.shape)} must be divisible by tile size (32, 32)"


def _one_dim(given: Given) -> str:
    rank, dim = len(given.input_tensor.shape), given.dim
    if dim is None or -rank <= dim < rank or (rank == 0 and dim in (0, -1)):
        return ""
    text = "Dimension for prod is out of range (expected to be in range of"
    return f"{text} [{-rank}, {rank - 1}], but got {dim})"


def _of_blocks(given: Given) -> str:
    everywhere = given.dim is None and given.dims is None
    if everywhere or given.input_tensor.dtype.name != "BFLOAT4_B":
        return ""
    return "ttnn.prod with a dim argument does not support bfloat4_b"


accepts(
    "prod",
    Rule("dim: within the rank", _one_dim),
    _filled(FLOATS, "Error - unsupported data type for prod, expected BFLOAT16, FLOAT32 or BFLOAT8_B"),
    Rule("of rank 1: in TILE", _of_a_row),
    Rule("with dim: not BFLOAT4_B", _of_blocks),
    source=_REDUCTION + "prod/prod.cpp",
)


def _place(given: Given) -> str:
    rank, dim = len(given.input_tensor.shape), given.dim
    if dim is None or -rank <= dim < max(rank, 1):
        return ""
    return f"argmax: Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})"


def _last_of_rows(given: Given) -> str:
    x, dim = given.input_tensor, given.dim
    rank = len(x.shape)
    if x.layout is Layout.TILE or x.dtype.is_float or dim is None or not math.prod(x.shape):
        return ""
    if not rank or dim % rank == rank - 1:
        return ""
    return f"ROW_MAJOR: only argmax on the last dim is supported. Got dim={dim}, expected {rank - 1}"


def _dim_of_tiles(given: Given) -> str:
    if given.dim is not None or given.input_tensor.layout is Layout.ROW_MAJOR or not given.input_tensor.shape:
        return ""
    return "For inputs with TILE layout, dim parameter must be specified!"


_ARGMAX = "are supported for inputs with {layout} layout, got {dtype}"
accepts(
    "argmax",
    Rule("dim: within the rank", _place),
    _OF_SOME,
    Operand(
        "input_tensor",
        memories=INTERLEAVED,
        text="Only INTERLEAVED memory layout is supported for inputs, got {memory}",
    ),
    Operand(
        "input_tensor",
        "BFLOAT16 FLOAT32",
        text="Only BFLOAT16, FLOAT32 " + _ARGMAX,
        within="TILE",
        filled=True,
    ),
    Operand(
        "input_tensor",
        "BFLOAT16 FLOAT32 INT32 UINT32 UINT16",
        text="Only BFLOAT16, FLOAT32, INT32, UINT32, and UINT16 " + _ARGMAX,
        within="ROW_MAJOR",
        filled=True,
    ),
    Rule("in ROW_MAJOR, of integers: the last dimension", _last_of_rows),
    Rule("in TILE: with dim", _dim_of_tiles),
    source=_REDUCTION + "argmax/device/argmax_device_operation.cpp",
)


def _axis(given: Given) -> str:
    rank = len(given.input.shape)
    if -rank <= given.dim < max(rank, 1):
        return ""
    return f"The requested accumulation axis is {given.dim}, while the input tensor has rank {rank}."


accepts(
    "cumsum cumprod",
    Rule("dim: within the rank", _axis),
    Operand(
        "input",
        memories=INTERLEAVED,
        text="ttnn accumulation operations do not support sharded inputs, got {memory}",
    ),
    Operand(
        "input", layouts="TILE", text="The provided input tensor has a non-tile layout: {layout}", filled=True
    ),
    source=_REDUCTION + "accumulation/device/accumulation_device_operation.cpp",
)
accepts(
    "ema",
    Operand("input_tensor", "BFLOAT16", text="Input tensor must be BFLOAT16, got: {dtype}"),
    Operand("input_tensor", layouts="TILE", text="Input tensor must have TILE layout, got: {layout}"),
    Operand("input_tensor", ranks=(4,), text="EMA input must be 4D [1, B, C, T], got rank {rank}"),
    source=_REDUCTION + "accumulation/ema/device/ema_device_operation.cpp",
)
accepts(
    "experimental.fast_reduce_nc",
    Operand(
        "input",
        "BFLOAT16 BFLOAT8_B FLOAT32",
        text="FastReduceNC input only supports BFLOAT16, BFLOAT8_B, FLOAT32, got {dtype}",
    ),
    source="ttnn/cpp/ttnn/operations/experimental/reduction/fast_reduce_nc/fast_reduce_nc.cpp",
)


def _users(given: Given) -> str:
    shape: Any = tuple(given.input_values_tensor.shape)
    if shape[:2] != (1, 1):
        return f"Sampling requires input dims 0 and 1 (N, C) to be 1; got {list(shape)}!"
    if not 1 <= shape[2] <= 32:
        return f"Sampling currently supports between 1 and 32 users (one core per user); got {shape[2]}!"
    if shape[3] == 0 or shape[3] % 32:
        return f"Input inner dim ({shape[3]}) must be non-zero and divisible by 32, pad if needed!"
    tiles = shape[3] // 32
    text = f"Input inner dim ({shape[3]}) must yield a power-of-2 number of tiles (Wt = W/32 = {tiles})"
    return text if tiles & (tiles - 1) else ""


def _parallel(given: Given) -> str:
    values, names = given.input_values_tensor, given.input_indices_tensor
    if tuple(names.shape) != tuple(values.shape):
        return f"Input values and indices must have the same shape, got {values.shape} and {names.shape}"
    users = values.shape[2]
    for name in ("k", "p", "temp"):
        one = getattr(given, name)
        if one.logical_volume() != users:
            return f"{name} must have {users} elements, got {one.shape}"
    return ""


accepts(
    "sampling",
    Operand("input_values_tensor", "BFLOAT16", text="Only BFLOAT16 is supported for inputs! Got {dtype}"),
    Operand("input_values_tensor", layouts="TILE", text="Only TILE_LAYOUT is supported for inputs!"),
    Operand("input_values_tensor", ranks=(4,), text="Sampling input_values must be rank-4; got rank {rank}"),
    Operand(
        "input_indices_tensor",
        "INT32 UINT32",
        text="Only UINT32 & INT32 dtypes are supported for input indices!",
    ),
    Operand(
        "input_indices_tensor", layouts="ROW_MAJOR", text="Only ROW_MAJOR is supported for input indices!"
    ),
    Rule("input_values_tensor: [1, 1, 1 to 32 users, n], n / 32 a power of 2", _users),
    Rule("input_indices_tensor: its shape; k, p, temp: an element a user", _parallel),
    Operand("k", "INT32 UINT32", text="Only UINT32 & INT32 dtypes are supported for k!"),
    Operand("k", layouts="ROW_MAJOR", text="Only ROW_MAJOR layout is supported for k!"),
    Operand("p temp", "BFLOAT16", text="Only BFLOAT16 dtypes are supported for {name}!"),
    Operand("p temp", layouts="ROW_MAJOR", text="Only ROW_MAJOR layout is supported for {name}!"),
    source=_REDUCTION + "sampling/device/sampling_device_operation.cpp",
)
