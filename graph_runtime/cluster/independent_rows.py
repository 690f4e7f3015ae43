"""Which programs may run rows of different requests together, and what a run of each takes.

That they may is tried, not assumed: a model whose input happens to begin with 8 may well mix those 8. Each
program runs on noise, then on other noise but for one row, the first or the last, and that row's outputs must
be equal to the bit.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from ..base import dtypes
from ..base.errors import GraphRuntimeError
from .batch_rows import common_rows

__all__ = ["RowProgram", "find_rows"]

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class RowProgram:
    """A program of known sizes. ``shapes``: of its inputs, in order. ``run``: from arrays by name to all
    outputs, in order, which are the caller's. ``memory``: arrays of those inputs that a run reads in place;
    given to ``run``, they are not copied. ``traced``: as run, and the events of a trace of it with the ns of
    time.perf_counter's clock at which their time is 0; None where it cannot be traced."""

    shapes: Shapes
    run: Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]
    memory: Mapping[str, np.ndarray] = field(default_factory=dict)
    traced: (
        Callable[[Mapping[str, np.ndarray]], tuple[list[np.ndarray], list[dict[str, Any]], int]] | None
    ) = None


def find_rows(
    programs: Sequence[RowProgram], names: Sequence[str], kinds: Sequence[str]
) -> tuple[dict[int, tuple[RowProgram, float]], str]:
    """({rows: (program, seconds of a run)}, "") where rows may run together, else ({}, why they may not).
    ``names`` and ``kinds`` (dtypes) are those of the inputs. The seconds are the least of some runs: a
    program with less rows is not slower because another process was busy when it was tried."""
    found: dict[int, tuple[RowProgram, float]] = {}
    for program in programs:
        times: list[float] = []
        timed = replace(program, run=partial(_timed, program.run, times))
        try:
            rows = _rows_of(timed, names, kinds)
        except GraphRuntimeError as error:
            rows = f"a run that tries it failed: {error}"
        if isinstance(rows, str):
            return {}, rows
        found[rows] = program, min(times)
    if len({tuple(shape[1:] for shape in program.shapes) for program in programs}) > 1:
        return {}, "the programs differ in more than the first dimension"
    return dict(sorted(found.items())), ""


def _timed(
    run: Callable[[Mapping[str, np.ndarray]], list[np.ndarray]],
    times: list[float],
    inputs: Mapping[str, np.ndarray],
) -> list[np.ndarray]:
    begin = time.perf_counter()
    outputs = run(inputs)
    times.append(time.perf_counter() - begin)
    return outputs


def _rows_of(program: RowProgram, names: Sequence[str], kinds: Sequence[str]) -> int | str:
    """The rows of a program, or why they depend on each other."""
    if not names:
        return "it has no inputs"
    rng = np.random.default_rng(0)
    first = [_noise(rng, shape, kind) for shape, kind in zip(program.shapes, kinds, strict=True)]
    outputs = program.run(dict(zip(names, first, strict=True)))
    rows = common_rows([*program.shapes, *(array.shape for array in outputs)])
    if not rows:
        return "its inputs and outputs have no first dimension in common"
    for kept in (0, rows - 1) if rows > 1 else (0, 0):  # a single row is compared with itself: it is timed
        others = [_noise(rng, shape, kind) for shape, kind in zip(program.shapes, kinds, strict=True)]
        for array, other in zip(first, others, strict=True):
            other[kept] = array[kept]
        again = program.run(dict(zip(names, others, strict=True)))
        if any(a[kept].tobytes() != b[kept].tobytes() for a, b in zip(outputs, again, strict=True)):
            return "the values of a row depend on the other rows"
    return rows


def _noise(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Floats around 0; 0 and 1 of other dtypes, which are an index in most tables."""
    dtype = dtypes.to_numpy(kind)
    if kind == "bool" or dtypes.is_integer(kind):
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
