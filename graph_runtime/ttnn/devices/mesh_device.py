"""Devices: a ttnn device is a mesh, here of one simulated chip of the board that ``use_board`` names; one of
several chips is a ChipMesh (chip_mesh.py). SystemMeshDescriptor: the mesh of the whole machine."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakValueDictionary

from ...base.config import get
from ...base.errors import DeviceError
from ...base.machine.devices import Device, parse
from ...base.machine.layout import DRAM, L1
from ..errors import Unsupported, called, called_queue, check, fatal
from ..memory.cores import CoreCoord, CoreGrid
from .chips import (
    Arch,
    FabricNodeId,
    MeshCoordinate,
    MeshCoordinateRange,
    MeshId,
    MeshShape,
    coordinates,
)
from .clusters import Cluster, cluster_of

__all__ = [
    "MeshDevice",
    "use_board",
]

# bytes of a core's L1 below the part for tensors, which ttnn programs keep for themselves; worker_l1_size may
# ask for these bytes, too (tt_metal/llrt/hal/tt-1xx: MEM_MAP_END to DEFAULT_UNRESERVED)
_KERNEL_CONFIG = 69 * 1024
_MOST_QUEUES = 2  # command queues of a device: dispatch_core_manager::MAX_NUM_HW_CQS

_NOT_IN_CAPTURE = "not supported during trace capture."
_UNSAFE = (
    "Allocating device buffers is unsafe due to the existence of an active trace. These buffers may be "
    "corrupted once a trace is executed."
)
_chosen = {"board": ""}
# {board: it, with the columns of cores that ttnn 0.81.1 leaves to scripts}. Of a p150's 14 columns two are
# harvested (its cluster descriptor in tt-umd @ 3ed9cb6d0), and one dispatches.
_OPENED = {"p150": "p150[cols=11]"}


def use_board(name: str) -> None:
    """Set the board of the devices that are opened from now on, such as "p150", or a machine of several chips
    such as "t3000"; "" means the setting GR_TTNN_BOARD. Raises DeviceError for an unknown name."""
    board = cluster_of(name).board
    parse(f"tt:0={board}" if board else "tt:0")
    _chosen["board"] = name


def machine() -> Cluster:
    """The chips of the machine: those of the board or cluster that is set."""
    return cluster_of(_chosen["board"] or str(get("TTNN_BOARD")))


def chip_of(number: int) -> Device:
    if not isinstance(number, int):
        raise TypeError(f"ttnn.open_device(): incompatible function arguments: device_id is {number!r}")
    check(number >= 0, "ttnn.open_device", f"Device id {number} is not valid")
    board = machine().board
    try:
        return parse(f"tt:{number}={_OPENED.get(board, board)}" if board else f"tt:{number}")
    except DeviceError as error:
        raise DeviceError(f"GR_TTNN_BOARD={board}: {error}", **error.fields) from None


class MeshDevice:
    """A mesh of one chip. ``chip``: this package's device, without the memory that open_device's sizes
    reserve (_sized); ``cached_programs``: keys of the ttnn programs compiled for the chip; ``tensors``:
    {number: tensor} of the tensors that scripts hold; ``warm``: what has run before, a little coarser than
    ``cached_programs``; ``capture``: (queue, number) of the trace that is being captured; ``traces``: numbers
    of the traces that may be executed. Raises RuntimeError for sizes (bytes) that do not fit
    and for a number of queues that is neither 1 nor 2."""

    def __init__(
        self,
        number: int,
        l1_small_size: int = 0,
        trace_region_size: int = 0,
        queues: int = 1,
        worker_l1_size: int = 0,
    ):
        text = f"num_hw_cqs can be between 1 and {_MOST_QUEUES}, got {queues}"
        check(0 < queues <= _MOST_QUEUES, "ttnn.open_device", text)
        for name, size in (
            ("l1_small_size", l1_small_size),
            ("trace_region_size", trace_region_size),
            ("worker_l1_size", worker_l1_size),
        ):
            check(size >= 0, "ttnn.open_device", f"{name} must not be negative, got {size}")
        self.chip = _sized(chip_of(number), l1_small_size, trace_region_size, worker_l1_size)
        self.number, self.l1_small_size, self.trace_region_size = number, l1_small_size, trace_region_size
        self.num_command_queues, self.worker_l1_size = queues, worker_l1_size
        self.cached_programs: set[Any] = set()
        self.tensors: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.caches_programs = self.is_open = True
        self.warm: set[Any] = set()
        self.capture: tuple[int, int] | None = None
        self.traces: set[int] = set()
        self.warned_of_traces = False
        self.mesh: Any = None  # the ChipMesh with which the chip was opened

    def __repr__(self) -> str:
        return f"MeshDevice(1x1 grid, 1 devices: {self.chip.spelling})"

    # **************** properties ****************

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

    def check_inside(self, coordinate: Sequence[int]) -> None:
        """Raise RuntimeError for a coordinate outside of the mesh."""
        where, shape = MeshCoordinate(coordinate), self.shape
        inside = len(where) == len(shape) and all(
            0 <= at < size for at, size in zip(where, shape, strict=True)
        )
        check(inside, "MeshDevice", f"Coordinate {where} not found in mesh {shape}")

    def get_fabric_node_id(self, coord: Any) -> FabricNodeId:
        self.check_inside(coord)
        return FabricNodeId(MeshId(0), self.number)

    def get_view(self) -> MeshDeviceView:
        return MeshDeviceView(self)

    def get_system_mesh_id(self) -> int:
        return 0

    def quiesce_devices(self) -> None:
        """No effect: the queues of a device share one order."""

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
        """The number of a command queue; None means queue 0. Raises RuntimeError for a queue that open_device
        did not make."""
        found = 0 if number is None else int(number)
        text = f"cq_id {found} is out of range: the device has num_command_queues={self.num_command_queues}"
        check(0 <= found < self.num_command_queues, "ttnn.MeshDevice", text)
        return found

    def refuse_in_capture(self, what: str) -> None:
        """Raise RuntimeError if a trace is captured of the queue to which this thread sends ``what``
        (fd_mesh_command_queue.cpp)."""
        if self.capture is not None and self.capture[0] == called_queue():
            more = f" trace id: {self.capture[1]}" if what == "Writes are" else ""
            raise fatal(called(), f"{what} {_NOT_IN_CAPTURE}{more}")

    def note_allocation(self) -> None:
        """Warn, once a device, of a tensor that is allocated while there are traces: on a card a trace
        writes again at the addresses of its capture, whatever lies there (allocator.cpp)."""
        if self.traces and self.capture is None and not self.warned_of_traces:
            self.warned_of_traces = True
            warnings.warn(_UNSAFE, stacklevel=2)

    def worker_core_from_logical_core(self, core: CoreCoord) -> CoreCoord:
        return core

    def sfpu_eps(self) -> float:
        return 2.0**-23

    def sfpu_nan(self) -> float:
        return float("nan")

    def sfpu_inf(self) -> float:
        return float("inf")

    # **************** the program cache ****************

    def num_program_cache_entries(self) -> int:
        return len(self.cached_programs)

    def enable_program_cache(self) -> None:
        self.caches_programs = True

    def clear_program_cache(self) -> None:
        self.cached_programs.clear()
        self.warm.clear()

    def disable_and_clear_program_cache(self) -> None:
        self.clear_program_cache()
        self.caches_programs = False

    def set_program_cache_misses_allowed(self, allowed: bool) -> None:
        self.misses_allowed = allowed

    def enable_async(self, _: bool) -> None:
        """No effect: work is always queued."""

    # **************** sub-devices and other chips ****************

    def reshape(self, shape: Any) -> None:
        if tuple(shape) != (1, 1):
            raise fatal("MeshDevice.reshape", f"a mesh of one device cannot be {tuple(shape)}")

    def create_submesh(self, shape: Any, offset: Any = None) -> MeshDevice:
        self.reshape(shape)
        return self

    def create_submeshes(self, shape: Any) -> list[MeshDevice]:
        return [self.create_submesh(shape)]

    def _declined(self, *_: Any, **__: Any) -> Any:
        raise Unsupported("sub-device managers are not supported: they place the caller's own kernels")

    create_sub_device_manager = load_sub_device_manager = _declined
    remove_sub_device_manager = set_sub_device_stall_group = _declined
    get_optimal_dram_bank_to_logical_worker_assignment = _declined

    def clear_loaded_sub_device_manager(self) -> None:
        """No effect: no manager of sub-devices can be loaded."""

    def reset_sub_device_stall_group(self) -> None:
        """No effect: no stall group can be set."""


class MeshDeviceView:
    """A mesh as seen from this host, on which all of its chips are."""

    def __init__(self, mesh_device: MeshDevice):
        self._mesh = mesh_device

    def shape(self) -> MeshShape:
        return self._mesh.shape

    def num_devices(self) -> int:
        return self._mesh.get_num_devices()

    def is_local(self, coord: Any) -> bool:
        """True. Raises RuntimeError for a coordinate outside of the mesh."""
        self._mesh.check_inside(coord)
        return True

    def get_local_mesh_coord_range(self) -> MeshCoordinateRange:
        return MeshCoordinateRange(self._mesh.shape)


class SystemMeshDescriptor:
    """The mesh of all chips of the machine, which one host has."""

    def shape(self) -> MeshShape:
        return MeshShape(machine().shape)

    local_shape = shape

    def all_local(self) -> bool:
        return True

    def is_local(self, coord: Any) -> bool:
        return self.get_device_id(coord) >= 0

    def get_device_id(self, coord: Any) -> int:
        """The number of a chip. Raises RuntimeError for a coordinate outside of the mesh."""
        places = coordinates(self.shape())
        text = f"Coordinate {MeshCoordinate(coord)} is out of bounds for shape {self.shape()}"
        check(tuple(coord) in places, "SystemMeshDescriptor", text)
        return places.index(MeshCoordinate(coord))


def of_blackhole(chip: Device) -> bool:
    return chip.descriptor.arch == "blackhole"


def _sized(chip: Device, l1_small: int, trace: int, worker: int) -> Device:
    """The chip, with the memory that is left for tensors and circular buffers after open_device's sizes are
    taken off. L1_SMALL takes the end of each core's L1, the trace region the end of each bank of DRAM;
    ``worker``, if not 0, is the size of the part of L1 above the ttnn programs."""
    op, descriptor = "ttnn.open_device", chip.descriptor
    dram, l1 = descriptor.memory(DRAM), descriptor.memory(L1)
    step = dram.alignment
    base = l1.base
    if worker:
        most = l1.usable + _KERNEL_CONFIG
        check(worker <= most, op, f"Worker L1 size {worker} is larger than max size {most}")
        base = -(-(l1.bank_bytes - worker) // step) * step
    small, region = -(-l1_small // step) * step, -(-trace // step) * step
    room = l1.bank_bytes - base
    text = f"Reserved size must be less than bank size: l1_small_size is {l1_small} B, the bank {room} B"
    check(small < room, op, text)
    text = f"trace_region_size {trace} B must be less than a bank of DRAM, {dram.usable} B"
    check(region < dram.usable, op, text)
    made = {DRAM: replace(dram, bank_bytes=dram.bank_bytes - region)}
    made[L1] = replace(l1, base=base, bank_bytes=l1.bank_bytes - small)
    memories = tuple(made.get(m.name, m) for m in descriptor.memories)
    if memories == descriptor.memories:
        return chip
    return replace(chip, descriptor=replace(descriptor, memories=memories))
