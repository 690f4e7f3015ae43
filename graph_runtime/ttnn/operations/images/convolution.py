"""Convolutions: conv1d, conv2d, conv_transpose2d."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ...memory.values import DataType, Layout, MathFidelity, PaddingMode
from ...programs.configs import numerics
from ...programs.windows import Conv2dConfig, Op2DSliceConfig, pair, sides
from ...tensors.tensor import Tensor
from ..elementwise.unary import chain
from ..operation import operation
from .conv_weights import Kernel, bias_row, kernel_of, prepared_bias, prepared_weight, weight_of, weights_type
from .planes import flat, goal_of, placed_on, planes

_FOLDED = 16  # fewest elements of windows side by side that are folded: moving small ones takes longer


class Convolution:
    """One call of a convolution, with its operands checked and on the device. ``stretch``: distance between
    the elements of the image in a transposed convolution, with zeros between them; ``pads``: (top, left,
    bottom, right)."""

    def __init__(
        self,
        image: Any,
        weight: Any,
        bias: Any,
        kernel: Kernel,
        device: Any,
        config: Conv2dConfig | None,
        mirrored: bool = True,
    ):
        self.kernel, self.config = kernel, config or Conv2dConfig()
        mode = self.config.padding_mode  # type: ignore[attr-defined]
        self.replicates = mode is PaddingMode.Replicate
        self.x = placed_on(image, device)
        kind = weights_type(config)
        self.weight = prepared_weight(kernel, weight, self.x._device, kind, mirrored)
        outputs = kernel.outputs
        self.bias = None if bias is None else prepared_bias(bias, outputs, self.x._device, kind)

    def result(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        pads: Sequence[int],
        dilation: Sequence[int],
        compute_config: Any,
        stretch: Sequence[int] = (1, 1),
    ) -> WideValue:
        """The values [N, O, OH, OW] for an image of ``size`` (N, H, W)."""
        kernel = self.kernel
        text = f"stride {list(stride)} and dilation {list(dilation)} must be greater than 0"
        expect(min(*stride, *dilation) > 0, text)
        image = planes(self.x, size, kernel.inputs)
        image = _stretched(image, stretch)
        if self.replicates:
            image, pads = _with_edges(image, pads), (0, 0, 0, 0)
        elif min(pads) < 0:
            image = image.run("pad", pads=(0, 0, *pads[:2], 0, 0, *pads[2:]))
            pads = (0, 0, 0, 0)
        room = [n + a + b for n, a, b in zip(image.shape[2:], pads[:2], pads[2:], strict=True)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel.size, dilation, strict=True)]
        text = f"the window of {reach} is larger than the padded image of {room}"
        expect(all(a <= b for a, b in zip(reach, room, strict=True)), text)
        weights = [weight_of(kernel, self.weight._value)]
        apart = tuple(stride) == tuple(kernel.size) and max(dilation) == kernel.groups == 1
        if apart and math.prod(kernel.size) >= _FOLDED:
            image, weights[0] = _folded(image, weights[0], pads)
            stride, pads = (1, 1), (0, 0, 0, 0)
        if self.bias is not None:
            weights.append(bias_row(self.bias, kernel.outputs))
        attrs: dict[str, Any] = {
            "strides": tuple(stride),
            "pads": tuple(pads),
            "dilations": tuple(dilation),
            "group": kernel.groups,
        }
        attrs |= self._words(compute_config)
        return image.run("conv2d", *weights, to=kernels.WIDE, **attrs)

    def _words(self, compute_config: Any) -> dict[str, str]:
        """Numerics attributes of the op: HiFi4 by default, with sums in 32 bits if image and weight are
        float32."""
        both = self.x.dtype is DataType.FLOAT32 and self.weight.dtype is DataType.FLOAT32
        words = numerics(compute_config, MathFidelity.HiFi4)
        return words if compute_config is not None or both else words | {"dst": "bf16"}

    def placed(
        self,
        made: WideValue,
        dtype: DataType | None,
        memory_config: MemoryConfig | None,
        slices: Op2DSliceConfig | None,
    ) -> Tensor:
        """The result as a tensor [1, 1, N OH OW, O], after the activation of the configuration."""
        config: Any = self.config
        kind = dtype or config.dtype or self.x.dtype
        layout, scheme = config.output_layout, config.shard_layout
        goal = goal_of(self.x, kind, layout, memory_config, scheme, slices)
        if config.activation is not None:
            wide = Tensor.of(made.handle, DataType.FLOAT32, Layout.TILE, DRAM_MEMORY_CONFIG, goal.device)
            made = chain(wide, [config.activation])._value
        done = goal.wrap(flat(made))
        if config.deallocate_activation and self.x.is_sharded():
            self.x.deallocate(True)
        return done

    def answer(self, made: Tensor, size: Any, with_size: bool, with_weights: bool) -> Any:
        """The result alone, or a tuple with the size and the weights that the caller asks for."""
        more = [size] if with_size else []
        if with_weights:
            more.append((self.weight, self.bias))
        return (made, *more) if more else made


def _stretched(image: WideValue, by: Sequence[int]) -> WideValue:
    """The image with ``by`` - 1 zeros between elements."""
    if tuple(by) == (1, 1):
        return image
    n, channels, height, width = image.shape
    cut = image.reshape((n, channels, height, 1, width, 1))
    padded = cut.run("pad", pads=(*(0,) * 9, by[0] - 1, 0, by[1] - 1))
    made = padded.reshape((n, channels, height * by[0], width * by[1]))
    ends = ((height - 1) * by[0] + 1, (width - 1) * by[1] + 1)
    return made.op("slice", starts=(0, 0), ends=ends, axes=(2, 3))


def _folded(image: WideValue, weight: WideValue, pads: Sequence[int]) -> tuple[WideValue, WideValue]:
    """Image and weight of the same convolution with a window of one element, for windows that lie side by
    side: each becomes the channels of one element, as in ttnn (kernel stride folding, conv2d_utils.cpp)."""
    outputs, channels, rows, columns = weight.shape
    if any(pads):
        image = image.run("pad", pads=(0, 0, *pads[:2], 0, 0, *pads[2:]))
    n, _, height, width = image.shape
    down, across = height // rows, width // columns
    if (height, width) != (down * rows, across * columns):
        image = image.op("slice", starts=(0, 0), ends=(down * rows, across * columns), axes=(2, 3))
    windows = image.reshape((n, channels, down, rows, across, columns)).run(
        "transpose", perm=(0, 1, 3, 5, 2, 4)
    )
    inputs = channels * rows * columns
    return windows.reshape((n, inputs, down, across)), weight.reshape((outputs, inputs, 1, 1))


def _with_edges(image: WideValue, pads: Sequence[int]) -> WideValue:
    """The image with its outer rows and columns repeated around it."""
    for axis, before, after in ((2, pads[0], pads[2]), (3, pads[1], pads[3])):
        if before or after:
            size = image.shape[axis]
            places = np.clip(np.arange(-before, size + after), 0, size - 1).astype(np.int32)
            image = image.run("take", image.scalar(places, "int32"), axis=axis)
    return image


@operation("conv2d", "conv2d, transpose, reshape")
def conv2d(
    *,
    input_tensor: Any,
    weight_tensor: Any,
    device: Any = None,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Any,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    dtype: DataType | None = None,
    bias_tensor: Any = None,
    conv_config: Conv2dConfig | None = None,
    compute_config: Any = None,
    memory_config: MemoryConfig | None = None,
    slice_config: Op2DSliceConfig | None = None,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
) -> Any:
    """The convolution of an image [N, H, W, I], or flat [1, 1, N H W, I], with a weight [O, I / groups, kh,
    kw]: [1, 1, N OH OW, O]."""
    kernel = kernel_of(kernel_size, in_channels, out_channels, groups)
    call = Convolution(input_tensor, weight_tensor, bias_tensor, kernel, device, conv_config)
    size = (batch_size, input_height, input_width)
    made = call.result(size, pair(stride), sides(called(), padding), pair(dilation), compute_config)
    done = call.placed(made, dtype, memory_config, slice_config)
    return call.answer(done, tuple(made.shape[2:]), return_output_dim, return_weights_and_bias)


@operation("conv1d", "conv2d, transpose, reshape")
def conv1d(
    *,
    input_tensor: Any,
    weight_tensor: Any,
    device: Any = None,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_length: int,
    kernel_size: int,
    stride: int = 1,
    padding: Any = 0,
    dilation: int = 1,
    groups: int = 1,
    dtype: DataType | None = None,
    bias_tensor: Any = None,
    conv_config: Conv2dConfig | None = None,
    compute_config: Any = None,
    memory_config: MemoryConfig | None = None,
    slice_config: Op2DSliceConfig | None = None,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
) -> Any:
    """The convolution of [N, L, I] with a weight [O, I / groups, k]: [1, 1, N OL, O]."""
    kernel = kernel_of((1, kernel_size), in_channels, out_channels, groups)
    call = Convolution(input_tensor, weight_tensor, bias_tensor, kernel, device, conv_config)
    before, after = (padding, padding) if isinstance(padding, int) else (padding[0], padding[-1])
    size, pads = (batch_size, 1, input_length), (0, before, 0, after)
    made = call.result(size, (1, stride), pads, (1, dilation), compute_config)
    done = call.placed(made, dtype, memory_config, slice_config)
    return call.answer(done, made.shape[3], return_output_dim, return_weights_and_bias)


@operation("conv_transpose2d", "pad, conv2d, take, transpose, reshape")
def conv_transpose2d(
    *,
    input_tensor: Any,
    weight_tensor: Any,
    device: Any = None,
    in_channels: int,
    out_channels: int,
    batch_size: int,
    input_height: int,
    input_width: int,
    kernel_size: Any,
    stride: Any = (1, 1),
    padding: Any = (0, 0),
    output_padding: Any = (0, 0),
    dilation: Any = (1, 1),
    groups: int = 1,
    dtype: DataType | None = None,
    bias_tensor: Any = None,
    conv_config: Conv2dConfig | None = None,
    compute_config: Any = None,
    memory_config: MemoryConfig | None = None,
    dram_slice_config: Op2DSliceConfig | None = None,
    mirror_kernel: bool = True,
    return_output_dim: bool = False,
    return_weights_and_bias: bool = False,
) -> Any:
    """The gradient of conv2d by its input. It is computed as a convolution of the image, with zeros between
    its elements, with the mirrored weight [I, O / groups, kh, kw]; with ``mirror_kernel`` False the caller
    has mirrored the weight already."""
    kernel = kernel_of(kernel_size, in_channels, out_channels, groups, transposed=True)
    given = (input_tensor, weight_tensor, bias_tensor, kernel, device, conv_config, mirror_kernel)
    call = Convolution(*given)
    top, left, bottom, right = sides(called(), padding)
    (kh, kw), (dh, dw), (oh, ow) = kernel.size, pair(dilation), pair(output_padding)
    high, wide = dh * (kh - 1), dw * (kw - 1)
    pads = (high - top, wide - left, high - bottom + oh, wide - right + ow)
    size = (batch_size, input_height, input_width)
    made = call.result(size, (1, 1), pads, (dh, dw), compute_config, pair(stride))
    done = call.placed(made, dtype, memory_config, dram_slice_config)
    return call.answer(done, tuple(made.shape[2:]), return_output_dim, return_weights_and_bias)
