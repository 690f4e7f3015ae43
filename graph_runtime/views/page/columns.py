"""Tables of the page's data: columns of equal length, with repeated texts replaced by numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np


class Texts:
    """A numbering of texts; ``all`` lists the texts in the order of their numbers."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._number: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """The number of a text; a text not seen before gets the next number."""
        number = self._number.get(text)
        if number is None:
            number = self._number[text] = len(self.all)
            self.all.append(text)
        return number


def plain(value: Any) -> Any:
    """The value with numpy arrays and numbers converted to Python's, for JSON; NaN and infinities, which JSON
    lacks, become None."""
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
