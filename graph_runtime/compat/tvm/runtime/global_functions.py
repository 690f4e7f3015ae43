"""tvm.get_global_func and tvm.register_func: packed functions by name, called with NDArrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...tvm_files import packed_functions
from ...tvm_files.packed_functions import remove_global_func
from .ndarray import NDArray, shaped, tensor_of

__all__ = [
    "PackedFunc",
    "convert",
    "get_global_func",
    "list_global_func_names",
    "provide",
    "register_func",
    "remove_global_func",
    "with_arrays",
]


# functions of modules: a library could not pass modules on as values
_OF_MODULES: dict[str, Callable[..., Any]] = {}


class PackedFunc:
    """A packed function by name, called with numbers, texts and NDArrays."""

    def __init__(self, name: str, call: Callable[..., Any]):
        self.name, self._call = name, call

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __repr__(self) -> str:
        return f"PackedFunc({self.name})"


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The function called ``name``. If no function has that name, raises ValueError, or returns None if
    ``allow_missing``."""
    own = _OF_MODULES.get(name)
    found = packed_functions.get_global_func(name, allow_missing or own is not None)
    if found is not None:
        return PackedFunc(name, lambda *args: shaped(found(*map(tensor_of, args))))
    return None if own is None else PackedFunc(name, own)


def list_global_func_names() -> list[str]:
    """The names of all functions."""
    return sorted({*packed_functions.list_global_func_names(), *_OF_MODULES})


def provide(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator of a function, by which get_global_func finds the function under these names."""

    def provided(function: Callable[..., Any]) -> Callable[..., Any]:
        _OF_MODULES.update(dict.fromkeys(names, function))
        return function

    return provided


def convert(value: Any) -> Any:
    """A PackedFunc for a function, and a tuple for a sequence, as packed functions take them; any other value
    is returned unchanged."""
    if isinstance(value, list | tuple):
        return tuple(map(convert, value))
    if callable(value) and not isinstance(value, PackedFunc):
        return PackedFunc(getattr(value, "__name__", "function"), value)
    return value


def register_func(
    func_name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Register a function that libraries can call. It gets NDArrays, and must not return an NDArray. With
    only a name, register_func is a decorator. Raises ValueError for an existing name, unless ``override``."""
    if callable(func_name):
        return register_func(func_name.__name__, func_name, override)
    if f is None:
        return lambda function: register_func(func_name, function, override)
    packed_functions.register_func(func_name, with_arrays(f) if callable(f) else f, override)
    return f


def with_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as a function that gets Tensors, and passes them on as NDArrays. If ``function`` returns
    an array, the result is None instead."""

    def called(*args: Any) -> Any:
        made = function(*map(shaped, args))
        return None if isinstance(made, NDArray) else made  # y.copyfrom(...) returns the array y

    return called
