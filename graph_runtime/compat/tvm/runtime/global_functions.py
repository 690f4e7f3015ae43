"""tvm.get_global_func and tvm.register_func: packed functions by name, with NDArrays."""

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


# functions that take or give modules, which are no values that a library can pass on
_OF_MODULES: dict[str, Callable[..., Any]] = {}


class PackedFunc:
    """A function by name, called with numbers, texts and NDArrays."""

    def __init__(self, name: str, call: Callable[..., Any]):
        self.name, self._call = name, call

    def __call__(self, *args: Any) -> Any:
        return self._call(*args)

    def __repr__(self) -> str:
        return f"PackedFunc({self.name})"


def get_global_func(name: str, allow_missing: bool = False) -> PackedFunc | None:
    """The function of that name. Raises ValueError where there is none, but for ``allow_missing``: None."""
    own = _OF_MODULES.get(name)
    found = packed_functions.get_global_func(name, allow_missing or own is not None)
    if found is not None:
        return PackedFunc(name, lambda *args: shaped(found(*map(tensor_of, args))))
    return None if own is None else PackedFunc(name, own)


def list_global_func_names() -> list[str]:
    """The names of all functions."""
    return sorted({*packed_functions.list_global_func_names(), *_OF_MODULES})


def provide(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: get_global_func gives the function under these names."""

    def provided(function: Callable[..., Any]) -> Callable[..., Any]:
        _OF_MODULES.update(dict.fromkeys(names, function))
        return function

    return provided


def convert(value: Any) -> Any:
    """A PackedFunc for a function, a tuple for a sequence; anything else stays as it is."""
    if isinstance(value, list | tuple):
        return tuple(map(convert, value))
    if callable(value) and not isinstance(value, PackedFunc):
        return PackedFunc(getattr(value, "__name__", "function"), value)
    return value


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
    packed_functions.register_func(func_name, with_arrays(f) if callable(f) else f, override)
    return f


def with_arrays(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with NDArrays for Tensors; an array that it returns is dropped."""

    def called(*args: Any) -> Any:
        made = function(*map(shaped, args))
        return None if isinstance(made, NDArray) else made  # y.copyfrom(...) returns y

    return called
