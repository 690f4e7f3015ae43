"""The programs that may run rows of different requests together, and the run time of each.

Whether a program may do so is tested, not assumed: a model with a first dimension of 8 may mix these 8 rows.
Each program is run on noise, then on other noise in which only the first or the last row is the same; the
outputs for the row that is the same must be equal bit for bit.
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

Shapes = tuple[tuple[int, ...], ...]
Arrays = Mapping[str, np.ndarray]
RowRun = Callable[[Arrays], list[np.ndarray]]


@dataclass(frozen=True, slots=True)
class RowProgram:
    """A program of known sizes. ``shapes``: shapes of the inputs, in order. ``run``: function of arrays by
    name that returns all outputs in order; the caller owns the outputs. ``memory``: arrays for the inputs
    that a run reads in place; ``run`` does not copy these arrays. ``traced``: function like ``run`` that also
    returns the events of a trace, and the trace's time 0 by time.perf_counter_ns; None if the program cannot
    be traced."""

    shapes: Shapes
    run: RowRun
    memory: Arrays = field(default_factory=dict)
    traced: Callable[[Arrays], tuple[list[np.ndarray], list[dict[str, Any]], int]] | None = None


def find_rows(
    programs: Sequence[RowProgram], names: Sequence[str], kinds: Sequence[str]
) -> tuple[dict[int, tuple[RowProgram, float]], str]:
    """If rows may run together: ({number of rows: (program, seconds of a run)}, ""). Otherwise: ({}, the
    reason). ``names`` and ``kinds`` (dtypes) are those of the inputs. The seconds are the minimum over some
    runs, so that other processes' work does not make a program with fewer rows look slower."""
    found: dict[int, tuple[RowProgram, float]] = {}
    for program in programs:
        times: list[float] = []
        timed = replace(program, run=partial(_timed, program.run, times))
        try:
            rows = _rows_of(timed, names, kinds)
        except GraphRuntimeError as error:
            rows = f"a run that tests it failed: {error}"
        if isinstance(rows, str):
            return {}, rows
        found[rows] = program, min(times)
    if len({tuple(shape[1:] for shape in program.shapes) for program in programs}) > 1:
        return {}, "the programs differ in more than the first dimension"
    return dict(sorted(found.items())), ""


def _timed(run: RowRun, times: list[float], inputs: Arrays) -> list[np.ndarray]:
    begin = time.perf_counter()
    outputs = run(inputs)
    times.append(time.perf_counter() - begin)
    return outputs


def _rows_of(program: RowProgram, names: Sequence[str], kinds: Sequence[str]) -> int | str:
    """The number of rows of a program, or, as a text, the reason why rows of different requests may not run
    together."""
    if not names:
        return "it has no inputs"
    rng = np.random.default_rng(0)
    first = [_noise(rng, shape, kind) for shape, kind in zip(program.shapes, kinds, strict=True)]
    outputs = program.run(dict(zip(names, first, strict=True)))
    rows = common_rows([*program.shapes, *(array.shape for array in outputs)])
    if not rows:
        return "its inputs and outputs have no first dimension in common"
    for kept in (0, rows - 1) if rows > 1 else (0, 0):  # a single row is compared with itself
        others = [_noise(rng, shape, kind) for shape, kind in zip(program.shapes, kinds, strict=True)]
        for array, other in zip(first, others, strict=True):
            other[kept] = array[kept]
        again = program.run(dict(zip(names, others, strict=True)))
        if any(a[kept].tobytes() != b[kept].tobytes() for a, b in zip(outputs, again, strict=True)):
            return "the values of a row depend on the other rows"
    return rows


def _noise(rng: np.random.Generator, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Floats around 0; for other dtypes 0 and 1, which are valid indices in most tables."""
    dtype = dtypes.to_numpy(kind)
    if kind == "bool" or dtypes.is_integer(kind):
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
