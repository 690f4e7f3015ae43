"""Packed functions by name, which operators of TVM's libraries ask for: the runtime's own, and the user's.

    native/tvm: sort, random, products        TVMBackendGetFuncFromEnv  <--  register_func("my.function", f)

A Python callable gets numbers, strings, None and tensors (Tensors over the caller's memory, which it may
write) and returns a number, a string or None. What it raises is the operator's error. A handle that a library
was given calls what is registered then, so a new function takes effect; functions stay alive to the end of
the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from ...base.errors import InputError, KernelError, did_you_mean
from ...binding import core
from ...binding.core import ffi, lib
from .packed_values import STRING, call_packed, put_value, value_of

__all__ = [
    "PackedFunction",
    "flush_caches",
    "get_global_func",
    "list_global_func_names",
    "packed_of",
    "register_func",
    "remove_global_func",
]

_SIGNATURE = "int32_t(uint64_t *, int32_t *, int32_t, uint64_t *, int32_t *, void *)"
_kept: list[Any] = []  # callbacks: libraries keep their addresses
_returned = threading.local()  # the string that a function returned last, until the thread's next


class PackedFunction:
    """A packed function by name, called with numbers, strings, None, arrays and Tensors of the host; arrays
    that it fills are written in place. Returns a number, a string or None."""

    name: str

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *args: Any) -> Any:
        """Raises KernelError with the function's text, InputError for an argument of another kind."""
        function = lib.gr_tvm_global(self.name.encode())
        if function == ffi.NULL:
            raise KernelError(f"function {self.name} was taken away", got=self.name)
        return call_packed(function, args)

    def __repr__(self) -> str:
        return f"PackedFunction({self.name})"


@overload
def get_global_func(name: str) -> PackedFunction: ...
@overload
def get_global_func(name: str, allow_missing: bool) -> PackedFunction | None: ...
def get_global_func(name: str, allow_missing: bool = False) -> PackedFunction | None:
    """The function of that name. Raises InputError where there is none, but for ``allow_missing``: None."""
    if lib.gr_tvm_global(name.encode()) != ffi.NULL:
        return PackedFunction(name)
    if allow_missing:
        return None
    known = list_global_func_names()
    text = (
        f"Cannot find global function {name}{did_you_mean(name, known)}; register_func({name!r}, f) makes one"
    )
    raise InputError(text, got=name, wanted=known)


def list_global_func_names() -> list[str]:
    """The names of all functions, the runtime's and the user's."""
    names, at = set[str](), 0
    while (name := lib.gr_tvm_global_name(at)) != ffi.NULL:
        names.add(ffi.string(name).decode())
        at += 1
    return sorted(names)


def register_func(
    name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Give all libraries a function: register_func("name", f), or as a decorator, @register_func("name") or
    @register_func, which takes the function's own name. Returns the function.

    Raises InputError for a name that there is already, unless ``override``, and for what is no function.
    """
    if callable(name):
        return register_func(name.__name__, name, override)
    if not isinstance(name, str) or not name or "\0" in name:
        raise InputError(f"a function's name is a text, got {name!r}", got=name)
    if f is None:
        return lambda function: register_func(name, function, override)
    if not callable(f):
        raise InputError(f"register_func({name!r}, f) takes a function, got {type(f).__name__}", got=name)
    if lib.gr_tvm_register(name.encode(), packed_of(name, f), override) != lib.GR_OK:
        raise InputError(core.last_error(), got=name)
    return f


def remove_global_func(name: str) -> None:
    """Take a function away. Raises InputError where there is none."""
    get_global_func(name)
    core.check(lib.gr_tvm_register(name.encode(), ffi.NULL, True))


def flush_caches(nbytes: int) -> None:
    """Fill the processor's caches with ``nbytes`` of other memory."""
    np.copyto(np.empty(nbytes, np.uint8), np.zeros(nbytes, np.uint8))


# **************** arguments ****************


def packed_of(name: str, f: Callable[..., Any]) -> Any:
    """A packed function that calls ``f``: a pointer, good to the end of the process. ``name``: for errors."""
    made = ffi.callback(_SIGNATURE, _trampoline(name, f), error=-1)
    _kept.append(made)
    return made


def _trampoline(name: str, f: Callable[..., Any]) -> Callable[..., int]:
    """What the core calls: (values, codes, count, result, its code) -> 0, or -1 with a text."""

    def called(values: Any, codes: Any, count: int, result: Any, result_code: Any, resource: Any) -> int:
        try:
            made = f(*[value_of(values + i, codes[i]) for i in range(count)])
            if isinstance(made, str):
                _returned.text = ffi.new("char[]", made.encode())
                result[0], result_code[0] = core.address_of(_returned.text), STRING
            else:
                result_code[0] = put_value(made, result, f"what {name} returned")
            return 0
        except BaseException as error:  # it cannot go through the library's C
            text = f"{name}: {type(error).__name__}: {error}"
            lib.gr_tvm_fail(text.encode(errors="replace").replace(b"\0", b" "))
            return -1

    return called
