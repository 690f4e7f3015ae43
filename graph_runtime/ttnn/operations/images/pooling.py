"""Pools over images with channels last: max_pool2d, avg_pool2d, global and adaptive pools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...devices.wide_value import WideValue
from ...errors import called, expect, mistaken
from ...memory.configs import MemoryConfig
from ...memory.values import DataType, Layout, TensorMemoryLayout
from ...programs.windows import Op2DSliceConfig, pair, sides
from ...tensors.tensor import Tensor
from ..operation import operation
from .planes import flat, goal_of, placed_on, planes

_INDICES = 65535  # greatest index that uint16 holds


class Pool:
    """One call of a pool: the image as planes [N, C, H, W], and the place of results. ``taken``: arguments
    about how silicon works, which have no effect here."""

    def __init__(
        self,
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
            raise mistaken(f"unexpected {sorted(unknown)[0]!r}")
        self.x = placed_on(image, None)
        expect(self.x.dtype.is_float, f"Only floats can be pooled, got {self.x.dtype}")
        self.image = planes(self.x, size, channels)
        self._dtype, self._layout, self._ends = dtype, output_layout, deallocate_input
        self._place = memory_config, applied_shard_scheme, dram_slice_config

    def placed(self, made: WideValue, dtype: DataType | None = None) -> Tensor:
        """A result [N, C, OH, OW] as a tensor [1, 1, N OH OW, C]."""
        goal = goal_of(self.x, dtype or self._dtype, self._layout, *self._place)
        rows = flat(made)
        if goal.dtype is DataType.UINT32:
            rows = rows.reinterpret("uint32")
        return goal.wrap(rows)

    def done(self, made: Any) -> Any:
        """The results ``made``, unchanged; the pool's input is freed if the caller asked to free it."""
        if self._ends:
            self.x.deallocate(True)
        return made


_TAKEN = {"reallocate_halo_output", "config_tensors_in_dram", "compute_kernel_config", "in_place_halo"}
_TAKEN |= {"config_tensor_in_dram"}  # max_pool2d's spelling of config_tensors_in_dram


def _window(kernel: Any, stride: Any, padding: Any, ceil_mode: bool) -> dict[str, Any]:
    size, pads = pair(kernel), sides(called(), padding)
    text = f"padding {list(pads)} must be at most half of the kernel {list(size)}"
    expect(all(2 * pad <= size[at % 2] for at, pad in enumerate(pads)), text)
    steps = pair(size if stride is None else stride)
    expect(min(*steps, *size) > 0, f"kernel {list(size)} and stride {list(steps)} must be greater than 0")
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
    """The greatest element of each window of [1, 1, N H W, C] or [N, H, W, C], as [1, 1, N OH OW, C]. With
    ``return_indices`` also the index of each greatest element in its plane."""
    pool = Pool(input_tensor, (batch_size, input_h, input_w), channels, **given)
    attrs = _window(kernel_size, stride, padding, ceil_mode) | {"dilations": pair(dilation)}
    made = pool.placed(pool.image.op("max_pool2d", **attrs))
    if not return_indices:
        return pool.done(made)
    places = pool.image.run("max_pool2d_argmax", **attrs | {"dtype": "int32"})
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
    """The mean of each window of [1, 1, N H W, C] or [N, H, W, C], as [1, 1, N OH OW, C]."""
    pool = Pool(input_tensor, (batch_size, input_h, input_w), channels, **given)
    attrs = _window(kernel_size, stride, padding, ceil_mode)
    if divisor_override is None:
        made = pool.image.op("avg_pool2d", **attrs, count_include_pad=bool(count_include_pad))
    else:
        made = _divided(pool, attrs, divisor_override)
    result: Tensor = pool.done(pool.placed(made))
    return result


def _divided(pool: Pool, attrs: dict[str, Any], divisor: int) -> WideValue:
    """The sums of the windows, divided by ``divisor``. The image is padded with zeros, so that all windows
    have the same number of elements."""
    (kh, kw), (top, left, bottom, right) = attrs["kernel_shape"], attrs["pads"]
    over = [step - 1 if attrs["ceil_mode"] else 0 for step in attrs["strides"]]
    wanted = pool.image.op("avg_pool2d", **attrs).shape[2:] if attrs["ceil_mode"] else None
    pads = (0, 0, top, left, 0, 0, bottom + over[0], right + over[1])
    padded = pool.image.run("pad", pads=pads)
    made = padded.op("avg_pool2d", kernel_shape=(kh, kw), strides=attrs["strides"])
    if wanted is not None and tuple(made.shape[2:]) != tuple(wanted):
        made = made.op("slice", starts=(0, 0), ends=tuple(wanted), axes=(2, 3))
    return made * (kh * kw / divisor)


@operation("global_avg_pool2d", "mean", takes="memory_config, dtype", layout=Layout.TILE)
def global_avg_pool2d(input_tensor: WideValue) -> WideValue:
    """The mean of each channel of [N, H, W, C], as [N, 1, 1, C]."""
    rank = len(input_tensor.shape)
    expect(rank >= 2, f"the input must have 2 dimensions or more, got {list(input_tensor.shape)}")
    return input_tensor.mean(axes=(rank - 3, rank - 2) if rank > 2 else (0,))


def _along(op: str, image: WideValue, axis: int, parts: int) -> WideValue:
    """The op applied to each of ``parts`` windows along an axis. The windows begin and end like the windows
    of torch's adaptive pools."""
    size = image.shape[axis]
    cuts = [(at * size // parts, -(-(at + 1) * size // parts)) for at in range(parts)]
    pieces = [image.part(axis, *cut).op(op, axes=(axis,)) for cut in cuts]
    return pieces[0].op("concatenate", *pieces[1:], axis=axis) if parts > 1 else pieces[0]


def _adaptive(name: str, op: str) -> None:
    doc = f"The {op} of each of output_size windows, rows first, then columns; windows are cut as in torch."

    @operation(name, f"slice, {op}, concatenate, transpose", doc=doc)
    def function(
        input_tensor: Any,
        batch_size: int,
        input_h: int,
        input_w: int,
        channels: int,
        output_size: Any,
        **given: Any,
    ) -> Tensor:
        pool = Pool(input_tensor, (batch_size, input_h, input_w), channels, **given)
        high, wide = pair(output_size)
        expect(0 < high <= input_h and 0 < wide <= input_w, f"output_size {(high, wide)} does not fit")
        made = _along(op, pool.image, 2, high)
        result: Tensor = pool.done(pool.placed(_along(op, made, 3, wide)))
        return result


_adaptive("adaptive_avg_pool2d", "mean")
_adaptive("adaptive_max_pool2d", "max")
