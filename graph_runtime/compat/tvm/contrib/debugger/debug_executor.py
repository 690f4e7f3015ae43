"""tvm.contrib.debugger.debug_executor."""

from __future__ import annotations

from typing import Any

from ....artifacts.debugger import create_debug
from ...runtime.executors import TvmDebugModule, checked

__all__ = ["GraphModuleDebug", "create"]

GraphModuleDebug = TvmDebugModule


def create(
    graph_json_str: Any, libmod: Any, device: Any = None, dump_root: Any = None, *, ctx: Any = None
) -> TvmDebugModule:
    """A GraphModuleDebug that writes below ``dump_root``. Raises as graph_executor.create."""
    devices = checked(ctx if device is None else device)
    made = create_debug(graph_json_str, libmod, devices, unset_inputs="allow")
    return TvmDebugModule(made, devices, graph_json_str, dump_root)
