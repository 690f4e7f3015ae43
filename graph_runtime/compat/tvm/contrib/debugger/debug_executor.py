"""tvm.contrib.debugger.debug_executor."""
from .....debug_dump import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
