"""Convolutions of one or two dimensions, and their gradients.

Where a device has no kernels but conv2d's, all of them are that: a transposed convolution is one of an input
spread by its strides with the kernel turned around; the gradient of a kernel is one of the input by the
gradient of the output, with the batch for channels, strides for dilations and the other way round.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..counters import Unsupported
from .movement import cut
from .operands import reshape
from .table import rule


@rule("convolution", "convolution_overrideable")
def convolution(
    e: Any,
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Any:
    if len(weight.shape) == 3:  # one of two dimensions whose first has one row
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        more = (stride, padding, dilation, transposed, (0, *output_padding), groups)
        made = convolution(e, _with_row(e, x), _with_row(e, weight), bias, *more)
        return _without_row(e, made)
    if len(weight.shape) == 5 and not transposed:
        attrs = _of_dims(3, stride, padding, dilation, groups)
        return e.op("conv3d", x, weight, *([] if bias is None else [bias]), **attrs)
    attrs = _attrs(weight, stride, padding, dilation, groups)
    if transposed:
        return _transposed(e, x, weight, bias, attrs, tuple(output_padding))
    return e.op("conv2d", x, weight, *([] if bias is None else [bias]), **attrs)


def _attrs(weight: Any, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    if len(weight.shape) != 4:
        raise Unsupported(f"gradients and transposes of {len(weight.shape) - 2} dimensions are the host's")
    return _of_dims(2, stride, padding, dilation, groups)


def _of_dims(dims: int, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    padding = tuple(padding) * (1 if len(padding) == dims else dims)
    return {
        "strides": tuple(stride),
        "pads": (*padding, *padding),
        "dilations": tuple(dilation),
        "group": groups,
    }


def _with_row(e: Any, x: Any) -> Any:
    return reshape(e, x, (*x.shape[:2], 1, x.shape[2]))


def _without_row(e: Any, x: Any) -> Any:
    return reshape(e, x, (*x.shape[:2], x.shape[3]))


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(e: Any, grad: Any, x: Any, weight: Any, *more: Any) -> Any:
    bias_sizes = more[0] if len(more) == 8 else [1]
    stride, padding, dilation, transposed, output_padding, groups, mask = more[-7:]
    if len(weight.shape) == 3:
        how = ((1, *stride), (0, *padding), (1, *dilation), transposed, (0, *output_padding), groups, mask)
        rows = (_with_row(e, v) for v in (grad, x, weight))
        of_x, of_weight, of_bias = convolution_backward(e, *rows, bias_sizes, *how)
        return *(None if made is None else _without_row(e, made) for made in (of_x, of_weight)), of_bias
    attrs = _attrs(weight, stride, padding, dilation, groups)
    of_x = of_weight = of_bias = None
    if mask[0] and transposed:
        of_x = e.op("conv2d", grad, weight, **attrs)
    elif mask[0]:
        of_x = _transposed(e, grad, weight, None, attrs, _rest(x, grad, weight, attrs))
    if mask[1]:
        of_weight = _of_weight(e, *((grad, x) if transposed else (x, grad)), weight.shape[2:], attrs)
    if mask[2] and bias_sizes is not None:
        of_bias = e.op("sum", grad, axes=(0, 2, 3), keepdims=False)
    return of_x, of_weight, of_bias


def _rest(x: Any, grad: Any, weight: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    """Rows and columns of x that the last window did not reach."""
    return tuple(
        x.shape[2 + i]
        - (
            (grad.shape[2 + i] - 1) * attrs["strides"][i]
            - 2 * attrs["pads"][i]
            + attrs["dilations"][i] * (weight.shape[2 + i] - 1)
            + 1
        )
        for i in (0, 1)
    )


# **************** by conv2d ****************


def _transposed(
    e: Any, x: Any, weight: Any, bias: Any, attrs: dict[str, Any], output_padding: tuple[int, ...]
) -> Any:
    """The transposed convolution of x [n, c, h, w] by weight [c, channels / groups, kh, kw]."""
    if e.has("conv_transpose2d", x):
        given = [x, weight] if bias is None else [x, weight, bias]
        return e.op("conv_transpose2d", *given, **attrs, output_padding=output_padding)
    groups, dilations = attrs["group"], attrs["dilations"]
    reach = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    before = [r - p for r, p in zip(reach, attrs["pads"], strict=False)]
    spread = _spread(e, x, attrs["strides"])
    # behind each element there are strides - 1 zeros, also behind the last
    after = [b + more - (s - 1) for b, more, s in zip(before, output_padding, attrs["strides"], strict=True)]
    pads = [max(n, 0) for n in (*before, *after)]
    for i in (0, 1):
        end = spread.shape[2 + i] - max(-after[i], 0)
        spread = cut(e, spread, 2 + i, max(-before[i], 0), end)
    turned = e.op("reverse", _regrouped(e, weight, groups), axes=(2, 3))
    made = e.op("conv2d", spread, turned, strides=(1, 1), pads=tuple(pads), dilations=dilations, group=groups)
    return made if bias is None else e.op("add", made, reshape(e, bias, (1, *bias.shape, 1, 1)))


def _regrouped(e: Any, weight: Any, groups: int) -> Any:
    """[groups * a, b, kh, kw] as [groups * b, a, kh, kw]."""
    if groups == 1:
        return e.op("transpose", weight, perm=(1, 0, 2, 3))
    rows, b, kh, kw = weight.shape
    made = e.op("transpose", reshape(e, weight, (groups, rows // groups, b, kh * kw)), perm=(0, 2, 1, 3))
    return reshape(e, made, (groups * b, rows // groups, kh, kw))


def _spread(e: Any, x: Any, strides: Sequence[int]) -> Any:
    """x with strides - 1 zeros behind each element."""
    n, c, h, w = x.shape
    for axis, step in ((2, strides[0]), (3, strides[1])):
        if step > 1:
            flat = reshape(e, x, (n * c, math.prod(x.shape[2 : axis + 1]), 1, math.prod(x.shape[axis + 1 :])))
            wide = e.op("pad", flat, pads=(0, 0, 0, 0, 0, 0, step - 1, 0), value=0.0)
            x = reshape(e, wide, (n, c, h * strides[0], w if axis == 2 else w * step))
    return x


def _of_weight(e: Any, x: Any, grad: Any, kernel: Sequence[int], attrs: dict[str, Any]) -> Any:
    """The gradient of a kernel [channels of grad, channels of x / groups, kh, kw]."""
    if e.has("conv2d_backward_weight", x):
        return e.op("conv2d_backward_weight", x, grad, kernel_shape=tuple(kernel), **attrs)
    n, c, h, w = x.shape
    groups = attrs["group"]
    rows = e.op("transpose", reshape(e, x, (n, groups, c // groups, h * w)), perm=(2, 1, 0, 3))
    made = e.op(
        "conv2d",
        reshape(e, rows, (c // groups, groups * n, h, w)),
        e.op("transpose", grad, perm=(1, 0, 2, 3)),
        strides=attrs["dilations"],
        pads=attrs["pads"],
        dilations=attrs["strides"],
        group=groups,
    )
    for i in (0, 1):  # what the last window did not reach
        made = cut(e, made, 2 + i, 0, kernel[i])
    return e.op("transpose", made, perm=(1, 0, 2, 3))
