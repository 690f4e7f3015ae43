"""Checks of operands, and the placing of results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.machine.layout import Layout as Placed
from ...ir.ops.registry import require
from ...run.tensors.tensor import Tensor as Handle
from ..devices import kernels
from ..devices.mesh_device import MeshDevice, of_blackhole
from ..devices.wide_value import WideValue
from ..errors import Unsupported, called, expect, failed, mistaken
from ..memory.configs import DRAM_MEMORY_CONFIG, MemoryConfig
from ..memory.placing import matrix, placed, with_spec
from ..memory.values import DEFAULT_TILE, DataType, Layout, TensorMemoryLayout, Tile
from ..tensors.tensor import Tensor


def device_tensor(tensor: Any, what: str = "input tensor") -> Tensor:
    """A tensor on a device, checked. Raises TypeError, RuntimeError."""
    if not isinstance(tensor, Tensor):
        raise mistaken(f"{what} is a {type(tensor).__name__}, wanted a ttnn.Tensor")
    expect(tensor.is_allocated(), f"the {what} is deallocated: Buffer must be allocated on device")
    expect(tensor._device is not None, f"the {what} must be on device (storage type is HOST)")
    return tensor


def float_tensor(tensor: Any, what: str = "input tensor") -> Tensor:
    """A tensor of floats on a device, checked. Raises TypeError, RuntimeError, Unsupported."""
    x = device_tensor(tensor, what)
    if not x.dtype.is_float:
        raise Unsupported(f"{called()} of {x.dtype.name} is not supported: it takes floats")
    return x


def tiled_input(tensor: Any, text: str, what: str = "input tensor") -> Tensor:
    """A tensor on a device in TILE layout, checked. Raises RuntimeError with ``text``."""
    found = device_tensor(tensor, what)
    expect(found.layout is Layout.TILE, text)
    return found


def on_blackhole(tensor: Tensor, text: str) -> None:
    """Raise RuntimeError with ``text`` unless the tensor's board is a Blackhole, for functions that the
    release has for this board alone."""
    assert tensor._device is not None
    expect(of_blackhole(tensor._device.chip), text)


class Target:
    """The place of a result: ``dtype``, ``layout``, ``config``, ``device`` and ``tile``; or, if ``into`` is a
    tensor, the memory of that tensor."""

    tile: Tile = DEFAULT_TILE
    inherited = False  # whether the memory is that of an input, because the caller names none

    def __init__(
        self,
        dtype: DataType,
        layout: Layout,
        config: MemoryConfig,
        device: MeshDevice,
        into: Tensor | None = None,
        like: MemoryConfig | None = None,
    ):
        self.dtype, self.layout, self.config = dtype, layout, config
        self.device, self.into, self.like = device, into, like

    def place(self, shape: Sequence[int]) -> Placed:
        """The layout of a result of the given shape. Raises RuntimeError, Unsupported."""
        grid = self.device.core_grid
        self.config = with_spec(self.config, shape, self.layout, self.like, grid, self.tile)
        self.config = _adapted(self.config, self.like, shape, self.layout, grid)
        return placed(called(), shape, self.dtype, self.layout, self.config, grid, self.tile)

    def resharded(self) -> Target:
        """The target, without the shards that it has from an input, so that the result gets shards of its
        own."""
        if self.inherited and self.config.is_sharded() and self.config.shard_spec is not None:
            self.config = self.config.with_shard_spec(None)
        return self

    def wrap(self, values: Handle | WideValue, padding: float = 0) -> Tensor:
        """A tensor of the values at this place; the values may still have another type or layout."""
        handle = values.handle if isinstance(values, WideValue) else values
        name = self.dtype.stored[0]
        to = self.place(handle.shape)
        if handle.dtype != name:
            handle = kernels.run("cast", [handle], {"to": name}, to)
        handle = kernels.convert(handle, to)
        if self.into is None:
            made = Tensor.of(handle, self.dtype, self.layout, self.config, self.device, padding)
            made.tile = self.tile
            return made
        return _written(self.into, handle)

    def run(
        self,
        op: str,
        operands: Sequence[Handle | WideValue],
        attrs: dict[str, Any] | None = None,
        shape: Any = None,
    ) -> Tensor:
        """The result of a registry op at this place. The kernel writes it there directly if ``shape`` is
        known and nothing has to be rounded. Kernels round bfloat16 ties away from zero; a copy rounds ties to
        even, as ttnn's elementwise functions do."""
        inputs = [x.handle if isinstance(x, WideValue) else x for x in operands]
        if self.dtype is DataType.BFLOAT16 and require(op).moves is None:
            return self.wrap(kernels.run(op, inputs, attrs, kernels.between(inputs)))
        to = None if shape is None else self.place(shape)
        return self.wrap(kernels.run(op, inputs, attrs, to))


def _adapted(
    config: MemoryConfig, like: MemoryConfig | None, shape: Sequence[int], layout: Layout, grid: Any
) -> MemoryConfig:
    """A configuration; if it comes from an input (``like``), with shards that fit the result's shape."""
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


def _written(into: Tensor, handle: Handle) -> Tensor:
    given, made = list(into.shape), list(handle.shape)
    while given and given[0] == 1 and len(given) > len(made):
        given.pop(0)
    while made and made[0] == 1 and len(made) > len(given):
        made.pop(0)
    expect(
        given == made,
        f"Shape of Output tensor {into.shape} provided does not match the broadcasted output shape "
        f"{list(handle.shape)}",
    )
    if list(handle.shape) != list(into.shape):
        handle = kernels.run("reshape", [handle], {"shape": tuple(into.shape)}, handle.layout)
    kernels.overwrite(into._handle, kernels.convert(handle, into._handle.layout))
    return into


def target(
    first: Tensor,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    dtype: DataType | None = None,
    layout: Layout | None = None,
    default: MemoryConfig | None = None,
) -> Target:
    """The place of a result by an operation's usual arguments; without them the place of the first input."""
    assert first._device is not None
    if not isinstance(memory_config, MemoryConfig | None):
        kind = type(memory_config).__name__
        raise mistaken(f"memory_config is a {kind}")
    if output_tensor is not None:
        device_tensor(output_tensor, "output tensor")
        if dtype is not None and dtype is not output_tensor.dtype:
            raise failed("If both output dtype and output tensor are provided, their dtypes should match")
        into = output_tensor
        return Target(into.dtype, into.layout, into.memory_config(), first._device, into)
    like = first._config
    chosen = memory_config or default or like or DRAM_MEMORY_CONFIG
    wanted = layout or first.layout
    kind = dtype or first.dtype
    if kind.is_block:
        wanted = Layout.TILE
    goal = Target(kind, wanted, chosen, first._device, like=like)
    goal.inherited = memory_config is None
    return goal


def fresh_target(
    device: MeshDevice,
    dtype: DataType,
    layout: Layout,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
) -> Target:
    """The place of a result of an operation without input tensors."""
    if output_tensor is not None:
        return target(output_tensor, None, output_tensor)
    return Target(dtype, layout, memory_config or DRAM_MEMORY_CONFIG, device)


def finish(goal: Target, made: WideValue) -> Tensor:
    """The values of the last step as a tensor at the place ``goal``; bool becomes 1 and 0, int32 wraps."""
    if made.dtype == "int32" and goal.dtype is DataType.UINT32:
        made = made.reinterpret("uint32")
    return goal.wrap(made)


def row_of_indices(made: WideValue, goal: Target) -> Tensor:
    """A tensor of indices: uint32 in rows, or the output tensor that the caller gives."""
    if goal.into is None:
        goal.dtype, goal.layout = DataType.UINT32, Layout.ROW_MAJOR
    return finish(goal, made)


def empty_result(goal: Target, shape: Sequence[int], value: float = 0) -> Tensor:
    """A result whose elements all have one value, for an operation over no elements."""
    number = kernels.constant(value, goal.device.chip, goal.dtype.stored[0])
    return goal.run("broadcast_to", [number], {"shape": tuple(shape)}, shape)
