"""tvm.contrib.debugger.debug_executor."""

from functools import partial

from ....artifacts.dump import GraphModuleDebug
from ....artifacts.dump import create as _create

create = partial(_create, unset_inputs="allow")

__all__ = ["GraphModuleDebug", "create"]
