"""Opening and closing devices, and lists of them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from ...run import device_handles
from ...run.queues.buffer import Mark
from ..errors import Unsupported, called_queue, check, on_queue
from . import kernels
from .chip_mesh import ChipMesh
from .chips import DispatchCoreConfig, DispatchCoreType, MeshShape, coordinates, fits_into, rectangle
from .mesh_device import MeshDevice, chip_of, machine, of_blackhole

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
    "get_num_pcie_devices",
    "get_pcie_device_ids",
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
    """A mesh of the machine's chips, by default of all of them: a rectangle whose corner is ``offset``, or
    the chips of ``physical_device_ids`` by rows. A line may take the chips of a larger mesh forth in one row
    and back in the next. A mesh of one chip is a device. Raises RuntimeError for a mesh that the machine does
    not have room for."""
    op, system = "ttnn.open_mesh_device", MeshShape(machine().shape)
    shape = system if mesh_shape is None else MeshShape(mesh_shape)
    numbers = _chips(op, system, shape, offset, list(physical_device_ids))
    given = (num_command_queues, l1_small_size, trace_region_size, dispatch_core_config)
    made = [CreateDevice(number, *given, worker_l1_size=worker_l1_size) for number in numbers]
    if len(made) == 1:
        return made[0]
    mesh = ChipMesh(made, shape)
    for member in made:
        member.mesh = mesh
    return mesh


def _chips(op: str, system: MeshShape, shape: MeshShape, offset: Any, given: list[int]) -> list[int]:
    """The numbers of the chips of a mesh, by its rows."""
    count, most = shape.mesh_size(), system.mesh_size()
    if given:
        text = f"the mesh has {count} chips, physical_device_ids names {len(given)}"
        check(len(set(given)) == len(given) == count, op, f"{text}: each chip once")
        check(all(0 <= one < most for one in given), op, f"chips are 0 to {most - 1}, got {given}")
        return given
    too_big = (
        f"Requested mesh is too big and is not rotatable: {tuple(shape)} has {count} chips, the machine is "
        f"{tuple(system)}: choose a machine by GR_TTNN_BOARD or --board, such as t3000"
    )
    check(0 < count <= most, op, too_big)
    start = [0] * len(system) if offset is None else list(offset)
    text = (
        f"offset {tuple(start)}: a mesh of {tuple(shape)} there is outside of the machine's {tuple(system)}"
    )
    inside = fits_into(shape, system, start)
    check(inside or (len(start) == len(system) and not any(start)), op, text)
    if len(shape) != len(system):  # a mesh of another rank is a line
        return list(range(count))
    if inside:
        return [r * system[1] + c for r, c in rectangle(start, shape)]
    check(min(shape) == 1 or fits_into(shape[::-1], system), op, too_big)
    if min(shape) == 1:  # a line through the rows, forth and back, so that neighbours are cabled
        rows = [
            [r * system[1] + c for c in range(system[1])][:: 1 if r % 2 == 0 else -1]
            for r in range(system[0])
        ]
        return [number for row in rows for number in row][:count]
    return [c * system[1] + r for r, c in coordinates(shape)]


def synchronize_device(device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = ()) -> None:
    """Wait for all work of the device, or of one of its queues, including work whose results were dropped."""
    with on_queue(device.queue(called_queue() if cq_id is None else cq_id)):
        device.refuse_in_capture("Event Synchronization is")
    if isinstance(device, ChipMesh):
        for member in device.members:
            synchronize_device(member, cq_id)
        return
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
    if isinstance(device, ChipMesh):
        if device.parent is None:
            for member in device.members:
                close_device(member)
        device.is_open = False
        return
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
    """Number of the machine's chips."""
    return MeshShape(machine().shape).mesh_size()


GetNumAvailableDevices = get_num_devices


def get_num_pcie_devices() -> int:
    """Number of the machine's chips with a PCIe link of their own."""
    return machine().on_pcie


GetNumPCIeDevices = get_num_pcie_devices


def get_pcie_device_ids() -> list[int]:
    return list(range(get_num_pcie_devices()))


def get_device_ids() -> list[int]:
    return list(range(get_num_devices()))


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
