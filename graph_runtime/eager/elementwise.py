"""Elementwise functions of numpy that are one op each, made from the op table under their numpy names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..base.dtypes import FLOATS, is_integer
from ..ir.graph import TensorType
from ..ir.ops import Op, all_ops
from ..run.single.apply import Refused, apply
from ..run.single.elementwise import binary
from ..run.single.fallback import NumpyLike, device_first, only
from ..run.single.operands import (
    common,
    device_of,
    dtype_key,
    dtype_name,
    floating,
    on_device,
    tensor,
    together,
)
from ..run.tensors.tensor import Tensor

Function = Callable[..., Any]


def _function(op: Op, host: Any) -> NumpyLike:
    """numpy's function ``host``, computed by an op of one or two inputs."""
    dtypes = op.bodies["cpu"].dtypes
    if dtypes == ("bool",):
        return device_first(host, op.doc)(_logical(op.name))
    if op.arity == (1, 1):
        return device_first(host, op.doc)(_promoted(op.name) if op.promotes else _plain(op.name))
    (made,) = op.infer([TensorType(dtypes[0], ())] * 2, op.decode({}))
    if made.dtype == "bool":
        return device_first(host, op.doc)(_compared(op.name))
    return binary(op.name, host, op.doc, floats=op.promotes)


def _promoted(op: str) -> Function:
    """A function whose result is float; integers are first converted to floats."""

    def body(x: Tensor, *, dtype: Any = None, **more: Any) -> Tensor:
        only(more)
        device = tensor(x).device
        to = dtype_name(dtype) if dtype is not None else floating(device, x.dtype)
        return apply(op, (), on_device(x, device, common(device, to)))

    return body


def _plain(op: str) -> Function:
    """A function computed in the dtype of x; if the op does not take that dtype, numpy computes it."""

    def body(x: Tensor, **more: Any) -> Tensor:
        only(more)
        return apply(op, (), tensor(x))

    return body


def _logical(op: str) -> Function:
    """A logical function, for which all values except 0 are true."""

    def body(*operands: Any, **more: Any) -> Tensor:
        only(more)
        device = device_of(op, *operands)
        return apply(op, (), *(on_device(x, device, "bool") for x in operands))

    return body


def _compared(op: str) -> Function:
    """A comparison. If integers have no common integer dtype, numpy compares them, which is exact."""

    def body(a: Any, b: Any, **more: Any) -> Tensor:
        only(more)
        keys = [dtype_key(x) for x in (a, b)]
        whole = all(k in (int, bool) or is_integer(k) for k in keys)
        to = common(device_of(op, a, b), *keys)
        if whole and to in FLOATS:
            raise Refused("the integers have no common dtype")
        try:
            operands = together(op, a, b, dtype=to)
        except (OverflowError, ValueError):
            raise Refused("a value lies outside of the dtype") from None
        return apply(op, (), *operands)

    return body


# {numpy's name: function}
ELEMENTWISE: dict[str, NumpyLike] = {
    name: _function(op, getattr(np, name)) for op in all_ops().values() for name in op.numpy
}
