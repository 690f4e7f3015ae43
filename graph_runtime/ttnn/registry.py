"""The operations by name; importing the module that defines an operation adds it."""

from __future__ import annotations

from typing import Any

OPERATIONS: dict[str, Any] = {}  # name without "ttnn." -> Operation
# operations that move values between host and device, or free tensors; they run no ttnn program
TRANSFERS = {"from_torch", "to_torch", "as_tensor", "from_device", "to_device", "deallocate"}
