"""Devices: a ttnn device is a mesh of one simulated chip, "tt:0" of the board that ``use_board`` names."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from ...base.machine.devices import Device, parse
from ...base.machine.layout import DRAM, L1
from ..errors import Unsupported, check, fatal
from ..memory.cores import CoreCoord, CoreGrid
from .chips import Arch, MeshShape
from .open_sizes import MOST_QUEUES, sized

__all__ = [
    "MeshDevice",
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
        return Arch.BLACKHOLE if of_blackhole(self.chip) else Arch.WORMHOLE_B0

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


def of_blackhole(chip: Device) -> bool:
    return chip.descriptor.arch == "blackhole"
