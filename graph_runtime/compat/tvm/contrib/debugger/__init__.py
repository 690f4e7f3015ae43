"""tvm.contrib.debugger."""

from . import debug_executor, debug_runtime

__all__ = ["debug_executor", "debug_runtime"]
