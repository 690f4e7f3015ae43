"""Regions: which elements of a tensor at a bucket's sizes are real, that is, elements of the tensor at the
exact sizes.

An axis is a product of factors, outermost first, and a factor is a row of segments. In a segment with a
label, as many elements are real as the size that the label stands for; in a segment without a label, all are.

    tensor                           its region
    [batch, 12, n, 64]               axes (batch:8), (12), (n:16), (64) of one factor each
    [batch * 12, n * 64]             axes (batch:8)(12) and (n:16)(64) of two factors each, after a reshape
    [n + 1], a cache and a new row   axis (n:16, 1) of one factor with two segments
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.graph import TensorType

Segment = tuple[int, str | None]  # (number of elements, label that counts the real elements; None: all)
Factor = tuple[Segment, ...]
Axis = tuple[Factor, ...]
Region = tuple[Axis, ...]
Sizes = Mapping[str, int]


def plain(size: int) -> Axis:
    """An axis without padding."""
    return () if size == 1 else (((size, None),),)


def is_plain(axis: Axis) -> bool:
    """Whether an axis has no padding."""
    return all(label is None for factor in axis for _, label in factor)


def labels_of(region: Region) -> set[str]:
    """The labels that occur in a region."""
    return {label for axis in region for factor in axis for _, label in factor if label is not None}


def axis_size(axis: Axis) -> int:
    """Number of elements of an axis, real and padded."""
    return math.prod(_size(factor) for factor in axis)


def _size(factor: Factor) -> int:
    return sum(size for size, _ in factor)


def single(axis: Axis) -> str | None:
    """The label of an axis whose real elements are its first ones, up to the label's size; None for an axis
    whose real elements lie in another way."""
    if len(axis) == 1 and len(axis[0]) == 1:
        return axis[0][0][1]
    return None


def real_shape(region: Region, sizes: Sizes) -> tuple[int, ...]:
    """The shape of the tensor at the exact sizes."""
    return tuple(
        math.prod(sum(_real(segment, sizes) for segment in factor) for factor in axis) for axis in region
    )


def _real(segment: Segment, sizes: Sizes) -> int:
    size, label = segment
    return size if label is None else sizes[label]


def real_mask(axis: Axis, sizes: Sizes) -> np.ndarray:
    """A mask of the elements of an axis, which is True for the real elements."""
    mask = np.ones(1, np.bool_)
    for factor in axis:
        own = np.concatenate([np.arange(size) < _real((size, label), sizes) for size, label in factor])
        mask = np.logical_and.outer(mask, own).reshape(-1)
    return mask


def real_places(axis: Axis, sizes: Sizes) -> np.ndarray:
    """int32 [twice the elements of the padded axis]: the index into the padded axis at each index into the
    exact axis. The places of indices >= 0 come first; the places of negative indices, which count from the
    end, come last. The values between are arbitrary."""
    at = np.flatnonzero(real_mask(axis, sizes))
    places = np.full(2 * axis_size(axis), np.iinfo(np.int32).max, np.int32)
    places[: len(at)] = at
    places[len(places) - len(at) :] = at
    return places


def _positions(region: Region, sizes: Sizes) -> tuple[slice | np.ndarray, ...]:
    """Index of the real elements along each axis: a slice if they come first."""
    found: list[slice | np.ndarray] = []
    for axis in region:
        at = np.flatnonzero(real_mask(axis, sizes))
        found.append(slice(len(at)) if not len(at) or at[-1] == len(at) - 1 else at)
    return tuple(found)


def at_real(region: Region, sizes: Sizes) -> Any:
    """An index of numpy that selects the real elements: slices if they come first along each axis."""
    found = _positions(region, sizes)
    if all(isinstance(each, slice) for each in found):
        return tuple(found)
    return np.ix_(*(np.arange(e.stop) if isinstance(e, slice) else e for e in found))


def reshaped(region: Region, kind: TensorType) -> Region | None:
    """The region of the same elements in another shape; None if an axis would begin inside a factor with
    padding."""
    factors = _merged([factor for axis in region for factor in axis])
    found: list[Axis] = []
    for size in kind.shape:
        axis: list[Factor] = []
        left = size
        while left > 1:
            if not factors:
                return None
            factor = factors.pop(0)
            own = _size(factor)
            if left % own == 0:
                axis.append(factor)
                left //= own
            elif is_plain((factor,)) and own % left == 0:
                axis.append(((left, None),))
                factors.insert(0, ((own // left, None),))
                left = 1
            else:
                return None
        found.append(tuple(_merged(axis)))
    return None if factors else tuple(found)


def _merged(factors: Sequence[Factor]) -> list[Factor]:
    """The factors, with neighbours without padding merged."""
    found: list[Factor] = []
    for factor in factors:
        if _size(factor) == 1 and is_plain((factor,)):
            continue
        if found and is_plain((factor,)) and is_plain((found[-1],)):
            found[-1] = ((_size(found[-1]) * _size(factor), None),)
        else:
            found.append(((_size(factor), None),) if is_plain((factor,)) else factor)
    return found
