"""The graph that plan and estimate show for a model that has several graphs, or none before it runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from ...artifacts.door import Plannable, Waiting, bound
from ...base.errors import InputError
from ...base.options import Options
from ...base.progress import Tell
from ...frontends.onnx.dynamic import PortInfo
from ...ir.model import Model
from ...run.factory import create_flow
from ..sources import open_given, say_first


def open_shown(
    path: Path,
    devices: Sequence[str] | None,
    libraries: Sequence[Path] | None,
    options: Options,
    tell: Tell,
    params: Path | None = None,
) -> Plannable:
    """The source's first program, opened as by open_first. An open size is set to its largest bucket, or to 1
    if it has no buckets. A model that finds values while it runs is shown by its first specialization. The
    choice is printed on stderr. Raises as open_first, also for a model whose first specialization waits for a
    loop."""
    found = open_given(path, devices, libraries, params, options, tell)
    if isinstance(found, Plannable):
        return say_first(found)
    if libraries:
        raise found.why
    if params is not None:
        text = f"--params {params}: {path.name} is a model of open sizes, which has its own"
        raise InputError(text, got=str(params))
    if found.bundle is not None:
        own = found.bundle.options
        dims, values = {**own.dims, **options.dims}, {**own.values, **options.values}
        options = replace(options, dims=dims, values=values)
    return Plannable(found.name, _model(found, options), rewritable=True, asked=found.devices)


def _model(waiting: Waiting, options: Options) -> Model:
    """The Model of the program that is shown. Prints the choice on stderr."""
    name = waiting.name
    module = create_flow(waiting, ["cpu:0"], options)
    picked = _picked(module.inputs, options.dims)
    if picked is None:  # None: an input may have any shape
        if waiting.bundle is None:
            raise waiting.why
        raise InputError(f"{name} has inputs of any shape: bind them with --dim", got=name)
    known = replace(options, dims={**options.dims, **picked})
    open_ = f"{name} leaves {', '.join(picked)} open: " if picked else ""
    sizes = f" at {', '.join(f'{n} = {size}' for n, size in picked.items())}" if picked else ""
    found = bound(waiting, known)
    if isinstance(found, Plannable):
        typer.echo(f"{open_}what follows is of the specialization{sizes} alone; --dim gives others", err=True)
        return found.model
    first = module.first_model(known.dims)
    if first is None:
        raise found.why
    why = f"{open_ or name + ': '}it finds sizes or values while it runs: "
    typer.echo(f"{why}what follows is of its first specialization alone{sizes}, {_ends(first)}", err=True)
    return first


def _picked(inputs: Sequence[PortInfo], dims: Mapping[str, Any]) -> dict[str, int] | None:
    """Sizes for the open dimensions; None if an input has any shape."""
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
