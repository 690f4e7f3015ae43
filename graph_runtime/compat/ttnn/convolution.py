"""Convolutions: conv1d, conv2d, conv_transpose2d, and the preparation of their weights.

A prepared weight is the matrix that a convolution multiplies by: [1, 1, kh kw I, O] in tiles, I (of a group)
and O filled up to 32, in the type that the configuration names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...run.tensors.tensor import Tensor as Handle
from . import kernels
from .errors import check
from .kernel_configs import numerics
from .memory import DRAM_MEMORY_CONFIG, MemoryConfig, up
from .operation import Operation, operation
from .results import Target
from .tensor import Tensor
from .unary import chain
from .values import TILE_SIZE, DataType, Layout, MathFidelity, PaddingMode
from .wide import Wide
from .windows import Conv2dConfig, Op2DSliceConfig, flat, goal_of, pair, placed_on, planes, sides

__all__: list[str] = []


@dataclass(frozen=True)
class Kernel:
    """What a weight is: (rows, columns), channels in and out, groups; ``transposed``: [I, O / groups, ..]."""

    size: tuple[int, int]
    inputs: int
    outputs: int
    groups: int
    transposed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of a weight that is not prepared."""
        if self.transposed:
            return (self.inputs, self.outputs // self.groups, *self.size)
        return (self.outputs, self.inputs // self.groups, *self.size)

    @property
    def prepared(self) -> tuple[int, ...]:
        rows = self.size[0] * self.size[1] * up(self.inputs // self.groups, TILE_SIZE)
        return (1, 1, rows, up(self.outputs, TILE_SIZE))


def _kernel(
    op: str, size: Any, inputs: int, outputs: int, groups: int | None, transposed: bool = False
) -> Kernel:
    groups = groups or 1
    text = f"{inputs} input and {outputs} output channels cannot be cut into {groups} groups"
    check(inputs % groups == 0 and outputs % groups == 0, op, text)
    return Kernel(pair(size), inputs, outputs, groups, transposed)


def _as_outputs_first(w: Wide, kernel: Kernel, weight: Handle, mirrored: bool) -> Handle:
    """[O, I / groups, kh, kw] of a weight as the caller has it. A transposed convolution is one by the weight
    turned about; ``mirrored`` False: it has been turned before."""
    if not kernel.transposed:
        return weight
    share = kernel.outputs // kernel.groups, kernel.inputs // kernel.groups
    cut = w.reshape(w.rows(weight), (kernel.groups, share[1], share[0], *kernel.size))
    turned = kernels.run("transpose", [cut], {"perm": (0, 2, 1, 3, 4)})
    made = w.reshape(w.rows(turned), (kernel.outputs, share[1], *kernel.size))
    for axis in (2, 3) if mirrored else ():
        made = _reversed(w, made, axis)
    return made


def _reversed(w: Wide, x: Handle, axis: int) -> Handle:
    order = w.number(np.arange(x.shape[axis] - 1, -1, -1, dtype=np.int32), "int32")
    return kernels.run("take", [x, order], {"axis": axis})


def _prepared(
    op: str, kernel: Kernel, weight: Any, device: Any, dtype: DataType | None, mirrored: bool = True
) -> Tensor:
    """The matrix of a weight, itself where it is prepared. Raises RuntimeError for another shape."""
    x = placed_on(op, weight, device)
    if tuple(x.shape) == kernel.prepared and x.layout is Layout.TILE:
        return x
    wanted = kernel.shape
    shape = tuple(x.shape) if len(x.shape) == 4 else (*x.shape[:2], 1, *x.shape[2:])
    text = f"the weight must have shape {list(wanted)}, or be prepared {list(kernel.prepared)}: got {x.shape}"
    check(shape == wanted, op, text)
    w = Wide(x._handle.device)
    first = _as_outputs_first(w, kernel, w.reshape(w.rows(x._handle), shape), mirrored)
    matrix = kernels.run("transpose", [first], {"perm": (2, 3, 1, 0)})
    _, _, rows, cols = matrix.shape
    more = up(rows, TILE_SIZE) - rows, up(cols, TILE_SIZE) - cols
    if any(more):
        matrix = kernels.run("pad", [matrix], {"pads": (0, 0, 0, 0, 0, 0, *more)})
    assert x._device is not None
    goal = Target(op, dtype or x.dtype, Layout.TILE, DRAM_MEMORY_CONFIG, x._device)
    return goal.wrap(w.reshape(w.rows(matrix), kernel.prepared))


def _unprepared(w: Wide, kernel: Kernel, matrix: Handle) -> Handle:
    """[O, I / groups, kh, kw] of a prepared weight, with the values that its type holds."""
    share = kernel.inputs // kernel.groups
    cut = w.reshape(w.rows(matrix), (*kernel.size, up(share, TILE_SIZE), matrix.shape[-1]))
    cut = w("slice", cut, starts=(0, 0), ends=(share, kernel.outputs), axes=(2, 3))
    return kernels.run("transpose", [cut], {"perm": (3, 2, 0, 1)})


def _prepared_bias(op: str, bias: Any, outputs: int, device: Any, dtype: DataType | None) -> Tensor:
    """A bias as one row of tiles."""
    x = placed_on(op, bias, device)
    wide = x.shape[-1] if len(x.shape) else 0
    text = f"the bias must have {outputs} elements, got {x.shape}"
    check(wide == outputs or (x.layout is Layout.TILE and wide == up(outputs, TILE_SIZE)), op, text)
    if x.layout is Layout.TILE:
        return x
    check(x.logical_volume() == outputs, op, text)
    w = Wide(x._handle.device)
    assert x._device is not None
    goal = Target(op, dtype or x.dtype, Layout.TILE, DRAM_MEMORY_CONFIG, x._device)
    return goal.wrap(w.reshape(w.rows(x._handle), (1, 1, 1, outputs)))


def _bias_row(w: Wide, bias: Tensor, outputs: int) -> Handle:
    rank = len(bias.shape)
    ends = (*(1,) * (rank - 1), outputs)
    row = w("slice", bias._handle, starts=(0,) * rank, ends=ends)
    return w.reshape(w.rows(row), (outputs,))


def _weights_type(config: Conv2dConfig | None) -> DataType | None:
    return None if config is None else config.weights_dtype  # type: ignore[attr-defined]


class Convolution:
    """One call: the operands on the device, checked. ``stretch``: zeros between the elements of the image, of
    a transposed convolution; ``pads``: (top, left, bottom, right)."""

    def __init__(
        self,
        op: str,
        image: Any,
        weight: Any,
        bias: Any,
        kernel: Kernel,
        device: Any,
        config: Conv2dConfig | None,
        mirrored: bool = True,
    ):
        self.op, self.kernel, self.config = op, kernel, config or Conv2dConfig()
        mode = self.config.padding_mode  # type: ignore[attr-defined]
        self.replicates = mode is PaddingMode.Replicate
        self.x = placed_on(op, image, device)
        kind = _weights_type(config)
        self.weight = _prepared(op, kernel, weight, self.x._device, kind, mirrored)
        outputs = kernel.outputs
        self.bias = None if bias is None else _prepared_bias(op, bias, outputs, self.x._device, kind)
        self.w = Wide(self.x._handle.device)

    def result(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        pads: Sequence[int],
        dilation: Sequence[int],
        compute_config: Any,
        stretch: Sequence[int] = (1, 1),
    ) -> Handle:
        """[N, O, OH, OW] of an image of ``size`` (N, H, W)."""
        w, kernel = self.w, self.kernel
        image = planes(self.op, w, self.x, size, kernel.inputs)
        image = _stretched(w, image, stretch)
        if self.replicates:
            image, pads = _with_edges(w, image, pads), (0, 0, 0, 0)
        elif min(pads) < 0:
            image = kernels.run("pad", [image], {"pads": (0, 0, *pads[:2], 0, 0, *pads[2:])})
            pads = (0, 0, 0, 0)
        room = [n + a + b for n, a, b in zip(image.shape[2:], pads[:2], pads[2:], strict=True)]
        reach = [(k - 1) * d + 1 for k, d in zip(kernel.size, dilation, strict=True)]
        text = f"the window of {reach} is larger than the padded image of {room}"
        check(all(a <= b for a, b in zip(reach, room, strict=True)), self.op, text)
        inputs = [image, _unprepared(w, kernel, self.weight._handle)]
        if self.bias is not None:
            inputs.append(_bias_row(w, self.bias, kernel.outputs))
        attrs = {
            "strides": tuple(stride),
            "pads": tuple(pads),
            "dilations": tuple(dilation),
            "group": kernel.groups,
        }
        made = kernels.run("conv2d", inputs, attrs | self._words(compute_config), kernels.WIDE)
        return made

    def _words(self, compute_config: Any) -> dict[str, str]:
        """By default HiFi4, with sums in 32 bits where image and weight are float32."""
        both = self.x.dtype is DataType.FLOAT32 and self.weight.dtype is DataType.FLOAT32
        if compute_config is None and both:
            return {}
        words = numerics(compute_config, MathFidelity.HiFi4)
        return words if compute_config is not None else words | {"dst": "bf16"}

    def placed(
        self,
        made: Handle,
        dtype: DataType | None,
        memory_config: MemoryConfig | None,
        slices: Op2DSliceConfig | None,
    ) -> Tensor:
        """The result after its activation, [1, 1, N OH OW, O]."""
        config: Any = self.config
        kind = dtype or config.dtype or self.x.dtype
        layout, scheme = config.output_layout, config.shard_layout
        goal = goal_of(self.op, self.x, kind, layout, memory_config, scheme, slices)
        if config.activation is not None:
            wide = Tensor.of(made, DataType.FLOAT32, Layout.TILE, DRAM_MEMORY_CONFIG, goal.device)
            made = chain(wide, [config.activation])._handle
        done = goal.wrap(flat(self.w, made))
        if config.deallocate_activation and self.x.is_sharded():
            self.x.deallocate(True)
        return done

    def answer(self, made: Tensor, size: Any, with_size: bool, with_weights: bool) -> Any:
        """The result alone, or with what was asked for besides."""
        more = [size] if with_size else []
        if with_weights:
            more.append((self.weight, self.bias))
        return (made, *more) if more else made


def _stretched(w: Wide, image: Handle, by: Sequence[int]) -> Handle:
    """``by`` - 1 zeros between elements."""
    if tuple(by) == (1, 1):
        return image
    n, channels, height, width = image.shape
    cut = w.reshape(w.rows(image), (n, channels, height, 1, width, 1))
    padded = kernels.run("pad", [cut], {"pads": (*(0,) * 9, by[0] - 1, 0, by[1] - 1)})
    made = w.reshape(w.rows(padded), (n, channels, height * by[0], width * by[1]))
    ends = ((height - 1) * by[0] + 1, (width - 1) * by[1] + 1)
    return w("slice", made, starts=(0, 0), ends=ends, axes=(2, 3))


def _with_edges(w: Wide, image: Handle, pads: Sequence[int]) -> Handle:
    """The image with its outer rows and columns repeated around it."""
    for axis, before, after in ((2, pads[0], pads[2]), (3, pads[1], pads[3])):
        if before or after:
            size = image.shape[axis]
            places = np.clip(np.arange(-before, size + after), 0, size - 1).astype(np.int32)
            image = kernels.run("take", [image, w.number(places, "int32")], {"axis": axis})
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
    """[N, H, W, I], or flat [1, 1, N H W, I], convolved by [O, I / groups, kh, kw]: [1, 1, N OH OW, O]."""
    op = "ttnn.conv2d"
    kernel = _kernel(op, kernel_size, in_channels, out_channels, groups)
    call = Convolution(op, input_tensor, weight_tensor, bias_tensor, kernel, device, conv_config)
    size = (batch_size, input_height, input_width)
    made = call.result(size, pair(stride), sides(op, padding), pair(dilation), compute_config)
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
    """[N, L, I] convolved by [O, I / groups, k]: [1, 1, N OL, O]."""
    op = "ttnn.conv1d"
    kernel = _kernel(op, (1, kernel_size), in_channels, out_channels, groups)
    call = Convolution(op, input_tensor, weight_tensor, bias_tensor, kernel, device, conv_config)
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
    """The gradient of conv2d by its input, as a convolution of the image with zeros between its elements by
    the weight [I, O / groups, kh, kw] turned about (``mirror_kernel`` False: the caller did that)."""
    op = "ttnn.conv_transpose2d"
    kernel = _kernel(op, kernel_size, in_channels, out_channels, groups, transposed=True)
    given = (input_tensor, weight_tensor, bias_tensor, kernel, device, conv_config, mirror_kernel)
    call = Convolution(op, *given)
    top, left, bottom, right = sides(op, padding)
    (kh, kw), (dh, dw), (oh, ow) = kernel.size, pair(dilation), pair(output_padding)
    high, wide = dh * (kh - 1), dw * (kw - 1)
    pads = (high - top, wide - left, high - bottom + oh, wide - right + ow)
    size = (batch_size, input_height, input_width)
    made = call.result(size, (1, 1), pads, (dh, dw), compute_config, pair(stride))
    done = call.placed(made, dtype, memory_config, dram_slice_config)
    return call.answer(done, tuple(made.shape[2:]), return_output_dim, return_weights_and_bias)


def _preparation(name: str, transposed: bool) -> None:
    def weights(
        *,
        weight_tensor: Any,
        weights_format: str = "",
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        groups: int = 1,
        device: Any,
        conv_config: Conv2dConfig | None = None,
        mirror_kernel: bool = True,
        **_: Any,
    ) -> Tensor:
        op = f"ttnn.prepare_{name}_weights"
        kernel = _kernel(op, kernel_size, in_channels, out_channels, groups, transposed)
        return _prepared(op, kernel, weight_tensor, device, _weights_type(conv_config), mirror_kernel)

    def bias(
        *,
        bias_tensor: Any,
        out_channels: int,
        device: Any,
        conv_config: Conv2dConfig | None = None,
        **_: Any,
    ) -> Tensor:
        op = f"ttnn.prepare_{name}_bias"
        return _prepared_bias(op, bias_tensor, out_channels, device, _weights_type(conv_config))

    weights.__doc__ = "The weight as the matrix that the convolution multiplies by, on the device."
    bias.__doc__ = "The bias as the convolution adds it, on the device."
    Operation(f"prepare_{name}_weights", weights, "transpose, pad, reshape")
    Operation(f"prepare_{name}_bias", bias, "reshape")


_preparation("conv", False)
_preparation("conv_transpose2d", True)
