"""tvm.contrib.debugger.debug_executor."""

from __future__ import annotations

from typing import Any

from ....tvm_files.debugger import create_debug
from ...runtime.executors import ExecutorModule, TvmDebugModule, checked, devices_of, executor_of
from ...runtime.global_functions import provide
from ...runtime.module import libraries_of

__all__ = ["GraphModuleDebug", "create"]

GraphModuleDebug = TvmDebugModule


def create(
    graph_json_str: Any, libmod: Any, device: Any = None, dump_root: Any = None, *, ctx: Any = None
) -> TvmDebugModule:
    """A GraphModuleDebug that writes its files below ``dump_root``. Errors as for graph_executor.create."""
    devices = checked(ctx if device is None else device)
    made = create_debug(graph_json_str, libraries_of(libmod), devices, unset_inputs="allow")
    return TvmDebugModule(made, devices, graph_json_str, dump_root)


@provide("tvm.graph_executor_debug.create", "tvm.graph_runtime_debug.create")
def _raw(graph_json_str: str, libmod: Any, *numbers: int) -> ExecutorModule:
    devices = devices_of(numbers)
    return executor_of(create_debug(graph_json_str, libraries_of(libmod), devices, unset_inputs="allow"))
