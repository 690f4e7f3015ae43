"""The operations by name: each is there when its module was imported."""

from __future__ import annotations

from typing import Any

OPERATIONS: dict[str, Any] = {}  # name without "ttnn." -> Operation
