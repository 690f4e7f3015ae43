"""Names of ttnn that this package does not define, and the reasons."""

from __future__ import annotations

import re
from typing import Any

from ..errors import Unsupported

# reason -> expression of the names, without "ttnn."; the first that matches counts
_REASONS = {
    "it talks to other hosts, or it is part of an exchange between chips that is not modelled": (
        r".*(Socket|socket|D2D|D2H|H2D|[Ff]abric|distributed_context|Distributed\w*Stage"
        r"|forwarding|routing_plane|usable_topology|get_num_links|physical_mesh|LayerAck|InterProcess"
        r"|LayerCompletion|using_distributed_env|moe_compute|MoE).*|disaggregation\..*"
        r"|init_distributed_context"
    ),
    "it runs kernels of the caller's": (
        r".*(cb_descriptor|get_cb_address|program_descriptor|RuntimeArgs|TensorAccessorArgs|Mcast|mcast).*"
    ),
    "it needs a card's DRAM cores, which are not simulated": r".*([Pp]refetch).*",
    "it reads or writes a card's own memory": r"cluster\..*|experimental\.reload\..*|.*[Ll]ight_?[Mm]etal.*",
    "it measures a card": r".*(profiler|tracy|perf_data|Realtime|_delay|slow_dispatch|fast_dispatch).*",
    "it draws": r".*(visualize|mesh_table|ColorPalette|ShardingInfo|svg|RGBRange|rgb|YUV|yuv).*",
    "it is how ttnn registers its own operations": (
        r".*(register|registered|create_module_if|experimental_loader|RegisteredOperations|FastOperation).*"
    ),
    "it is a step of ttnn's own comparison with golden functions": r"(decorators|comparison)\..*",
    "it is a step of ttnn's own tracer": r"(tracer|torch_tracer|operation_tracer)\..*",
    "it is a step of ttnn's own reports": r"(graph|graph_report|stack_trace_source|config_serialization)\..*",
    "its golden function is not written here": r".*golden.*",
    "it chooses how a card computes, which is not simulated": (
        r".*(DeviceOperation|ProgramFactory|program_factory|program_config|default_compute_config|attributes).*"
    ),
    "it counts allocations of a real allocator": r"tools\..*",
}
_OTHERWISE = "it is a part of ttnn that only a card needs"


def reason_of(name: str) -> str:
    """Why this package lacks a name."""
    return next((why for why, names in _REASONS.items() if re.fullmatch(names, name)), _OTHERWISE)


class Absent:
    """A name of ttnn that this package does not define. It can be imported; each use of it raises Unsupported
    with the reason."""

    def __init__(self, name: str, why: str):
        self.__name__, self.reason = name, why

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Unsupported(f"{self.__name__} is not supported: {self.reason}", op=self.__name__)

    __call__ = __getitem__ = __truediv__ = __or__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()
