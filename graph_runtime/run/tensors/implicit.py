"""What Python and numpy ask of a tensor that needs its values: each fetches them unasked, so it is counted,
and refused inside of no_implicit_transfer()."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base.dtypes import as_numpy
from ...base.machine.layout import HOST
from .traffic import record, refuse_hidden

__all__ = ["Fetching"]


class Fetching:
    """Base of Tensor: conversions to arrays, numbers and lists. They raise what Tensor.numpy raises, and
    ImplicitTransferError."""

    __slots__ = ()

    def item(self) -> Any:
        """The value of a tensor of one element. Raises ValueError for any other."""
        return self._fetched("item()").item()

    def tolist(self) -> Any:
        """The values as nested lists."""
        return self._fetched("tolist()").tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            view = self._written()[0]
            if view is None or (dtype is not None and as_numpy(dtype) != view.dtype):
                raise ValueError(f"{self!r} needs a copy to become an array: use copy=None or copy=True")
            return view if self.readonly else self._exported()
        array = self._fetched("an array of the tensor") if copy is None else self._fetched("np.array")
        return array if dtype is None else array.astype(dtype, copy=False)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor without dimensions")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        if not self.shape:
            raise TypeError("iteration over a tensor without dimensions")
        return iter(self._fetched("iteration"))

    def __bool__(self) -> bool:
        return bool(self._fetched("bool()"))

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        return self._fetched("an index").__index__()

    def _fetched(self, what: str) -> np.ndarray:
        """numpy(), for ``what`` did not ask for a transfer by name."""
        if self.layout.memory != HOST:
            refuse_hidden(self, what)
            record("implicit", self.device, self.nbytes)
        return self.numpy()
