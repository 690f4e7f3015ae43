"""Weights of convolutions: what they are, and their preparation.

A prepared weight is the matrix that a convolution multiplies by: [1, 1, kh kw I, O] in tiles, I (of a group)
and O filled up to 32, in the type that the configuration names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.configs import DRAM_MEMORY_CONFIG
from ...memory.placing import up
from ...memory.values import TILE_SIZE, DataType, Layout
from ...programs.windows import Conv2dConfig, pair
from ...tensors.tensor import Tensor
from ..operation import Operation
from ..results import Target
from ..wide import Wide
from .planes import placed_on


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


def kernel_of(
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


def prepared_weight(
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


def weight_of(w: Wide, kernel: Kernel, matrix: Handle) -> Handle:
    """[O, I / groups, kh, kw] of a prepared weight, with the values that its type holds."""
    share = kernel.inputs // kernel.groups
    cut = w.reshape(w.rows(matrix), (*kernel.size, up(share, TILE_SIZE), matrix.shape[-1]))
    cut = w("slice", cut, starts=(0, 0), ends=(share, kernel.outputs), axes=(2, 3))
    return kernels.run("transpose", [cut], {"perm": (3, 2, 0, 1)})


def prepared_bias(op: str, bias: Any, outputs: int, device: Any, dtype: DataType | None) -> Tensor:
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


def bias_row(w: Wide, bias: Tensor, outputs: int) -> Handle:
    rank = len(bias.shape)
    ends = (*(1,) * (rank - 1), outputs)
    row = w("slice", bias._handle, starts=(0,) * rank, ends=ends)
    return w.reshape(w.rows(row), (outputs,))


def weights_type(config: Conv2dConfig | None) -> DataType | None:
    return None if config is None else config.weights_dtype  # type: ignore[attr-defined]


# what the convolution will be called with, by which silicon chooses how a weight lies: here it is one matrix
_CALLED_WITH = frozenset(
    "weights_format batch_size dilation has_bias input_dtype input_height input_layout input_memory_config "
    "input_width padding stride slice_config dram_slice_config compute_config output_dtype in_channels "
    "kernel_size groups".split()
)


def _check_called_with(op: str, given: dict[str, Any]) -> None:
    if unknown := sorted(given.keys() - _CALLED_WITH):
        raise TypeError(f"{op}(): incompatible function arguments: unexpected {unknown[0]!r}")


def _preparation(name: str, transposed: bool) -> None:
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
        op = f"ttnn.prepare_{name}_weights"
        _check_called_with(op, given)
        kernel = kernel_of(op, kernel_size, in_channels, out_channels, groups, transposed)
        return prepared_weight(op, kernel, weight_tensor, device, weights_type(conv_config), mirror_kernel)

    def bias(
        *,
        bias_tensor: Any,
        out_channels: int,
        device: Any,
        conv_config: Conv2dConfig | None = None,
        **given: Any,
    ) -> Tensor:
        op = f"ttnn.prepare_{name}_bias"
        _check_called_with(op, given)
        return prepared_bias(op, bias_tensor, out_channels, device, weights_type(conv_config))

    weights.__doc__ = "The weight as the matrix that the convolution multiplies by, on the device."
    bias.__doc__ = "The bias as the convolution adds it, on the device."
    Operation(f"prepare_{name}_weights", weights, "transpose, pad, reshape")
    Operation(f"prepare_{name}_bias", bias, "reshape")


_preparation("conv", False)
_preparation("conv_transpose2d", True)
