"""Values of images between their pixels: grid_sample, and attention whose keys are such values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....compositions.sampling import pixels_of, sampled
from ...devices.wide_value import WideValue
from ...errors import Unsupported, called, expect
from ...memory.configs import MemoryConfig
from ...tensors.tensor import Tensor
from ..operation import operation
from ..results import target

_SERVED = "floor, take, multiply, add"


def _parts(points: WideValue) -> tuple[WideValue, WideValue]:
    """x and y [n, p] of points [n, p, 2]."""
    n, count, _ = points.shape
    x, y = (points.part(2, at, at + 1).reshape((n, count)).wide() for at in (0, 1))
    return x, y


@operation("grid_sample", _SERVED)
def grid_sample(
    input_tensor: Tensor,
    grid: Tensor,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
    use_precomputed_grid: bool = False,
    batch_output_channels: bool = False,
    memory_config: MemoryConfig | None = None,
    compute_kernel_config: Any = None,
) -> Tensor:
    """The values [n, h, w k, c] of images [n, rows, columns, c] at places between -1 and 1 that a grid
    [n, h, w, 2 k] lists, x before y; with batch_output_channels, [n, h, w, c k]."""
    if use_precomputed_grid:
        raise Unsupported(f"{called()} of a precomputed grid is not supported: give places between -1 and 1")
    n, height, width, channels = input_tensor.shape
    _, rows, columns, size = grid.shape
    count = size // 2
    expect(
        count > 1 or not batch_output_channels,
        "batch_output_channels=True requires grid batching factor K > 1. Use a batched grid with multiple "
        "coordinate sets per row of grid.",
    )
    x, y = _parts(grid._value.reshape((n, rows * columns * count, 2)))
    x, y = pixels_of(x, width, align_corners), pixels_of(y, height, align_corners)
    pixels = input_tensor._value.reshape((n, height * width, channels))
    made = sampled(pixels, x, y, height, width)
    both = (columns, channels * count) if batch_output_channels else (columns * count, channels)
    return target(input_tensor, memory_config).wrap(made.reshape((n, rows, *both)))


@operation("experimental.multi_scale_deformable_attn", f"{_SERVED}, sum")
def multi_scale_deformable_attn(
    value: Tensor,
    grid: WideValue,
    attn: WideValue,
    *,
    memory_config: MemoryConfig | None = None,
    align_corners: bool = False,
) -> Tensor:
    """[n, q, d]: the sums of p values of images [n, rows, columns, d], at places between -1 and 1 of a grid
    [n, q p, 1, 2], each times its weight [n, q, p]."""
    n, height, width, channels = value.shape
    _, queries, points = attn.shape
    text = f"grid dim 1 (= Q*P = {grid.shape[1]}) must equal attn Q*P (= {queries} * {points})"
    expect(grid.shape[1] == queries * points, text)
    x, y = _parts(grid.reshape((n, queries * points, 2)))
    x, y = pixels_of(x, width, align_corners), pixels_of(y, height, align_corners)
    made = sampled(value._value.reshape((n, height * width, channels)), x, y, height, width)
    made = _weighted(made, attn.reshape((n, queries, points)))
    return target(value, memory_config).wrap(made)


def _weighted(made: WideValue, weights: WideValue) -> WideValue:
    """The sums [n, q, d] of values [n, q p, d] times weights [n, q, p]."""
    n, queries, points = weights.shape
    made = made.reshape((n, queries, points, made.shape[2])).wide()
    return (made * weights.reshape((n, queries, points, 1)).wide()).sum([2], keepdims=False)


class _Levels:
    """The operands of fused_msda by level. ``value`` has [b, s, h, d] or [b, s, h d], ``weights`` [b, q, h, l
    p] in any split of the last dimensions."""

    def __init__(self, op: str, value: Tensor, weights: Tensor, spatial_shapes: Sequence[Sequence[int]]):
        self.sizes = [(int(h), int(w)) for h, w in spatial_shapes]
        total = sum(h * w for h, w in self.sizes)
        text = f"{op}: value's S dim ({value.shape[1]}) must equal sum of H_l * W_l over spatial_shapes"
        expect(value.shape[1] == total, f"{text} ({total})")
        self.batch, self.queries, self.heads = weights.shape[:3]
        last = weights.logical_volume() // (self.batch * self.queries * self.heads)
        self.points = last // len(self.sizes)
        channels = value.logical_volume() // (self.batch * total * self.heads)
        values = value._value.reshape((self.batch, total, self.heads, channels))
        self.values = values.op("transpose", perm=(0, 2, 1, 3))
        self.weights = self.by_head(weights._value)

    def by_head(self, x: WideValue, each: int = 1) -> WideValue:
        """[b, q, h, l p each] as [b h, q, l, p, each]."""
        shape = (self.batch, self.queries, self.heads, len(self.sizes) * self.points * each)
        turned = x.reshape(shape).op("transpose", perm=(0, 2, 1, 3))
        rows = self.batch * self.heads
        return turned.reshape((rows, self.queries, len(self.sizes), self.points, each)).wide()

    def attended(self, like: Tensor, places: Any, config: MemoryConfig | None) -> Tensor:
        """The sums over levels and points; ``places(level)`` has x and y in pixels [b h, q p]."""
        made, start, rows = None, 0, self.batch * self.heads
        for level, (height, width) in enumerate(self.sizes):
            pixels = self.values.part(2, start, start + height * width)
            pixels = pixels.reshape((rows, height * width, pixels.shape[3]))
            start += height * width
            x, y = places(level)
            found = sampled(pixels, x, y, height, width)
            weights = self.weights.part(2, level, level + 1).reshape((rows, self.queries, self.points))
            term = _weighted(found, weights)
            made = term if made is None else made + term
        assert made is not None
        made = made.reshape((self.batch, self.heads, self.queries, made.shape[2]))
        made = made.op("transpose", perm=(0, 2, 1, 3))
        return target(like, config).wrap(made.reshape((*made.shape[:2], self.heads * made.shape[3])))


@operation("experimental.fused_msda", f"{_SERVED}, sum, transpose")
def fused_msda(
    value: Tensor,
    sampling_locations: Tensor,
    attention_weights: Tensor,
    spatial_shapes: Sequence[Sequence[int]],
    *,
    align_corners: bool = False,
    locations_in_grid_space: bool = False,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """[b, q, h d]: the sums over levels and points of values [b, s, h, d], in which the images of all levels
    lie one after the other, at places between 0 and 1 [b, q, h, l, p, 2] (between -1 and 1 if
    locations_in_grid_space), times weights [b, q, h, l, p]. The last dimensions may be one."""
    levels = _Levels("fused_msda", value, attention_weights, spatial_shapes)
    points = levels.by_head(sampling_locations._value, 2)
    points = points if locations_in_grid_space else points * 2.0 - 1.0

    def places(level: int) -> tuple[WideValue, WideValue]:
        height, width = levels.sizes[level]
        part = points.part(2, level, level + 1)
        x, y = _parts(part.reshape((part.shape[0], levels.queries * levels.points, 2)))
        return pixels_of(x, width, align_corners), pixels_of(y, height, align_corners)

    return levels.attended(value, places, memory_config)


@operation("experimental.fused_msda_from_offsets", f"{_SERVED}, sum, transpose")
def fused_msda_from_offsets(
    value: Tensor,
    reference_points: Tensor,
    sampling_offsets: Tensor,
    attention_weights: Tensor,
    spatial_shapes: Sequence[Sequence[int]],
    *,
    reference_mode: str = "level",
    align_corners: bool = False,
    memory_config: MemoryConfig | None = None,
) -> Tensor:
    """fused_msda at places that are offsets, in pixels, from reference points [b, q, r, 2] between 0 and 1.
    By level there is a reference for each level; by "pillar" point p has reference p mod r."""
    levels = _Levels("fused_msda", value, attention_weights, spatial_shapes)
    count = reference_points.shape[2]
    by_level = reference_mode == "level"
    expect(
        by_level or reference_mode == "pillar", f"reference_mode must be level or pillar: {reference_mode!r}"
    )
    fits = count == len(levels.sizes) if by_level else levels.points % count == 0
    expect(fits, f"{count} references do not fit {len(levels.sizes)} levels and {levels.points} points")
    offsets = levels.by_head(sampling_offsets._value, 2)
    references = reference_points._value.reshape((levels.batch, 1, levels.queries, count, 2)).wide()
    wide = (levels.batch, levels.heads, levels.queries, count, 2)
    references = references.op("broadcast_to", shape=wide)
    rows = levels.batch * levels.heads
    references = references.reshape((rows, levels.queries, count, 2))

    def places(level: int) -> tuple[WideValue, WideValue]:
        if by_level:
            own = references.part(2, level, level + 1)
            own = own.op("broadcast_to", shape=(rows, levels.queries, levels.points, 2))
        else:
            own = references.run("tile", repeats=(1, 1, levels.points // count, 1))
        shape = (rows, levels.queries * levels.points, 2)
        base, moved = (_parts(x.reshape(shape)) for x in (own, offsets.part(2, level, level + 1)))
        sizes = levels.sizes[level][::-1]
        x, y = (
            pixels_of(at * 2.0 - 1.0, size, align_corners) + by * float(size > 1 or not align_corners)
            for at, by, size in zip(base, moved, sizes, strict=True)
        )
        return x, y

    return levels.attended(value, places, memory_config)
