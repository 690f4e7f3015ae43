"""Opening and closing devices, and lists of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ...run import device_handles
from ...run.queues.buffer import Mark
from ..errors import Unsupported, called_queue, on_queue
from . import kernels
from .chips import DispatchCoreConfig, DispatchCoreType, MeshShape
from .mesh_device import MeshDevice, chip_of, of_blackhole

__all__ = [
    "CloseDevice",
    "CloseDevices",
    "CreateDevice",
    "CreateDevices",
    "GetDefaultDevice",
    "GetNumAvailableDevices",
    "GetNumPCIeDevices",
    "GetPCIeDeviceID",
    "ReadDeviceProfiler",
    "SetDefaultDevice",
    "SetRootDir",
    "close_device",
    "close_mesh_device",
    "command_queue",
    "create_mesh_device",
    "get_arch_name",
    "get_device_ids",
    "get_num_devices",
    "is_blackhole",
    "is_wormhole_b0",
    "manage_device",
    "open_device",
    "open_mesh_device",
    "synchronize_device",
]


_default: list[MeshDevice | None] = [None]


CLOSING: list[Callable[[MeshDevice], None]] = []  # functions called with each device that closes


def open_device(
    *,
    device_id: int,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    worker_l1_size: int = 0,
) -> MeshDevice:
    """A device; each ``device_id`` is a simulated chip of its own. Sizes are in bytes: ``l1_small_size`` is
    the part of each core's L1 for tables of convolutions only, ``trace_region_size`` the part of each bank of
    DRAM for traces, ``worker_l1_size`` the part of L1 for tensors and circular buffers (0: all that the board
    has). ``dispatch_core_config`` is only kept: a board's grid leaves out the cores for dispatch anyway, and
    on Wormhole the grid is the same for both kinds of cores
    (tt_metal/core_descriptors/wormhole_b0_80_arch*.yaml). Raises RuntimeError for sizes and queues that do
    not fit, Unsupported for ETH on blackhole."""
    made = MeshDevice(device_id, l1_small_size, trace_region_size, num_command_queues, worker_l1_size)
    kind = None if dispatch_core_config is None else dispatch_core_config.type
    if kind is DispatchCoreType.ETH and of_blackhole(made.chip):
        text = (
            "dispatch_core_config: ETH on blackhole frees a column of cores, which this board does not have"
        )
        raise Unsupported(f"ttnn.open_device: {text}", op="ttnn.open_device")
    made.dispatch_core_config = dispatch_core_config  # type: ignore[attr-defined]
    return made


def CreateDevice(
    device_id: int,
    num_command_queues: int = 1,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    dispatch_core_config: DispatchCoreConfig | None = None,
    *,
    worker_l1_size: int = 0,
) -> MeshDevice:
    """open_device, with the arguments in an older order."""
    sizes: dict[str, Any] = {"l1_small_size": l1_small_size, "trace_region_size": trace_region_size}
    how: dict[str, Any] = {"num_command_queues": num_command_queues, "worker_l1_size": worker_l1_size}
    return open_device(device_id=device_id, dispatch_core_config=dispatch_core_config, **sizes, **how)


def CreateDevices(device_ids: Sequence[int], *args: Any, **kwargs: Any) -> dict[int, MeshDevice]:
    return {number: CreateDevice(number, *args, **kwargs) for number in device_ids}


def open_mesh_device(
    mesh_shape: Any = None,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    offset: Any = None,
    physical_device_ids: Sequence[int] = (),
    worker_l1_size: int = 0,
) -> MeshDevice:
    """A mesh of one device. Raises Unsupported for a larger mesh."""
    if mesh_shape is not None and MeshShape(mesh_shape).mesh_size() != 1:
        raise Unsupported(f"meshes of several devices are not supported, got {tuple(mesh_shape)}")
    number = physical_device_ids[0] if physical_device_ids else 0
    given = (num_command_queues, l1_small_size, trace_region_size, dispatch_core_config)
    return CreateDevice(number, *given, worker_l1_size=worker_l1_size)


def synchronize_device(device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = ()) -> None:
    """Wait for all work of the device, or of one of its queues, including work whose results were dropped."""
    with on_queue(device.queue(called_queue() if cq_id is None else cq_id)):
        device.refuse_in_capture("Event Synchronization is")
    Mark(device_handles.open_device(device.chip)).wait()
    for found in list(_tensors(device)):
        found.wait()


def _tensors(device: MeshDevice) -> Iterator[Any]:
    for reference in device_handles.open_device(device.chip).tensors:
        found = reference()
        if found is not None and found.is_allocated and found.buffer is not None:
            yield found


def close_device(device: MeshDevice) -> None:
    """Wait for queued work, then free the device's traces and tensors, as on a card; later use of a freed
    tensor raises RuntimeError."""
    for told in CLOSING:
        told(device)
    try:
        synchronize_device(device)
    except Exception as error:
        warnings.warn(f"closing {device}: {error}", stacklevel=2)
    device.is_open = False
    for tensor in list(device.tensors.values()):
        tensor.deallocate()
    device.clear_program_cache()
    kernels.forget_graphs()
    if _default[0] is device:
        _default[0] = None


CloseDevice = close_device


def close_mesh_device(mesh_device: MeshDevice) -> None:
    """close_device, under the name that meshes have."""
    close_device(mesh_device)


def CloseDevices(devices: dict[int, MeshDevice]) -> None:
    for device in devices.values():
        close_device(device)


@contextmanager
def _closed_after(device: MeshDevice) -> Iterator[MeshDevice]:
    try:
        yield device
    finally:
        close_device(device)


def manage_device(device_id: int) -> AbstractContextManager[MeshDevice]:
    return _closed_after(open_device(device_id=device_id))


def create_mesh_device(*args: Any, **kwargs: Any) -> AbstractContextManager[MeshDevice]:
    return _closed_after(open_mesh_device(*args, **kwargs))


def GetDefaultDevice() -> MeshDevice | None:
    return _default[0]


def SetDefaultDevice(device: MeshDevice | None) -> None:
    _default[0] = device


def get_num_devices() -> int:
    return 1


GetNumAvailableDevices = GetNumPCIeDevices = get_num_devices


def get_device_ids() -> list[int]:
    return [0]


def GetPCIeDeviceID(device_id: int) -> int:
    return device_id


def get_arch_name() -> str:
    return "blackhole" if of_blackhole(chip_of(0)) else "wormhole_b0"


def is_wormhole_b0(device: MeshDevice | None = None) -> bool:
    return not is_blackhole(device)


def is_blackhole(device: MeshDevice | None = None) -> bool:
    return of_blackhole(chip_of(0) if device is None else device.chip)


@contextmanager
def command_queue(cq_id: int) -> Iterator[None]:
    """Choose a command queue for a with block. All queues run their work in one order."""
    with on_queue(cq_id):
        yield


def ReadDeviceProfiler(device: MeshDevice) -> None:
    """No effect: there is no profile to read."""


def SetRootDir(root_dir: str) -> None:
    """No effect: tt-metal's sources are not needed."""
