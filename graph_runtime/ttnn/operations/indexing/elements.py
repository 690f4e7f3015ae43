"""Elements and rows by index: embedding, gather, topk, sort, scatter, index_fill."""

from __future__ import annotations

from typing import Any

import numpy as np

from ....ir.value import where
from ...accepted.indexing import places_need
from ...devices import kernels
from ...devices.wide_value import WideValue
from ...errors import Unsupported, expect
from ...memory.configs import MemoryConfig
from ...memory.values import DataType, EmbeddingsType, Layout
from ...tensors.tensor import Tensor
from ..movement.shapes import axis_of
from ..operation import operation
from ..results import Target, finish, target


def _indices(x: Tensor) -> WideValue:
    """Indices as int32; ``x`` may be uint32, uint16, or bfloat16 that holds whole numbers."""
    return x._value.int32() if not x.dtype.is_float else x._value.cast("int32")


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
) -> Tensor:
    """Rows of ``weight`` at indices: indices [b, s] give [b, s, d]."""
    index = input_tensor
    if embeddings_type is EmbeddingsType.BINARY:
        raise Unsupported("ttnn.embedding with EmbeddingsType.BINARY is not supported")
    rows = weight._value.reshape(tuple(weight.shape)[-2:])
    where = _indices(index).rows()
    if len(index.shape) > 2:
        last = index.shape[-1]
        flat = index.logical_volume() // last if last else 0
        expect(flat == index.shape[0], f"indices of shape {index.shape} are not [b, 1, 1, s]")
        where = where.reshaped((flat, last))
    goal = target(weight, memory_config or index._config, output_tensor, dtype, layout or weight.layout)
    goal.inherited = memory_config is None
    return goal.resharded().run("take", [rows, where], {"axis": 0}, (*where.shape, rows.shape[-1]))


@operation("gather", "take_along_axis", takes="memory_config, out")
def gather(input: Tensor, dim: int, index: Tensor, *, goal: Target) -> Tensor:
    """Elements at indices along a dimension, as in torch.gather."""
    x, places = input, index
    rank = len(x.shape)
    axis = axis_of(dim, rank)
    ends = tuple(x.shape[at] if at == axis else n for at, n in enumerate(places.shape))
    source = x._value
    if ends != source.shape:
        source = source.op("slice", starts=(0,) * rank, ends=ends)
    return goal.run("take_along_axis", [source, _indices(places)], {"axis": axis}, places.shape)


def _best(x: Tensor, count: int, axis: int, largest: bool) -> tuple[WideValue, WideValue]:
    attrs = {"k": count, "axis": axis, "largest": largest, "dtype": "int32"}
    values, places = map(WideValue, kernels.outputs("topk", [x._handle], attrs))
    return values, places


def _ranked(
    x: Tensor,
    count: int,
    axis: int,
    largest: bool,
    memory_config: Any,
    out: Any = None,
    named: Tensor | None = None,
) -> list[Tensor]:
    """[best elements, their indices]; if ``named`` is given, its elements at these indices replace the
    indices."""
    values, places = _best(x, count, axis, largest)
    kind = places_need(x, axis)
    if named is not None:
        expect(named.shape == x.shape, f"indices_tensor {named.shape} must have the shape {x.shape}")
        kind = named.dtype
        places = named._value.int32().run("take_along_axis", places, axis=axis)
    into, beside = out or (None, None)
    first = target(x, memory_config, into).wrap(values)
    return [first, finish(target(x, memory_config, beside, kind if beside is None else None), places)]


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
    indices_tensor: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """The k greatest or k least elements along a dimension, best first, and their indices."""
    x = input_tensor
    axis = axis_of(dim, len(x.shape))
    into = output_tensor or out
    return tuple(_ranked(x, k, axis, largest, memory_config, into, indices_tensor))


@operation("sort", "topk")
def sort(
    input_tensor: Tensor,
    dim: int = -1,
    descending: bool = False,
    stable: bool = False,
    *,
    memory_config: MemoryConfig | None = None,
    out: Any = None,
) -> list[Tensor]:
    """All elements along a dimension in order, and their indices."""
    axis = axis_of(dim, len(input_tensor.shape))
    return _ranked(input_tensor, input_tensor.shape[axis], axis, descending, memory_config, out)


@operation(
    "nonzero", "not_equal, cumsum, where, scatter_elements", takes="memory_config", dtype=DataType.UINT32
)
def nonzero(input_tensor: Tensor) -> list[WideValue]:
    """[count, indices] of the elements of a row [1, 1, 1, n] that are not 0. The count is the first element
    of [1, 1, 1, 8]; the indices are at the front of [1, 1, 1, n]."""
    x = input_tensor
    count = x.shape[-1] if len(x.shape) else 0
    expect(x.layout is Layout.ROW_MAJOR, "Currently only supporting row major layout")
    expect(x.logical_volume() == count > 0, f"the input must be one row, got {x.shape}")
    taken = x._value.int32().reshape((count,)).true()
    number = taken.cast("int32").run("cumsum", axis=0)
    own_place = where(taken, number - 1, number.scalar(count))  # zeros get a place past the end
    own = number.scalar(np.arange(count, dtype=np.int32))
    room = number.scalar(0).run("broadcast_to", shape=(count + 1,))
    found = room.run("scatter_elements", own_place, own, axis=0)
    places = found.part(0, 0, count)
    total = number.part(0, count - 1, count)
    many = total.run("broadcast_to", shape=(8,))
    return [made.reshape((1, 1, 1, made.shape[0])) for made in (many, places)]


def _scattered(x: Tensor, dim: int, places: Tensor, updates: Tensor, how: str, goal: Target) -> Tensor:
    axis = axis_of(dim, len(x.shape))
    expect(updates._value.dtype == x._value.dtype, f"the input is {x.dtype}, the source {updates.dtype}")
    more = updates._value
    if tuple(updates.shape) != tuple(places.shape):
        more = more.op("slice", starts=(0,) * len(places.shape), ends=tuple(places.shape))
    inputs = [x._value, _indices(places), more]
    if goal.into is None and goal.dtype is DataType.BFLOAT8_B:
        goal.dtype = DataType.BFLOAT16  # the release writes rows
    return goal.run("scatter_elements", inputs, {"axis": axis, "reduction": how}, x.shape)


_REDUCTIONS = {None: "none", "add": "add", "multiply": "mul"}  # ttnn's name -> the op's


@operation("scatter", "scatter_elements", takes="memory_config, ...")
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Tensor, *, reduce: str | None = None, goal: Target
) -> Tensor:
    """The input with the elements of ``src`` written at indices along a dimension; with ``reduce`` "add" or
    "multiply" they are added to the elements there, or multiplied with them."""
    text = f"reduce must be either 'add' or 'multiply' (case-sensitive), got {reduce}"
    expect(reduce in _REDUCTIONS, text)
    return _scattered(input, dim, index, src, _REDUCTIONS[reduce], goal)


@operation("scatter_add", "scatter_elements", takes="memory_config")
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, goal: Target) -> Tensor:
    """The input with the elements of ``src`` added at indices along a dimension."""
    return _scattered(input, dim, index, src, "add", goal)


# **************** rows ****************


def _written(x: Tensor, axis: int, index: WideValue, updates: WideValue) -> WideValue:
    """x with ``updates`` written at indices along an axis; ``index`` has one dimension, or the shape of the
    updates."""
    shape = tuple(updates.shape)
    if len(index.shape) != len(shape):
        sizes = tuple(index.size if at == axis else 1 for at in range(len(shape)))
        index = index.reshape(sizes)
    index = index.run("broadcast_to", shape=shape)
    return x._value.run("scatter_elements", index, updates, axis=axis)


def _index(index: Tensor) -> WideValue:
    one = index._value.int32()
    return one.reshape((one.size,))


@operation("tosa_scatter", "scatter_elements", takes="memory_config")
def tosa_scatter(input: Tensor, index: Tensor, src: Tensor) -> WideValue:
    """x [N, K, C], where the row w of ``src`` [N, W, C] replaces the row index[n, w]."""
    x, places, updates = input, index, src
    for tensor, rank, name in ((x, 3, "input"), (places, 2, "index"), (updates, 3, "source")):
        got = len(tensor.shape)
        text = f"According to TOSA specification, {name} tensor must be of rank {rank}, it is {got} instead."
        expect(got == rank, text)
    n, wide, channels = tuple(updates.shape)
    shapes = f"(input shape: {x.shape}, index shape: {places.shape}, source shape: {updates.shape})"
    expect(x.shape[0] == n, f"Input shape has a different dimension N than source shape {shapes}.")
    expect(x.shape[2] == channels, f"Input shape has a different dimension C than source shape {shapes}.")
    expect(tuple(places.shape) == (n, wide), f"Index shape has other dimensions than source shape {shapes}.")
    rows = places._value.int32().reshape((n, wide, 1))
    return _written(x, 1, rows, updates._value.cast(x._handle.dtype))


@operation("index_fill", "scatter_elements")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any, memory_config: Any = None) -> Tensor:
    """x with one value written at indices along a dimension."""
    x, axis, places = input, axis_of(dim, len(input.shape)), _index(index)
    shape = tuple(places.size if at == axis else size for at, size in enumerate(x.shape))
    updates = x._value.scalar(value).run("broadcast_to", shape=shape)
    return target(x, memory_config).wrap(_written(x, axis, places, updates))


@operation("indexed_fill", "scatter_elements", takes="memory_config, ...", like="input_tensor_a")
def indexed_fill(
    batch_id: Tensor, input_tensor_a: Tensor, input_tensor_b: Tensor, *, dim: int = 0
) -> WideValue:
    """a, in which the slices along ``dim`` that ``batch_id`` names are replaced by the slices of b."""
    a, b = input_tensor_a, input_tensor_b
    axis = axis_of(dim, len(a.shape))
    places = _index(batch_id)
    wanted = tuple(places.size if at == axis else size for at, size in enumerate(a.shape))
    expect(tuple(b.shape) == wanted, f"the second tensor must be {list(wanted)}, got {b.shape}")
    return _written(a, axis, places, b._value.cast(a._handle.dtype))
