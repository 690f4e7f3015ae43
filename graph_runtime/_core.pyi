"""The compiled module, made by cffi from native/include/*.h: the headers tell of every function."""

from typing import Any

ffi: Any
lib: Any
