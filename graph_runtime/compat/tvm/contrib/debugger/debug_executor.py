"""tvm.contrib.debugger.debug_executor."""
from .....tvm.dump import GraphModuleDebug, create

__all__ = ["GraphModuleDebug", "create"]
