"""Tensor: ttnn's handle over a tensor of this package, on the host or on a device.

A float tensor is a float32 tensor of this package in the storage format of its ttnn dtype. The padding of
tiles is not stored: the handle has its value, which ``to_torch_with_padded_shape`` shows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.machine.devices import cpu
from ...base.machine.layout import DRAM, TILE, pages
from ...base.machine.layout import Layout as Placed
from ...run.tensors.arrays import array, empty
from ...run.tensors.tensor import Tensor as Handle
from ..devices import kernels
from ..devices.memory_views import get_dram_alignment, get_l1_alignment
from ..devices.mesh_device import MeshDevice
from ..devices.recorder import BANK_ADDRESS
from ..devices.wide_value import WideValue
from ..errors import Unsupported, check, on_queue
from ..memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ..memory.cores import coord, corerange_to_cores
from ..memory.placing import placed, with_spec
from ..memory.values import (
    DEFAULT_TILE,
    BufferType,
    DataType,
    Layout,
    Shape,
    ShardOrientation,
    StorageType,
    Tile,
    element_size,
    tiled,
)
from ..registry import OPERATIONS
from .placements import TensorTopology, replicated
from .specs import TensorSpec
from .text import as_text

numbers = itertools.count(1)  # the ids of tensors


class Tensor:
    """A tensor of ttnn: ``dtype``, ``layout``, ``tile``, ``shape`` (logical), ``padded_shape``. ``_handle``:
    the values; ``_config`` and ``_device``: the place of the values (None on the host); ``_padding``: the
    value of the padding of tiles. The constructor and Python's operators are in operations/operators.py."""

    _handle: Handle
    dtype: DataType
    layout: Layout
    _config: MemoryConfig | None
    _device: MeshDevice | None
    _padding: float
    tile: Tile = DEFAULT_TILE
    _topology: TensorTopology | None = None  # of the tensor on a mesh of which this is a part
    _more: Shape | None = None  # the padded shape, if it is more than whole tiles need

    @classmethod
    def of(
        cls,
        handle: Handle,
        dtype: DataType,
        layout: Layout,
        config: MemoryConfig | None = None,
        device: MeshDevice | None = None,
        padding: float = 0,
        tile: Tile = DEFAULT_TILE,
    ) -> Tensor:
        """A tensor over an existing handle."""
        made = cls.__new__(cls)
        made._set(handle, dtype, layout, config, device, padding)
        made.tile = tile
        return made

    def _set(self, handle: Any, dtype: Any, layout: Any, config: Any, device: Any, padding: Any) -> None:
        self._handle, self.dtype, self.layout = handle, dtype, layout
        self._config, self._device, self._padding = config, device, padding
        self.tensor_id = next(numbers)
        if device is not None:
            device.tensors[self.tensor_id] = self
            device.note_allocation()

    def _shared(self) -> Tensor:
        """Another tensor on the same memory: each is deallocated for itself, the memory with the last of them
        or by force."""
        made = Tensor.of(
            kernels.shared(self._handle),
            self.dtype,
            self.layout,
            self._config,
            self._device,
            self._padding,
            self.tile,
        )
        made._more = self._more
        return made

    @property
    def _value(self) -> WideValue:
        """The values of a tensor on a device, with operators."""
        return WideValue(self._handle)

    # **************** properties ****************

    @property
    def shape(self) -> Shape:
        return Shape(self._handle.shape)

    @property
    def padded_shape(self) -> Shape:
        if self._more is not None:
            return self._more
        if self.layout is not Layout.TILE:
            return self.shape if self._handle.shape else Shape([1])
        one_row = (1,) * (2 - len(self._handle.shape))  # a vector is one row
        return tiled(one_row + self._handle.shape, self.tile)

    @property
    def spec(self) -> Any:
        config = self.memory_config()
        return TensorSpec(self.shape, self.dtype, self.layout, memory_config=config, tile=self.tile)

    def memory_config(self) -> MemoryConfig:
        return DRAM_MEMORY_CONFIG if self._config is None else self._config

    def get_dtype(self) -> DataType:
        return self.dtype

    def get_layout(self) -> Layout:
        return self.layout

    def get_tile(self) -> Tile:
        return self.tile

    def storage_type(self) -> StorageType:
        return StorageType.HOST if self._device is None else StorageType.DEVICE

    def device(self) -> MeshDevice | None:
        return self._device

    def devices(self) -> list[MeshDevice]:
        return [] if self._device is None else [self._device]

    def is_allocated(self) -> bool:
        return self._handle.is_allocated

    def tensor_topology(self) -> TensorTopology:
        return self._topology or replicated([(0, 0)])

    def update_tensor_topology(self, topology: TensorTopology) -> None:
        self._topology = topology

    def is_sharded(self) -> bool:
        return self.memory_config().is_sharded()

    def volume(self) -> int:
        return self.padded_shape.volume()

    def logical_volume(self) -> int:
        return self.shape.volume()

    def element_size(self) -> int:
        return element_size(self.dtype)

    def buffer_address(self) -> int:
        """The address of the tensor in each of its banks."""
        return self._handle.alive()._addr & BANK_ADDRESS

    def buffer_num_pages(self) -> int:
        count, _ = self._pages()
        return count

    def buffer_page_size(self) -> int:
        """Bytes of a page: a tile, or a row of the tensor or of a shard."""
        _, size = self._pages()
        return size

    def buffer_aligned_page_size(self) -> int:
        """Bytes from a page to the next one in its bank."""
        in_dram = self.memory_config().buffer_type is BufferType.DRAM
        step = get_dram_alignment() if in_dram else get_l1_alignment()
        return -(-self.buffer_page_size() // step) * step

    def extract_shard(self, core: Any) -> Tensor:
        """The shard [1, 1, rows, columns] on a core, or of a number, as a host tensor."""
        spec = self.memory_config().shard_spec
        check(self._device is not None and spec is not None, "Tensor.extract_shard", "Buffer not sharded")
        assert spec is not None
        order = corerange_to_cores(spec.grid, None, spec.orientation is ShardOrientation.ROW_MAJOR)
        at = core if isinstance(core, int) else order.index(coord(core))
        (high, wide), whole = spec.shape, self._padded_values()
        rows = whole.reshape((-1, whole.shape[-1]))
        down, right = divmod(at, -(-rows.shape[1] // wide))
        part = rows[high * down : high * (down + 1), wide * right : wide * (right + 1)]
        return on_host(part.reshape((1, 1, *part.shape)), self.dtype, self.layout, exact=True)

    def buffer_unique_id(self) -> int:
        return self.tensor_id

    def _pages(self) -> tuple[int, int]:
        """(number of pages, bytes of a page) of a tensor on a device."""
        check(self._device is not None, "Tensor", "the tensor must be on a device")
        whole = pages(self._handle.alive().layout, tuple(self._handle.shape))
        spec = self.memory_config().shard_spec
        if self.layout is Layout.TILE or spec is None:
            return whole.count, whole.nbytes
        width = min(spec.shape[1], self.shape[-1])
        return whole.count * -(-self.shape[-1] // width), spec.shape[1] * self.element_size()

    def __repr__(self) -> str:
        return as_text(self)

    __hash__ = object.__hash__

    # **************** values ****************

    def to_torch(self, *args: Any, **kwargs: Any) -> Any:
        return OPERATIONS["to_torch"](self, *args, **kwargs)

    def _values(self) -> np.ndarray:
        """The values as an array in the logical shape, copied to the host; float32 for a float type."""
        check(self.is_allocated(), "Tensor", "Tensor is not allocated.")
        if self._device is not None:
            self._device.refuse_in_capture("Reads are")
        return self._handle.numpy()

    def _padded_values(self) -> np.ndarray:
        values, shape = self._values(), tuple(self.padded_shape)
        values = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
        more = [(0, there - here) for here, there in zip(values.shape, shape, strict=True)]
        return np.pad(values, more, constant_values=self._padding) if more else values

    def to_numpy(self) -> np.ndarray:
        return self._values()

    def to_list(self) -> Any:
        return self._values().tolist()

    def item(self) -> Any:
        count = self.logical_volume()
        text = f"tensor.item() requires tensor to have exactly one element, but got {count} elements"
        check(count == 1, "Tensor.item", text)
        return self._values().reshape(()).item()

    # **************** moving ****************

    def cpu(self, blocking: bool = True, cq_id: int | None = None) -> Tensor:
        """A copy on the host; the tensor itself if it is on the host."""
        if self._device is None:
            return self
        if cq_id is not None:
            with on_queue(self._device.queue(cq_id)):
                return self.cpu(blocking)
        made = on_host(self._values(), self.dtype, self.layout, self._padding, exact=True, tile=self.tile)
        made._more = self._more
        return made

    def to(
        self,
        device: Any = None,
        mem_config: MemoryConfig | None = None,
        cq_id: int | None = None,
        *,
        target_layout: Layout | None = None,
    ) -> Tensor:
        """The tensor on a device, or in a layout; a layout may be given in place of the device."""
        if isinstance(device, MeshDevice):
            return OPERATIONS["to_device"](self, device, memory_config=mem_config)
        return OPERATIONS["to_layout"](self, target_layout or device)

    def reshape(self, *shape: Any) -> Tensor:
        sizes = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
        return OPERATIONS["reshape"](self, list(sizes))

    def pad(self, output_shape: Any, input_start: Any, value: float) -> Tensor:
        """A host tensor of ``output_shape``: the values begin at ``input_start``, all others are
        ``value``."""
        self._on_host("Tensor.pad")
        values = self._values()
        made = np.full(tuple(output_shape), value, values.dtype)
        ends = (start + size for start, size in zip(input_start, values.shape, strict=True))
        made[tuple(slice(a, b) for a, b in zip(input_start, ends, strict=True))] = values
        return on_host(made, self.dtype, self.layout, value)

    def unpad(self, start: Any, end: Any) -> Tensor:
        """The part of a host tensor from ``start`` to before ``end``."""
        self._on_host("Tensor.unpad")
        part = tuple(slice(a, b) for a, b in zip(start, end, strict=True))
        return on_host(np.ascontiguousarray(self._values()[part]), self.dtype, self.layout)

    def pad_to_tile(self, value: float) -> Tensor:
        """The values of a host tensor with padding of ``value`` up to whole tiles."""
        self._on_host("Tensor.pad_to_tile")
        made = Tensor.of(self._handle, self.dtype, self.layout, padding=value)
        made._more = tiled(self.shape)
        return made

    def unpad_from_tile(self, shape: Any) -> Tensor:
        self._on_host("Tensor.unpad_from_tile")
        part = tuple(slice(0, size) for size in shape)
        return on_host(np.ascontiguousarray(self._padded_values()[part]), self.dtype, self.layout)

    def _on_host(self, op: str) -> None:
        check(self._device is None, op, "the tensor must be on the host")

    def deallocate(self, force: bool = False) -> None:
        if self._handle.is_allocated:
            self._handle.deallocate(force)


def quantized(values: np.ndarray, dtype: DataType) -> np.ndarray:
    """The values, rounded as a tensor of ``dtype`` stores them; for a block format they are packed in tiles
    and unpacked."""
    if dtype is DataType.BFLOAT16:
        return values.astype(dtypes.to_numpy("bfloat16")).astype(np.float32)
    if dtype.is_block and values.size:
        return array(values, "tt:0", layout=Placed(DRAM, TILE, dtype.stored[1])).numpy()
    return values


def on_host(
    values: np.ndarray,
    dtype: DataType,
    layout: Layout,
    padding: float = 0,
    exact: bool = False,
    tile: Tile = DEFAULT_TILE,
) -> Tensor:
    """A host tensor of the values; ``exact``: whether the values are already rounded to ``dtype``."""
    values = np.asarray(values, dtypes.to_numpy(dtype.stored[0]), order="C")
    if not exact:
        values = quantized(values, dtype)
    return Tensor.of(array(values, cpu(0)), dtype, layout, padding=padding, tile=tile)


def on_device(
    op: str,
    values: np.ndarray,
    dtype: DataType,
    layout: Layout,
    device: MeshDevice,
    config: MemoryConfig | None = None,
    padding: float = 0,
    tile: Tile = DEFAULT_TILE,
) -> Tensor:
    """A tensor on a device with values from the host, by default in interleaved DRAM.

    Raises RuntimeError for a configuration that does not fit, Unsupported, DeviceMemoryError."""
    config, to = _place(op, values.shape, dtype, layout, device, config, tile)
    values = np.asarray(values, dtypes.to_numpy(dtype.stored[0]), order="C")
    return Tensor.of(array(values, device.chip, layout=to), dtype, layout, config, device, padding, tile)


def _place(
    op: str,
    shape: Any,
    dtype: DataType,
    layout: Layout,
    device: MeshDevice,
    config: MemoryConfig | None,
    tile: Tile = DEFAULT_TILE,
) -> tuple[MemoryConfig, Placed]:
    check(device.is_open, op, f"{device} is closed")
    config = with_spec(config or DRAM_MEMORY_CONFIG, shape, layout, None, device.core_grid, tile)
    if not math.prod(shape) and config.is_sharded():
        raise Unsupported(f"{op}: a sharded tensor without elements is not supported", op=op)
    return config, placed(op, shape, dtype, layout, config, device.core_grid, tile)


def tensors_within(value: Any) -> Iterator[Tensor]:
    """The tensors among arguments or results, in order, also those inside of lists, tuples and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from tensors_within(one)
    elif isinstance(value, dict):
        yield from tensors_within(list(value.values()))


def unfilled(
    op: str,
    shape: tuple[int, ...],
    dtype: DataType,
    layout: Layout,
    device: MeshDevice,
    config: MemoryConfig | None = None,
) -> Tensor:
    """A tensor like the result of on_device, but with undefined values."""
    config, to = _place(op, shape, dtype, layout, device, config)
    handle = empty(shape, dtype.stored[0], device.chip, layout=to)
    return Tensor.of(handle, dtype, layout, config, device)
