"""Products of matrices, and convolutions."""

from __future__ import annotations

from typing import Any

from ..journal import Refused
from .operands import is_float, pair, reshape, scalar_like
from .table import rule


@rule("mm", "bmm", "matmul")
def mm(e: Any, a: Any, b: Any) -> Any:
    return e.op("matmul", a, b)


@rule("mv")
def mv(e: Any, a: Any, b: Any) -> Any:
    return reshape(e, e.op("matmul", a, reshape(e, b, (*b.shape, 1))), (a.shape[0],))


@rule("dot")
def dot(e: Any, a: Any, b: Any) -> Any:
    n = a.shape[0]
    return reshape(e, e.op("matmul", reshape(e, a, (1, n)), reshape(e, b, (n, 1))), ())


@rule("addmm", "baddbmm")
def addmm(e: Any, bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    made = e.op("matmul", a, b)
    if alpha != 1:
        made = e.op("multiply", made, scalar_like(e, alpha, made))
    if beta == 0:
        return made
    if beta != 1:
        bias = e.op("multiply", bias, scalar_like(e, beta, bias))
    return e.op("add", made, bias)


@rule("linear")
def linear(e: Any, x: Any, weight: Any, bias: Any = None) -> Any:
    if not is_float(x) or len(weight.shape) != 2:
        raise Refused("a linear layer takes floats and a matrix of weights")
    rows = reshape(e, x, (-1 if 0 in x.shape else _rows(x.shape), x.shape[-1]))
    made = e.op("dense", rows, weight, *([] if bias is None else [bias]))
    return reshape(e, made, (*x.shape[:-1], weight.shape[0]))


def _rows(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape[:-1]:
        count *= size
    return count


# **************** convolutions: one or two dimensions ****************


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
        flat = (reshape(e, v, (*v.shape[:2], 1, v.shape[2])) for v in (x, weight))
        stride, padding, dilation = (1, *stride), (0, *padding), (1, *dilation)
        more = (stride, padding, dilation, transposed, (0, *output_padding), groups)
        made = convolution(e, *flat, bias, *more)
        return reshape(e, made, (*made.shape[:2], made.shape[3]))
    if len(weight.shape) != 4:
        raise Refused(f"convolutions of {len(weight.shape) - 2} dimensions are the host's")
    attrs = {
        "strides": tuple(stride),
        "pads": (*padding, *padding),
        "dilations": tuple(dilation),
        "group": groups,
    }
    given = [x, weight] if bias is None else [x, weight, bias]
    if transposed:
        return e.op("conv_transpose2d", *given, **attrs, output_padding=tuple(output_padding))
    return e.op("conv2d", *given, **attrs)


@rule("convolution_backward", "convolution_backward_overrideable")
def convolution_backward(e: Any, grad: Any, x: Any, weight: Any, *more: Any) -> Any:
    bias_sizes = more[0] if len(more) == 8 else [1]
    stride, padding, dilation, transposed, _output_padding, groups, mask = more[-7:]
    if transposed or len(weight.shape) != 4:
        raise Refused("gradients of this kind of convolution are the host's")
    attrs = {
        "strides": tuple(stride),
        "pads": (*padding, *padding),
        "dilations": tuple(dilation),
        "group": groups,
    }
    of_x = of_weight = of_bias = None
    if mask[0]:
        of_x = e.op("conv_transpose2d", grad, weight, **attrs, output_padding=_rest(x, grad, weight, attrs))
    if mask[1]:
        of_weight = e.op("conv2d_backward_weight", x, grad, kernel_shape=tuple(weight.shape[2:]), **attrs)
    if mask[2] and bias_sizes is not None:
        of_bias = e.op("sum", grad, axes=(0, 2, 3), keepdims=False)
    return of_x, of_weight, of_bias


def _rest(x: Any, grad: Any, weight: Any, attrs: dict[str, Any]) -> tuple[int, int]:
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


@rule("outer")
def outer(e: Any, a: Any, b: Any) -> Any:
    a, b = pair(e, a, b)
    return e.op("multiply", reshape(e, a, (*a.shape, 1)), b)
