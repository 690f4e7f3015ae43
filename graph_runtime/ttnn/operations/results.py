"""From operands to a result: what an operation takes of its arguments, and how its result is placed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.machine.layout import Layout as Placed
from ...ir.ops.registry import require
from ...run.tensors.tensor import Tensor as Handle
from ..devices import kernels
from ..devices.mesh_device import MeshDevice
from ..errors import Unsupported, check, fatal
from ..memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ..memory.placing import matrix, placed, with_spec
from ..memory.values import DEFAULT_TILE, DataType, Layout, TensorMemoryLayout, Tile
from ..tensors.tensor import Tensor


def device_tensor(op: str, tensor: Any, what: str = "input tensor") -> Tensor:
    """A tensor on a device. Raises TypeError, RuntimeError."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"{op}(): incompatible function arguments: {what} is a {type(tensor).__name__}, "
            "wanted a ttnn.Tensor"
        )
    check(tensor.is_allocated(), op, f"the {what} is deallocated: Buffer must be allocated on device")
    check(tensor._device is not None, op, f"the {what} must be on device (storage type is HOST)")
    return tensor


def float_tensor(op: str, tensor: Any) -> Tensor:
    """A tensor of floats on a device. Raises TypeError, RuntimeError, Unsupported."""
    x = device_tensor(op, tensor)
    if not x.dtype.is_float:
        raise Unsupported(f"{op} of {x.dtype.name} is not supported: it takes floats", op=op)
    return x


def tiled_input(op: str, tensor: Any, text: str) -> Tensor:
    """A tensor on a device in TILE layout. Raises RuntimeError with ``text``."""
    found = device_tensor(op, tensor)
    check(found.layout is Layout.TILE, op, text)
    return found


class Target:
    """Where a result goes: ``dtype``, ``layout``, ``config``, ``device``, in tiles of ``tile``, or into the
    tensor ``into``."""

    tile: Tile = DEFAULT_TILE

    def __init__(
        self,
        op: str,
        dtype: DataType,
        layout: Layout,
        config: MemoryConfig,
        device: MeshDevice,
        into: Tensor | None = None,
        like: MemoryConfig | None = None,
    ):
        self.op, self.dtype, self.layout, self.config = op, dtype, layout, config
        self.device, self.into, self.like = device, into, like

    def place(self, shape: Sequence[int]) -> Placed:
        """The layout of a result of a shape. Raises RuntimeError, Unsupported."""
        grid = self.device.core_grid
        self.config = with_spec(self.config, shape, self.layout, self.like, grid, self.tile)
        self.config = _adapted(self.config, self.like, shape, self.layout, grid)
        return placed(self.op, shape, self.dtype, self.layout, self.config, grid, self.tile)

    def wrap(self, handle: Handle, padding: float = 0) -> Tensor:
        """The result of values that may have another type or layout still."""
        name = self.dtype.stored[0]
        to = self.place(handle.shape)
        if handle.dtype != name:
            handle = kernels.run("cast", [handle], {"to": name}, to)
        handle = kernels.convert(handle, to)
        if self.into is None:
            made = Tensor.of(handle, self.dtype, self.layout, self.config, self.device, padding)
            made.tile = self.tile
            return made
        return _written(self.op, self.into, handle)

    def run(
        self, op: str, inputs: Sequence[Handle], attrs: dict[str, Any] | None = None, shape: Any = None
    ) -> Tensor:
        """A registry op whose result has this type, straight to its place where ``shape`` is known and
        nothing is to be rounded: kernels store bfloat16 with ties away from zero, a copy rounds them to even,
        as ttnn's elementwise functions do."""
        if self.dtype is DataType.BFLOAT16 and require(op).moves is None:
            return self.wrap(kernels.run(op, inputs, attrs, kernels.between(inputs)))
        to = None if shape is None else self.place(shape)
        return self.wrap(kernels.run(op, inputs, attrs, to))


def _adapted(
    config: MemoryConfig, like: MemoryConfig | None, shape: Sequence[int], layout: Layout, grid: Any
) -> MemoryConfig:
    """A configuration that was taken over from an input, with shards that fit the result's shape."""
    if config.shard_spec is None or config is not like:
        return config
    bare = config.with_shard_spec(None)
    return with_spec(bare, shape, layout, like, grid) if _misfits(config, shape, layout) else config


def _misfits(config: MemoryConfig, shape: Sequence[int], layout: Layout) -> bool:
    assert config.shard_spec is not None
    rows, cols = matrix(shape, layout)
    own = config.shard_spec.shape
    if config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED and cols > own[1]:
        return True
    if config.memory_layout is TensorMemoryLayout.WIDTH_SHARDED and rows > own[0]:
        return True
    down, across = -(-rows // config.shard_spec.shape[0]), -(-cols // config.shard_spec.shape[1])
    return down * across > config.shard_spec.num_cores()


def _written(op: str, into: Tensor, handle: Handle) -> Tensor:
    given, made = list(into.shape), list(handle.shape)
    while given and given[0] == 1 and len(given) > len(made):
        given.pop(0)
    while made and made[0] == 1 and len(made) > len(given):
        made.pop(0)
    check(
        given == made,
        op,
        f"Shape of Output tensor {into.shape} provided does not match the broadcasted output shape "
        f"{list(handle.shape)}",
    )
    if list(handle.shape) != list(into.shape):
        handle = kernels.run("reshape", [handle], {"shape": tuple(into.shape)}, handle.layout)
    kernels.overwrite(into._handle, kernels.convert(handle, into._handle.layout))
    return into


def target(
    op: str,
    first: Tensor,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    default: MemoryConfig | None = None,
) -> Target:
    """Where a result goes by an operation's usual arguments: as the first input unless they say otherwise."""
    assert first._device is not None
    if not isinstance(memory_config, MemoryConfig | None):
        kind = type(memory_config).__name__
        raise TypeError(f"{op}(): incompatible function arguments: memory_config is a {kind}")
    if output_tensor is not None:
        device_tensor(op, output_tensor, "output tensor")
        if dtype is not None and dtype is not output_tensor.dtype:
            raise fatal(op, "If both output dtype and output tensor are provided, their dtypes should match")
        into = output_tensor
        return Target(op, into.dtype, into.layout, into.memory_config(), first._device, into)
    like = first._config
    chosen = memory_config or default or like or DRAM_MEMORY_CONFIG
    wanted = layout or first.layout
    kind = dtype or first.dtype
    if kind.is_block:
        wanted = Layout.TILE
    return Target(op, kind, wanted, chosen, first._device, like=like)


def fresh_target(
    op: str,
    device: MeshDevice,
    dtype: DataType,
    layout: Layout,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Target:
    """Where a result without tensors as inputs goes."""
    if output_tensor is not None:
        return target(op, output_tensor, None, output_tensor)
    return Target(op, dtype, layout, memory_config or DRAM_MEMORY_CONFIG, device)


def handle_as(tensor: Tensor, dtype: str) -> Handle:
    """The values as elements of a dtype of this package."""
    handle = tensor._handle
    return handle if handle.dtype == dtype else kernels.run("cast", [handle], {"to": dtype})


def empty_result(goal: Target, shape: Sequence[int], value: float = 0) -> Tensor:
    """A result of one value: of what has no elements to be made from."""
    number = kernels.constant(value, goal.device.chip, goal.dtype.stored[0])
    return goal.run("broadcast_to", [number], {"shape": tuple(shape)}, shape)
