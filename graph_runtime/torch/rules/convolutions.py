"""Convolutions of one or two dimensions, and their gradients.

On a device that has only conv2d kernels, conv2d computes all of these. A transposed convolution is computed
as a convolution with the reversed kernel, whose input has zeros inserted by the strides. The gradient of a
kernel is computed as the convolution of the input with the gradient of the output; batch and channels are
exchanged, and so are strides and dilations.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..counters import Unsupported
from .layers import each
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
    if len(weight.shape) == 3:  # one dimension: computed as two, the first of which has one row
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        more = (stride, padding, dilation, transposed, (0, *output_padding), groups)
        made = convolution(e, _with_row(x), _with_row(weight), bias, *more)
        return _without_row(made)
    dims = len(weight.shape) - 2
    attrs = _attrs(dims, stride, padding, dilation, groups)
    if dims != 3 or transposed:
        _flat(weight)
    if transposed:
        return _transposed(e, x, weight, bias, attrs, tuple(output_padding))
    return x.op(f"conv{dims}d", weight, *([] if bias is None else [bias]), **attrs)


def _attrs(dims: int, stride: Any, padding: Any, dilation: Any, groups: int) -> dict[str, Any]:
    pads = each(padding, dims) * 2
    return {"strides": tuple(stride), "pads": pads, "dilations": tuple(dilation), "group": groups}


def _with_row(x: Any) -> Any:
    return reshape(x, (*x.shape[:2], 1, x.shape[2]))


def _without_row(x: Any) -> Any:
    return reshape(x, (*x.shape[:2], x.shape[3]))


def _flat(weight: Any) -> None:
    """Raise Unsupported unless the weight is that of a two-dimensional convolution."""
    if len(weight.shape) != 4:
        raise Unsupported(f"gradients and transposes of {len(weight.shape) - 2} dimensions run on the host")


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(e: Any, grad: Any, x: Any, weight: Any, *more: Any) -> Any:
    bias_sizes = more[0] if len(more) == 8 else [1]
    stride, padding, dilation, transposed, output_padding, groups, mask = more[-7:]
    if len(weight.shape) == 3:
        how = ((1, *stride), (0, *padding), (1, *dilation), transposed, (0, *output_padding), groups, mask)
        rows = (_with_row(v) for v in (grad, x, weight))
        of_x, of_weight, of_bias = convolution_backward(e, *rows, bias_sizes, *how)
        return *(None if made is None else _without_row(made) for made in (of_x, of_weight)), of_bias
    _flat(weight)
    attrs = _attrs(2, stride, padding, dilation, groups)
    of_x = of_weight = of_bias = None
    if mask[0] and transposed:
        of_x = grad.op("conv2d", weight, **attrs)
    elif mask[0]:
        of_x = _transposed(e, grad, weight, None, attrs, _rest(x, grad, weight, attrs))
    if mask[1]:
        of_weight = _of_weight(e, *((grad, x) if transposed else (x, grad)), weight.shape[2:], attrs)
    if mask[2] and bias_sizes is not None:
        of_bias = grad.sum(axes=(0, 2, 3), keepdims=False)
    return of_x, of_weight, of_bias


def _rest(x: Any, grad: Any, weight: Any, attrs: dict[str, Any]) -> tuple[int, ...]:
    """Numbers of rows and columns at the end of x that the last window does not reach."""
    sizes = zip(x.shape[2:], grad.shape[2:], weight.shape[2:], strict=True)
    how = zip(attrs["strides"], attrs["pads"][:2], attrs["dilations"], strict=True)
    return tuple(
        n - ((windows - 1) * stride - 2 * pad + dilation * (k - 1) + 1)
        for (n, windows, k), (stride, pad, dilation) in zip(sizes, how, strict=True)
    )


# **************** by conv2d ****************


def _transposed(
    e: Any, x: Any, weight: Any, bias: Any, attrs: dict[str, Any], output_padding: tuple[int, ...]
) -> Any:
    """The transposed convolution of x [n, c, h, w] by weight [c, channels / groups, kh, kw]."""
    if e.has("conv_transpose2d", x):
        more = [] if bias is None else [bias]
        return x.op("conv_transpose2d", weight, *more, **attrs, output_padding=output_padding)
    groups, dilations = attrs["group"], attrs["dilations"]
    reach = [d * (k - 1) for d, k in zip(dilations, weight.shape[2:], strict=True)]
    before = [r - p for r, p in zip(reach, attrs["pads"], strict=False)]
    spread = _spread(x, attrs["strides"])
    # _spread puts strides - 1 zeros after every element, including the last
    after = [b + more - (s - 1) for b, more, s in zip(before, output_padding, attrs["strides"], strict=True)]
    pads = [max(n, 0) for n in (*before, *after)]
    for i in (0, 1):
        end = spread.shape[2 + i] - max(-after[i], 0)
        spread = cut(spread, 2 + i, max(-before[i], 0), end)
    turned = _regrouped(weight, groups).op("reverse", axes=(2, 3))
    made = spread.op("conv2d", turned, strides=(1, 1), pads=tuple(pads), dilations=dilations, group=groups)
    return made if bias is None else made + reshape(bias, (1, *bias.shape, 1, 1))


def _regrouped(weight: Any, groups: int) -> Any:
    """A weight [groups * a, b, kh, kw] as [groups * b, a, kh, kw]."""
    if groups == 1:
        return weight.op("transpose", perm=(1, 0, 2, 3))
    rows, b, kh, kw = weight.shape
    made = reshape(weight, (groups, rows // groups, b, kh * kw)).op("transpose", perm=(0, 2, 1, 3))
    return reshape(made, (groups * b, rows // groups, kh, kw))


def _spread(x: Any, strides: Sequence[int]) -> Any:
    """x with strides - 1 zeros after each element of an axis."""
    n, c, h, w = x.shape
    for axis, step in ((2, strides[0]), (3, strides[1])):
        if step > 1:
            flat = reshape(x, (n * c, math.prod(x.shape[2 : axis + 1]), 1, math.prod(x.shape[axis + 1 :])))
            wide = flat.op("pad", pads=(0, 0, 0, 0, 0, 0, step - 1, 0), value=0.0)
            x = reshape(wide, (n, c, h * strides[0], w if axis == 2 else w * step))
    return x


def _of_weight(e: Any, x: Any, grad: Any, kernel: Sequence[int], attrs: dict[str, Any]) -> Any:
    """The gradient of a weight [channels of grad, channels of x / groups, kh, kw]; ``kernel`` is (kh, kw)."""
    if e.has("conv2d_backward_weight", x):
        return x.op("conv2d_backward_weight", grad, kernel_shape=tuple(kernel), **attrs)
    n, c, h, w = x.shape
    groups = attrs["group"]
    rows = reshape(x, (n, groups, c // groups, h * w)).op("transpose", perm=(2, 1, 0, 3))
    made = reshape(rows, (c // groups, groups * n, h, w)).op(
        "conv2d",
        grad.op("transpose", perm=(1, 0, 2, 3)),
        strides=attrs["dilations"],
        pads=attrs["pads"],
        dilations=attrs["strides"],
        group=groups,
    )
    for i in (0, 1):  # drops the results for rows and columns that the last window did not reach
        made = cut(made, 2 + i, 0, kernel[i])
    return made.op("transpose", perm=(1, 0, 2, 3))
