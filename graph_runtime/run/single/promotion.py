"""Which dtype an op computes in: numpy's rule (NEP 50), as far as the device has the dtype.

two tensors or arrays   numpy.result_type; bfloat16 with an integer or bool is bfloat16, with float16 float32
a Python scalar         is weak: it takes the tensor's dtype, unless its kind is higher (int tensor + 1.5)
on a device without it  64-bit becomes 32-bit of the same kind, float16 becomes float32 (tt)
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.machine.devices import Device
from ..tensors.spec import held
from .apply import Refused

__all__ = ["common", "floating", "numpy_result"]

_WEAK = {bool: True, int: 1, float: 1.0, complex: 1j}


def common(device: Device, *operands: Any) -> str:
    """The dtype of an op on operands: dtype names, or the types bool, int, float, complex for Python scalars.
    Raises Refused where the device has none."""
    return _held(device, numpy_result(operands))


def floating(device: Device, dtype: str) -> str:
    """The dtype in which a float function of ``dtype`` values computes: numpy takes float64 for integers."""
    own = dtypes.format_of(dtype)
    if own is not None and own.kind != "float":
        dtype = "float64"
    return _held(device, np.dtype(dtypes.to_numpy(dtype)))


def _held(device: Device, dtype: np.dtype) -> str:
    if dtype.kind not in "biufV":
        raise Refused(f"no device computes with {dtype.name}")
    return held(device, dtypes.from_numpy(dtype))


@cache
def numpy_result(operands: tuple[Any, ...]) -> np.dtype:
    """numpy.result_type of dtype names and Python's scalar types, which are weak.

    Raises TypeError where numpy knows no common dtype.
    """
    strong = [dtypes.to_numpy(o) for o in operands if isinstance(o, str)]
    weak = [_WEAK[o] for o in operands if not isinstance(o, str)]
    narrow = dtypes.to_numpy("bfloat16")
    if narrow in strong:
        rest = [d for d in strong if d != narrow and d.kind not in "biu"]
        if any(isinstance(w, complex) for w in weak):
            return np.result_type(np.float32, *weak)
        if not rest:
            return narrow
        strong = [np.dtype(np.float32), *rest]
    return np.result_type(*strong, *weak)
