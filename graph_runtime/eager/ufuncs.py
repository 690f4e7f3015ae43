"""numpy's ufuncs that devices have kernels for, and the functions that run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import arithmetic, reduction
from .elementwise import ELEMENTWISE

__all__ = ["UFUNCS"]

# each function says which of numpy's it is
UFUNCS: dict[np.ufunc, Callable[..., Any]] = {}
for _functions in (ELEMENTWISE, vars(arithmetic), vars(reduction)):
    for _function in _functions.values():
        if isinstance(_host := getattr(_function, "host", None), np.ufunc):
            UFUNCS[_host] = _function
