"""The operations by name; importing the module that defines an operation adds it."""

from __future__ import annotations

from typing import Any

from ..base.errors import InputError, no_such

OPERATIONS: dict[str, Any] = {}  # name without "ttnn." -> Operation
# operations that move values between host and device, or free tensors; they run no ttnn program
TRANSFERS = {"from_torch", "to_torch", "as_tensor", "from_device", "to_device", "deallocate"}


def find(name: str) -> Any:
    """The Operation of a name, with or without "ttnn."; raises InputError, which lists similar names."""
    found = OPERATIONS.get(name.removeprefix("ttnn."))
    if found is None:
        raise InputError(no_such("function of ttnn", name, OPERATIONS))
    return found
