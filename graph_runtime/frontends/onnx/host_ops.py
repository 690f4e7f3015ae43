"""Nodes that run on the host between the specializations of a flow: ops that produce or read texts (text.py),
and ops that draw random numbers by numpy's PCG64, such as a Dropout in training.

A HostOp is a function from arrays to arrays. It is made from a node before a run, when the attributes are
checked. A node that draws continues its sequence from run to run. With an attribute ``seed`` the sequence
begins with the same numbers in each session, and anew at each size that the session meets. Without this
attribute the system's entropy is the seed. ONNX prescribes no generator: the distributions are equal to those
of other runtimes, the numbers are not.
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
from .attributes import attributes_of
from .elements import STRING
from .inlining import opset_of
from .nodes import op_key
from .parse import ParsedFile
from .read import dtype_name
from .tape import TapeValue
from .text import ALSO_TEXTS, TEXTS

HostOp = Callable[..., Sequence[np.ndarray]]


def done_by_host(node: Any, inputs: Sequence[Any]) -> bool:
    """Whether the host must run a node, by what is known before a run. ``inputs``: a TapeValue or
    TapeSequence for each input; None for a missing input."""
    key = op_key(node)
    if key in _ALWAYS:
        return True
    if key in TRAINS:
        return _trains(inputs)
    elements = [getattr(value, "element", None) for value in inputs]
    if key not in ALSO_TEXTS:
        return False
    to = next((a.i for a in node.attribute if a.name == "to"), 0) if key[1] == "Cast" else 0
    return STRING in elements or to == STRING.code


def _trains(inputs: Sequence[TapeValue | None]) -> bool:
    """Whether a Dropout with these inputs is known to drop elements."""
    ratio, training = (None if value is None else value.known() for value in (*inputs, None, None)[1:3])
    drops = ratio is None or bool((np.asarray(ratio, np.float64) != 0).any())
    return training is not None and bool(np.any(training)) and drops


def host_op(file: ParsedFile, node: Any, path: str) -> HostOp:
    """The HostOp of a node for which done_by_host holds. Raises GraphError for unsuitable attributes."""
    try:
        attrs = attributes_of(file.file, node, opset_of(node, file.opsets))
        return {**_ALWAYS, **ALSO_TEXTS, **TRAINS}[op_key(node)](attrs)
    except GraphError as error:
        raise GraphError(
            f"{node.op_type} {node.name!r}: {error}", path=path, node=node.name, op=node.op_type
        ) from error
    except (TypeError, ValueError, KeyError) as error:
        text = f"{node.op_type} {node.name!r}: its attributes do not fit: {error}"
        raise GraphError(text, path=path, node=node.name, op=node.op_type) from error


def check_host_ops(file: ParsedFile, graph: Any, path: str = "$.graph") -> None:
    """Raise GraphError if a host node has unsuitable attributes; subgraphs are checked, too."""
    for i, node in enumerate(graph.node):
        if op_key(node) in _ALWAYS:
            host_op(file, node, f"{path}.node[{i}]")
        for attribute in node.attribute:
            if attribute.HasField("g"):
                check_host_ops(file, attribute.g, f"{path}.node[{i}].{attribute.name}")


_Attrs = Mapping[str, Any]
_Draw = Callable[..., Sequence[np.ndarray]]
_Sampler = Callable[[np.random.Generator, tuple[int, ...], np.dtype], np.ndarray]
_Distribution = Callable[[_Attrs], _Sampler]
_MOST_ELEMENTS = 2**31  # most elements of one result
_FLOAT = 1  # TensorProto's code of float32


def _generator(attrs: _Attrs) -> np.random.Generator:
    seed = attrs.get("seed")
    if seed is None:
        return np.random.default_rng()
    return np.random.default_rng(struct.unpack("<Q", struct.pack("<d", float(seed)))[0])


def _dtype(code: int, allowed: Callable[[str], bool], what: str) -> np.dtype:
    name = dtype_name(code, "the result")
    if not allowed(name):
        raise GraphError(f"its result must have {what}, got {name}", got=name)
    return dtypes.to_numpy(name)


def _float_dtype(code: int) -> np.dtype:
    return _dtype(code, FLOATS.__contains__, "a type of floats")


def _checked(shape: Sequence[int]) -> tuple[int, ...]:
    if any(size < 0 for size in shape) or math.prod(shape) > _MOST_ELEMENTS:
        most = f"sizes of 0 or more and {_MOST_ELEMENTS} elements at most"
        text = f"its result would have shape {list(shape)}, but it may have {most}"
        raise GraphError(text, got=tuple(shape))
    return tuple(shape)


def _normal(attrs: _Attrs) -> _Sampler:
    mean, scale = float(attrs.get("mean", 0.0)), float(attrs.get("scale", 1.0))

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        wide = rng.standard_normal(shape, np.float64 if dtype == np.float64 else np.float32)
        return (wide * wide.dtype.type(scale) + wide.dtype.type(mean)).astype(dtype)

    return draw


def _uniform(attrs: _Attrs) -> _Sampler:
    low, high = float(attrs.get("low", 0.0)), float(attrs.get("high", 1.0))

    def draw(rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        wide = rng.random(shape, np.float64 if dtype == np.float64 else np.float32)
        made = (wide * wide.dtype.type(high - low) + wide.dtype.type(low)).astype(dtype)
        end = dtype.type(high)
        if low < high:  # rounding may give the upper bound, which may not be drawn
            made[made >= end] = np.nextafter(end, dtype.type(low))
        return made

    return draw


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
                text = f"its input has {dtype.name}, so it needs the attribute dtype with a type of floats"
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
            raise GraphError("its input has values that are not probabilities: they must be from 0 to 1")
        return [(rng.random(x.shape) < wide).astype(named or x.dtype)]

    return run


def _multinomial(attrs: _Attrs) -> _Draw:
    rng, count = _generator(attrs), int(attrs.get("sample_size", 1))
    dtype = _dtype(int(attrs.get("dtype", 6)), ("int32", "int64").__contains__, "int32 or int64")
    if count < 1:
        raise GraphError(f"sample_size is {count}, but must be 1 or more", got=count)

    def run(x: np.ndarray) -> Sequence[np.ndarray]:
        if x.ndim != 2 or not x.shape[1]:
            raise GraphError(f"its input must be [batch, classes], got {list(x.shape)}", got=x.shape)
        shape = _checked((len(x), count))
        wide = x.astype(np.float64)
        most = wide.max(axis=1, keepdims=True)
        if not np.isfinite(most).all() or np.isnan(wide).any():
            raise GraphError("a row of its input has NaN or +inf, or only -inf, which is no distribution")
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
            raise GraphError(f"its ratio is {part}, but must be from 0 to below 1", got=part)
        if training is None or not training.any() or part == 0:
            return [x, np.ones(x.shape, bool)]
        wide = x if x.dtype == np.float64 else x.astype(np.float32)
        kept = rng.random(x.shape) >= part
        with np.errstate(over="ignore", invalid="ignore"):  # a dropped infinity is NaN, as ONNX defines
            made = (wide * kept * wide.dtype.type(1 / (1 - part))).astype(x.dtype)
        return [made, kept]

    return run


TRAINS: Mapping[tuple[str, str], Callable[[_Attrs], _Draw]] = {("", "Dropout"): _dropout}  # in training mode
DRAWS: Mapping[tuple[str, str], Callable[[_Attrs], _Draw]] = {
    ("", "RandomNormal"): _of_shape(_normal),
    ("", "RandomNormalLike"): _like(_normal),
    ("", "RandomUniform"): _of_shape(_uniform),
    ("", "RandomUniformLike"): _like(_uniform),
    ("", "Bernoulli"): _bernoulli,
    ("", "Multinomial"): _multinomial,
}
_ALWAYS = {**TEXTS, **DRAWS}
