"""Softmax, and norms in one step or in two steps. The first of two steps computes statistics of each part of
a row, the second norms the row by the statistics of all parts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...devices.mesh_device import MeshDevice
from ...devices.wide_value import WideValue
from ...errors import called, expect, mistaken
from ...memory.configs import MemoryConfig, ShardSpec
from ...memory.cores import CoreRange, CoreRangeSet
from ...memory.placing import up
from ...memory.values import TILE_SIZE, BufferType, DataType, Layout, TensorMemoryLayout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor, on_device
from ..bodies import TiledTensor, TiledValue
from ..elementwise.unary import chain
from ..movement.layouts import to_layout
from ..movement.shapes import axis_of
from ..operation import operation
from ..results import device_tensor, target


def soft(x: WideValue, axis: int, stable: bool, dtype: DataType) -> WideValue:
    """softmax of x. Unless ``stable``, exp overflows where x is large, and a result of ``dtype`` bfloat16 has
    infinity in place of NaN, as on silicon."""
    if stable:
        return x.op("softmax", axis=axis)
    powers = x.exp()
    return (powers / powers.sum(axes=(axis,))).packed(dtype)


@operation("softmax", "softmax", takes="memory_config, ...", layout=Layout.TILE)
def softmax(input_tensor: Tensor, dim: int = -1, *, numeric_stable: bool = True) -> WideValue:
    """exp(x) over its sum along a dimension."""
    x = input_tensor
    axis = axis_of(dim, len(x.shape))
    if not x.shape.rank:
        return x._value * 0.0 + 1.0
    stable = numeric_stable or axis != len(x.shape) - 1  # kernels of other dimensions are always stable
    return soft(x._value, axis, stable, x.dtype)


def _rows_of_mask(x: Tensor, mask: Tensor) -> tuple[WideValue, tuple[int, ...]]:
    """(values, shape) of a mask; a mask in rows as wide as a tile, [b, 1, width / 32, 32], becomes one
    row."""
    shape, width = tuple(mask.shape), x.shape[-1]
    if mask.layout is Layout.ROW_MAJOR and shape[1:] == (1, width // TILE_SIZE, TILE_SIZE):
        shape = (shape[0], 1, 1, width)
        return mask._value.reshape(shape), shape
    expect(shape[-1] == width, f"the mask's width {shape[-1]} must be the input's {width}")
    return mask._value, shape


def _masked_by(x: WideValue, handle: WideValue, mask: tuple[int, ...], causal: bool) -> WideValue:
    """x + mask. If the mask has fewer rows than x, its first row is added to each row of x; a causal mask is
    repeated instead."""
    shape = tuple(x.shape)
    rows = mask[-2] if len(mask) > 1 else 1
    text = f"the mask {mask} does not fit {list(shape)}"
    if 1 < rows < shape[-2] and not causal:
        handle = handle.part(len(mask) - 2, 0, 1)
    elif 1 < rows < shape[-2]:
        expect(shape[-2] % rows == 0, text)
        times = [1] * len(mask)
        times[-2] = shape[-2] // rows
        handle = handle.run("tile", repeats=tuple(times))
    made = x + handle
    expect(tuple(made.shape) == shape, text)
    return made


def _masked(name: str, in_place: bool, causal: bool) -> None:
    """Register a softmax with a mask; ``causal``: the mask is causal even if the caller's is_causal_mask is
    False."""
    doc = "softmax of scale x + mask along the last dimension."
    takes = "memory_config, program_config, ..."

    @operation(name, "multiply, add, softmax", doc=doc, takes=takes, in_place=in_place)
    def function(
        input_tensor: TiledTensor,
        scale: float | None = None,
        mask: Tensor | None = None,
        *,
        is_causal_mask: bool = False,
        numeric_stable: bool = not in_place,
    ) -> WideValue:
        x = input_tensor
        made = x._value if scale is None else x._value * float(scale)
        if mask is not None:
            made = _masked_by(made, *_rows_of_mask(x, mask), causal or is_causal_mask)
        return soft(made, len(x.shape) - 1, numeric_stable, x.dtype)


_masked("scale_mask_softmax", False, False)
_masked("scale_mask_softmax_in_place", True, False)
_masked("scale_causal_mask_hw_dims_softmax_in_place", True, True)


@operation("softmax_in_place", "softmax", takes="program_config, ...", in_place=True)
def softmax_in_place(input_tensor: TiledTensor, dim: int = -1, *, numeric_stable: bool = True) -> WideValue:
    """softmax, written into its input."""
    x = input_tensor
    return soft(x._value, axis_of(dim, len(x.shape)), numeric_stable, x.dtype)


# **************** norms ****************


def vector(x: Tensor | None, size: int, what: str = "Gamma") -> WideValue | None:
    """A weight or bias in one dimension. ``x``: a tensor of ``size`` elements in all, or a row of tiles whose
    first row has the ``size`` elements."""
    if x is None:
        return None
    handle = x._value
    wide = x.shape[-1] if x.shape.rank else 1
    if wide in (size, up(size, TILE_SIZE)) and x.logical_volume() in (wide, TILE_SIZE * wide):
        return _first(handle, size)  # the values are the first row of the tiles
    text = f"{what} tensor dimensions must align with input: {size} elements, got {x.shape}"
    expect(x.logical_volume() == size, text)
    return handle.reshape((size,))


def _first(x: WideValue, size: int) -> WideValue:
    """The first ``size`` elements of the first row, in one dimension."""
    row = x.op("slice", starts=(0,) * len(x.shape), ends=(*(1 for _ in x.shape[1:]), size))
    return row.reshape((size,))


def _norm(subtracts: bool, x: Tensor, given: dict[str, Any], epsilon: float) -> WideValue:
    handle, size = x._value, x.shape[-1]
    operands = (given.get(key) for key in ("residual_input_tensor", "weight", "bias"))
    residual, weight, bias = (None if operand is None else device_tensor(operand) for operand in operands)
    if residual is not None:
        handle = handle + residual._value
    ones = vector(weight, size) if weight is not None else _filled(handle, size, 1.0)
    added = vector(bias, size)
    if subtracts:
        zeros = added if added is not None else _filled(handle, size, 0.0)
        return handle.op("layer_norm", ones, zeros, axis=-1, epsilon=float(epsilon))
    made = handle.op("rms_norm", ones, axis=-1, epsilon=float(epsilon))
    return made if added is None else made + added


def _filled(like: WideValue, size: int, value: float) -> WideValue:
    return like.scalar(value, "float32").run("broadcast_to", shape=(size,))


_NORM = {"weight", "bias", "residual_input_tensor", "recip_tensor"}


def _normalised(name: str, subtracts: bool) -> None:
    what = "minus its mean, over its standard deviation" if subtracts else "over its root mean square"
    doc = f"The last dimension {what}, times weight, plus bias; a residual is added to the input before."
    takes = "..., memory_config, program_config, dtype, compute_kernel_config"

    @operation(name, name, doc=doc, takes=takes)
    def function(input_tensor: Tensor, *, epsilon: float = 1e-12, **given: Any) -> WideValue:
        x = input_tensor
        if unknown := given.keys() - _NORM:
            raise mistaken(f"unexpected {sorted(unknown)[0]!r}")
        return _norm(subtracts, x, given, epsilon) if math.prod(x.shape) else x._value.copied()


_normalised("layer_norm", True)
_normalised("rms_norm", False)


@operation("create_layer_norm_reciprocals")
def create_layer_norm_reciprocals(device: MeshDevice, core_range_set: CoreRangeSet, width: int) -> Tensor:
    """A tensor of 1 / 1 .. 1 / width in float32, on each core. layer_norm accepts it and does not need it."""
    cores = core_range_set.num_cores()
    values = np.tile((1 / np.arange(1, width + 1)).astype(np.float32), (cores, 1))
    spec = ShardSpec(core_range_set, [1, width])
    config = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, spec)
    return on_device(called(), values, DataType.FLOAT32, Layout.ROW_MAJOR, device, config)


@operation(
    "batch_norm",
    "mean, subtract, multiply, rsqrt, add",
    takes="..., output, memory_config",
)
def batch_norm(
    input: TiledValue,
    *,
    running_mean: WideValue | None = None,
    running_var: WideValue | None = None,
    training: bool = False,
    eps: float = 1e-5,
    momentum: float = 0.1,
    weight: WideValue | None = None,
    bias: WideValue | None = None,
) -> WideValue:
    """Channels of [N, C, H, W], normalised by the running statistics. With ``training`` the channels are
    normalised by their own statistics, which update the running statistics in place."""
    if training:
        running_mean, running_var = _updated(input, running_mean, running_var, momentum)
    given = running_mean is not None and running_var is not None
    expect(given, "running_mean and running_var must be defined in evaluation mode")
    assert running_mean is not None
    assert running_var is not None
    made = (input - running_mean) * (running_var + float(eps)).rsqrt()
    made = made if weight is None else made * weight
    return made if bias is None else made + bias


def _statistics(x: WideValue) -> tuple[WideValue, WideValue]:
    """(mean, biased variance) of each channel, each [1, C, 1, 1]."""
    middle = x.mean(axes=(0, 2, 3))
    count = x.shape[0] * x.shape[2] * x.shape[3]
    total = (x - middle).op("sum_squares", axes=(0, 2, 3), keepdims=True)
    return middle, total / float(count)


def _updated(x: WideValue, mean: Any, var: Any, momentum: float) -> tuple[WideValue, WideValue]:
    """(mean, variance) of a batch, which update the running mean and variance in place."""
    found = _statistics(x)
    for running, batch in zip((mean, var), found, strict=True):
        if running is not None:
            running.overwrite(running * (1.0 - momentum) + batch * float(momentum))
    return found


@operation("experimental.dit_rms_norm_unary_fused", "rms_norm")
def dit_rms_norm_unary_fused(
    input_tensor: Tensor, *, activation: Any = None, dtype: DataType | None = None, **given: Any
) -> Tensor:
    """rms_norm, then an activation."""
    rows = input_tensor.layout is Layout.ROW_MAJOR
    x = to_layout.function(input_tensor, Layout.TILE) if rows else input_tensor
    made: Tensor = OPERATIONS["rms_norm"].function(x, dtype=dtype, **given)
    made = chain(made, [] if activation is None else [activation])
    return to_layout.function(made, Layout.ROW_MAJOR) if rows else made


# **************** norms in two steps, for rows on several devices ****************

_TILED = "Only tilized inputs supported."


def _statistics_of_rows(name: str, subtracts: bool) -> None:
    what = "squares, and of elements, in the first column of a tile each" if subtracts else "squares"
    doc = f"""The sum of each row's {what}.
    For a sharded input they are means, and the mean of elements is first; a residual is added to that
    input in place."""

    @operation(f"{name}_pre_all_gather", "sum_squares, sum, pad, concatenate", doc=doc, tiled=_TILED)
    def function(
        input_tensor: TiledTensor,
        *,
        dtype: DataType = DataType.BFLOAT16,
        residual_input_tensor: WideValue | None = None,
        program_config: Any = None,
        memory_config: MemoryConfig | None = None,
    ) -> Tensor:
        x = input_tensor
        handle, last = x._value, len(x.shape) - 1
        if residual_input_tensor is not None:
            handle = handle + residual_input_tensor
            if x.is_sharded():
                x = target(x, None, x).wrap(handle)
        sums = [handle.op("sum_squares", axes=(last,), keepdims=True)]
        if subtracts:
            sums.append(handle.sum(axes=(last,)))
        if x.is_sharded():
            sums = [one / float(x.shape[-1]) for one in reversed(sums)]
        wide = [one.run("pad", pads=(0,) * (2 * last + 1) + (TILE_SIZE - 1,)) for one in sums]
        made = wide[0].op("concatenate", wide[1], axis=last) if subtracts else wide[0]
        if x.is_sharded() and memory_config is None:
            memory_config = _on_one_core(x, made.shape)
        return target(x, memory_config, None, dtype).wrap(made)


def _on_one_core(x: Tensor, shape: Sequence[int]) -> MemoryConfig:
    """The place of the statistics of a sharded input: its first core."""
    spec = x.memory_config().shard_spec
    assert spec is not None
    first = spec.grid.bounding_box().start
    cut = ShardSpec(CoreRangeSet([CoreRange(first, first)]), [up(shape[-2], TILE_SIZE), shape[-1]])
    return MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, BufferType.L1, cut)


def _column(x: WideValue, at: int) -> WideValue:
    return x.part(len(x.shape) - 1, at, at + 1)


def _with_statistics(name: str, subtracts: bool) -> None:
    doc = f"{name} of rows by the statistics of all parts of the rows."
    served, takes = "slice, sum, divide, rsqrt, multiply", "..., memory_config, program_config, dtype"

    @operation(f"{name}_post_all_gather", served, doc=doc, takes=takes, tiled=_TILED)
    def function(
        input_tensor: TiledTensor,
        stats: Tensor,
        *,
        epsilon: float = 1e-12,
        weight: Tensor | None = None,
        bias: Tensor | None = None,
    ) -> WideValue:
        x, given = input_tensor, stats
        size, last = x.shape[-1], len(x.shape) - 1
        each = TILE_SIZE * (2 if subtracts else 1)
        expect(given.shape[-1] % each == 0, f"the statistics {given.shape} are no multiple of {each} wide")
        parts = given.shape[-1] // each
        count = float(parts if x.is_sharded() else size * parts)  # shards have means, not sums
        sums = given._value.reshape((*given.shape[:-1], given.shape[-1] // each, each))
        means = [
            _column(sums, at).sum(axes=(last,), keepdims=False) / count
            for at in ((0, TILE_SIZE) if subtracts else (0,))
        ]
        means = means[::-1] if x.is_sharded() else means
        handle, spread = x._value, means[0]
        if subtracts:
            handle = handle - means[1]
            spread = spread - means[1] * means[1]
        made = handle * (spread + float(epsilon)).rsqrt()
        for op, operand in (("multiply", weight), ("add", bias)):
            each_of = vector(operand, size, "Beta" if op == "add" else "Gamma")
            made = made if each_of is None else made.op(op, each_of)
        return made


for _name, _subtracts in (("layer_norm", True), ("rms_norm", False)):
    _statistics_of_rows(_name, _subtracts)
    _with_statistics(_name, _subtracts)
