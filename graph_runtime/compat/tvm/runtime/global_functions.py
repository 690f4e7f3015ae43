"""tvm.get_global_func and tvm.register_func: packed functions by name, with NDArrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...artifacts import packed_functions
from ...artifacts.packed_functions import list_global_func_names, remove_global_func
from .ndarray import NDArray, shaped, tensor_of

__all__ = ["PackedFunc", "get_global_func", "list_global_func_names", "register_func", "remove_global_func"]


class PackedFunc:
    """A function by name, called with numbers, texts and NDArrays."""

    def __init__(self, found: packed_functions.PackedFunction):
        self._found, self.name = found, found.name

    def __call__(self, *args: Any) -> Any:
        return shaped(self._found(*map(tensor_of, args)))

    def __repr__(self) -> str:
        return f"PackedFunc({self.name})"


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The function of that name. Raises ValueError where there is none, but for ``allow_missing``: None."""
    found = packed_functions.get_global_func(name, allow_missing)
    return None if found is None else PackedFunc(found)


def register_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Give libraries a function, which gets NDArrays and returns none; also as a decorator. Raises
    ValueError for a name that
    there is already, unless ``override``."""
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if f is None:
        return lambda function: register_func(func_name, function, override)
    function = f

    def with_arrays(*args: Any) -> Any:
        made = function(*map(shaped, args))
        return None if isinstance(made, NDArray) else made  # y.copyfrom(...) returns y

    packed_functions.register_func(func_name, with_arrays if callable(f) else f, override)
    return f
