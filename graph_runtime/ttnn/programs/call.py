"""A finished call of an operation: its arguments by name, and its tensors as operands of the factories
(costs/factories)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from ...base.machine.layout import DRAM, L1, ROW_MAJOR, TILE, footprint
from ...costs.factories import CardOperand
from ...costs.factories.movement import Board
from ..devices.mesh_device import MeshDevice
from ..memory.placing import SCHEMES
from ..memory.values import BufferType, Layout, ShardOrientation
from ..tensors.tensor import Tensor


class Call:
    """A call of an operation: ``name`` without "ttnn.", ``values`` of its arguments by name, its ``inputs``
    (tensors, in order), its ``results`` and its device."""

    def __init__(self, name: str, values: Mapping[str, Any], results: list[Tensor], device: MeshDevice):
        self.name, self.values, self.results, self.device = name, values, results, device
        self.inputs = [x for x in flat(values.values()) if x._device is device]

    def get(self, name: str, default: Any = None) -> Any:
        found = self.values.get(name)
        return default if found is None else found

    def format(self, name: str) -> str:
        """The storage format of a tensor among the arguments, "" if it is absent."""
        found = self.values.get(name)
        return "" if found is None else str(found.dtype.stored[1])

    @property
    def first(self) -> CardOperand:
        return operand(self.inputs[0])

    @property
    def made(self) -> CardOperand:
        return operand(self.results[0])

    @property
    def grid(self) -> tuple[int, int]:
        """Numbers of the device's cores: (across, down)."""
        return self.device.core_grid.x, self.device.core_grid.y

    @property
    def cores(self) -> int:
        return self.grid[0] * self.grid[1]

    @property
    def l1(self) -> int:
        """Bytes of a core's L1, including the part that tensors and buffers cannot use."""
        return self.device.chip.descriptor.memory(L1).bank_bytes

    @property
    def board(self) -> Board:
        """What factories ask of the device, as it is after the call."""
        memory, dram = (self.device.chip.descriptor.memory(name) for name in (L1, DRAM))
        held = sum(size for _, size in tensors_in_l1(self.device))
        arch = self.device.arch().name == "BLACKHOLE"
        room = memory.usable - held
        return Board(self.cores, memory.banks, room, memory.bank_bytes, dram.alignment, arch)

    def wide(self, default: bool) -> bool:
        """Whether Dst holds 32 bits."""
        config = self.get("compute_kernel_config") or self.get("compute_config")
        return default if config is None else bool(config.fp32_dest_acc_en)


def flat(values: Any) -> list[Tensor]:
    """The tensors in nested lists and tuples, in order."""
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += flat(value)
    return found


def call_of(operation: Any, args: Any, kwargs: Any, made: Any, device: MeshDevice) -> Call:
    """A finished call; its arguments have the names of the operation's signature."""
    signature = _signatures.get(operation.name)
    if signature is None:
        signature = _signatures[operation.name] = inspect.signature(operation)
    values: dict[str, Any] = {}
    for name, value in signature.bind(*args, **operation.taken(kwargs)).arguments.items():
        kind = signature.parameters[name].kind
        values.update(value if kind is inspect.Parameter.VAR_KEYWORD else {name: value})
    values |= {key: value for key, value in kwargs.items() if key not in values}
    results = [x for x in flat([made]) if x._device is device]
    return Call(operation.name, values, results, device)


_signatures: dict[str, inspect.Signature] = {}


def operand(x: Tensor) -> CardOperand:
    """A tensor in the form in which the factories take operands."""
    config, format = x.memory_config(), x.dtype.stored[1]
    memory = DRAM if config.buffer_type is BufferType.DRAM else L1
    shape, layout = tuple(x.shape), TILE if x.layout is Layout.TILE else ROW_MAJOR
    if config.shard_spec is None:
        return CardOperand(shape, format, layout, memory)
    spec = config.shard_spec
    box = spec.grid.bounding_box().grid_size()
    cores = (box.y, box.x) if box.x * box.y == spec.grid.num_cores() else (1, spec.grid.num_cores())
    turned = spec.orientation is ShardOrientation.COL_MAJOR
    shard = (int(spec.shape[0]), int(spec.shape[1]))
    return CardOperand(shape, format, layout, memory, SCHEMES[config.memory_layout], shard, cores, turned)


def tensors_in_l1(device: MeshDevice) -> list[tuple[Tensor, int]]:
    """(tensor, bytes per core) of each tensor that scripts hold in L1; tensors that share memory are listed
    once."""
    memory, found, seen = device.chip.descriptor.memory(L1), [], set()
    for tensor in list(device.tensors.values()):
        handle = tensor._handle
        if handle.layout.memory != L1 or not handle.is_allocated:
            continue
        key = id(handle if handle._owner is None else handle._owner)
        if key not in seen:
            seen.add(key)
            found.append((tensor, footprint(handle.layout, handle.shape, memory)[0]))
    return found
