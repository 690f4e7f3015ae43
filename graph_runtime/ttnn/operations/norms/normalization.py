"""Softmax and norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...devices.mesh_device import MeshDevice
from ...errors import check
from ...memory.configs import MemoryConfig, ShardSpec
from ...memory.cores import CoreRangeSet
from ...memory.placing import up
from ...memory.values import TILE_SIZE, BufferType, DataType, Layout, TensorMemoryLayout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor, on_device
from ..elementwise.unary import chain
from ..movement.layouts import to_layout
from ..movement.shapes import axis_of
from ..operation import Operation, operation
from ..results import Target, device_tensor, target, tiled_input
from ..wide import Wide

_TILES = "Inputs to softmax must be tilized"


def soft(w: Wide, x: Handle, axis: int, stable: bool, dtype: DataType) -> Handle:
    """softmax, as values of ``dtype``; not ``stable``: exp overflows where x is large, as silicon's does."""
    if stable:
        return w("softmax", x, axis=axis)
    powers = w("exp", x)
    made = w("divide", powers, w("sum", powers, axes=(axis,), keepdims=True))
    return w.packed(made, dtype)


@operation("softmax", "softmax")
def softmax(
    input_tensor: Tensor,
    dim: int = -1,
    *,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    numeric_stable: bool = True,
    **_: Any,
) -> Tensor:
    """exp(x) over its sum along a dimension."""
    x = tiled_input("ttnn.softmax", input_tensor, _TILES)
    axis = axis_of("ttnn.softmax", dim, len(x.shape))
    w = Wide(x._handle.device)
    goal = target("ttnn.softmax", x, memory_config)
    if not x.shape.rank:
        return goal.wrap(w("add", w("multiply", x._handle, 0.0), 1.0))
    stable = numeric_stable or axis != len(x.shape) - 1  # kernels of other dimensions always are
    return goal.wrap(soft(w, x._handle, axis, stable, x.dtype))


def _scaled(
    op: str,
    tensor: Tensor,
    scale: float | None,
    mask: Tensor | None,
    stable: bool,
    causal: bool,
    goal_of: Any,
) -> Tensor:
    x = tiled_input(op, tensor, _TILES)
    w = Wide(x._handle.device)
    made = x._handle if scale is None else w("multiply", x._handle, float(scale))
    if mask is not None:
        device_tensor(op, mask)
        made = _masked_by(op, w, made, *_rows_of_mask(op, w, x, mask), causal)
    return goal_of(x).wrap(soft(w, made, len(x.shape) - 1, stable, x.dtype))


def _rows_of_mask(op: str, w: Wide, x: Tensor, mask: Tensor) -> tuple[Handle, tuple[int, ...]]:
    """A mask and its shape; one in rows of a tile's width, [b, 1, width / 32, 32], is one row."""
    shape, width = tuple(mask.shape), x.shape[-1]
    if mask.layout is Layout.ROW_MAJOR and shape[1:] == (1, width // TILE_SIZE, TILE_SIZE):
        shape = (shape[0], 1, 1, width)
        return w.reshape(w.rows(mask._handle), shape), shape
    check(shape[-1] == width, op, f"the mask's width {shape[-1]} must be the input's {width}")
    return mask._handle, shape


def _masked_by(op: str, w: Wide, x: Handle, handle: Handle, mask: tuple[int, ...], causal: bool) -> Handle:
    """x + mask. A mask of fewer rows: its first row is every row's; a causal one begins again and again."""
    shape = tuple(x.shape)
    rows = mask[-2] if len(mask) > 1 else 1
    text = f"the mask {mask} does not fit {list(shape)}"
    if 1 < rows < shape[-2] and not causal:
        last = len(mask) - 2
        handle = w("slice", handle, starts=(0,), ends=(1,), axes=(last,))
    elif 1 < rows < shape[-2]:
        check(shape[-2] % rows == 0, op, text)
        times = [1] * len(mask)
        times[-2] = shape[-2] // rows
        handle = kernels.run("tile", [handle], {"repeats": tuple(times)})
    made = w("add", x, handle)
    check(tuple(made.shape) == shape, op, text)
    return made


def _masked(name: str, in_place: bool, causal: bool) -> Operation:
    """``causal``: whatever the caller says."""
    full = f"ttnn.{name}"

    def function(
        input_tensor: Tensor,
        scale: float | None = None,
        mask: Tensor | None = None,
        *,
        memory_config: MemoryConfig | None = None,
        program_config: Any = None,
        is_causal_mask: bool = False,
        compute_kernel_config: Any = None,
        numeric_stable: bool = not in_place,
        **_: Any,
    ) -> Tensor:
        def goal_of(x: Tensor) -> Target:
            return target(full, x, memory_config, x if in_place else None)

        return _scaled(full, input_tensor, scale, mask, numeric_stable, causal or is_causal_mask, goal_of)

    function.__doc__ = "softmax of scale x + mask along the last dimension."
    return Operation(name, function, "multiply, add, softmax")


_masked("scale_mask_softmax", False, False)
_masked("scale_mask_softmax_in_place", True, False)
_masked("scale_causal_mask_hw_dims_softmax_in_place", True, True)


@operation("softmax_in_place", "softmax")
def softmax_in_place(
    input_tensor: Tensor,
    dim: int = -1,
    *,
    program_config: Any = None,
    compute_kernel_config: Any = None,
    numeric_stable: bool = True,
    **_: Any,
) -> Tensor:
    """softmax, written into its input."""
    x = tiled_input("ttnn.softmax_in_place", input_tensor, _TILES)
    w = Wide(x._handle.device)
    axis = axis_of("ttnn.softmax_in_place", dim, len(x.shape))
    return target("ttnn.softmax_in_place", x, None, x).wrap(soft(w, x._handle, axis, numeric_stable, x.dtype))


# **************** norms ****************


def vector(w: Wide, x: Tensor | None, size: int, op: str, what: str = "Gamma") -> Handle | None:
    """A weight or bias of one dimension, however it was shaped."""
    if x is None:
        return None
    handle = device_tensor(op, x)._handle
    wide = x.shape[-1] if x.shape.rank else 1
    if wide in (size, up(size, TILE_SIZE)) and x.logical_volume() in (wide, TILE_SIZE * wide):
        return _first(w, handle, size)  # of a row of tiles the first row counts, and no padding
    text = f"{what} tensor dimensions must align with input: {size} elements, got {x.shape}"
    check(x.logical_volume() == size, op, text)
    return w.reshape(w.rows(handle), (size,))


def _first(w: Wide, x: Handle, size: int) -> Handle:
    """The first elements of the first row, as one dimension."""
    row = w("slice", x, starts=(0,) * len(x.shape), ends=(*(1 for _ in x.shape[1:]), size))
    return w.reshape(w.rows(row), (size,))


def _norm(op: str, subtracts: bool, x: Tensor, given: dict[str, Any], epsilon: float) -> tuple[Wide, Handle]:
    w, handle = Wide(x._handle.device), x._handle
    residual = given.get("residual_input_tensor")
    if residual is not None:
        handle = w("add", handle, device_tensor(op, residual)._handle)
    size = x.shape[-1]
    weight, bias = (vector(w, given.get(key), size, op) for key in ("weight", "bias"))
    if subtracts:
        ones = weight if weight is not None else _filled(w, size, 1.0)
        zeros = bias if bias is not None else _filled(w, size, 0.0)
        return w, w("layer_norm", handle, ones, zeros, axis=-1, epsilon=float(epsilon))
    made = w(
        "rms_norm",
        handle,
        weight if weight is not None else _filled(w, size, 1.0),
        axis=-1,
        epsilon=float(epsilon),
    )
    return w, made if bias is None else w("add", made, bias)


def _filled(w: Wide, size: int, value: float) -> Handle:
    return kernels.run("broadcast_to", [w.number(value)], {"shape": (size,)})


_NORM = {"weight", "bias", "residual_input_tensor", "recip_tensor"}


def _normalised(name: str, subtracts: bool) -> Operation:
    full = f"ttnn.{name}"

    def function(
        input_tensor: Tensor,
        *,
        epsilon: float = 1e-12,
        memory_config: MemoryConfig | None = None,
        program_config: Any = None,
        compute_kernel_config: Any = None,
        dtype: DataType | None = None,
        **given: Any,
    ) -> Tensor:
        unknown = given.keys() - _NORM
        if unknown:
            raise TypeError(f"{full}(): incompatible function arguments: unexpected {sorted(unknown)[0]!r}")
        text = f"{full.replace('.', '::')} does not support ROW_MAJOR input tensors. Use TILE layout."
        x = tiled_input(full, input_tensor, text)
        goal = target(full, x, memory_config, None, dtype)
        if not math.prod(x.shape):
            return goal.wrap(kernels.copied(x._handle))
        return goal.wrap(_norm(full, subtracts, x, given, epsilon)[1])

    what = "minus its mean, over its standard deviation" if subtracts else "over its root mean square"
    function.__doc__ = f"The last dimension {what}, times weight, plus bias; a residual is added before."
    return Operation(name, function, name)


_normalised("layer_norm", True)
_normalised("rms_norm", False)


@operation("create_layer_norm_reciprocals")
def create_layer_norm_reciprocals(device: MeshDevice, core_range_set: CoreRangeSet, width: int) -> Tensor:
    """1 / 1 .. 1 / width in float32 on each core: layer_norm takes it, and does not need it."""
    cores = core_range_set.num_cores()
    values = np.tile((1 / np.arange(1, width + 1)).astype(np.float32), (cores, 1))
    spec = ShardSpec(core_range_set, [1, width])
    config = MemoryConfig(TensorMemoryLayout.HEIGHT_SHARDED, BufferType.L1, spec)
    name = "ttnn.create_layer_norm_reciprocals"
    return on_device(name, values, DataType.FLOAT32, Layout.ROW_MAJOR, device, config)


@operation("batch_norm", "mean, subtract, multiply, rsqrt, add")
def batch_norm(
    input: Tensor,
    *,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    training: bool = False,
    eps: float = 1e-5,
    momentum: float = 0.1,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    output: Tensor | None = None,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    **_: Any,
) -> Tensor:
    """Channels of [N, C, H, W] normalised by running statistics, or by their own with ``training``, which
    updates the running ones in place."""
    op = "ttnn.batch_norm"
    x = tiled_input(op, input, "batch_norm needs tiles")
    check(len(x.shape) == 4, op, f"the input must have 4 dimensions, got {x.shape}")
    w = Wide(x._handle.device)
    if training:
        middle, spread = _statistics(w, x._handle)
        _update(w, x, middle, spread, running_mean, running_var, momentum)
    else:
        check(
            running_mean is not None and running_var is not None,
            op,
            "running_mean and running_var must be defined in evaluation mode",
        )
        assert running_mean is not None
        assert running_var is not None
        middle, spread = running_mean._handle, running_var._handle
    scale = w("rsqrt", w("add", spread, float(eps)))
    made = w("multiply", w("subtract", x._handle, middle), scale)
    made = made if weight is None else w("multiply", made, weight._handle)
    made = made if bias is None else w("add", made, bias._handle)
    return target(op, x, memory_config, output).wrap(made)


def _statistics(w: Wide, x: Handle) -> tuple[Handle, Handle]:
    """Mean and biased variance of each channel, [1, C, 1, 1]."""
    middle = w("mean", x, axes=(0, 2, 3), keepdims=True)
    count = x.shape[0] * x.shape[2] * x.shape[3]
    total = w("sum_squares", w("subtract", x, middle), axes=(0, 2, 3), keepdims=True)
    return middle, w("divide", total, float(count))


def _update(w: Wide, x: Tensor, middle: Handle, spread: Handle, mean: Any, var: Any, momentum: float) -> None:
    for running, batch in ((mean, middle), (var, spread)):
        if running is not None:
            old = w("multiply", running._handle, 1.0 - momentum)
            made = w("add", old, w("multiply", batch, float(momentum)))
            kernels.overwrite(running._handle, kernels.convert(made, running._handle.layout))


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
