"""The one program that plan and estimate show of a model that has several, or none before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from ...artifacts.door import bound
from ...artifacts.plannable import Plannable, Waiting
from ...base.errors import InputError
from ...base.options import Options
from ...base.progress import Tell
from ...frontends.onnx.dynamic import PortInfo
from ...ir.model import Model
from ...run.factory import create_flow
from ..sources import open_given, say_first

__all__ = ["open_shown"]


def open_shown(
    path: Path,
    devices: Sequence[str] | None,
    libraries: Sequence[Path] | None,
    options: Options,
    tell: Tell,
    params: Path | None = None,
) -> Plannable:
    """As open_program. Sizes that are open get one: of buckets the largest, else 1; of a model that finds
    values while it runs, the first of its programs. Says on stderr which it is. Raises as open_program, for a
    model whose first program waits for a loop, too."""
    found = open_given(path, devices, libraries, params, options, tell)
    if isinstance(found, Plannable):
        return say_first(found)
    if libraries:
        raise found.why
    if params is not None:
        raise InputError(
            f"--params {params}: {path.name} is a model of open sizes, which has its own", got=str(params)
        )
    if found.bundle is not None:
        own = found.bundle.options
        dims, values = {**own.dims, **options.dims}, {**own.values, **options.values}
        options = replace(options, dims=dims, values=values)
    return Plannable(found.name, _model(found, options), rewritable=True, asked=found.devices)


def _model(waiting: Waiting, options: Options) -> Model:
    """The Model of what is shown."""
    name = waiting.name
    module = create_flow(waiting, ["cpu:0"], options)
    picked = _picked(module.inputs, options.dims)
    if picked is None:  # an input without a shape
        if waiting.bundle is None:
            raise waiting.why
        raise InputError(f"{name} has inputs of any shape: bind them with --dim", got=name)
    known = replace(options, dims={**options.dims, **picked})
    open_ = f"{name} leaves {', '.join(picked)} open: " if picked else ""
    sizes = f" at {', '.join(f'{n} = {size}' for n, size in picked.items())}" if picked else ""
    found = bound(waiting, known)
    if isinstance(found, Plannable):
        typer.echo(f"{open_}what follows is of the program{sizes} alone; --dim gives others", err=True)
        return found.model
    first = module.first_model(known.dims)
    if first is None:
        raise found.why
    why = f"{open_ or name + ': '}it finds sizes or values while it runs: "
    typer.echo(f"{why}what follows is of the first of its programs alone{sizes}, {_ends(first)}", err=True)
    return first


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
