"""The fastest of an op's kernels on this machine, measured on the shapes of a node.

    prepare(model, "cpu:0", measure=Tuner(path))        # compile --tune

Times are kept in a file under the machine and the call, so that no call is measured twice."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..base.files.mapped import read_file
from ..base.files.writing import write_whole
from ..base.machine import isa
from ..binding import blas
from ..ir.builder import GraphBuilder
from ..ir.graph import TensorType
from ..ir.ops import inputs as draws
from ..ir.ops import registry
from .factory import create

_SECONDS, _RUNS = 0.05, 3  # seconds for each kernel, and least number of runs


class Tuner:
    """Measures kernels and keeps the times. ``path``: file for the times; None: the times are kept in memory
    only."""

    path: Path | None
    machine: str

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self.path = None if path is None else Path(path)
        self.machine = f"{isa.native_name()} cores={len(os.sched_getaffinity(0))}"
        self.times: dict[str, float] = self._read()

    def __call__(
        self, op: str, attrs: Mapping[str, Any], inputs: Sequence[TensorType], kernels: Sequence[str]
    ) -> dict[str, float]:
        """{kernel: least seconds of a call} of ``kernels``, without kernels whose library is not installed.
        Raises the errors of running the op."""
        found, bodies = {}, {body.name: body for body in registry.require(op).all_bodies("cpu")}
        for kernel in kernels:
            if bodies[kernel].library and blas.absent():
                continue
            made_by = f"{kernel} {blas.version()}" if bodies[kernel].library else kernel
            key = f"{self.machine} {made_by} {op} {sorted(attrs.items())} {' '.join(map(str, inputs))}"
            if key not in self.times:
                self.times[key] = _least_seconds(op, {**attrs, "kernel": kernel}, inputs)
                self._write()
            found[kernel] = self.times[key]
        return found

    def _read(self) -> dict[str, float]:
        """Times that earlier processes have measured; a damaged file counts as empty."""
        try:
            times = json.loads(read_file(self.path)) if self.path else {}
        except (OSError, ValueError, RecursionError):
            return {}
        pairs = times.items() if isinstance(times, dict) else ()
        return {key: seconds for key, seconds in pairs if type(seconds) is float and 0 < seconds < math.inf}

    def _write(self) -> None:
        if self.path is None:
            return
        write_whole(self.path, json.dumps(self.times).encode(), 0o600, parents=True)


def _least_seconds(op: str, attrs: Mapping[str, Any], inputs: Sequence[TensorType]) -> float:
    builder = GraphBuilder()
    values = [builder.input(f"x{i}", t.shape, t.dtype) for i, t in enumerate(inputs)]
    made = builder.op(op, *values, **attrs)
    builder.output(*(made if isinstance(made, tuple) else (made,)))
    module, rng = create(builder, None, "cpu:0"), np.random.default_rng(0)
    module.run(**{f"x{i}": draws.draw_array(t, rng) for i, t in enumerate(inputs)})
    least, runs, end = float("inf"), 0, time.perf_counter() + _SECONDS
    while runs < _RUNS or time.perf_counter() < end:
        start = time.perf_counter()
        module.run()
        least, runs = min(least, time.perf_counter() - start), runs + 1
    return least
