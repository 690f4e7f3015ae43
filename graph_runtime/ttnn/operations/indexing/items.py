"""Functions that write at indices of rows: tosa_scatter, index_fill, indexed_fill."""

from __future__ import annotations

from typing import Any

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...tensors.tensor import Tensor
from ..movement.shapes import axis_of
from ..operation import operation
from ..results import device_tensor, target
from ..wide import Wide

__all__: list[str] = []


def _written(w: Wide, x: Tensor, axis: int, index: Handle, updates: Handle) -> Handle:
    """x with ``updates`` at an index along an axis; ``index`` has one axis, or the shape of the updates."""
    shape = tuple(updates.shape)
    if len(index.shape) != len(shape):
        sizes = tuple(index.size if at == axis else 1 for at in range(len(shape)))
        index = w.reshape(w.rows(index), sizes)
    index = kernels.run("broadcast_to", [index], {"shape": shape})
    source = updates
    if source.dtype != x._handle.dtype:
        source = kernels.run("cast", [source], {"to": x._handle.dtype})
    return kernels.run("scatter_elements", [x._handle, index, source], {"axis": axis})


def _index(w: Wide, op: str, index: Tensor) -> Handle:
    one = w.int32(device_tensor(op, index, "index tensor")._handle)
    return w.reshape(w.rows(one), (one.size,))


@operation("tosa_scatter", "scatter_elements")
def tosa_scatter(input: Tensor, index: Tensor, src: Tensor, *, memory_config: Any = None) -> Tensor:
    """x [N, K, C] with row w of ``src`` [N, W, C] at index[n, w]."""
    op = "ttnn.tosa_scatter"
    x, places, updates = (device_tensor(op, t) for t in (input, index, src))
    for tensor, rank, name in ((x, 3, "input"), (places, 2, "index"), (updates, 3, "source")):
        got = len(tensor.shape)
        text = f"According to TOSA specification, {name} tensor must be of rank {rank}, it is {got} instead."
        check(got == rank, op, text)
    n, wide, channels = tuple(updates.shape)
    shapes = f"(input shape: {x.shape}, index shape: {places.shape}, source shape: {updates.shape})"
    check(x.shape[0] == n, op, f"Input shape has a different dimension N than source shape {shapes}.")
    check(x.shape[2] == channels, op, f"Input shape has a different dimension C than source shape {shapes}.")
    check(
        tuple(places.shape) == (n, wide), op, f"Index shape has other dimensions than source shape {shapes}."
    )
    w = Wide(x._handle.device)
    rows = w.reshape(w.rows(w.int32(places._handle)), (n, wide, 1))
    return target(op, x, memory_config).wrap(_written(w, x, 1, rows, updates._handle))


@operation("index_fill", "scatter_elements")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any, memory_config: Any = None) -> Tensor:
    """x with one value at an index along a dimension."""
    op = "ttnn.index_fill"
    x = device_tensor(op, input)
    axis, w = axis_of(op, dim, len(x.shape)), Wide(x._handle.device)
    places = _index(w, op, index)
    shape = tuple(places.size if at == axis else size for at, size in enumerate(x.shape))
    filler = w.number(value, x._handle.dtype)
    updates = kernels.run("broadcast_to", [filler], {"shape": shape})
    return target(op, x, memory_config).wrap(_written(w, x, axis, places, updates))


@operation("indexed_fill", "scatter_elements")
def indexed_fill(
    batch_id: Tensor,
    input_tensor_a: Tensor,
    input_tensor_b: Tensor,
    *,
    memory_config: Any = None,
    dim: int = 0,
) -> Tensor:
    """a with the parts of b along a dimension at the places that ``batch_id`` names."""
    op = "ttnn.indexed_fill"
    a, b = device_tensor(op, input_tensor_a), device_tensor(op, input_tensor_b)
    axis, w = axis_of(op, dim, len(a.shape)), Wide(a._handle.device)
    places = _index(w, op, batch_id)
    wanted = tuple(places.size if at == axis else size for at, size in enumerate(a.shape))
    check(tuple(b.shape) == wanted, op, f"the second tensor must be {list(wanted)}, got {b.shape}")
    return target(op, a, memory_config).wrap(_written(w, a, axis, places, b._handle))
