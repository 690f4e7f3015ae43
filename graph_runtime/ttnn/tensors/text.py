"""A tensor as text, as ttnn prints it."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

__all__ = ["set_printoptions"]

_EDGE = {"empty": 0, "short": 2, "full": 1 << 30}
_START = "ttnn.Tensor("
_options: dict[str, Any] = {"profile": "short", "sci_mode": "default", "precision": 4}


def set_printoptions(
    *, profile: str | None = None, sci_mode: Any = None, precision: int | None = None
) -> None:
    """Set how tensors are printed: ``profile`` "empty", "short" or "full"; ``sci_mode`` True, False or
    "default"; ``precision`` in digits. Raises RuntimeError for an unknown profile."""
    if profile is not None:
        if profile.lower() not in _EDGE:
            raise RuntimeError(f"Unknown profile {profile!r}: empty, short or full")
        _options["profile"] = profile.lower()
    if sci_mode is not None:
        _options["sci_mode"] = {"true": True, "false": False}.get(str(sci_mode).lower(), "default")
    if precision is not None:
        _options["precision"] = precision


def as_text(tensor: Any) -> str:
    """The values, in the profile "short" at most four along each dimension, then shape, dtype and layout."""
    tail = f"shape={tensor.shape}, dtype={tensor.dtype}, layout={tensor.layout})"
    if not tensor.is_allocated():
        return f"{_START}<buffer is not allocated>, {tail}"
    if _options["profile"] == "empty":
        return f"{_START}..., {tail}"
    values = tensor._values()
    return f"{_START}{_nested(values, 1, _scientific(values))}, {tail}"


def _scientific(values: np.ndarray) -> bool:
    if _options["sci_mode"] != "default":
        return bool(_options["sci_mode"])
    if values.dtype.kind != "f":
        return False
    found = np.abs(values[np.isfinite(values) & (values != 0)])
    if not found.size:
        return False
    low, high = float(found.min()), float(found.max())
    return high / low > 1000 or high > 1e8 or low < 1e-4


def _nested(values: np.ndarray, depth: int, scientific: bool) -> str:
    if not values.ndim:
        return _number(values.item(), scientific)
    edge = _EDGE[_options["profile"]]
    if len(values) <= 2 * edge:
        parts = [_nested(v, depth + 1, scientific) for v in values]
    else:
        parts = [_nested(v, depth + 1, scientific) for v in itertools.chain(values[:edge], values[-edge:])]
        parts.insert(edge, "...")
    if values.ndim == 1:
        return "[" + ", ".join(parts) + "]"
    return "[" + (",\n" + " " * (len(_START) + depth)).join(parts) + "]"


def _number(value: Any, scientific: bool) -> str:
    digits = _options["precision"]
    if not isinstance(value, float):
        return f"{value:5d}"
    return f"{value:{digits + 7}.{digits}e}" if scientific else f"{value:{digits + 3}.{digits}f}"
