"""Weights of convolutions, and their preparation.

A prepared weight is the matrix that a convolution multiplies by: [1, 1, kh kw I, O] in tiles, where I (input
channels of a group) and O (output channels) are rounded up to multiples of 32. Its type is the
configuration's weights_dtype.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...devices.wide_value import WideValue
from ...errors import expect, mistaken
from ...memory.configs import DRAM_MEMORY_CONFIG
from ...memory.placing import up
from ...memory.values import TILE_SIZE, DataType, Layout
from ...programs.windows import Conv2dConfig, pair
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target
from .planes import placed_on


@dataclass(frozen=True)
class Kernel:
    """Properties of a weight: ``size`` (rows, columns), numbers of input channels, output channels and
    groups. ``transposed``: whether the weight is [I, O / groups, ..]."""

    size: tuple[int, int]
    inputs: int
    outputs: int
    groups: int
    transposed: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a weight that is not prepared."""
        if self.transposed:
            return (self.inputs, self.outputs // self.groups, *self.size)
        return (self.outputs, self.inputs // self.groups, *self.size)

    @property
    def prepared(self) -> tuple[int, ...]:
        rows = self.size[0] * self.size[1] * up(self.inputs // self.groups, TILE_SIZE)
        return (1, 1, rows, up(self.outputs, TILE_SIZE))


def kernel_of(size: Any, inputs: int, outputs: int, groups: int | None, transposed: bool = False) -> Kernel:
    groups = groups or 1
    text = f"{inputs} input and {outputs} output channels cannot be cut into {groups} groups"
    expect(inputs % groups == 0 and outputs % groups == 0, text)
    return Kernel(pair(size), inputs, outputs, groups, transposed)


def _as_outputs_first(kernel: Kernel, weight: WideValue, mirrored: bool) -> WideValue:
    """A weight in the caller's form, as [O, I / groups, kh, kw]. A transposed convolution is a convolution by
    the mirrored weight; if ``mirrored`` is False, the caller has mirrored it already."""
    if not kernel.transposed:
        return weight
    share = kernel.outputs // kernel.groups, kernel.inputs // kernel.groups
    cut = weight.reshape((kernel.groups, share[1], share[0], *kernel.size))
    turned = cut.run("transpose", perm=(0, 2, 1, 3, 4))
    made = turned.reshape((kernel.outputs, share[1], *kernel.size))
    for axis in (2, 3) if mirrored else ():
        made = _reversed(made, axis)
    return made


def _reversed(x: WideValue, axis: int) -> WideValue:
    order = x.scalar(np.arange(x.shape[axis] - 1, -1, -1, dtype=np.int32), "int32")
    return x.run("take", order, axis=axis)


def prepared_weight(
    kernel: Kernel, weight: Any, device: Any, dtype: DataType | None, mirrored: bool = True
) -> Tensor:
    """The matrix of a weight; a weight that is prepared is returned unchanged. Raises RuntimeError for
    another shape."""
    x = placed_on(weight, device)
    if tuple(x.shape) == kernel.prepared and x.layout is Layout.TILE:
        return x
    wanted = kernel.shape
    shape = tuple(x.shape) if len(x.shape) == 4 else (*x.shape[:2], 1, *x.shape[2:])
    text = f"the weight must have shape {list(wanted)}, or be prepared {list(kernel.prepared)}: got {x.shape}"
    expect(shape == wanted, text)
    first = _as_outputs_first(kernel, x._value.reshape(shape), mirrored)
    matrix = first.run("transpose", perm=(2, 3, 1, 0))
    _, _, rows, cols = matrix.shape
    more = up(rows, TILE_SIZE) - rows, up(cols, TILE_SIZE) - cols
    if any(more):
        matrix = matrix.run("pad", pads=(0, 0, 0, 0, 0, 0, *more))
    assert x._device is not None
    goal = Target(dtype or x.dtype, Layout.TILE, DRAM_MEMORY_CONFIG, x._device)
    return goal.wrap(matrix.reshape(kernel.prepared))


def weight_of(kernel: Kernel, matrix: WideValue) -> WideValue:
    """A prepared weight as [O, I / groups, kh, kw]; its values stay rounded to the type of the prepared
    weight."""
    share = kernel.inputs // kernel.groups
    cut = matrix.reshape((*kernel.size, up(share, TILE_SIZE), matrix.shape[-1]))
    cut = cut.op("slice", starts=(0, 0), ends=(share, kernel.outputs), axes=(2, 3))
    return cut.run("transpose", perm=(3, 2, 0, 1))


def prepared_bias(bias: Any, outputs: int, device: Any, dtype: DataType | None) -> Tensor:
    """A bias as one row of tiles."""
    x = placed_on(bias, device)
    wide = x.shape[-1] if len(x.shape) else 0
    text = f"the bias must have {outputs} elements, got {x.shape}"
    expect(wide == outputs or (x.layout is Layout.TILE and wide == up(outputs, TILE_SIZE)), text)
    if x.layout is Layout.TILE:
        return x
    expect(x.logical_volume() == outputs, text)
    assert x._device is not None
    goal = Target(dtype or x.dtype, Layout.TILE, DRAM_MEMORY_CONFIG, x._device)
    return goal.wrap(x._value.reshape((1, 1, 1, outputs)))


def bias_row(bias: Tensor, outputs: int) -> WideValue:
    rank = len(bias.shape)
    ends = (*(1,) * (rank - 1), outputs)
    row = bias._value.op("slice", starts=(0,) * rank, ends=ends)
    return row.reshape((outputs,))


def weights_type(config: Conv2dConfig | None) -> DataType | None:
    return None if config is None else config.weights_dtype  # type: ignore[attr-defined]


# arguments of the later convolution, by which silicon chooses the order of a weight's elements; the order
# here is always the same
_CALLED_WITH = frozenset(
    "weights_format batch_size dilation has_bias input_dtype input_height input_layout input_memory_config "
    "input_width padding stride slice_config dram_slice_config compute_config output_dtype in_channels "
    "kernel_size groups".split()
)


def _check_called_with(given: dict[str, Any]) -> None:
    if unknown := sorted(given.keys() - _CALLED_WITH):
        raise mistaken(f"unexpected {unknown[0]!r}")


def _preparation(name: str, transposed: bool) -> None:
    doc = "The weight as the matrix that the convolution multiplies by, on the device."

    @operation(f"prepare_{name}_weights", "transpose, pad, reshape", doc=doc)
    def weights(
        *,
        weight_tensor: Any,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        groups: int = 1,
        device: Any,
        conv_config: Conv2dConfig | None = None,
        mirror_kernel: bool = True,
        **given: Any,
    ) -> Tensor:
        _check_called_with(given)
        kernel = kernel_of(kernel_size, in_channels, out_channels, groups, transposed)
        return prepared_weight(kernel, weight_tensor, device, weights_type(conv_config), mirror_kernel)

    @operation(f"prepare_{name}_bias", "reshape", doc="The bias as the convolution adds it, on the device.")
    def bias(
        *,
        bias_tensor: Any,
        out_channels: int,
        device: Any,
        conv_config: Conv2dConfig | None = None,
        **given: Any,
    ) -> Tensor:
        _check_called_with(given)
        return prepared_bias(bias_tensor, out_channels, device, weights_type(conv_config))


_preparation("conv", False)
_preparation("conv_transpose2d", True)
