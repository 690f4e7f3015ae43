"""Arguments and results of a program made for a bucket's sizes: padded and cut on the device that holds them,
or by numpy on the host."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ...base import dtypes
from ...ir.graph import TensorType
from ...rewrite.buckets import Bucket
from ...rewrite.buckets.regions import Axis, Region, axis_size, labels_of, real_mask, real_shape, single
from ...run.single.upload import push
from ...run.tensors.spec import default_spec
from ...run.tensors.tensor import Tensor
from .. import content
from .emitter import Lowered, Output

PADDING = 0.0  # value of padding in floats; no result depends on it, and tests set it to NaN


@dataclass(frozen=True, eq=False)
class Fit:
    """How a bucket's program serves ``sizes``. ``random`` {input: function that makes its random numbers} and
    ``outputs`` belong to the graph at these sizes. ``said``: values of the inputs that tell the program which
    elements are real, and where."""

    bucket: Bucket
    sizes: Mapping[str, int]
    random: Mapping[str, Callable[[], torch.Tensor]]
    outputs: Sequence[Output]
    said: Mapping[str, np.ndarray]

    @classmethod
    def of(cls, bucket: Bucket, sizes: Mapping[str, int], exact: Lowered) -> Fit:
        """The Fit of ``bucket`` for ``sizes``; ``exact``: the graph lowered at these sizes."""
        return cls(bucket, dict(sizes), dict(exact.hoisted), tuple(exact.outputs), bucket.said(sizes))

    def pads(self, name: str) -> bool:
        """Whether an input must be padded to the bucket's sizes."""
        region = self.bucket.inputs[name]
        return tuple(map(axis_size, region)) != real_shape(region, self.sizes)

    def padded(self, name: str, values: Any) -> Any:
        """An input, a device's tensor or an array, padded to the bucket's sizes. Raises Unsupported if the
        device cannot pad it."""
        region = self.bucket.inputs[name]
        if not isinstance(values, Tensor):
            return _padded_array(np.asarray(values), region, self.sizes)
        for at, axis in enumerate(region):
            if axis_size(axis) != values.type.shape[at]:
                values = _padded_axis(values, at, axis, self.sizes)
        return values

    def cut(self, number: int, values: Any) -> Any:
        """The real elements of a result, a device's tensor or an array. Raises Unsupported if the device
        cannot cut it."""
        region = self.bucket.outputs[number]
        if not labels_of(region):
            return values
        shape = real_shape(region, self.sizes)
        for at, axis in enumerate(region):
            if shape[at] != values.shape[at]:
                places = np.flatnonzero(real_mask(axis, self.sizes))
                take = _take if isinstance(values, Tensor) else np.take
                values = _first(values, at, shape[at]) if single(axis) else take(values, places, at)
        return values


def _padded_array(array: np.ndarray, region: Region, sizes: Mapping[str, int]) -> np.ndarray:
    for at, axis in enumerate(region):
        if axis_size(axis) != array.shape[at]:
            widths = [(0, 0)] * array.ndim
            widths[at] = (0, 1)
            array = np.take(np.pad(array, widths, constant_values=_fill(array)), _places(axis, sizes), at)
    return array


def _padded_axis(values: Tensor, at: int, axis: Axis, sizes: Mapping[str, int]) -> Tensor:
    behind = axis_size(axis) - values.type.shape[at] if single(axis) else 1
    pads = [0] * (2 * len(values.type.shape))
    pads[len(pads) // 2 + at] = behind
    fill = PADDING if values.dtype in dtypes.FLOATS else 0.0
    made = content.apply("pad", (("pads", tuple(pads)), ("value", fill)), values)
    return made if single(axis) else _take(made, _places(axis, sizes), at)


def _places(axis: Axis, sizes: Mapping[str, int]) -> np.ndarray:
    """For each element of a bucket's axis, its position in the exact axis, which has one element of padding
    at its end."""
    real = real_mask(axis, sizes)
    return np.where(real, np.cumsum(real) - 1, real.sum())


def _first(values: Any, at: int, count: int) -> Any:
    if not isinstance(values, Tensor):
        return values[(slice(None),) * at + (slice(count),)]
    return content.apply("slice", (("starts", (0,)), ("ends", (count,)), ("axes", (at,))), values)


def _take(values: Tensor, places: Sequence[int] | np.ndarray, at: int) -> Tensor:
    places = np.asarray(places, np.int32)
    indices = push(places, default_spec(values.device, TensorType("int32", places.shape)))
    return content.apply("take", (("axis", at),), values, indices)


def _fill(array: np.ndarray) -> Any:
    return PADDING if array.dtype.kind == "f" else 0
