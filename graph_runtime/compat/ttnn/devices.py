"""Devices: a ttnn device is a mesh of one simulated chip, "tt:0" of the board that ``use_board`` names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from ...base.machine.devices import Device, parse
from ...base.machine.layout import DRAM, L1
from . import several
from .chips import Arch, DispatchCoreConfig, MeshShape
from .cores import CoreCoord, CoreGrid
from .errors import Unsupported, fatal
from .values import BufferType

__all__ = [
    "CloseDevice",
    "CloseDevices",
    "CreateDevice",
    "CreateDevices",
    "GetDefaultDevice",
    "GetNumAvailableDevices",
    "GetNumPCIeDevices",
    "GetPCIeDeviceID",
    "MeshDevice",
    "ReadDeviceProfiler",
    "SetDefaultDevice",
    "SetRootDir",
    "close_device",
    "close_mesh_device",
    "command_queue",
    "create_mesh_device",
    "get_arch_name",
    "get_device_ids",
    "get_dram_alignment",
    "get_l1_alignment",
    "get_max_worker_l1_unreserved_size",
    "get_memory_view",
    "get_num_devices",
    "is_blackhole",
    "is_wormhole_b0",
    "manage_device",
    "open_device",
    "open_mesh_device",
    "synchronize_device",
    "use_board",
]

_chosen = {"board": ""}


def use_board(name: str) -> None:
    """The board of devices that are opened from now on, as "p150"; "": the default one."""
    parse(f"tt:0={name}" if name else "tt:0")
    _chosen["board"] = name


def _chip(number: int) -> Device:
    board = _chosen["board"]
    return parse(f"tt:{number}={board}" if board else f"tt:{number}")


class MeshDevice:
    """A mesh of one chip. ``chip``: the device of this package; ``programs``: what was counted as compiled
    for it; ``tensors``: those that programs hold, by their numbers; ``recorder``: where a trace is being
    captured (traces.py)."""

    def __init__(self, number: int, l1_small_size: int = 0, trace_region_size: int = 0, queues: int = 1):
        self.chip = _chip(number)
        self.number, self.l1_small_size, self.trace_region_size = number, l1_small_size, trace_region_size
        self.num_command_queues = queues
        self.programs: set[Any] = set()
        self.tensors: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.caches_programs = self.is_open = True
        self.recorder: list[Any] | None = None

    def __repr__(self) -> str:
        return f"MeshDevice(1x1 grid, 1 devices: {self.chip.spelling})"

    # **************** what it is ****************

    @property
    def shape(self) -> MeshShape:
        return MeshShape(1, 1)

    @property
    def core_grid(self) -> CoreGrid:
        rows, cols = self.chip.descriptor.grid
        return CoreGrid(x=cols, y=rows)

    def id(self) -> int:
        return self.number

    def get_device_ids(self) -> list[int]:
        return [self.number]

    def get_device_id(self, *_: Any) -> int:
        return self.number

    def get_num_devices(self) -> int:
        return 1

    def get_devices(self) -> list[MeshDevice]:
        return [self]

    def arch(self) -> Arch:
        return Arch.BLACKHOLE if _is_blackhole(self.chip) else Arch.WORMHOLE_B0

    def compute_with_storage_grid_size(self) -> CoreCoord:
        grid = self.core_grid
        return CoreCoord(grid.x, grid.y)

    def dram_grid_size(self) -> CoreCoord:
        return CoreCoord(self.chip.descriptor.memory(DRAM).banks, 1)

    def num_dram_channels(self) -> int:
        return self.chip.descriptor.memory(DRAM).banks

    def l1_size_per_core(self) -> int:
        return self.chip.descriptor.memory(L1).bank_bytes

    def worker_core_from_logical_core(self, core: CoreCoord) -> CoreCoord:
        return core

    def sfpu_eps(self) -> float:
        return 2.0**-23

    def sfpu_nan(self) -> float:
        return float("nan")

    def sfpu_inf(self) -> float:
        return float("inf")

    # **************** programs ****************

    def num_program_cache_entries(self) -> int:
        return len(self.programs)

    def enable_program_cache(self) -> None:
        self.caches_programs = True

    def clear_program_cache(self) -> None:
        self.programs.clear()

    def disable_and_clear_program_cache(self) -> None:
        self.programs.clear()
        self.caches_programs = False

    def set_program_cache_misses_allowed(self, allowed: bool) -> None:
        self.misses_allowed = allowed

    def enable_async(self, _: bool) -> None:
        """Work is always queued."""

    # **************** what one chip does not have ****************

    def reshape(self, shape: Any) -> None:
        if tuple(shape) != (1, 1):
            raise fatal("MeshDevice.reshape", f"a mesh of one device cannot be {tuple(shape)}")

    def create_submesh(self, shape: Any, offset: Any = None) -> MeshDevice:
        self.reshape(shape)
        return self

    def create_submeshes(self, shape: Any) -> list[MeshDevice]:
        return [self.create_submesh(shape)]

    def _declined(self, *_: Any, **__: Any) -> Any:
        raise Unsupported("sub-device managers are not supported: they place kernels of the caller's")

    create_sub_device_manager = load_sub_device_manager = _declined
    remove_sub_device_manager = set_sub_device_stall_group = _declined
    get_optimal_dram_bank_to_logical_worker_assignment = _declined

    def clear_loaded_sub_device_manager(self) -> None:
        """None can be loaded."""

    def reset_sub_device_stall_group(self) -> None:
        """None can be set."""


def _is_blackhole(chip: Device) -> bool:
    return chip.descriptor.arch == "blackhole"


# **************** opening and closing ****************

_default: list[MeshDevice | None] = [None]


def open_device(
    *,
    device_id: int,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    worker_l1_size: int = 0,
) -> MeshDevice:
    """A device. Each number is a simulated chip of its own. ``dispatch_core_config`` is recorded only."""
    made = MeshDevice(device_id, l1_small_size, trace_region_size, num_command_queues)
    made.dispatch_core_config, made.worker_l1_size = dispatch_core_config, worker_l1_size  # type: ignore[attr-defined]
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
    """open_device's older form."""
    return open_device(
        device_id=device_id,
        l1_small_size=l1_small_size,
        trace_region_size=trace_region_size,
        num_command_queues=num_command_queues,
        dispatch_core_config=dispatch_core_config,
        worker_l1_size=worker_l1_size,
    )


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
    """A mesh of one device. Raises Unsupported for a larger one."""
    if mesh_shape is not None and MeshShape(mesh_shape).mesh_size() != 1:
        raise Unsupported(f"meshes of several devices are not supported, got {tuple(mesh_shape)}")
    number = physical_device_ids[0] if physical_device_ids else 0
    return CreateDevice(
        number,
        num_command_queues,
        l1_small_size,
        trace_region_size,
        dispatch_core_config,
        worker_l1_size=worker_l1_size,
    )


def synchronize_device(device: MeshDevice, cq_id: int | None = None, sub_device_ids: Any = ()) -> None:
    """Wait for all work of the device."""
    for found in list(_tensors(device)):
        found.wait()


def _tensors(device: MeshDevice) -> Iterator[Any]:
    from ...run import core

    for reference in core.open_device(device.chip).tensors:
        found = reference()
        if found is not None and found.is_allocated and found.buffer is not None:
            yield found


def close_device(device: MeshDevice) -> None:
    """Wait for what is queued. Its tensors go with their handles."""
    try:
        synchronize_device(device)
    except Exception as error:
        warnings.warn(f"closing {device}: {error}", stacklevel=2)
    device.is_open = False
    device.programs.clear()
    several.forget()
    if _default[0] is device:
        _default[0] = None


CloseDevice = close_mesh_device = close_device


def CloseDevices(devices: dict[int, MeshDevice]) -> None:
    for device in devices.values():
        close_device(device)


@contextmanager
def manage_device(device_id: int) -> Iterator[MeshDevice]:
    """A device for a with block."""
    device = open_device(device_id=device_id)
    try:
        yield device
    finally:
        close_device(device)


@contextmanager
def create_mesh_device(*args: Any, **kwargs: Any) -> Iterator[MeshDevice]:
    """A mesh for a with block."""
    device = open_mesh_device(*args, **kwargs)
    try:
        yield device
    finally:
        close_device(device)


def GetDefaultDevice() -> MeshDevice | None:
    return _default[0]


def SetDefaultDevice(device: MeshDevice | None) -> None:
    _default[0] = device


# **************** which there are ****************


def get_num_devices() -> int:
    return 1


GetNumAvailableDevices = GetNumPCIeDevices = get_num_devices


def get_device_ids() -> list[int]:
    return [0]


def GetPCIeDeviceID(device_id: int) -> int:
    return device_id


def get_arch_name() -> str:
    return "blackhole" if _is_blackhole(_chip(0)) else "wormhole_b0"


def is_wormhole_b0(device: MeshDevice | None = None) -> bool:
    return not is_blackhole(device)


def is_blackhole(device: MeshDevice | None = None) -> bool:
    return _is_blackhole(_chip(0) if device is None else device.chip)


def get_max_worker_l1_unreserved_size() -> int:
    """Bytes of a core's L1 that tensors may have."""
    return _chip(0).descriptor.memory(L1).usable


def get_l1_alignment() -> int:
    return _chip(0).descriptor.memory(L1).alignment


def get_dram_alignment() -> int:
    return _chip(0).descriptor.memory(DRAM).alignment


@contextmanager
def command_queue(cq_id: int) -> Iterator[None]:
    """A queue for a with block: there is one."""
    yield


def ReadDeviceProfiler(device: MeshDevice) -> None:
    """Silicon's profiler: nothing is collected."""


def SetRootDir(path: str) -> None:
    """Where tt-metal's sources are: they are not needed."""


class MemoryView:
    """Bytes of each bank of a memory: what ttnn.get_memory_view gives."""

    def __init__(self, device: MeshDevice, kind: BufferType):
        from ...run import core

        memory = device.chip.descriptor.memory(DRAM if kind is BufferType.DRAM else L1)
        number, handle = device.chip.descriptor.memories.index(memory), core.open_device(device.chip)
        stats = handle.stats(number)
        taken = stats.allocated - core.lib.gr_buffers_idle(handle.pointer, number)  # idle: kept for the next
        self.num_banks = memory.banks
        self.total_bytes_per_bank = memory.usable
        self.total_bytes_allocated_per_bank = taken
        self.total_bytes_free_per_bank = memory.usable - taken
        self.largest_contiguous_bytes_free_per_bank = stats.largest_free


def get_memory_view(device: MeshDevice, buffer_type: BufferType) -> MemoryView:
    """What the banks of a memory hold now, in bytes; of L1, tensors only. ``device``: an open one."""
    return MemoryView(device, buffer_type)
