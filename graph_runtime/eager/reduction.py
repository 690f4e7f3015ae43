"""Reductions and products."""

from __future__ import annotations

import builtins
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base import dtypes
from ..run.single.apply import Refused, apply
from ..run.single.fallback import NumpyLike, device_first, only
from ..run.single.operands import axes_of, common, dtype_name, floating, on_device, tensor, together
from ..run.tensors.tensor import Tensor
from .elementwise import ELEMENTWISE
from .movement import reshape

Axis = int | Sequence[int] | None


@device_first(np.sum)
def sum(a: Tensor, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, **more: Any) -> Tensor:
    """The sum over axes. Integers are summed in 64 bits, as in numpy. No kernel does that, so the host sums
    them, except int32 on devices without 64-bit integers."""
    only(more)
    return _reduce("sum", on_device(a, tensor(a).device, _sum_dtype(a, dtype)), axis, keepdims)


@device_first(np.mean)
def mean(a: Tensor, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, **more: Any) -> Tensor:
    """The mean over axes; the mean of integers is a float."""
    only(more)
    device = tensor(a).device
    to = dtype_name(dtype) if dtype is not None else floating(device, a.dtype)
    return _reduce("mean", on_device(a, device, common(device, to)), axis, keepdims)


def _reducing(host: Any, doc: str, dtype: str | None = None) -> NumpyLike:
    """numpy's function ``host``, computed by the op of the same name; ``dtype``: the dtype to which the
    tensor is first converted."""

    def body(a: Tensor, axis: Axis = None, *, keepdims: bool = False, **more: Any) -> Tensor:
        only(more)
        x = tensor(a) if dtype is None else on_device(a, tensor(a).device, dtype)
        return _reduce(body.__name__, x, axis, keepdims)

    return device_first(host, doc)(body)


max = _reducing(np.max, "The largest element over axes, NaN if any is.")
min = _reducing(np.min, "The smallest element over axes, NaN if any is.")
all = _reducing(np.all, "Whether all elements are true (not 0).", "bool")
any = _reducing(np.any, "Whether any element is true (not 0).", "bool")


@device_first(np.prod)
def prod(a: Tensor, axis: Axis = None, dtype: Any = None, *, keepdims: bool = False, **more: Any) -> Tensor:
    """The product over axes. The product of integers has the dtype that ``sum`` gives."""
    only(more)
    return _reduce("prod", on_device(a, tensor(a).device, _sum_dtype(a, dtype)), axis, keepdims)


def _placing(host: Any, doc: str) -> NumpyLike:
    def body(a: Tensor, axis: int | None = None, *, keepdims: bool = False, **more: Any) -> Tensor:
        only(more)
        if axis is None and keepdims:
            raise Refused("keepdims without an axis has no kernel")
        a, axis = (reshape.body(tensor(a), (-1,)), 0) if axis is None else (tensor(a), axis)
        (axis,) = axes_of(axis, len(a.shape))
        index = common(a.device, "int64")  # dtype of indices: int32 on a device without int64
        attrs = (("axis", axis), ("keepdims", builtins.bool(keepdims)), ("dtype", index))
        return apply(body.__name__, attrs, a)

    return device_first(host, doc)(body)


argmax = _placing(np.argmax, "The index of the largest element, the first of several; NaN counts as largest.")
argmin = _placing(
    np.argmin, "The index of the smallest element, the first of several; NaN counts as smallest."
)


@device_first(np.cumsum)
def cumsum(a: Tensor, axis: int | None = None, dtype: Any = None, **more: Any) -> Tensor:
    """The running sum along an axis; for an axis of None, along the flattened tensor."""
    only(more)
    a, axis = (reshape.body(tensor(a), (-1,)), 0) if axis is None else (tensor(a), axis)
    (axis,) = axes_of(axis, len(a.shape))
    return apply("cumsum", (("axis", axis),), on_device(a, a.device, _sum_dtype(a, dtype)))


@device_first(np.var)
def var(
    a: Tensor, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, **more: Any
) -> Tensor:
    """The variance over axes, that is, the mean of squared distances to the mean; for 16-bit floats it is
    computed in float32."""
    only(more)
    device, wide = tensor(a).device, floating(tensor(a).device, a.dtype)
    if dtype is not None:
        raise Refused("no kernel takes argument dtype=")
    x = on_device(a, device, "float32" if wide in dtypes.NARROW_FLOATS else wide)
    axes = _axes(axis, len(a.shape))
    count = math.prod(a.shape[d] for d in axes)
    if count - ddof <= 0:
        raise Refused("there are fewer elements than degrees of freedom")
    away = ELEMENTWISE["subtract"].body(x, _reduce("mean", x, axes, True))
    total = _reduce("sum", ELEMENTWISE["multiply"].body(away, away), axes, keepdims)
    return on_device(ELEMENTWISE["divide"].body(total, builtins.float(count - ddof)), device, wide)


@device_first(np.std)
def std(
    a: Tensor, axis: Axis = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, **more: Any
) -> Tensor:
    """The square root of the variance."""
    only(more)
    return ELEMENTWISE["sqrt"].body(var.body(a, axis, dtype, ddof=ddof, keepdims=keepdims))


@device_first(np.matmul)
def matmul(a: Any, b: Any, **more: Any) -> Tensor:
    """The matrix product by numpy's rules: vectors are allowed, leading dimensions are broadcast."""
    only(more)
    a, b = together("matmul", a, b)
    if not a.shape or not b.shape:
        raise Refused("an operand of matmul is a scalar")
    rows, columns = len(a.shape) == 1, len(b.shape) == 1
    left = reshape.body(a, (1, a.shape[0])) if rows else a
    right = reshape.body(b, (b.shape[0], 1)) if columns else b
    made = apply("matmul", (), left, right)
    if not rows and not columns:
        return made
    shape = made.shape[:-2] + (() if rows else made.shape[-2:-1]) + (() if columns else made.shape[-1:])
    return reshape.body(made, shape)


@device_first(np.dot)
def dot(a: Any, b: Any, **more: Any) -> Tensor:
    """numpy.dot: a product of scalars, vectors or matrices."""
    only(more)
    ndims = [np.ndim(x) if not isinstance(x, Tensor) else len(x.shape) for x in (a, b)]
    if 0 in ndims:
        return ELEMENTWISE["multiply"].body(a, b)
    if ndims[1] > 2:
        raise Refused("dot of more than two dimensions has no kernel")
    return matmul.body(a, b)


def _reduce(op: str, a: Tensor, axis: Axis, keepdims: bool) -> Tensor:
    axes = _axes(axis, len(a.shape))
    if not axes and a.shape:
        raise Refused("no axis is reduced")  # an empty list means all axes to the op
    return apply(op, (("axes", axes), ("keepdims", builtins.bool(keepdims))), a)


def _axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """The axes in ascending order; all axes for None. Raises Refused."""
    return tuple(range(ndim)) if axis is None else tuple(sorted(axes_of(axis, ndim)))


def _sum_dtype(a: Tensor, dtype: Any) -> str:
    if dtype is not None:
        return common(a.device, dtype_name(dtype))
    of = dtypes.to_numpy(a.dtype)
    wide = {"b": "int64", "i": "int64", "u": "uint64"}.get(of.kind, a.dtype)
    return common(a.device, wide)
