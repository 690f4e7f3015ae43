"""What run does with a model whose sizes or values a run finds: it has no one program to look at."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import typer

from ..base.errors import GraphRuntimeError, InputError, did_you_mean
from ..base.options import Options
from ..frontends.onnx.dynamic import PortInfo
from ..ir.graph import TensorType
from ..run.factory import create_flow
from ..run.flows.flow_module import FlowModule
from .values import read_input

__all__ = ["FlowRun", "flow_of", "run_flow"]

FlowRun = tuple[list[str], list[np.ndarray], float]  # names of outputs, their values, seconds


def flow_of(
    source: Path,
    devices: Sequence[str] | None,
    options: Options,
    error: GraphRuntimeError,
    asked: Mapping[str, Any],
) -> FlowModule:
    """The flow of a model that has no one program, for which ``error`` says why. ``asked``: flags that look
    at a program, which are refused by name."""
    for flag, value in asked.items():
        if value:
            raise InputError(
                f"{flag} looks at one program, and this model finds sizes or values while it runs ({error}): "
                "leave it out, or bind them all (--dim, --value)",
                got=flag,
            ) from error
    return create_flow(source, list(devices or ["cpu:0"]), options)


def run_flow(
    module: FlowModule,
    given: Mapping[str, str],
    expected: Mapping[str, np.ndarray],
    dims: Mapping[str, Any],
    seed: int,
) -> FlowRun:
    """Set inputs as --input and --expect say, and run once, after a run that makes the programs. A sequence's
    values are name[0], name[1], ..."""
    rng = np.random.default_rng(seed)
    ports = {port.name: port for port in module.inputs}
    for name in given:
        if name not in ports:
            raise InputError(
                f"--input {name}: the model has no such input{did_you_mean(name, ports)}", got=name
            )
    for name, port in ports.items():
        if name in given:
            module.set_input(name, _read(given[name], port, dims, rng))
        elif f"in:{name}" in expected:
            module.set_input(name, expected[f"in:{name}"])
    module.run()
    start = time.perf_counter()
    module.run()
    seconds = time.perf_counter() - start
    typer.echo(f"{module.programs.made} programs: {'; '.join(module.programs.sizes)}", err=True)
    names, values = [], []
    for port in module.outputs:
        found = module.get_output(port.name)
        parts = found if isinstance(found, list) else [] if found is None else [found]
        names += [f"{port.name}[{i}]" for i in range(len(parts))] if isinstance(found, list) else [port.name]
        values += [part.numpy() for part in parts]
    return names, values, seconds


def _read(text: str, port: PortInfo, dims: Mapping[str, Any], rng: np.random.Generator) -> np.ndarray:
    """The value of --input; random ones need sizes."""
    shape = dims.get(port.name, port.shape)
    sizes = [dims.get(size, size) if isinstance(size, str) else size for size in shape or ()]
    open_ = [size for size in sizes if isinstance(size, str)]
    if text == "random" and (open_ or shape is None):
        name = open_[0] if open_ else port.name
        raise InputError(f"--input {port.name}=random needs sizes: --dim {name}=1", wanted=name)
    known = tuple(size for size in sizes if isinstance(size, int))
    return read_input(text, TensorType(port.dtype, known), rng)
