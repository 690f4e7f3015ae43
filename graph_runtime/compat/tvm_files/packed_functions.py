"""Packed functions by name, which operators of TVM's libraries look up: functions of the runtime, and
functions that the user registers.

    native/tvm: sort, random, products        TVMBackendGetFuncFromEnv  <--  register_func("my.function", f)

A Python callable gets numbers, strings, None and tensors (Tensors over the caller's memory, which it may
write) and returns a number, a string or None. Its exception becomes the operator's error. A handle that a
library holds calls whatever function is registered when it is called, so a new function takes effect.
Functions stay alive to the end of the process.
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

_SIGNATURE = "int32_t(uint64_t *, int32_t *, int32_t, uint64_t *, int32_t *, void *)"
_kept: list[Any] = []  # callbacks, kept alive because libraries hold their addresses
_returned = threading.local()  # string that a thread's last call returned, kept until the thread's next call


class PackedFunction:
    """A packed function by name, called with numbers, strings, None, arrays and Tensors of the host; arrays
    that it fills are written in place. Returns a number, a string or None."""

    name: str

    def __init__(self, name: str):
        self.name = name

    def __call__(self, *args: Any) -> Any:
        """Call the function. Raises KernelError with the function's text, InputError for an argument of
        another kind."""
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
    """The function called ``name``. If no function has that name, raises InputError, or returns None if
    ``allow_missing``."""
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
    """The names of all functions, those of the runtime and those of the user."""
    names, at = set[str](), 0
    while (name := lib.gr_tvm_global_name(at)) != ffi.NULL:
        names.add(ffi.string(name).decode())
        at += 1
    return sorted(names)


def register_func(
    name: str | Callable[..., Any], f: Callable[..., Any] | None = None, override: bool = False
) -> Any:
    """Register a function for all libraries: register_func("name", f), or as a decorator,
    @register_func("name") or @register_func, which takes the function's own name. Returns the function.

    Raises InputError for an existing name, unless ``override``, and for a value that is not callable.
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
    """Unregister a function. Raises InputError if no function has that name."""
    get_global_func(name)
    core.check(lib.gr_tvm_register(name.encode(), ffi.NULL, True))


def flush_caches(nbytes: int) -> None:
    """Empty the processor's caches: read and write ``nbytes`` of other memory."""
    np.copyto(np.empty(nbytes, np.uint8), np.zeros(nbytes, np.uint8))


# **************** arguments ****************


def packed_of(name: str, f: Callable[..., Any]) -> Any:
    """A pointer to a packed function that calls ``f``, valid to the end of the process. ``name``: the
    function's name, for errors."""
    made = ffi.callback(_SIGNATURE, _trampoline(name, f), error=-1)
    _kept.append(made)
    return made


def _trampoline(name: str, f: Callable[..., Any]) -> Callable[..., int]:
    """The function that the core calls with (values, codes, count, result, code of the result). It returns 0,
    or -1 with a text."""

    def called(values: Any, codes: Any, count: int, result: Any, result_code: Any, resource: Any) -> int:
        try:
            made = f(*[value_of(values + i, codes[i]) for i in range(count)])
            if isinstance(made, str):
                _returned.text = ffi.new("char[]", made.encode())
                result[0], result_code[0] = core.address_of(_returned.text), STRING
            else:
                result_code[0] = put_value(made, result, f"what {name} returned")
            return 0
        except BaseException as error:  # exceptions cannot pass through the library's C
            text = f"{name}: {type(error).__name__}: {error}"
            lib.gr_tvm_fail(text.encode(errors="replace").replace(b"\0", b" "))
            return -1

    return called
