"""CONFIG.enable_comparison_mode: outside of fast runtime mode each operation's result is compared with its
golden function's, by Pearson's correlation. A correlation below CONFIG.comparison_mode_pcc prints a line to
stderr, or, with comparison_mode_should_raise_exception, raises RuntimeError. The golden function runs torch,
whose result serves this comparison only."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import Unsupported
from ..operations.creation.conversion import to_torch
from ..operations.operation import Operation
from ..registry import TRANSFERS
from ..settings import SETTINGS
from ..tensors.tensor import Tensor

# arguments about placement and algorithms, which golden functions do not take
_PLACES = {"memory_config", "output_tensor", "optional_output_tensor", "compute_kernel_config"}
_PLACES |= {"program_config", "core_grid", "sub_core_grids", "dtype", "layout", "device", "numeric_stable"}


def _golden(value: Any) -> Any:
    if isinstance(value, Tensor):
        return to_torch.function(value)
    if isinstance(value, (list, tuple)):
        return [_golden(one) for one in value]
    return value


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _numbers(value: Any) -> np.ndarray:
    values: np.ndarray = value._values() if isinstance(value, Tensor) else value.detach().float().numpy()
    return values.astype(np.float64).ravel()


def _correlation(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation; 1 if both arrays are equal, 0 if only one of the arrays is constant."""
    if a.size != b.size:
        return 0.0
    if np.array_equal(a, b, equal_nan=True):
        return 1.0
    a, b = np.nan_to_num(a), np.nan_to_num(b)
    a, b = a - a.mean(), b - b.mean()
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    return float(a @ b) / scale if scale else 0.0


@contextlib.contextmanager
def compared(operation: Operation, args: Any, kwargs: Any) -> Iterator[Any]:
    """An observer (operation.OBSERVERS) that runs a call and compares the result with the golden
    function's."""
    golden, name = None, operation.python_fully_qualified_name
    if operation.name not in TRANSFERS:
        with contextlib.suppress(Unsupported):
            golden = operation.golden_function
    wanted: list[Any] = []
    if golden is not None:
        given = {key: _golden(value) for key, value in kwargs.items() if key not in _PLACES}
        wanted = _listed(golden(*map(_golden, args), **given))
    made: list[Any] = []
    yield made.append
    if golden is None:
        return
    for at, (found, want) in enumerate(zip(_listed(made[0]), wanted, strict=False)):
        pcc, least = _correlation(_numbers(found), _numbers(want)), SETTINGS.comparison_mode_pcc
        if pcc < least:
            text = f"{name}: Comparing output tensor {at} against CPU LOCAL failed: "
            text += f"pcc is {pcc} but should be >={least}"
            if SETTINGS.comparison_mode_should_raise_exception:
                raise RuntimeError(text)
            sys.stderr.write(f"{text}\n")
