"""tvm.contrib.debugger.debug_runtime: the name of debug_executor up to TVM 0.7."""

from .debug_executor import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
