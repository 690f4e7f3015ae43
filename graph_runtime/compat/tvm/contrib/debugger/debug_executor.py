"""tvm.contrib.debugger.debug_executor."""

from functools import partial

from .....tvm.dump import GraphModuleDebug
from .....tvm.dump import create as _create

create = partial(_create, unset_inputs="allow")

__all__ = ["GraphModuleDebug", "create"]
