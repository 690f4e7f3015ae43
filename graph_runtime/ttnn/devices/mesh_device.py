"""Devices: a ttnn device is a mesh of one simulated chip, "tt:0" of the board that ``use_board`` names."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakValueDictionary

from ...base.machine.devices import Device, parse
from ...base.machine.layout import DRAM, L1
from ...run import device_handles
from ...run.queues.marks import Mark
from ..errors import Unsupported, check, fatal
from ..memory.cores import CoreCoord, CoreGrid
from . import several
from .chips import Arch, DispatchCoreConfig, DispatchCoreType, MeshShape
from .open_sizes import MOST_QUEUES, sized

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


def chip_of(number: int) -> Device:
    if not isinstance(number, int):
        raise TypeError(f"ttnn.open_device(): incompatible function arguments: device_id is {number!r}")
    check(number >= 0, "ttnn.open_device", f"Device id {number} is not valid")
    board = _chosen["board"]
    return parse(f"tt:{number}={board}" if board else f"tt:{number}")


class MeshDevice:
    """A mesh of one chip. ``chip``: the device of this package, with the memories that its sizes leave;
    ``programs``: what was counted as compiled for it; ``tensors``: those that programs hold, by their
    numbers. Raises RuntimeError for sizes (bytes) that do not fit and for other than 1 or 2 queues."""

    def __init__(
        self,
        number: int,
        l1_small_size: int = 0,
        trace_region_size: int = 0,
        queues: int = 1,
        worker_l1_size: int = 0,
    ):
        text = f"num_hw_cqs can be between 1 and {MOST_QUEUES}, got {queues}"
        check(0 < queues <= MOST_QUEUES, "ttnn.open_device", text)
        for name, size in (
            ("l1_small_size", l1_small_size),
            ("trace_region_size", trace_region_size),
            ("worker_l1_size", worker_l1_size),
        ):
            check(size >= 0, "ttnn.open_device", f"{name} must not be negative, got {size}")
        self.chip = sized(chip_of(number), l1_small_size, trace_region_size, worker_l1_size)
        self.number, self.l1_small_size, self.trace_region_size = number, l1_small_size, trace_region_size
        self.num_command_queues, self.worker_l1_size = queues, worker_l1_size
        self.programs: set[Any] = set()
        self.tensors: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.caches_programs = self.is_open = True

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
        return chip_of(self.number).descriptor.memory(L1).bank_bytes

    def queue(self, number: int | None) -> int:
        """A queue's number, 0 where None. Raises RuntimeError for one that open_device did not make."""
        found = 0 if number is None else int(number)
        text = f"cq_id {found} is out of range: the device has num_command_queues={self.num_command_queues}"
        check(0 <= found < self.num_command_queues, "ttnn.MeshDevice", text)
        return found

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
CLOSING: list[Callable[[MeshDevice], None]] = []  # what is told that a device closes


def open_device(
    *,
    device_id: int,
    l1_small_size: int = 0,
    trace_region_size: int = 0,
    num_command_queues: int = 1,
    dispatch_core_config: DispatchCoreConfig | None = None,
    worker_l1_size: int = 0,
) -> MeshDevice:
    """A device. Each number is a simulated chip of its own. Sizes are bytes: of each core's L1 that only
    tables of convolutions may have, of each bank of DRAM for traces, and of L1 for tensors and circular
    buffers (0: what the board has). ``dispatch_core_config`` is recorded only: a board's grid is without the
    cores that dispatch takes, and on Wormhole the same for both kinds
    (tt_metal/core_descriptors/wormhole_b0_80_arch*.yaml). Raises RuntimeError for sizes and queues that do
    not fit, Unsupported for ETH on blackhole."""
    made = MeshDevice(device_id, l1_small_size, trace_region_size, num_command_queues, worker_l1_size)
    kind = None if dispatch_core_config is None else dispatch_core_config.type
    if kind is DispatchCoreType.ETH and _is_blackhole(made.chip):
        text = "dispatch_core_config: ETH on blackhole frees a column of cores, which the board here has not"
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
    """Wait for all work of the device, or of one of its queues, also that whose results were dropped."""
    device.queue(cq_id)
    Mark(device_handles.open_device(device.chip)).wait()
    for found in list(_tensors(device)):
        found.wait()


def _tensors(device: MeshDevice) -> Iterator[Any]:
    for reference in device_handles.open_device(device.chip).tensors:
        found = reference()
        if found is not None and found.is_allocated and found.buffer is not None:
            yield found


def close_device(device: MeshDevice) -> None:
    """Wait for what is queued. Traces and tensors of the device go, as on a card; a tensor of it that is used
    later is a RuntimeError."""
    try:
        synchronize_device(device)
    except Exception as error:
        warnings.warn(f"closing {device}: {error}", stacklevel=2)
    device.is_open = False
    for told in CLOSING:
        told(device)
    for tensor in list(device.tensors.values()):
        tensor.deallocate()
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
    return "blackhole" if _is_blackhole(chip_of(0)) else "wormhole_b0"


def is_wormhole_b0(device: MeshDevice | None = None) -> bool:
    return not is_blackhole(device)


def is_blackhole(device: MeshDevice | None = None) -> bool:
    return _is_blackhole(chip_of(0) if device is None else device.chip)


@contextmanager
def command_queue(cq_id: int) -> Iterator[None]:
    """A queue for a with block: there is one."""
    yield


def ReadDeviceProfiler(device: MeshDevice) -> None:
    """Silicon's profiler: nothing is collected."""


def SetRootDir(path: str) -> None:
    """Where tt-metal's sources are: they are not needed."""
