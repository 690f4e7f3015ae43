"""graph-runtime kernel"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import CompileError, InputError
from . import options as opt

__all__ = ["kernel"]


def kernel(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="SOURCE...", help="C (.c), C++ (.cc, .cpp, .cxx) or Rust (.rs)."),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="The library to write.")] = None,
    march: opt.March = "auto",
    flag: Annotated[
        list[str] | None,
        typer.Option(
            "--flag", "-f", help="Flag for the C or C++ compiler and linker: -f -lblas; repeatable."
        ),
    ] = None,
    include: Annotated[
        bool, typer.Option("--include", help="Print the folder of gr_kernel.h and gr_abi.h, and end.")
    ] = False,
    json: opt.Json = False,
) -> None:
    """Compile handwritten kernels, each announced by a comment line, into a library for graphs.

    Example: graph-runtime kernel add.c -o add.so
    """
    from ..codegen.handwritten import build_kernel_library, include_folder  # needs a compiler

    if include:
        folder = str(include_folder())
        return opt.print_json({"folder": folder}) if json else typer.echo(folder)
    if not sources or output is None:
        raise InputError("kernel takes a source and --output, as `graph-runtime kernel add.c -o add.so`")
    try:
        manifest = build_kernel_library(
            sources, output, march=march, flags=flag or (), say=lambda text: typer.echo(text, err=True)
        )
    except CompileError as error:
        if not error.fields.get("stderr"):
            raise
        typer.echo(error.fields["stderr"], err=True)  # the compiler's messages, with lines and columns
        raise CompileError("nothing was written: the compiler's own text is above", got=error.got) from None
    if json:
        opt.print_json({"library": str(output), "kernels": [entry.name for entry in manifest.kernels]})
        return
    for entry in manifest.kernels:
        typer.echo(f"{entry.name} on {entry.kind}: {entry}")
    typer.echo(f"wrote {output}")
