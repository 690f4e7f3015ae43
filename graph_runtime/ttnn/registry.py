"""The operations by name, and what low modules here ask of high ones: filled by those that have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["OPERATIONS", "SEAMS"]

OPERATIONS: dict[str, Any] = {}  # name without "ttnn." -> Operation
SEAMS: dict[str, Callable[..., Any]] = {}  # "construct": of Tensor(...); "as_torch": of values and a dtype
