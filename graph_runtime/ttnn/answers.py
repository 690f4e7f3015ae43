"""What ttnn answers about its process, its machine and its types: one process, no profiler."""

from __future__ import annotations

from typing import Any

from .devices.chips import FabricConfig
from .devices.mesh_device import MeshDevice
from .errors import called_queue
from .memory.values import DataType, MathFidelity
from .programs.configs import DeviceComputeKernelConfig
from .programs.descriptors import QueueId, Rank, Size  # type: ignore[attr-defined]  # made from a table

__all__ = [
    "distributed_context_barrier",
    "distributed_context_get_rank",
    "distributed_context_get_size",
    "distributed_context_is_initialized",
    "get_all_programs_perf_data",
    "get_current_command_queue_id_for_thread",
    "get_fabric_config",
    "get_latest_programs_perf_data",
    "get_num_links",
    "init_distributed_context",
    "is_trace_capture_active",
    "layernorm_default_compute_config",
    "rmsnorm_default_compute_config",
    "set_fabric_config",
    "start_tracy_zone",
    "stop_tracy_zone",
    "tracy_frame",
    "tracy_message",
    "ttnn_dtype_to_torch_dtype",
    "using_distributed_env",
]


def is_trace_capture_active(device: MeshDevice) -> bool:
    """Whether a trace is being captured of a queue of the device."""
    return device.capture is not None


def get_current_command_queue_id_for_thread() -> Any:
    """The QueueId of the queue to which this thread sends its work."""
    return QueueId(called_queue())


def get_num_links(mesh_device: MeshDevice, cluster_axis: int | None = None) -> int:
    """Number of links between neighbours: 1, as the release answers on each machine while no fabric is
    set, whatever the axis."""
    return 1


_fabric = [FabricConfig.DISABLED]


def get_fabric_config() -> FabricConfig:
    return _fabric[0]


def set_fabric_config(config: FabricConfig, *_: Any, **__: Any) -> None:
    """Keep the configuration of the links between chips. Collectives read it where the release does: a ring
    without an axis, and whether a mesh is reached in both of its axes."""
    if not isinstance(config, FabricConfig):
        raise TypeError(f"ttnn.set_fabric_config(): incompatible function arguments: {config!r}")
    _fabric[0] = config


# ---------------------------------------------------------------- one process


def init_distributed_context(*_: Any, **__: Any) -> None:
    """No effect: there is one process."""


def distributed_context_barrier(*_: Any) -> None:
    """No effect: there is one process."""


def distributed_context_is_initialized() -> bool:
    return True


def distributed_context_get_rank() -> Any:
    return Rank(0)


def distributed_context_get_size() -> Any:
    return Size(1)


def using_distributed_env() -> bool:
    return False


# ---------------------------------------------------------------- marks of a profiler, which have no effect


def start_tracy_zone(source: str, functName: str, lineNum: int, color: int = 0) -> None:
    """No effect."""


def stop_tracy_zone(name: str = "", color: int = 0) -> None:
    """No effect."""


def tracy_message(source: str, color: int = 0xF0F8FF) -> None:
    """No effect."""


def tracy_frame() -> None:
    """No effect."""


def get_latest_programs_perf_data() -> dict[int, Any]:
    """Nothing: no card measures the time of card programs."""
    return {}


get_all_programs_perf_data = get_latest_programs_perf_data


# ---------------------------------------------------------------- types and sizes


_TORCH = {
    DataType.BFLOAT16: "bfloat16",
    DataType.FLOAT32: "float32",
    DataType.BFLOAT8_B: "float32",
    DataType.BFLOAT4_B: "float32",
    DataType.UINT8: "uint8",
    DataType.UINT16: "uint16",
    DataType.UINT32: "uint32",
    DataType.INT32: "int32",
    DataType.INT8: "int8",
}


def ttnn_dtype_to_torch_dtype(dtype: DataType) -> Any:
    """torch's dtype for values of a ttnn dtype. Raises KeyError, as ttnn does, for a type without one."""
    import torch

    return getattr(torch, _TORCH[dtype])


def layernorm_default_compute_config(arch: Any) -> DeviceComputeKernelConfig:
    """The configuration of layer_norm if none is given, on any architecture."""
    return DeviceComputeKernelConfig(MathFidelity.HiFi4, math_approx_mode=False, fp32_dest_acc_en=True)


def rmsnorm_default_compute_config(arch: Any) -> DeviceComputeKernelConfig:
    """The configuration of rms_norm if none is given, on any architecture."""
    return DeviceComputeKernelConfig(MathFidelity.HiFi4)


def roundup(a: int, b: int) -> int:
    """The least multiple of b that is at least a."""
    return -(-a // b) * b


def find_closest_largest_divisor(num: int, start_divisor: int) -> int:
    """The greatest divisor of ``num`` that is at most ``start_divisor``."""
    return next(divisor for divisor in range(start_divisor, 0, -1) if num % divisor == 0)


def find_max_tile_span(W: int, group_size: int, tile_width: int) -> int:
    """The most tiles that one of the groups of ``group_size`` columns, side by side in W columns, touches."""
    starts = range(0, W, group_size)
    return max(((at + group_size - 1) // tile_width - at // tile_width + 1 for at in starts), default=0)
