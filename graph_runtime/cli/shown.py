"""The one program that plan and estimate show of a model that has several, or none before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from ..base.errors import GraphRuntimeError, InputError
from ..base.options import Options
from ..base.progress import Tell
from ..build.bundles.bundle import Bundle, read_bundle
from ..build.prepare import read_model
from ..frontends.onnx.dynamic import PortInfo
from ..ir.model import Model
from ..run.factory import create_flow, waits_for_runs
from .sources import OpenedProgram, is_bundle, open_program

__all__ = ["open_shown"]


def open_shown(
    path: Path,
    devices: Sequence[str] | None,
    libraries: Sequence[Path] | None,
    options: Options,
    tell: Tell,
    params: Path | None = None,
) -> OpenedProgram:
    """As open_program. Sizes that are open get one: of buckets the largest, else 1; of a model that finds
    values while it runs, the first of its programs. Says on stderr which it is. Raises as open_program, for a
    model whose first program waits for a loop, too."""
    if is_bundle(path) and not (bundle := read_bundle(path)).programs:
        _refuse_params(path, params)
        return _of_bundle(bundle, devices, options)
    try:
        return open_program(path, devices, libraries, params, options, tell)
    except GraphRuntimeError as error:
        if options.batch or libraries or not waits_for_runs(path, error):
            raise
        _refuse_params(path, params)
        return OpenedProgram(path.name, _model(path, path.name, options, error), [], devices or ["cpu:0"])


def _refuse_params(path: Path, params: Path | None) -> None:
    if params is not None:
        raise InputError(
            f"--params {params}: {path.name} is a model of open sizes, which has its own", got=str(params)
        )


def _of_bundle(bundle: Bundle, devices: Sequence[str] | None, options: Options) -> OpenedProgram:
    """A program of the model in a bundle that has none."""
    assert bundle.source is not None, "else a bundle has programs"
    dims = {**bundle.options.dims, **options.dims}
    options = replace(options, dims=dims, values={**bundle.options.values, **options.values})
    member = bundle.member(bundle.source.model)
    source: Any = bundle.read(bundle.source.model) if member.file == bundle.path else member.file
    return OpenedProgram(
        bundle.path.name, _model(source, bundle.path.name, options, None), [], devices or bundle.devices
    )


def _model(source: Any, name: str, options: Options, error: GraphRuntimeError | None) -> Model:
    """The Model of what is shown. ``error``: why there is no one program."""
    module = create_flow(source, ["cpu:0"], options)
    picked = _picked(module.inputs, options.dims)
    if picked is None:  # an input without a shape
        raise error or GraphRuntimeError(f"{name} has inputs of any shape: bind them with --dim")
    known = replace(options, dims={**options.dims, **picked})
    open_ = f"{name} leaves {', '.join(picked)} open: " if picked else ""
    sizes = f" at {', '.join(f'{n} = {size}' for n, size in picked.items())}" if picked else ""
    try:
        model = read_model(source, known)
    except GraphRuntimeError as waiting:
        first = module.first_model(known.dims) if waits_for_runs(source, waiting) else None
        if first is None:
            raise
        why = f"{open_ or name + ': '}it finds sizes or values while it runs: "
        typer.echo(
            f"{why}what follows is of the first of its programs alone{sizes}, {_ends(first)}", err=True
        )
        return first
    typer.echo(f"{open_}what follows is of the program{sizes} alone; --dim gives others", err=True)
    return model


def _picked(inputs: Sequence[PortInfo], dims: Mapping[str, Any]) -> dict[str, int] | None:
    """Sizes for the dimensions that have none; None where an input has any shape."""
    if any(port.shape is None and port.name not in dims for port in inputs):
        return None
    names = [size for port in inputs for size in port.shape or () if isinstance(size, str)]
    asked = {name: dims.get(name, 1) for name in names}
    return {
        name: max(size) if isinstance(size, (tuple, list)) else size
        for name, size in asked.items()
        if not (name in dims and isinstance(size, int))
    }


def _ends(model: Model) -> str:
    reads, makes = ", ".join(model.input_names) or "nothing", ", ".join(model.graph.output_names)
    return f"{reads} -> {makes}"
