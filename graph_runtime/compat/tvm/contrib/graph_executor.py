"""tvm.contrib.graph_executor."""

from __future__ import annotations

from typing import Any

from ....run.factory import create as _create
from ..runtime.device import TvmDevice, as_device
from ..runtime.executors import ExecutorModule, TvmGraphModule, checked, devices_of, executor_of
from ..runtime.global_functions import provide
from ..runtime.module import libraries_of

__all__ = ["GraphModule", "create", "get_device"]

GraphModule = TvmGraphModule


def create(graph_json_str: Any, libmod: Any, device: Any = None, *, ctx: Any = None) -> TvmGraphModule:
    """A GraphModule of a graph and a library, on devices, the first of which is the fallback. The GraphModule
    runs even if inputs are not set. ``ctx``: the name of ``device`` up to TVM 0.7.

    Raises ValueError for an invalid device, and the errors of graph_runtime.create.
    """
    devices = checked(ctx if device is None else device)
    return TvmGraphModule(_create(graph_json_str, libraries_of(libmod), devices, unset_inputs="allow"))


@provide("tvm.graph_executor.create", "tvm.graph_runtime.create")
def _raw(graph_json_str: str, libmod: Any, *numbers: int) -> ExecutorModule:
    devices = devices_of(numbers)
    return executor_of(_create(graph_json_str, libraries_of(libmod), devices, unset_inputs="allow"))


def get_device(libmod: Any, device: Any) -> tuple[list[TvmDevice], int, list[int]]:
    """(devices, number of remote devices, [type, id, type, id, ...] of the devices); the number of remote
    devices is 0. Errors as for create."""
    devices = [as_device(one) for one in checked(device)]
    return devices, 0, [n for one in devices for n in (one.device_type, one.device_id)]
