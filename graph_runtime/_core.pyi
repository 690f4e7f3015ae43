"""The compiled module, made by cffi from native/include/*.h: see the headers for every function of ``lib``."""
from typing import Any

ffi: Any
lib: Any
