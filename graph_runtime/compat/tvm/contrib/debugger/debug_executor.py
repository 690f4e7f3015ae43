"""tvm.contrib.debugger.debug_executor."""
from .....debug import DebugModule, create_debug as create

__all__ = ["DebugModule", "GraphModuleDebug", "create"]

GraphModuleDebug = DebugModule
