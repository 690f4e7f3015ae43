"""What operations of operations/norms accept."""

from __future__ import annotations

import math
from typing import Any

from ..memory.values import TILE_SIZE, Layout
from ..tensors.tensor import Tensor
from .rules import INTERLEAVED, Given, Operand, Rule, accepts

_NORMS = "ttnn/cpp/ttnn/operations/normalization/"
_FLOATS = "FLOAT32 BFLOAT16 BFLOAT8_B"
_OF_FLOATS = "Input tensor must be FLOAT32, BFLOAT16, or BFLOAT8_B, got: {dtype}"

# **************** softmax ****************


def _dim_of_softmax(given: Given) -> str:
    rank = len(given.input_tensor.shape)
    if not rank or -rank <= given.dim < rank:
        return ""
    return f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}], but got {given.dim})"


_TILES = Operand("input_tensor", layouts="TILE", text="Inputs to softmax must be tilized")
_SOFT = Operand("input_tensor", dtypes=_FLOATS, text=_OF_FLOATS)
_SOURCE = _NORMS + "softmax/device/softmax_device_operation.cpp"


def _tiles_or_rows(given: Given) -> str:
    """The refusal of rows. The release tilizes them where it takes dim for the last of four."""
    x, rank = given.input_tensor, len(given.input_tensor.shape)
    if x.layout is Layout.TILE or not rank:
        return ""
    if rank > 4 or given.dim % rank + 4 - rank != rank - 1:
        return "Inputs to softmax must be tilized"
    return (
        "Can only tilize bfloat16/float32 or int32/uint32/uint16 tensors" if x.dtype.name == "UINT8" else ""
    )


def _last_of_four(given: Given) -> str:
    if len(given.input_tensor.shape) == 4 and given.dim in (-1, 3):
        return ""
    return f"Invalid dimension: {given.dim}. Currently softmax inplace supports dim -1 of 4D tensors."


accepts(
    "softmax",
    Rule("-rank <= dim < rank", _dim_of_softmax),
    Rule("TILE; ROW_MAJOR of rank 4 along the last dimension", _tiles_or_rows),
    _SOFT,
    source=_SOURCE,
)
accepts("softmax_in_place", Rule("rank 4, dim -1", _last_of_four), _TILES, _SOFT, source=_SOURCE)


def _scaled_alone(given: Given) -> str:
    alone = given.scale is not None and given.mask is None
    return "Scale value must not be set when mask is not present" if alone else ""


def _mask_fits(given: Given) -> str:
    x, mask = given.input_tensor, given.mask
    if mask is None:
        return ""
    own, other = tuple(x.padded_shape), tuple(mask.padded_shape)
    if mask.is_sharded():
        return "" if own == other else "Sharded mask shape must match input tensor shape"
    rows = mask.layout is Layout.ROW_MAJOR
    if rows and other != (other[0], 1, own[-1] // TILE_SIZE, TILE_SIZE):
        return "Non-sharded mask shape must match expected shape"
    if any(other[at] != 1 for at in range(1, len(own) - 2)):
        return "Non-sharded mask intermediate dimensions must be 1"
    return ""


def _batches_of_mask(given: Given) -> str:
    x, mask = given.input_tensor, given.mask
    if mask is None or given.program_config is not None or mask.is_sharded():
        return ""
    own, other = x.padded_shape, mask.padded_shape
    text = f"Input and mask batch sizes must match, got {own} for input and {other} for mask"
    return "" if own[0] == other[0] else text


accepts(
    "scale_mask_softmax scale_mask_softmax_in_place",
    _TILES,
    _SOFT,
    Rule("a mask in rows is [batch, 1, width / 32, 32], in tiles [batch, 1, ...]", _mask_fits),
    Rule("the mask has the input's batches", _batches_of_mask),
    Rule("scale is given with a mask only", _scaled_alone),
    source=_SOURCE,
)

# **************** norms of rows ****************


def _whole_rows(given: Given) -> str:
    x = given.input_tensor
    width = x.shape[-1]
    if x.layout is Layout.ROW_MAJOR and x.is_sharded():
        return "Input tensor must have TILE layout (ROW_MAJOR is only supported for non-sharded tensors)"
    if x.layout is Layout.TILE or width % TILE_SIZE == 0:
        return ""
    return f"ROW_MAJOR input requires W ({width}) to be a multiple of tile width ({TILE_SIZE})"


def _vector(what: str, x: Tensor, vector: Any) -> str:
    """The refusal of a weight or bias of the input's last dimension: one row of tiles, or rows as wide as a
    tile."""
    if vector is None:
        return ""
    width, own = math.ceil(x.shape[-1] / TILE_SIZE) * TILE_SIZE, tuple(vector.padded_shape)
    if vector.layout is Layout.TILE:
        if own[-1] != width:
            return f"Input and {what.lower()} inner dimensions must match: {width} != {own[-1]}"
        text = f"{what} tensor height must equal tile height ({TILE_SIZE}), got: {own[-2]}"
        return "" if own[-2] == TILE_SIZE else text
    if own[-1] != TILE_SIZE or math.prod(own) != width:
        return (
            f"{what}'s last padded dim needs to equal tile width and its volume needs to align with last "
            f"padded dim of input. Error with padded shape: {list(own)}, tile_width: {TILE_SIZE}, "
            f"input: {x.padded_shape}"
        )
    if vector.dtype.name not in ("FLOAT32", "BFLOAT16"):
        return f"{what} tensor must be FLOAT32 or BFLOAT16, got: DataType::{vector.dtype.name}"
    return ""


def _weight(given: Given) -> str:
    return _vector("Gamma", given.input_tensor, given.weight)


def _bias(given: Given) -> str:
    return _vector("Beta", given.input_tensor, given.bias)


def _one_layout(given: Given) -> str:
    both = given.weight is not None and given.bias is not None
    unlike = both and given.weight.layout is not given.bias.layout
    return "Gamma and beta must have the same layout!" if unlike else ""


def _sharded_like(given: Given) -> str:
    x, config = given.input_tensor, given.memory_config or given.input_tensor.memory_config()
    if not x.is_sharded():
        return ""
    if x.memory_config().memory_layout.name == "HEIGHT_SHARDED":
        return "Height sharded inputs are not supported."
    return "" if config.is_sharded() else "Sharded inputs require sharded outputs."


_ROWS = (
    Operand("input_tensor", dtypes=_FLOATS, text=_OF_FLOATS),
    Rule("weight: a row of tiles, or rows of 32 in BFLOAT16 or FLOAT32", _weight),
    Rule("weight and bias have one layout", _one_layout),
    Rule("bias: a row of tiles, or rows of 32 in BFLOAT16 or FLOAT32", _bias),
    Rule("a sharded input, not HEIGHT_SHARDED, has a sharded result", _sharded_like),
)
_SOURCE = _NORMS + "layernorm/device/layernorm_device_operation.cpp"

accepts(
    "layer_norm",
    Rule("ROW_MAJOR: interleaved, whole tiles wide", _whole_rows),
    *_ROWS,
    source=_SOURCE,
)
accepts(
    "rms_norm",
    Operand(
        "input_tensor",
        layouts="TILE",
        text="ttnn::rms_norm does not support ROW_MAJOR input tensors. Use TILE layout.",
    ),
    *_ROWS,
    source=_SOURCE,
)

# **************** norms of channels ****************

_CHANNELS = ("running_mean", "running_var", "weight", "bias")


def _channel_kinds(given: Given) -> str:
    found = [(name, getattr(given, name)) for name in _CHANNELS]
    found = [(name, x) for name, x in found if x is not None]
    for name, x in found[1:]:
        if x.dtype is not found[0][1].dtype:
            return (
                f"batch_norm: {name} dtype (DataType::{x.dtype.name}) must match other parameter tensors "
                f"dtype (DataType::{found[0][1].dtype.name})"
            )
    return ""


def _as_many_channels(given: Given) -> str:
    for name in _CHANNELS:
        x = getattr(given, name)
        if x is not None and len(x.shape) != 4:
            return "batch_norm supports tensors of rank 4"
        if x is not None and x.shape[1] != given.input.shape[1]:
            return f"{name}[1] must be the same as input's channel size."
    return ""


accepts(
    "batch_norm",
    Operand("input", ranks=(4,), text="batch_norm supports tensors of rank 4, got {rank}"),
    Rule("running_mean, running_var, weight and bias have one dtype", _channel_kinds),
    *(
        Operand(name, layouts="TILE", text="batch_norm only supports tiled layout. Got: {layout}")
        for name in ("input", *_CHANNELS)
    ),
    *(
        Operand(
            name, dtypes="BFLOAT16 FLOAT32", text="batch_norm only supports bfloat16, float32. Got: {dtype}"
        )
        for name in ("input", *_CHANNELS)
    ),
    *(
        Operand(name, memories=INTERLEAVED, text=f"{name} tensor must be interleaved")
        for name in ("input", *_CHANNELS)
    ),
    Rule("running_mean, running_var, weight and bias are [1, C, ...] for C channels", _as_many_channels),
    source=_NORMS + "batch_norm/device/batch_norm_device_operation.cpp",
)
