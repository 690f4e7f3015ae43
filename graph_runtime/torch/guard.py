"""How many devices there are, as torch's C++ side asks: autograd starts a thread for each, and refuses
gradients on a device that has none.

A guard that is written in Python answers 1, whatever it defines: the method is not open to Python. So the
table of methods of our guard's C++ object is exchanged for a copy in which that one method is ours. That is
checked against the compiled code first; where it looks otherwise, nothing is changed and only tt:0 trains.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch

from .. import core

__all__ = ["Guard", "announce"]

_RETURNS_ONE = bytes.fromhex("b801000000c3")  # mov eax, 1; ret
_METHODS, _COUNT = 26, 15  # of c10::impl::DeviceGuardImplInterface; deviceCount among them
_ALIKE = (14, 15, 17)  # queryEvent and queryStream answer true
_HEAD = 2  # words before the methods: offset to the top, type information
_WORD = ctypes.sizeof(ctypes.c_void_p)


class Guard(torch._C._acc.DeviceGuard):
    """torch's guard of the device: which one is the current one is Python's business (module.py)."""

    def type_(self) -> Any:
        """The device type."""
        return torch._C._autograd.DeviceType.PrivateUse1


def announce(guard: Guard, count: int) -> bool:
    """Let a guard that was not registered yet answer that there are ``count`` devices; False where its
    compiled code is not as it was when this was written."""
    found = ctypes.c_void_p.from_address(id(guard) + object.__basicsize__).value
    table = ctypes.c_void_p.from_address(found).value if found else None
    if not table or not _is_known(table):
        return False
    words = (ctypes.c_void_p * (_HEAD + _METHODS)).from_address(table - _HEAD * _WORD)
    copy = type(words)(*words)
    copy[_HEAD + _COUNT] = core.address_of(core.ffi.addressof(core.lib, "gr_handles_devices"))
    core.lib.gr_handles_set_devices(count)
    guard.table = copy
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(guard))  # torch's C++ side asks to the very end
    ctypes.c_void_p.from_address(found).value = ctypes.addressof(copy) + _HEAD * _WORD
    return True


def _is_known(table: int) -> bool:
    return all((_code(table, at) == _RETURNS_ONE) == (at in _ALIKE) for at in range(13, 18))


def _code(table: int, at: int) -> bytes:
    return ctypes.string_at(ctypes.c_void_p.from_address(table + at * _WORD).value, len(_RETURNS_ONE))
