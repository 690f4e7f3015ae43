"""What a tensor of another machine is to this one: something that gather() can bring, with others at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Elsewhere"]


class Elsewhere(ABC):
    """Base of handles whose values another machine has."""

    @classmethod
    @abstractmethod
    def gathered(cls, tensors: Sequence[Any]) -> list[np.ndarray]:
        """Copies of the values of several of this class, on the host, in as few messages as there are
        machines."""
