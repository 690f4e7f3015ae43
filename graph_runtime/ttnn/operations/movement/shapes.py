"""Functions that change the shapes of tensors: reshape, view, squeeze, expand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....base.dtypes import FORMATS
from ....base.machine.layout import DRAM, ROW_MAJOR
from ....base.machine.layout import Layout as Placed
from ....run.tensors.tensor import Tensor as Handle
from ...accepted.movement import is_view
from ...devices import kernels
from ...errors import Unsupported, expect, mistaken
from ...memory.configs import MemoryConfig, ShardSpec, parts_of
from ...memory.cores import CoreRange, CoreRangeSet
from ...memory.placing import matrix, up
from ...memory.values import TILE_SIZE, Layout, TensorMemoryLayout
from ...registry import OPERATIONS
from ...tensors.tensor import Tensor, on_host
from ..bodies import AnyTensor, TiledTensor
from ..operation import operation
from ..results import Target, device_tensor, target


def axis_of(dim: int, rank: int) -> int:
    """A dimension counted from 0. Raises RuntimeError if the tensor does not have it."""
    expect(-rank <= dim < max(rank, 1), f"dim {dim} is out of range for a tensor of rank {rank}")
    return dim % rank if rank else 0


def reshaped(handle: Handle, shape: Sequence[int]) -> Handle:
    """The values in another shape. A block format cannot change its blocks: the values become rows of float32
    until the result is placed."""
    attrs = {"shape": tuple(shape), "allowzero": True}
    to = None if handle.layout.is_sharded else handle.layout
    if FORMATS[handle.layout.format].shared_exponent:
        to = Placed(DRAM, ROW_MAJOR, "f32")
    return kernels.run("reshape", [handle], attrs, to)


def _resolved(x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """The sizes of ``shape``, in which one -1 stands for the size that remains. Raises RuntimeError for a
    shape that does not fit."""
    sizes = [int(size) for size in shape]
    expect(sizes.count(-1) <= 1, "Shape cannot have more than 1 elements that is set to -1!")
    volume, text = x.logical_volume(), "Attempting to reshape between two shapes with different volumes"
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        expect(
            known or volume,
            f"cannot reshape tensor of 0 elements into shape ({','.join(map(str, shape))},) because the "
            "unspecified dimension size -1 can be any value and is ambiguous",
        )
        expect(known and volume % known == 0, text)
        sizes[sizes.index(-1)] = volume // known
    expect(math.prod(sizes) == volume, text)
    return tuple(sizes)


def _listed(sizes: Sequence[Any]) -> Sequence[int]:
    """Sizes that are given as numbers, or as one list."""
    return sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes


def _reshard(x: Tensor, shape: Sequence[int], goal: Target) -> None:
    """Place a reshaped tensor in shards as the release does: height shards that become one are width shards;
    rows in block shards whose pages would be filled up are interleaved."""
    config = x.memory_config()
    spec = config.shard_spec
    if spec is None:
        return
    if config.memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        rows, columns = matrix(shape, x.layout)
        if -(-rows // spec.num_cores()) >= rows or (x.layout is Layout.TILE and rows <= TILE_SIZE):
            one = ShardSpec(spec.grid, [rows, columns], spec.orientation)
            goal.config = MemoryConfig(TensorMemoryLayout.WIDTH_SHARDED, config.buffer_type, one)
    elif config.memory_layout is TensorMemoryLayout.BLOCK_SHARDED and x.layout is Layout.ROW_MAJOR:
        across = parts_of(config.memory_layout, spec.orientation, spec.grid)[1]
        if -(-shape[-1] // across) * x.element_size() % 16:
            goal.config = MemoryConfig(TensorMemoryLayout.INTERLEAVED, config.buffer_type)


def _with_shape(x: Tensor, shape: Sequence[int], memory_config: MemoryConfig | None = None) -> Tensor:
    if x._device is None:
        return on_host(x._values().reshape(tuple(shape)), x.dtype, x.layout, x._padding, exact=True)
    device_tensor(x)
    goal = target(x, memory_config)
    if tuple(x.shape) == tuple(shape):
        return x if memory_config in (None, x._config) else goal.wrap(x._handle, x._padding)
    if memory_config is None and not is_view(x, shape):
        _reshard(x, shape, goal)
    return goal.wrap(reshaped(x._handle, shape), x._padding)


@operation("reshape", "reshape")
def reshape(
    input_tensor: AnyTensor,
    shape: Any,
    padded_shape: Any = None,
    *,
    memory_config: MemoryConfig | None = None,
    pad_value: float | None = None,
) -> Tensor:
    """The same elements in another shape, in which one -1 stands for the size that remains."""
    if not isinstance(input_tensor, Tensor):
        raise mistaken(f"{type(input_tensor).__name__}")
    if padded_shape is not None and math.prod(shape) != input_tensor.logical_volume():
        return _fewer(input_tensor, [int(size) for size in shape], padded_shape, memory_config)
    sizes = _resolved(input_tensor, shape)
    made = _with_shape(input_tensor, sizes, memory_config)
    if pad_value is not None and made is not input_tensor:
        made._padding = pad_value
    return made


def _fewer(x: Tensor, sizes: list[int], padded: Sequence[int], config: MemoryConfig | None) -> Tensor:
    """The first elements of each dimension: what is left out is padding from then on, as of a decoder that
    computes a whole tile of users and has fewer."""
    same = list(padded) == list(x.padded_shape) and len(sizes) == len(x.shape)
    if not (same and all(0 < size <= had for size, had in zip(sizes, x.shape, strict=True))):
        raise Unsupported("ttnn.reshape to another logical size is supported within the same padded shape")
    made: Tensor = OPERATIONS["slice"](x, [0] * len(sizes), sizes, memory_config=config or x._config)
    return made


def _view(name: str) -> None:
    @operation(name, "reshape")
    def view(input_tensor: AnyTensor, *sizes: int, shape: Any = None) -> Tensor:
        """The same memory in another shape, given as one list or as numbers. The last dimension must
        stay; in tiles the rows of a tile must stay, too."""
        x = input_tensor
        sizes = _resolved(x, _listed(sizes) if shape is None else shape)
        free = x.shape[-1:] == sizes[-1:] or not sizes
        if x.layout is Layout.TILE:
            rows = [1 if len(s) < 2 else s[-2] for s in (x.shape, sizes)]  # a vector is one row
            free = free and (rows[0] == rows[1] or all(row % 32 == 0 for row in rows))
        expect(free, f"a view cannot make {list(sizes)} of {x.shape} without a copy")
        return _with_shape(x, sizes)


for _name in ("view", "experimental.view"):
    _view(_name)


@operation("reshape_on_device", "reshape")
def reshape_on_device(
    input_tensor: AnyTensor,
    W: int,
    Z: int | None = None,
    Y: int | None = None,
    X: int | None = None,
    *,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """reshape to the shape (W, Z, Y, X); W may be a list of the sizes."""
    sizes = _listed([size for size in (W, Z, Y, X) if size is not None])
    return _with_shape(input_tensor, _resolved(input_tensor, sizes), memory_config)


@operation("unsqueeze", "unsqueeze")
def unsqueeze(input_tensor: AnyTensor, dim: int) -> Tensor:
    """The tensor with a dimension of size 1 at ``dim``."""
    rank = len(input_tensor.shape)
    text = f"Dimension out of range (expected to be in range of [{-rank - 1}, {rank}], but got {dim})"
    expect(-rank - 1 <= dim <= rank, text)
    shape = list(input_tensor.shape)
    shape.insert(dim % (rank + 1), 1)
    return _with_shape(input_tensor, shape)


@operation("squeeze", "squeeze")
def squeeze(input_tensor: AnyTensor, dim: Any = None) -> Tensor:
    """The tensor without dimensions of size 1: all of them, or those that ``dim`` names."""
    rank = len(input_tensor.shape)
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    for at in dims:
        text = f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {at})"
        expect(-rank <= at < rank or (not rank and at in (-1, 0)), text)
    gone = {at % max(rank, 1) for at in dims}
    expect(len(gone) == len(dims), f"dims {list(dims)} name a dimension twice")
    shape = [size for at, size in enumerate(input_tensor.shape) if at not in gone or size != 1]
    return _with_shape(input_tensor, shape)


@operation("unsqueeze_to_4D", "reshape")
def unsqueeze_to_4D(tensor: AnyTensor) -> Tensor:
    """The tensor with dimensions of size 1 added in front, up to four dimensions."""
    if len(tensor.shape) > 4:
        raise RuntimeError("Tensor cannot have more than 4 dimensions!")
    return _with_shape(tensor, tensor.shape.to_rank(4))


def spread(x: Tensor, shape: Sequence[int], times: Sequence[int], goal: Target) -> None:
    """Place a repeated tensor in shards as the release does: on the tensor's cores if each core repeats what
    it has, else on all cores of the device; interleaved if pages of rows would be filled up."""
    config, spec = x.memory_config(), x.memory_config().shard_spec
    if spec is None or not goal.inherited:
        return
    changed = [at for at, n in enumerate(times) if n != 1 and shape[at] * n > shape[at]]
    if not changed:
        return
    made = [n * size for n, size in zip(times, shape, strict=True)]
    tiles, kind = x.layout is Layout.TILE, config.memory_layout
    rows, columns = matrix(made, x.layout)
    last = changed == [len(times) - 1]
    local = last and (tiles or kind is TensorMemoryLayout.HEIGHT_SHARDED)
    local |= len(changed) == 1 and not last and _in_own_cores(kind, spec, shape, changed[0])
    grid = goal.device.core_grid
    cores = spec.grid if local else CoreRangeSet([CoreRange((0, 0), (grid.x - 1, grid.y - 1))])
    cut = parts_of(kind, spec.orientation, cores)
    step = (TILE_SIZE, TILE_SIZE) if tiles else (1, max(1, 16 // x.element_size()))
    sizes = [up(-(-size // n), one) for size, n, one in zip((rows, columns), cut, step, strict=True)]
    if kind is TensorMemoryLayout.HEIGHT_SHARDED:
        sizes[1] = columns
    if kind is TensorMemoryLayout.WIDTH_SHARDED:
        sizes[0] = rows
    goal.config = config.with_shard_spec(ShardSpec(cores, sizes, spec.orientation))
    if not tiles and columns * x.element_size() % 16:
        goal.config = MemoryConfig(TensorMemoryLayout.INTERLEAVED, config.buffer_type)


def _in_own_cores(kind: TensorMemoryLayout, spec: ShardSpec, shape: Sequence[int], axis: int) -> bool:
    """Whether each core has all that it repeats along an axis, which is not the last."""
    if kind is TensorMemoryLayout.HEIGHT_SHARDED:
        return axis > 0 and spec.shape[0] % math.prod(shape[axis:-1]) == 0
    return kind is TensorMemoryLayout.WIDTH_SHARDED


def _broadcast(x: Tensor, shape: Sequence[int], goal: Target) -> Tensor:
    rank = len(shape)
    expect(rank >= len(x.shape), f"the shape {list(shape)} has fewer dimensions than {x.shape}")
    own = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    sizes = tuple(a if b == -1 else b for a, b in zip(own, shape, strict=True))
    fits = all(a in (1, b) for a, b in zip(own, sizes, strict=True))
    expect(fits, f"{x.shape} cannot be broadcast to {list(shape)}")
    spread(x, own, [b // max(a, 1) if a else 1 for a, b in zip(own, sizes, strict=True)], goal)
    return goal.run("broadcast_to", [x._handle], {"shape": sizes}, sizes)


@operation("expand", "broadcast_to", takes="memory_config")
def expand(input_tensor: Tensor, shape: Sequence[int], *, goal: Target) -> Tensor:
    """The tensor with its dimensions of size 1 repeated to the sizes of a shape; -1 keeps a size."""
    return _broadcast(input_tensor, shape, goal)


@operation("experimental.broadcast_to", "broadcast_to", takes="memory_config, output")
def broadcast_to(input: TiledTensor, output_shape: Sequence[int], *, goal: Target) -> Tensor:
    """The tensor with its dimensions of size 1 repeated to the sizes of a shape of at most four
    dimensions."""
    most = max(len(output_shape), len(input.shape))
    expect(most <= 4, f"{most} dimensions are more than four")
    for config in (input.memory_config(), goal.config):
        expect(not config.is_sharded(), f"{config} is sharded, which is not supported")
    return _broadcast(input, output_shape, goal)
