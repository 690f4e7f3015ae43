"""Pools over images with channels last: max_pool2d, avg_pool2d, global and adaptive ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.configs import MemoryConfig
from ...memory.values import DataType, Layout, TensorMemoryLayout
from ...programs.windows import Op2DSliceConfig, pair, sides
from ...tensors.tensor import Tensor
from ..operation import Operation, operation
from ..results import device_tensor, target
from ..wide import Wide
from .planes import flat, goal_of, placed_on, planes

__all__: list[str] = []

_INDICES = 65535  # the greatest that uint16 holds


class Pool:
    """One call: the image as planes [N, C, H, W], and where results go. ``taken``: arguments that say how
    silicon works."""

    def __init__(
        self,
        op: str,
        image: Any,
        size: Sequence[int],
        channels: int,
        *,
        memory_config: MemoryConfig | None = None,
        dram_slice_config: Op2DSliceConfig | None = None,
        applied_shard_scheme: TensorMemoryLayout | None = None,
        dtype: DataType = DataType.BFLOAT16,
        output_layout: Layout = Layout.ROW_MAJOR,
        deallocate_input: bool = False,
        **taken: Any,
    ):
        unknown = taken.keys() - _TAKEN
        if unknown:
            raise TypeError(f"{op}(): incompatible function arguments: unexpected {sorted(unknown)[0]!r}")
        self.op, self.x = op, placed_on(op, image, None)
        check(self.x.dtype.is_float, op, f"Only floats can be pooled, got {self.x.dtype}")
        self.w = Wide(self.x._handle.device)
        self.image = planes(op, self.w, self.x, size, channels)
        self._dtype, self._layout, self._ends = dtype, output_layout, deallocate_input
        self._place = memory_config, applied_shard_scheme, dram_slice_config

    def placed(self, made: Handle, dtype: DataType | None = None) -> Tensor:
        """A result [N, C, OH, OW] as [1, 1, N OH OW, C]."""
        goal = goal_of(self.op, self.x, dtype or self._dtype, self._layout, *self._place)
        rows = flat(self.w, made)
        if goal.dtype is DataType.UINT32:
            rows = kernels.reinterpret(rows, "uint32")
        return goal.wrap(rows)

    def done(self, made: Any) -> Any:
        """The results, after which the input may go."""
        if self._ends:
            self.x.deallocate(True)
        return made


_TAKEN = {"reallocate_halo_output", "config_tensors_in_dram", "compute_kernel_config", "in_place_halo"}
_TAKEN |= {"config_tensor_in_dram"}  # max_pool2d's spelling


def _window(op: str, kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    size, pads = pair(kernel), sides(op, padding)
    text = f"padding {list(pads)} must be at most half of the kernel {list(size)}"
    check(all(2 * pad <= size[at % 2] for at, pad in enumerate(pads)), op, text)
    steps = pair(size if stride is None else stride)
    check(min(*steps, *size) > 0, op, f"kernel {list(size)} and stride {list(steps)} must be greater than 0")
    return {"kernel_shape": size, "strides": steps, "pads": pads, "ceil_mode": bool(ceil_mode)}


@operation("max_pool2d", "max_pool2d, max_pool2d_argmax, transpose, reshape")
def max_pool2d(
    input_tensor: Any,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any = (1, 1),
    ceil_mode: bool = False,
    *,
    return_indices: bool = False,
    **given: Any,
) -> Any:
    """The greatest element of each window of [1, 1, N H W, C] or [N, H, W, C]: [1, 1, N OH OW, C]; with
    ``return_indices`` where in its plane it is, too."""
    op = "ttnn.max_pool2d"
    pool = Pool(op, input_tensor, (batch_size, input_h, input_w), channels, **given)
    attrs = _window(op, kernel_size, stride, padding, ceil_mode) | {"dilations": pair(dilation)}
    made = pool.placed(pool.w("max_pool2d", pool.image, **attrs))
    if not return_indices:
        return pool.done(made)
    places = kernels.run("max_pool2d_argmax", [pool.image], attrs | {"dtype": "int32"})
    kind = DataType.UINT16 if input_h * input_w <= _INDICES else DataType.UINT32
    return pool.done((made, pool.placed(places, kind)))


@operation("avg_pool2d", "avg_pool2d, pad, transpose, reshape")
def avg_pool2d(
    input_tensor: Any,
    batch_size: int,
    input_h: int,
    input_w: int,
    channels: int,
    kernel_size: Any,
    stride: Any,
    padding: Any = (0, 0),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    **given: Any,
) -> Tensor:
    """The mean of each window of [1, 1, N H W, C] or [N, H, W, C]: [1, 1, N OH OW, C]."""
    op = "ttnn.avg_pool2d"
    pool = Pool(op, input_tensor, (batch_size, input_h, input_w), channels, **given)
    attrs = _window(op, kernel_size, stride, padding, ceil_mode)
    if divisor_override is None:
        made = pool.w("avg_pool2d", pool.image, **attrs, count_include_pad=bool(count_include_pad))
    else:
        made = _divided(pool, attrs, divisor_override)
    result: Tensor = pool.done(pool.placed(made))
    return result


def _divided(pool: Pool, attrs: dict[str, Any], divisor: int) -> Handle:
    """Sums over a number: windows over the image with its zeros around it, which all divide by one number."""
    w, (kh, kw), (top, left, bottom, right) = pool.w, attrs["kernel_shape"], attrs["pads"]
    over = [step - 1 if attrs["ceil_mode"] else 0 for step in attrs["strides"]]
    wanted = w("avg_pool2d", pool.image, **attrs).shape[2:] if attrs["ceil_mode"] else None
    pads = (0, 0, top, left, 0, 0, bottom + over[0], right + over[1])
    padded = kernels.run("pad", [pool.image], {"pads": pads})
    made = w("avg_pool2d", padded, kernel_shape=(kh, kw), strides=attrs["strides"])
    if wanted is not None and tuple(made.shape[2:]) != tuple(wanted):
        made = w("slice", made, starts=(0, 0), ends=tuple(wanted), axes=(2, 3))
    return w("multiply", made, kh * kw / divisor)


@operation("global_avg_pool2d", "mean")
def global_avg_pool2d(
    input_tensor: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    **_: Any,
) -> Tensor:
    """The mean of each channel of [N, H, W, C]: [N, 1, 1, C]."""
    op = "ttnn.global_avg_pool2d"
    x = device_tensor(op, input_tensor)
    rank = len(x.shape)
    check(rank >= 2, op, f"the input must have 2 dimensions or more, got {x.shape}")
    axes = (rank - 3, rank - 2) if rank > 2 else (0,)
    goal = target(op, x, memory_config, None, dtype, Layout.TILE)
    return goal.wrap(Wide(x._handle.device)("mean", x._handle, axes=axes, keepdims=True))


def _cuts(size: int, parts: int) -> list[tuple[int, int]]:
    """Where each of ``parts`` windows over ``size`` elements begins and ends: torch's adaptive pools."""
    return [(at * size // parts, -(-(at + 1) * size // parts)) for at in range(parts)]


def _along(w: Wide, op: str, image: Handle, axis: int, parts: int) -> Handle:
    pieces = []
    for start, end in _cuts(image.shape[axis], parts):
        piece = w("slice", image, starts=(start,), ends=(end,), axes=(axis,))
        pieces.append(w(op, piece, axes=(axis,), keepdims=True))
    return w("concatenate", *pieces, axis=axis) if parts > 1 else pieces[0]


def _adaptive(name: str, op: str) -> None:
    full = f"ttnn.{name}"

    def function(
        input_tensor: Any,
        batch_size: int,
        input_h: int,
        input_w: int,
        channels: int,
        output_size: Any,
        **given: Any,
    ) -> Tensor:
        pool = Pool(full, input_tensor, (batch_size, input_h, input_w), channels, **given)
        high, wide = pair(output_size)
        check(0 < high <= input_h and 0 < wide <= input_w, full, f"output_size {(high, wide)} does not fit")
        made = _along(pool.w, op, pool.image, 2, high)
        result: Tensor = pool.done(pool.placed(_along(pool.w, op, made, 3, wide)))
        return result

    function.__doc__ = (
        f"The {op} of each of output_size windows, rows first, then columns; as torch cuts them."
    )
    Operation(name, function, f"slice, {op}, concatenate, transpose")


_adaptive("adaptive_avg_pool2d", "mean")
_adaptive("adaptive_max_pool2d", "max")
