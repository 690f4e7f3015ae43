"""tvm.contrib.debugger."""
from . import debug_executor

__all__ = ["debug_executor"]
