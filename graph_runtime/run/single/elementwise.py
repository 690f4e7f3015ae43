"""Elementwise functions of two inputs, made from a registry op. They are the most frequent calls, so a call
on two tensors of known specs costs one dictionary lookup and one launch."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...base.errors import DeviceMemoryError
from ..tensors.tensor import Tensor
from . import verification
from .apply import apply, ready_call
from .call import CachedCall
from .fallback import NumpyLike, device_first, only
from .operands import common, device_of, dtype_key, dtype_name, floating, together

_MOST = 4096  # limit: shapes that never come again must not be kept for good


def binary(op: str, ufunc: np.ufunc, doc: str, *, floats: bool = False) -> NumpyLike:
    """A function with the meaning of numpy's ``ufunc``, made from the registry's ``op``. ``floats``: whether
    integers are computed as floats (true_divide)."""
    ready: dict[tuple[object, ...], CachedCall] = {}
    verification.on_change(ready.clear)
    name = ufunc.__name__

    def body(a: Any, b: Any, *, dtype: Any = None, **more: Any) -> Tensor:
        only(more)
        a, b = together(name, a, b, dtype=_dtype(name, a, b, dtype, floats))
        made = apply(op, (), a, b)
        call = ready_call(op, (), (a, b))
        if call is not None:
            if len(ready) >= _MOST:
                ready.clear()
            ready[call.inputs] = call
        return made

    slow = device_first(ufunc, doc)(body)

    def function(a: Any, b: Any, /, out: Any = None, **more: Any) -> Any:
        if out is None and not more:
            try:
                # a refused call has no launcher, which raises AttributeError, as a value that is no tensor
                # does
                return ready[a._spec, b._spec].launcher.launch_pair(a, b)  # type: ignore[union-attr]
            except (LookupError, AttributeError, TypeError, DeviceMemoryError):
                pass  # a new call, or tensors that moved, are gone or have no room: left to the slow way
        return slow(a, b, out=out, **more)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    found: Any = function
    found.body, found.host = body, ufunc
    return found


def _dtype(name: str, a: Any, b: Any, dtype: Any, floats: bool) -> str | None:
    """The dtype to compute in, None to compute in the common dtype of the operands."""
    if dtype is None and not floats:
        return None
    device = device_of(name, a, b)
    if dtype is not None:
        return common(device, dtype_name(dtype))
    keys = dtype_key(a), dtype_key(b)
    return floating(device, common(device, *keys))
