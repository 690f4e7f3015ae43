"""graph-runtime export"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..artifacts.prepare import read_params
from ..base.options import Options
from ..compat.tvm_files.export import export as write_files
from . import options as opt
from .sources import open_first

__all__ = ["export"]


@opt.with_options("dims")
def export(
    graph: opt.Source,
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to write.")],
    dialect: Annotated[str, typer.Option("--dialect", help="tvm: files for TVM 0.7 to 0.19.")] = "tvm",
    library: opt.LibraryFiles = None,
    params: opt.Params = None,
    *,
    options: Options,
    json: opt.Json = False,
) -> None:
    """Write a graph for another runtime: graph.json without this package's own entries, params.bin,
    libraries.

    Example: graph-runtime export net.bundle --dialect tvm -o deploy
    """
    opened = open_first(graph, None, library, params, options)
    known = {name: constant.read() for name, constant in opened.model.constants.items()}
    known |= read_params(opened.values) if opened.values is not None else {}
    files = write_files(
        opened.graph, output, dialect=dialect, params=known or None, libraries=opened.libraries
    )
    if json:
        opt.print_json({"files": [str(file) for file in files]})
    else:
        typer.echo("\n".join(f"wrote {file}" for file in files))
