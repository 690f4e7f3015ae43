"""numpy's ufuncs that devices have kernels for, and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import arithmetic, comparison, reduction

__all__ = ["UFUNCS"]

# each function of these modules says which of numpy's it is
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {
    function.host: function
    for module in (arithmetic, comparison, reduction)
    for function in vars(module).values()
    if isinstance(getattr(function, "host", None), np.ufunc)
}
