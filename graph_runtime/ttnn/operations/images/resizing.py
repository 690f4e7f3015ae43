"""Images of another size: upsample."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....run.tensors.tensor import Tensor as Handle
from ...devices import kernels
from ...errors import check
from ...memory.configs import MemoryConfig, ShardSpec
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import Target, device_tensor, target
from ..wide import Wide

__all__: list[str] = []


@operation("upsample", "reshape, tile, take, lerp")
def upsample(
    input_tensor: Tensor,
    scale_factor: Any,
    *,
    mode: str = "nearest",
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
    **_: Any,
) -> Tensor:
    """[N, H, W, C] with ``scale_factor`` (a number, or of height and width) times as many rows and columns:
    the nearest ones, or weighted by distance ("bilinear", pixels as squares)."""
    op = "ttnn.upsample"
    x = device_tensor(op, input_tensor)
    check(len(x.shape) == 4, op, f"the input must have 4 dimensions, got {x.shape}")
    check(mode in ("nearest", "bilinear"), op, f"mode must be nearest or bilinear, got {mode!r}")
    both = (scale_factor,) * 2 if isinstance(scale_factor, (int, float)) else tuple(scale_factor)
    check(len(both) == 2 and min(both) > 0, op, f"scale_factor must be above 0, got {scale_factor}")
    w, made = Wide(x._handle.device), x._handle
    along = _weighted if mode == "bilinear" else _nearest
    for axis, scale in zip((1, 2), both, strict=True):
        if scale != 1:
            made = along(w, made, axis, scale)
    return _goal(op, x, memory_config, both).wrap(made)


def _goal(op: str, x: Tensor, memory_config: MemoryConfig | None, scale: tuple[float, float]) -> Target:
    """Shards grow with their rows."""
    goal = target(op, x, memory_config)
    spec = goal.config.shard_spec
    if memory_config is None and spec is not None:
        rows = math.ceil(spec.shape[0] * scale[0] * scale[1])
        grown = ShardSpec(spec.grid, [rows, spec.shape[1]], spec.orientation)
        goal.config = goal.config.with_shard_spec(grown)
    return goal


def _nearest(w: Wide, x: Handle, axis: int, scale: float) -> Handle:
    size = x.shape[axis]
    if float(scale).is_integer():
        shape = list(x.shape)
        cut = w.reshape(w.rows(x), (*shape[: axis + 1], 1, *shape[axis + 1 :]))
        times = [1] * len(cut.shape)
        times[axis + 1] = int(scale)
        shape[axis] *= int(scale)
        return w.reshape(w.rows(kernels.run("tile", [cut], {"repeats": tuple(times)})), shape)
    at = np.floor(np.arange(math.floor(size * scale), dtype=np.float32) * np.float32(1 / scale))
    return _taken(w, x, axis, np.minimum(at, size - 1))


def _taken(w: Wide, x: Handle, axis: int, places: np.ndarray) -> Handle:
    return kernels.run("take", [x, w.number(places.astype(np.int32), "int32")], {"axis": axis})


def _weighted(w: Wide, x: Handle, axis: int, scale: float) -> Handle:
    """Between the two rows on either side, by the distance of their middles."""
    size = x.shape[axis]
    middle = (np.arange(math.floor(size * scale)) + 0.5) / scale - 0.5
    middle = np.clip(middle, 0, size - 1)
    low = np.floor(middle)
    shape = [1] * len(x.shape)
    shape[axis] = len(middle)
    weight = w.number((middle - low).astype(np.float32).reshape(shape))
    first, second = (_taken(w, x, axis, np.minimum(at, size - 1)) for at in (low, low + 1))
    return w("add", first, w("multiply", w("subtract", second, first), weight))
