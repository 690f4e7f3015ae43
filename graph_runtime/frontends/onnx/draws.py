"""Ops that draw random numbers. The host does them between the programs of a flow, by numpy's PCG64.

A node draws on from run to run. With an attribute ``seed`` it begins at the same numbers in each session, and
at each size that the session meets; without one it begins where the system's entropy says. ONNX names no
generator: numbers are not those of other runtimes, distributions are.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...base import dtypes
from ...base.errors import GraphError
from ...ir.ops.rules import FLOATS
from .read import dtype_name

__all__ = ["DRAWS", "TRAINS"]

_Attrs = Mapping[str, Any]
_Draw = Callable[..., Sequence[np.ndarray]]
_MOST_ELEMENTS = 2**31  # of one result
_FLOAT = 1  # TensorProto's code


def _generator(attrs: _Attrs) -> np.random.Generator:
    seed = attrs.get("seed")
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng(struct.unpack("<Q", struct.pack("<d", float(seed)))[0])


def _dtype(code: int, allowed: Callable[[str], bool], what: str) -> np.dtype:
    name = dtype_name(code, "the result")
    if not allowed(name):
        raise GraphError(f"its result has {what}, got {name}", got=name)
    return dtypes.to_numpy(name)


def _float_dtype(code: int) -> np.dtype:
    return _dtype(code, FLOATS.__contains__, "a type of floats")


def _checked(shape: Sequence[int]) -> tuple[int, ...]:
    if any(size < 0 for size in shape) or math.prod(shape) > _MOST_ELEMENTS:
        most = f"sizes of 0 or more, at most {_MOST_ELEMENTS} elements"
        text = f"its result would have shape {list(shape)}: {most}"
        raise GraphError(text, got=tuple(shape))
    return tuple(shape)


def _normal(attrs: _Attrs) -> Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]:
    mean, scale = float(attrs.get("mean", 0.0)), float(attrs.get("scale", 1.0))

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        wide = rng.standard_normal(shape, np.float64 if dtype == np.float64 else np.float32)
        return (wide * wide.dtype.type(scale) + wide.dtype.type(mean)).astype(dtype)

    return draw


def _uniform(attrs: _Attrs) -> Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]:
    low, high = float(attrs.get("low", 0.0)), float(attrs.get("high", 1.0))

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        wide = rng.random(shape, np.float64 if dtype == np.float64 else np.float32)
        made = (wide * wide.dtype.type(high - low) + wide.dtype.type(low)).astype(dtype)
        end = dtype.type(high)
        if low < high:  # rounding may reach the end, which is not drawn
            made[made >= end] = np.nextafter(end, dtype.type(low))
        return made

    return draw


_Distribution = Callable[[_Attrs], Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]]


def _of_shape(distribution: _Distribution) -> Callable[[_Attrs], _Draw]:
    def make(attrs: _Attrs) -> _Draw:
        draw, rng = distribution(attrs), _generator(attrs)
        dtype, shape = _float_dtype(int(attrs.get("dtype", _FLOAT))), _checked(attrs["shape"])
        return lambda: [draw(rng, shape, dtype)]

    return make


def _like(distribution: _Distribution) -> Callable[[_Attrs], _Draw]:
    def make(attrs: _Attrs) -> _Draw:
        draw, rng = distribution(attrs), _generator(attrs)
        code = attrs.get("dtype")
        named = None if code is None else _float_dtype(int(code))

        def run(x: np.ndarray) -> Sequence[np.ndarray]:
            dtype = named or x.dtype
            if dtypes.from_numpy(dtype) not in FLOATS:
                text = f"its input has {dtype.name} and it has no dtype of floats"
                raise GraphError(text, got=dtype.name)
            return [draw(rng, _checked(x.shape), dtype)]

        return run

    return make


def _bernoulli(attrs: _Attrs) -> _Draw:
    rng, code = _generator(attrs), attrs.get("dtype")
    named = None if code is None else _dtype(int(code), lambda name: True, "a type of numbers")

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        wide = x.astype(np.float64)
        if not ((wide >= 0) & (wide <= 1)).all():
            raise GraphError("its input has values that are no probabilities: each is from 0 to 1")
        return [(rng.random(x.shape) < wide).astype(named or x.dtype)]

    return run


def _multinomial(attrs: _Attrs) -> _Draw:
    rng, count = _generator(attrs), int(attrs.get("sample_size", 1))
    dtype = _dtype(int(attrs.get("dtype", 6)), ("int32", "int64").__contains__, "int32 or int64")
    if count < 1:
        raise GraphError(f"sample_size is {count}, it is 1 or more", got=count)

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        if x.ndim != 2 or not x.shape[1]:
            raise GraphError(f"its input is [batch, classes], got {list(x.shape)}", got=x.shape)
        shape = _checked((len(x), count))
        wide = x.astype(np.float64)
        most = wide.max(axis=1, keepdims=True)
        if not np.isfinite(most).all() or np.isnan(wide).any():
            raise GraphError("a row of its input has NaN, +inf or -inf alone: no class is likely")
        ends = np.exp(wide - most).cumsum(axis=1)
        drawn = rng.random(shape) * ends[:, -1:]
        rows = [np.searchsorted(end, row, "right") for end, row in zip(ends, drawn, strict=True)]
        return [np.array(rows, dtype).reshape(shape)]

    return run


def _dropout(attrs: _Attrs) -> _Draw:
    rng = _generator(attrs)

    def run(
        x: np.ndarray, ratio: np.ndarray | None = None, training: np.ndarray | None = None
    ) -> Sequence[np.ndarray]:
        part = 0.5 if ratio is None else float(np.asarray(ratio, np.float64).reshape(()))
        if not 0 <= part < 1:
            raise GraphError(f"its ratio is {part}, it is from 0 to below 1", got=part)
        if training is None or not training.any() or part == 0:
            return [x, np.ones(x.shape, bool)]
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        kept = rng.random(x.shape) >= part
        with np.errstate(over="ignore", invalid="ignore"):  # an infinity that is dropped is NaN, as ONNX says
            made = (wide * kept * wide.dtype.type(1 / (1 - part))).astype(x.dtype)
        return [made, kept]

    return run


TRAINS: Mapping[tuple[str, str], Callable[[_Attrs], _Draw]] = {("", "Dropout"): _dropout}  # where it does
DRAWS: Mapping[tuple[str, str], Callable[[_Attrs], _Draw]] = {
    ("", "RandomNormal"): _of_shape(_normal),
    ("", "RandomNormalLike"): _like(_normal),
    ("", "RandomUniform"): _of_shape(_uniform),
    ("", "RandomUniformLike"): _like(_uniform),
    ("", "Bernoulli"): _bernoulli,
    ("", "Multinomial"): _multinomial,
}
