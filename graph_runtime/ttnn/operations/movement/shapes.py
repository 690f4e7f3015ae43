"""Shapes: reshape, view, squeeze, expand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ....base.dtypes import FORMATS
from ....base.machine.layout import DRAM, ROW_MAJOR
from ....base.machine.layout import Layout as Placed
from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import Unsupported, check
from ...memory.configs import MemoryConfig
from ...memory.values import Layout
from ...tensors.tensor import Tensor, on_host
from ..operation import Operation, operation
from ..results import device_tensor, target


def axis_of(op: str, dim: int, rank: int) -> int:
    """A dimension counted from 0. Raises RuntimeError where there is none."""
    check(-rank <= dim < max(rank, 1), op, f"dim {dim} is out of range for a tensor of rank {rank}")
    return dim % rank if rank else 0


def reshaped(handle: Handle, shape: Sequence[int]) -> Handle:
    """The values in another shape. Those of a block format are not put into other blocks: they are rows of
    float32 until a result has its place."""
    attrs = {"shape": tuple(shape), "allowzero": True}
    to = None if handle.layout.is_sharded else handle.layout
    if FORMATS[handle.layout.format].shared_exponent:
        to = Placed(DRAM, ROW_MAJOR, "f32")
    return kernels.run("reshape", [handle], attrs, to)


def _resolved(op: str, x: Tensor, shape: Sequence[int]) -> tuple[int, ...]:
    """A shape whose one -1 takes what is left. Raises RuntimeError."""
    sizes = [int(size) for size in shape]
    check(sizes.count(-1) <= 1, op, "Shape cannot have more than 1 elements that is set to -1!")
    volume = x.logical_volume()
    if -1 in sizes:
        known = math.prod(size for size in sizes if size != -1)
        check(
            known and volume % known == 0,
            op,
            "Attempting to reshape between two shapes with different volumes",
        )
        sizes[sizes.index(-1)] = volume // known
    check(math.prod(sizes) == volume, op, "Attempting to reshape between two shapes with different volumes")
    return tuple(sizes)


def _with_shape(
    op: str, x: Tensor, shape: Sequence[int], memory_config: MemoryConfig | None = None
) -> Tensor:
    if x._device is None:
        return on_host(x._values().reshape(tuple(shape)), x.dtype, x.layout, x._padding, exact=True)
    device_tensor(op, x)
    goal = target(op, x, memory_config)
    if tuple(x.shape) == tuple(shape):
        return x if memory_config in (None, x._config) else goal.wrap(x._handle, x._padding)
    return goal.wrap(reshaped(x._handle, shape), x._padding)


@operation("reshape", "reshape")
def reshape(
    input_tensor: Tensor,
    shape: Any,
    padded_shape: Any = None,
    *,
    memory_config: MemoryConfig | None = None,
    pad_value: float | None = None,
    **_: Any,
) -> Tensor:
    """The same elements in another shape; one -1 takes what is left."""
    if not isinstance(input_tensor, Tensor):
        raise TypeError(f"ttnn.reshape(): incompatible function arguments: {type(input_tensor).__name__}")
    if padded_shape is not None and math.prod(shape) != input_tensor.logical_volume():
        raise Unsupported("ttnn.reshape to a smaller logical shape is not supported", op="ttnn.reshape")
    sizes = _resolved("ttnn.reshape", input_tensor, shape)
    made = _with_shape("ttnn.reshape", input_tensor, sizes, memory_config)
    if pad_value is not None and made is not input_tensor:
        made._padding = pad_value
    return made


def _view(name: str) -> None:
    full = f"ttnn.{name}"

    def view(input_tensor: Tensor, shape: Any) -> Tensor:
        """Another shape of the same memory: the last dimension stays, and of tiles the rows of a tile."""
        x = input_tensor
        sizes = _resolved(full, x, shape)
        free = x.shape[-1:] == sizes[-1:] or not sizes
        if x.layout is Layout.TILE:
            same = x.shape[-2:-1] == sizes[-2:-1]
            whole = all(s[-2] % 32 == 0 for s in (x.shape, sizes) if len(s) > 1)
            free = free and (same or (whole and len(x.shape) > 1 < len(sizes)))
        check(free, full, f"a view cannot make {list(sizes)} of {x.shape} without a copy")
        return _with_shape(full, x, sizes)

    Operation(name, view, "reshape")


for _name in ("view", "experimental.view"):
    _view(_name)


@operation("reshape_on_device", "reshape")
def reshape_on_device(input_tensor: Tensor, *shape: Any, memory_config: MemoryConfig | None = None) -> Tensor:
    """reshape to (W, Z, Y, X)."""
    sizes = shape[0] if len(shape) == 1 else shape
    name = "ttnn.reshape_on_device"
    return _with_shape(name, input_tensor, _resolved(name, input_tensor, sizes), memory_config)


@operation("unsqueeze", "unsqueeze")
def unsqueeze(input_tensor: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 at ``dim``."""
    rank = len(input_tensor.shape)
    text = f"Dimension out of range (expected to be in range of [{-rank - 1}, {rank}], but got {dim})"
    check(-rank - 1 <= dim <= rank, "ttnn.unsqueeze", text)
    shape = list(input_tensor.shape)
    shape.insert(dim % (rank + 1), 1)
    return _with_shape("ttnn.unsqueeze", input_tensor, shape)


@operation("squeeze", "squeeze")
def squeeze(input_tensor: Tensor, dim: Any = None) -> Tensor:
    """Without dimensions of size 1: all of them, or those named."""
    rank = len(input_tensor.shape)
    dims = range(rank) if dim is None else [dim] if isinstance(dim, int) else dim
    for at in dims:
        text = f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {at})"
        check(-rank <= at < rank or (not rank and at in (-1, 0)), "ttnn.squeeze", text)
    gone = {at % max(rank, 1) for at in dims}
    check(len(gone) == len(dims), "ttnn.squeeze", f"dims {list(dims)} name a dimension twice")
    shape = [size for at, size in enumerate(input_tensor.shape) if at not in gone or size != 1]
    return _with_shape("ttnn.squeeze", input_tensor, shape)


@operation("unsqueeze_to_4D", "reshape")
def unsqueeze_to_4D(tensor: Tensor) -> Tensor:
    """With dimensions of size 1 in front, up to four."""
    if len(tensor.shape) > 4:
        raise RuntimeError("Tensor cannot have more than 4 dimensions!")
    return _with_shape("ttnn.unsqueeze_to_4D", tensor, tensor.shape.to_rank(4))


def _broadcast(op: str, x: Tensor, shape: Sequence[int], memory_config: Any, output: Any = None) -> Tensor:
    device_tensor(op, x)
    rank = len(shape)
    check(rank >= len(x.shape), op, f"the shape {list(shape)} has fewer dimensions than {x.shape}")
    own = (1,) * (rank - len(x.shape)) + tuple(x.shape)
    sizes = tuple(a if b == -1 else b for a, b in zip(own, shape, strict=True))
    fits = all(a in (1, b) for a, b in zip(own, sizes, strict=True))
    check(fits, op, f"{x.shape} cannot be broadcast to {list(shape)}")
    goal = target(op, x, memory_config, output)
    return goal.run("broadcast_to", [x._handle], {"shape": sizes}, sizes)


@operation("expand", "broadcast_to")
def expand(
    input_tensor: Tensor, shape: Sequence[int], *, memory_config: MemoryConfig | None = None, **_: Any
) -> Tensor:
    """Dimensions of size 1 repeated to a shape; -1 keeps a size."""
    return _broadcast("ttnn.expand", input_tensor, shape, memory_config)


@operation("experimental.broadcast_to", "broadcast_to")
def broadcast_to(
    input: Tensor,
    output_shape: Sequence[int],
    *,
    memory_config: MemoryConfig | None = None,
    output: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """Dimensions of size 1 repeated to a shape, of four dimensions at most."""
    most = max(len(output_shape), len(input.shape))
    op = "ttnn.experimental.broadcast_to"
    check(most <= 4, op, f"{most} dimensions are more than four")
    check(input.layout is Layout.TILE, op, "Input tensor layout must be TILE")
    for config in (input.memory_config(), memory_config):
        check(config is None or not config.is_sharded(), op, f"{config} is sharded, which is not supported")
    return _broadcast(op, input, output_shape, memory_config, output)
