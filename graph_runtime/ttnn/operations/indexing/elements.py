"""Elements by index: embedding, gather, topk, sort, scatter."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels, several
from ...errors import Unsupported, check
from ...memory.configs import MemoryConfig
from ...memory.values import DataType, EmbeddingsType, Layout
from ...tensors.tensor import Tensor
from ..movement.shapes import axis_of
from ..operation import operation
from ..results import device_tensor, target, tiled_input
from ..wide import Wide
from .ranks import MOST_KEPT, places_in_order

__all__: list[str] = []

_INDICES = 65535  # the greatest that uint16 holds


def _indices(w: Wide, x: Tensor) -> Handle:
    """int32 of a tensor of indices: uint32, uint16, or whole numbers in bfloat16."""
    return w.int32(x._handle) if not x.dtype.is_float else w.cast(x._handle, "int32")


@operation("embedding", "take")
def embedding(
    input_tensor: Tensor,
    weight: Tensor,
    *,
    padding_idx: int | None = None,
    layout: Layout | None = None,
    embeddings_type: EmbeddingsType = EmbeddingsType.GENERIC,
    dtype: DataType | None = None,
    memory_config: MemoryConfig | None = None,
    output_tensor: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """The row of ``weight`` at each index: [b, s] gives [b, s, d]."""
    op = "ttnn.embedding"
    index, table = device_tensor(op, input_tensor), device_tensor(op, weight, "weight")
    if embeddings_type is EmbeddingsType.BINARY:
        raise Unsupported("ttnn.embedding with EmbeddingsType.BINARY is not supported", op=op)
    kinds = (DataType.UINT32, DataType.BFLOAT16)
    check(index.dtype in kinds, op, f"the indices must be UINT32 or BFLOAT16, got {index.dtype}")
    w = Wide(table._handle.device)
    rows = w.reshape(w.rows(table._handle), tuple(table.shape)[-2:])
    where = w.rows(_indices(w, index))
    if len(index.shape) > 2:
        last = index.shape[-1]
        flat = index.logical_volume() // last if last else 0
        check(flat == index.shape[0], op, f"indices of shape {index.shape} are not [b, 1, 1, s]")
        where = w.reshape(where, (flat, last))
    goal = target(op, table, memory_config or index._config, output_tensor, dtype, layout or table.layout)
    if goal.config.is_sharded() and memory_config is None and goal.config.shard_spec is not None:
        goal.config = goal.config.with_shard_spec(None)
    return goal.run("take", [rows, where], {"axis": 0}, (*where.shape, rows.shape[-1]))


@operation("gather", "take_along_axis")
def gather(
    input: Tensor,
    dim: int,
    index: Tensor,
    *,
    sparse_grad: bool = False,
    memory_config: MemoryConfig | None = None,
    out: Tensor | None = None,
    **_: Any,
) -> Tensor:
    """The element at an index along a dimension, for each index: as torch.gather."""
    op = "ttnn.gather"
    x = tiled_input(op, input, "The input tensor must be in TILE layout")
    places = tiled_input(op, index, "The index tensor must be in TILE layout")
    rank = len(x.shape)
    check(len(places.shape) == rank, op, "Input and index tensor must have the same number of dimensions")
    kinds = (DataType.UINT32, DataType.UINT16)
    check(places.dtype in kinds, op, f"the indices must be UINT32 or UINT16, got {places.dtype}")
    axis = axis_of(op, dim, rank)
    for at, (n, size) in enumerate(zip(places.shape, x.shape, strict=True)):
        check(at == axis or n <= size, op, f"index dimension {at} is {n}, the input's {size}")
    w = Wide(x._handle.device)
    source = x._handle
    if rank and any(
        n < size for at, (n, size) in enumerate(zip(places.shape, x.shape, strict=True)) if at != axis
    ):
        ends = tuple(
            size if at == axis else n for at, (n, size) in enumerate(zip(places.shape, x.shape, strict=True))
        )
        source = w("slice", source, starts=(0,) * rank, ends=ends)
    goal = target(op, x, memory_config, out)
    return goal.run("take_along_axis", [source, _indices(w, places)], {"axis": axis}, places.shape)


def _best(op: str, x: Tensor, count: int, axis: int, largest: bool) -> tuple[Handle, Handle]:
    if count > MOST_KEPT:
        places = places_in_order(Wide(x._handle.device), x._handle, axis, largest)
        if count < x.shape[axis]:
            places = kernels.run("slice", [places], {"starts": (0,), "ends": (count,), "axes": (axis,)})
        return kernels.run("take_along_axis", [x._handle, places], {"axis": axis}), places
    attrs = {"k": count, "axis": axis, "largest": largest, "dtype": "int32"}
    values, places = several.outputs("topk", [x._handle], attrs)
    return values, places


def _ranked(
    op: str,
    x: Tensor,
    count: int,
    axis: int,
    largest: bool,
    memory_config: Any,
    out: Any = None,
    named: Tensor | None = None,
) -> list[Tensor]:
    """``named``: what the elements are called instead of their places."""
    values, places = _best(op, x, count, axis, largest)
    kind = DataType.UINT16 if x.shape[axis] <= _INDICES else DataType.UINT32
    if named is not None:
        names = device_tensor(op, named, "indices tensor")
        check(names.shape == x.shape, op, f"indices_tensor {names.shape} must have the shape {x.shape}")
        w, kind = Wide(x._handle.device), names.dtype
        places = kernels.run("take_along_axis", [w.int32(names._handle), places], {"axis": axis})
    into, beside = out or (None, None)
    first = target(op, x, memory_config, into).wrap(values)
    goal = target(op, x, memory_config, beside, kind if beside is None else None)
    if goal.dtype is DataType.UINT32:
        places = kernels.reinterpret(places, "uint32")
    return [first, goal.wrap(places)]


@operation("topk", "topk")
def topk(
    input_tensor: Tensor,
    k: int = 32,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
    *,
    memory_config: MemoryConfig | None = None,
    output_tensor: Any = None,
    out: Any = None,
    sub_core_grids: Any = None,
    indices_tensor: Tensor | None = None,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """The k greatest or least elements along a dimension, best first, and their indices."""
    op = "ttnn.topk"
    x = tiled_input(op, input_tensor, "The input must be in tiled format")
    kinds = (DataType.BFLOAT16, DataType.BFLOAT8_B)
    check(x.dtype in kinds, op, f"Input tensor must be BFLOAT16 or BFLOAT8_B, got {x.dtype}")
    axis = axis_of(op, dim, len(x.shape))
    check(0 < k <= x.shape[axis], op, f"K ({k}) must be between 1 and the dimension's size {x.shape[axis]}")
    into = output_tensor or out
    values, places = _ranked(op, x, k, axis, largest, memory_config, into, indices_tensor)
    return values, places


@operation("sort", "topk, greater, equal, sum, scatter_elements")
def sort(
    input_tensor: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    memory_config: MemoryConfig | None = None,
    out: Any = None,
    **_: Any,
) -> list[Tensor]:
    """All elements along a dimension in order, and their indices."""
    op = "ttnn.sort"
    x = tiled_input(op, input_tensor, "The input must be in tiled format")
    axis = axis_of(op, dim, len(x.shape))
    return _ranked(op, x, x.shape[axis], axis, descending, memory_config, out)


@operation("nonzero", "not_equal, cumsum, where, scatter_elements")
def nonzero(input_tensor: Tensor, *, memory_config: MemoryConfig | None = None) -> list[Tensor]:
    """Of [1, 1, 1, n]: how many elements are not 0, first of [1, 1, 1, 8], and their places, first of n."""
    op = "ttnn.nonzero"
    x = device_tensor(op, input_tensor)
    count = x.shape[-1] if len(x.shape) else 0
    check(x.layout is Layout.ROW_MAJOR, op, "Currently only supporting row major layout")
    check(x.logical_volume() == count > 0, op, f"the input must be one row, got {x.shape}")
    w = Wide(x._handle.device)
    taken = w.true(w.reshape(w.rows(w.int32(x._handle)), (count,)))
    number = kernels.run("cumsum", [w.cast(taken, "int32")], {"axis": 0})
    where = w.select(taken, w("subtract", number, 1), w.number(count, "int32"))  # the others: past the end
    own = w.number(np.arange(count, dtype=np.int32), "int32")
    room = kernels.run("broadcast_to", [w.number(0, "int32")], {"shape": (count + 1,)})
    found = kernels.run("scatter_elements", [room, where, own], {"axis": 0})
    places = w("slice", found, starts=(0,), ends=(count,), axes=(0,))
    total = w("slice", number, starts=(count - 1,), ends=(count,), axes=(0,))
    many = kernels.run("broadcast_to", [total], {"shape": (8,)})
    return [
        target(op, x, memory_config, None, DataType.UINT32).wrap(
            kernels.reinterpret(w.reshape(w.rows(made), (1, 1, 1, made.shape[0])), "uint32")
        )
        for made in (many, places)
    ]


def _scattered(
    op: str, input: Tensor, dim: int, index: Tensor, src: Tensor, how: str, memory_config: Any
) -> Tensor:
    x, places, updates = (device_tensor(op, t) for t in (input, index, src))
    axis = axis_of(op, dim, len(x.shape))
    w = Wide(x._handle.device)
    check(updates._handle.dtype == x._handle.dtype, op, f"the input is {x.dtype}, the source {updates.dtype}")
    more = updates._handle
    if tuple(updates.shape) != tuple(places.shape):
        more = w("slice", more, starts=(0,) * len(places.shape), ends=tuple(places.shape))
    goal = target(op, x, memory_config)
    inputs = [x._handle, _indices(w, places), more]
    return goal.run("scatter_elements", inputs, {"axis": axis, "reduction": how}, x.shape)


@operation("scatter", "scatter_elements")
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    reduce: Any = None,
    **_: Any,
) -> Tensor:
    """The input with elements of ``src`` written at an index along a dimension."""
    if reduce is not None:
        raise Unsupported("ttnn.scatter with reduce is not supported: use scatter_add", op="ttnn.scatter")
    return _scattered("ttnn.scatter", input, dim, index, src, "none", memory_config)


@operation("scatter_add", "scatter_elements")
def scatter_add(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    *,
    memory_config: MemoryConfig | None = None,
    **_: Any,
) -> Tensor:
    """The input with elements of ``src`` added at an index along a dimension."""
    return _scattered("ttnn.scatter_add", input, dim, index, src, "add", memory_config)
