"""tvm._ffi, from which scripts import errors and functions by name."""

from ..runtime.global_functions import get_global_func, list_global_func_names, register_func
from . import base

__all__ = ["base", "get_global_func", "list_global_func_names", "register_func"]
