"""Operators: what numpy and Python's operators ask of a Tensor, put in place when it is first used.

eager/ is above Tensor and imports a good part of the package. A user of graphs alone never loads it. The
first use of any of these loads eager/protocol.py, which puts the real methods here.
"""

from __future__ import annotations

import math
from typing import Any

from ...base.providers import provided

__all__ = ["METHODS", "PROPERTIES", "Operators"]

_BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "divmod",
    "pow",
    "matmul",
    "and",
    "or",
    "xor",
    "lshift",
    "rshift",
)
METHODS = (
    "__array_ufunc__",
    "__array_function__",
    "__getitem__",
    "__setitem__",
    "__contains__",
    "__neg__",
    "__pos__",
    "__abs__",
    "__invert__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    *(f"__{side}{name}__" for name in _BINARY for side in ("", "r", "i") if (side, name) != ("i", "divmod")),
    "reshape",
    "ravel",
    "flatten",
    "transpose",
    "squeeze",
    "swapaxes",
    "astype",
    "copy",
    "sum",
    "mean",
    "max",
    "min",
    "var",
    "std",
    "prod",
    "any",
    "all",
    "argmax",
    "argmin",
    "cumsum",
    "clip",
    "round",
    "take",
    "dot",
    "fill",
    "tobytes",
)
PROPERTIES = ("T", "mT", "itemsize", "strides", "flat")


class Operators:
    """Base of Tensor."""

    __slots__ = ()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        """The end of a with block gives the memory back, as deallocate() does."""
        self.deallocate()

    @property
    def nbytes(self) -> int:
        """Bytes of the values on the host: elements times itemsize, whatever the device pads or packs."""
        return self.type.nbytes

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    __hash__ = None  # == is elementwise, as numpy's: use .id as a key


def _late_method(name: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        _load()
        return getattr(self, name)(*args, **kwargs)

    method.__name__ = method.__qualname__ = name
    return method


def _late_property(name: str) -> property:
    def read(self: Any) -> Any:
        _load()
        return getattr(self, name)

    return property(read)


def _load() -> None:
    provided("operators")(Operators)


for _name in METHODS:
    setattr(Operators, _name, _late_method(_name))
for _name in PROPERTIES:
    setattr(Operators, _name, _late_property(_name))
