"""Tables of the page's data: columns of equal length, and texts that occur often as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

__all__ = ["Texts", "plain"]


class Texts:
    """Gives each text a number; ``all`` is the table of them."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._number: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text."""
        number = self._number.get(text)
        if number is None:
            number = self._number[text] = len(self.all)
            self.all.append(text)
        return number


def plain(value: Any) -> Any:
    """The value with numpy's arrays and numbers as Python's, which JSON has; floats that JSON lacks are
    None."""
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float):
        return value if value - value == 0.0 else None
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return value
