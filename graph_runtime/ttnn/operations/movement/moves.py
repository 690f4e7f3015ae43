"""Functions that copy tensors between host and device, and between memories."""

from __future__ import annotations

import math
from typing import Any

from ...devices import kernels
from ...devices.mesh_device import MeshDevice
from ...errors import called, expect
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import CoreRange, CoreRangeSet, coord
from ...memory.values import BufferType, DataType, Layout
from ...tensors.tensor import Tensor, on_device
from ..bodies import AnyTensor
from ..operation import operation
from ..results import device_tensor, target


@operation("to_device")
def to_device(tensor: AnyTensor, device: MeshDevice, memory_config: MemoryConfig | None = None) -> Tensor:
    """A copy of a host tensor on a device, by default in interleaved DRAM."""
    if tensor._device is not None:
        return tensor if memory_config is None else moved(tensor, memory_config)
    config = memory_config or tensor._config
    device.refuse_in_capture("Writes are")
    x, values = tensor, tensor._values()
    return on_device(called(), values, x.dtype, x.layout, device, config, x._padding, x.tile)


@operation("from_device")
def from_device(tensor: AnyTensor, blocking: bool = True) -> Tensor:
    """A copy on the host; the tensor itself if it is on the host."""
    return tensor.cpu(blocking)


@operation("deallocate")
def deallocate(tensor: AnyTensor, force: bool = True) -> None:
    """Free the tensor's memory. Later uses of the tensor raise RuntimeError."""
    tensor.deallocate(force)


def moved(tensor: Tensor, config: MemoryConfig, dtype: DataType | None = None) -> Tensor:
    x = device_tensor(tensor)
    goal = target(x, config, None, dtype)
    goal.tile = x.tile
    handle = x._handle
    if goal.dtype.stored[0] == handle.dtype and goal.place(handle.shape) == handle.layout:
        handle = kernels.copied(handle)
    return goal.wrap(handle, x._padding)


@operation("to_memory_config", "copy")
def to_memory_config(
    tensor: AnyTensor,
    memory_config: MemoryConfig,
    dtype: DataType | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """The values in another memory or in other shards; the tensor itself if it has that memory and those
    shards already."""
    if output_tensor is not None:
        return target(tensor, None, output_tensor).wrap(tensor._handle)
    if tensor._config == memory_config:
        return tensor  # whatever the dtype, as in the release
    return moved(tensor, memory_config, dtype)


def _in_two(x: Tensor, spec: Any) -> bool:
    """Whether ND shards can be described as 2D shards: as blocks of the tensor's matrix, one for each
    core."""
    whole = list(x.padded_shape if x.layout is Layout.TILE else x.shape)
    cut = [1] * (len(whole) - len(spec.shard_shape)) + list(spec.shard_shape)
    counts = [-(-a // b) for a, b in zip(whole, cut, strict=True)]
    first = next((at for at, size in enumerate(cut[:-1]) if size > 1), len(cut) - 2)
    down, across = math.prod(counts[:-1]), counts[-1]
    block = all(count == 1 for count in counts[first + 1 : -1])
    box = spec.grid.bounding_box().grid_size()
    return (
        block
        and down * across <= spec.num_cores()
        and (1 in (down, across) or (down, across) == (box.y, box.x))
    )


def sharded_config(grid: Any, shape: Any, scheme: Any, orientation: Any) -> MemoryConfig:
    """A configuration of shards in L1; ``grid``: the cores, or the size of a rectangle of cores."""
    if not hasattr(grid, "ranges"):
        size = coord(grid)
        grid = CoreRangeSet([CoreRange((0, 0), (size.x - 1, size.y - 1))])
    return MemoryConfig(scheme, BufferType.L1, ShardSpec(grid, shape, orientation))


@operation("interleaved_to_sharded", "copy")
def interleaved_to_sharded(
    input_tensor: Tensor,
    *args: Any,
    output_dtype: DataType | None = None,
    sharded_memory_config: MemoryConfig | None = None,
    preallocated_output: Tensor | None = None,
) -> Tensor:
    """The values in shards. The arguments are (tensor, memory_config[, dtype]) or (tensor, grid, shard_shape,
    scheme, orientation)."""
    given = list(args)
    if sharded_memory_config is None and given and isinstance(given[0], MemoryConfig):
        sharded_memory_config = given.pop(0)
        output_dtype = given.pop(0) if given else output_dtype
    if sharded_memory_config is None:
        grid, shape, scheme, orientation = given[:4]
        output_dtype = given[4] if len(given) > 4 else output_dtype
        sharded_memory_config = sharded_config(grid, shape, scheme, orientation)
    expect(not input_tensor.is_sharded(), "Input tensor must be Interleaved")
    expect(sharded_memory_config.is_sharded(), "Output memory config must be sharded")
    spec = sharded_memory_config.nd_shard_spec
    if spec is not None:
        text = f"ND shards {spec.shard_shape} of {input_tensor.shape} cannot be described by a 2D shard spec"
        expect(_in_two(input_tensor, spec), text)
    if preallocated_output is not None:
        return target(input_tensor, None, preallocated_output).wrap(input_tensor._handle)
    return moved(input_tensor, sharded_memory_config, output_dtype)


@operation("sharded_to_interleaved", "copy")
def sharded_to_interleaved(
    input_tensor: Tensor,
    memory_config: MemoryConfig | None = None,
    output_dtype: DataType | None = None,
) -> Tensor:
    """The values interleaved over the banks of a memory, DRAM by default; a tensor that is not sharded is the
    result itself, wherever it lies."""
    if not input_tensor.is_sharded():
        return input_tensor
    return moved(input_tensor, memory_config or DRAM_MEMORY_CONFIG, output_dtype)


@operation("reshard", "copy")
def reshard(input_tensor: Tensor, memory_config: MemoryConfig, output_tensor: Tensor | None = None) -> Tensor:
    """The values in other shards."""
    if output_tensor is not None:
        return target(input_tensor, None, output_tensor).wrap(input_tensor._handle)
    return moved(input_tensor, memory_config)


_MOVED = (
    "A copy nearer to the end from which its memory is filled; the tensor itself if there is no room nearer."
)


def _is_nearer(made: Tensor, x: Tensor) -> bool:
    """Whether the copy ``made`` lies nearer than ``x`` to the end from which their memory is filled, which is
    the first address of DRAM or the last address of L1."""
    first, second = made.buffer_address(), x.buffer_address()
    return first < second if x.memory_config().buffer_type is BufferType.DRAM else first > second


def _clone(name: str) -> None:
    @operation(name, "copy", doc="A copy with memory of its own." if name == "clone" else _MOVED)
    def function(
        input: Tensor,
        *_: Any,
        dtype: DataType | None = None,
        memory_config: MemoryConfig | None = None,
    ) -> Tensor:
        x = input
        if dtype not in (None, x.dtype):
            text = "ttnn.clone: Tensors with row major layout cannot be converted to another type"
            expect(x.layout is Layout.TILE, text)
        made = moved(x, memory_config or x.memory_config(), dtype)
        stays = name != "clone" and memory_config in (None, x._config) and not _is_nearer(made, x)
        return x if stays else made


for _name in ("clone", "move", "reallocate"):
    _clone(_name)


@operation("assign", "copy")
def assign(
    input_tensor: Tensor,
    output: Any = None,
    *,
    memory_config: MemoryConfig | None = None,
    dtype: DataType | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """A copy of the tensor; with ``output``, its values are written into that tensor."""
    x = input_tensor
    into = output if isinstance(output, Tensor) else output_tensor
    if into is not None:
        return target(x, None, into).wrap(x._handle)
    return moved(x, memory_config or x.memory_config(), dtype)


@operation("copy", "copy")
def copy(input_a: Tensor, input_b: Tensor) -> Tensor:
    """Write the values of a into b; return b."""
    return target(input_a, None, input_b).wrap(input_a._handle)


@operation("copy_host_to_device_tensor")
def copy_host_to_device_tensor(
    host_tensor: AnyTensor, device_tensor: Tensor, cq_id: int | None = None
) -> None:
    """Write the values of a host tensor into a device tensor, at the same address."""
    same = (host_tensor.shape == device_tensor.shape, host_tensor.dtype is device_tensor.dtype)
    expect(all(same), "the tensors must have one shape and dtype")
    assert device_tensor._device is not None
    device_tensor._device.refuse_in_capture("Writes are")
    device_tensor._handle.copy_from(host_tensor._values())
    device_tensor._padding = host_tensor._padding


@operation("copy_device_to_host_tensor")
def copy_device_to_host_tensor(
    device_tensor: Tensor, host_tensor: AnyTensor, blocking: bool = True, cq_id: int | None = None
) -> None:
    """Write the values of a device tensor into a host tensor."""
    expect(host_tensor.shape == device_tensor.shape, "the shapes differ")
    host_tensor._handle.copy_from(device_tensor._values())
