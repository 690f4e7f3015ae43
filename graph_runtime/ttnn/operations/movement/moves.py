"""Between host and device, and between memories."""

from __future__ import annotations

import math
from typing import Any

from ...devices import kernels
from ...devices.mesh_device import MeshDevice
from ...errors import check
from ...memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig, ShardSpec
from ...memory.cores import CoreRange, CoreRangeSet, coord
from ...memory.values import BufferType, DataType, Layout
from ...tensors.tensor import Tensor, on_device
from ..operation import Operation, operation
from ..results import device_tensor, target


@operation("to_device")
def to_device(tensor: Tensor, device: MeshDevice, memory_config: MemoryConfig | None = None) -> Tensor:
    """A copy of a host tensor on a device, in interleaved DRAM or as ``memory_config`` says."""
    if tensor._device is not None:
        return tensor if memory_config is None else moved("ttnn.to_device", tensor, memory_config)
    config = memory_config or tensor._config
    x, values = tensor, tensor._values()
    return on_device("ttnn.to_device", values, x.dtype, x.layout, device, config, x._padding, x.tile)


@operation("from_device")
def from_device(tensor: Tensor, blocking: bool = True, **_: Any) -> Tensor:
    """A copy on the host; a host tensor is returned as it is."""
    return tensor.cpu(blocking)


@operation("deallocate")
def deallocate(tensor: Tensor, force: bool = True) -> None:
    """Give the memory back: uses of the tensor raise from then on."""
    tensor.deallocate(force)


def moved(op: str, tensor: Tensor, config: MemoryConfig, dtype: DataType | None = None) -> Tensor:
    x = device_tensor(op, tensor)
    goal = target(op, x, config, None, dtype)
    goal.tile = x.tile
    handle = x._handle
    if goal.dtype.stored[0] == handle.dtype and goal.place(handle.shape) == handle.layout:
        handle = kernels.copied(handle)
    return goal.wrap(handle, x._padding)


@operation("to_memory_config", "copy")
def to_memory_config(
    tensor: Tensor,
    memory_config: MemoryConfig,
    dtype: DataType | None = None,
    output_tensor: Tensor | None = None,
) -> Tensor:
    """The values in another memory or other shards; the tensor itself where it is there."""
    if output_tensor is not None:
        return target("ttnn.to_memory_config", tensor, None, output_tensor).wrap(tensor._handle)
    if tensor._config == memory_config and dtype in (None, tensor.dtype):
        return tensor
    return moved("ttnn.to_memory_config", tensor, memory_config, dtype)


def _in_two(x: Tensor, spec: Any) -> bool:
    """Whether ND shards are blocks of the tensor's matrix, one a core."""
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


@operation("interleaved_to_sharded", "copy")
def interleaved_to_sharded(
    input_tensor: Tensor,
    *args: Any,
    output_dtype: DataType | None = None,
    sharded_memory_config: MemoryConfig | None = None,
    keep_l1_aligned: bool = False,
    preallocated_output: Tensor | None = None,
) -> Tensor:
    """(tensor, memory_config[, dtype]) or (tensor, grid, shard_shape, scheme, orientation)."""
    name = "ttnn.interleaved_to_sharded"
    device_tensor(name, input_tensor)
    given = list(args)
    if sharded_memory_config is None and given and isinstance(given[0], MemoryConfig):
        sharded_memory_config = given.pop(0)
        output_dtype = given.pop(0) if given else output_dtype
    if sharded_memory_config is None:
        grid, shape, scheme, orientation = given[:4]
        output_dtype = given[4] if len(given) > 4 else output_dtype
        if not hasattr(grid, "ranges"):
            size = coord(grid)
            grid = CoreRangeSet([CoreRange((0, 0), (size.x - 1, size.y - 1))])
        sharded_memory_config = MemoryConfig(scheme, BufferType.L1, ShardSpec(grid, shape, orientation))
    check(not input_tensor.is_sharded(), name, "Input tensor must be Interleaved")
    check(sharded_memory_config.is_sharded(), name, "Output memory config must be sharded")
    spec = sharded_memory_config.nd_shard_spec
    if spec is not None:
        text = (
            f"{name}: ND shards {spec.shard_shape} of {input_tensor.shape} cannot be told as a 2D shard spec"
        )
        check(_in_two(input_tensor, spec), name, text)
    if preallocated_output is not None:
        return target(name, input_tensor, None, preallocated_output).wrap(input_tensor._handle)
    return moved(name, input_tensor, sharded_memory_config, output_dtype)


@operation("sharded_to_interleaved", "copy")
def sharded_to_interleaved(
    input_tensor: Tensor,
    memory_config: MemoryConfig | None = None,
    output_dtype: DataType | None = None,
    **_: Any,
) -> Tensor:
    """The values interleaved over the banks of a memory, DRAM by default."""
    x = device_tensor("ttnn.sharded_to_interleaved", input_tensor)
    check(x.is_sharded(), "ttnn.sharded_to_interleaved", "Input tensor must be sharded")
    return moved("ttnn.sharded_to_interleaved", x, memory_config or DRAM_MEMORY_CONFIG, output_dtype)


@operation("reshard", "copy")
def reshard(input_tensor: Tensor, memory_config: MemoryConfig, output_tensor: Tensor | None = None) -> Tensor:
    """The values in other shards."""
    x = device_tensor("ttnn.reshard", input_tensor)
    check(x.is_sharded(), "ttnn.reshard", "input must be sharded")
    if output_tensor is not None:
        return target("ttnn.reshard", x, None, output_tensor).wrap(x._handle)
    return moved("ttnn.reshard", x, memory_config)


_MOVED = "The values nearer to the end from which their memory is filled, or the tensor itself."


def _is_nearer(made: Tensor, x: Tensor) -> bool:
    """DRAM is filled from its first address, L1 from its last."""
    first, second = made.buffer_address(), x.buffer_address()
    return first < second if x.memory_config().buffer_type is BufferType.DRAM else first > second


def _clone(name: str) -> Operation:
    def function(
        input: Tensor,
        *_: Any,
        dtype: DataType | None = None,
        memory_config: MemoryConfig | None = None,
        compute_kernel_config: Any = None,
        **__: Any,
    ) -> Tensor:
        x = device_tensor(f"ttnn.{name}", input)
        if dtype not in (None, x.dtype):
            text = "ttnn.clone: Tensors with row major layout cannot be converted to another type"
            check(x.layout is Layout.TILE, f"ttnn.{name}", text)
        made = moved(f"ttnn.{name}", x, memory_config or x.memory_config(), dtype)
        stays = name != "clone" and memory_config in (None, x._config) and not _is_nearer(made, x)
        return x if stays else made

    function.__doc__ = "A copy with memory of its own." if name == "clone" else _MOVED
    return Operation(name, function, "copy")


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
    **_: Any,
) -> Tensor:
    """A copy, or the values written into ``output``."""
    x = device_tensor("ttnn.assign", input_tensor)
    into = output if isinstance(output, Tensor) else output_tensor
    if into is not None:
        return target("ttnn.assign", x, None, into).wrap(x._handle)
    return moved("ttnn.assign", x, memory_config or x.memory_config(), dtype)


@operation("copy", "copy")
def copy(input_a: Tensor, input_b: Tensor, **_: Any) -> Tensor:
    """Write the values of a into b."""
    return target("ttnn.copy", device_tensor("ttnn.copy", input_a), None, input_b).wrap(input_a._handle)


@operation("copy_host_to_device_tensor")
def copy_host_to_device_tensor(host_tensor: Tensor, device_tensor: Tensor, **_: Any) -> None:
    """Write the values of a host tensor into a device tensor, at the same address."""
    same = (host_tensor.shape == device_tensor.shape, host_tensor.dtype is device_tensor.dtype)
    check(all(same), "ttnn.copy_host_to_device_tensor", "the tensors must have one shape and dtype")
    device_tensor._handle.copy_from(host_tensor._values())
    device_tensor._padding = host_tensor._padding


@operation("copy_device_to_host_tensor")
def copy_device_to_host_tensor(device_tensor: Tensor, host_tensor: Tensor, *_: Any, **__: Any) -> None:
    """Write the values of a device tensor into a host tensor."""
    check(host_tensor.shape == device_tensor.shape, "ttnn.copy_device_to_host_tensor", "the shapes differ")
    host_tensor._handle.copy_from(device_tensor._values())
