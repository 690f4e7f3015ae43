"""moreh_fold: overlapping blocks of images put back."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...devices.wide_value import WideValue
from ...errors import expect
from ...memory.configs import MemoryConfig
from ...memory.values import Layout
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import target


@operation("moreh_fold", "reshape, pad, slice, add")
def moreh_fold(
    input: Tensor,
    output: Tensor | None = None,
    output_size: Sequence[int] = (),
    kernel_size: Sequence[int] = (),
    dilation: Sequence[int] = (1, 1),
    padding: Sequence[int] = (0, 0),
    stride: Sequence[int] = (1, 1),
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """Blocks [n, c kh kw, count] or [c kh kw, count], as columns, summed at their places in images [n, c, h,
    w] or [c, h, w], as torch.nn.functional.fold does."""
    x, rank = input, len(input.shape)
    expect(x.layout is Layout.ROW_MAJOR, "Fold: only support input in ROW_MAJOR")
    named = {
        "output_size": output_size,
        "kernel_size": kernel_size,
        "dilation": dilation,
        "padding": padding,
        "stride": stride,
    }
    for name, sizes in named.items():
        expect(len(sizes) == 2, f"Fold: {name} takes 2 elements")
    expect(rank in (2, 3), "Fold: Only support 3D or 2D input tensor")
    sides = [_Side(*numbers) for numbers in zip(*named.values(), strict=True)]
    cells = math.prod(kernel_size)
    fits = x.shape[-1] == math.prod(side.count for side in sides) and x.shape[-2] % cells == 0
    expect(fits, "Fold: Invalid input tensor size")
    lead = (*x.shape[:-2], x.shape[-2] // cells)
    made = _put(x._value, math.prod(lead), sides)
    return target(x, memory_config, output).wrap(made.reshape((*lead, *output_size)))


class _Side:
    """One dimension of the images. ``count``: number of blocks along it; ``whole``: its size with padding and
    the room that the last block's stride takes."""

    def __init__(self, size: int, kernel: int, dilation: int, padding: int, stride: int):
        self.size, self.kernel, self.dilation, self.padding = size, kernel, dilation, padding
        self.stride = stride
        self.count = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        self.whole = max(size + 2 * padding, dilation * (kernel - 1) + self.count * stride)

    def room(self, cell: int) -> tuple[int, int]:
        """Number of places before and after the elements of one cell of the kernel."""
        first = cell * self.dilation
        return first, self.whole - first - self.count * self.stride


def _put(x: WideValue, images: int, sides: list[_Side]) -> WideValue:
    """The sum over the kernel's cells of their elements, each at its place, without the padding."""
    high, wide = sides
    cells = x.reshape((images, high.kernel * wide.kernel, high.count, wide.count))
    made: WideValue | None = None
    for cell in range(high.kernel * wide.kernel):
        one = cells.part(1, cell, cell + 1).reshape((images, high.count, 1, wide.count, 1))
        one = one.op("pad", pads=(0, 0, 0, 0, 0, 0, 0, high.stride - 1, 0, wide.stride - 1))
        one = one.reshape((images, high.count * high.stride, wide.count * wide.stride))
        above, below = high.room(cell // wide.kernel)
        left, right = wide.room(cell % wide.kernel)
        one = one.op("pad", pads=(0, above, left, 0, below, right))
        made = one if made is None else made + one
    assert made is not None
    for axis, side in ((1, high), (2, wide)):
        made = made.part(axis, side.padding, side.padding + side.size)
    return made
