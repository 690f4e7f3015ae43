"""graph-runtime compile"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..artifacts.door import Waiting
from ..base.errors import InputError
from ..base.options import Options
from ..binding import core
from ..run.factory import warn_of
from ..run.tuning import Tuner
from . import options as opt
from .output.pictures import Html, page_of_problem, write_prepared_page
from .sources import open_given, pairs, progress

if TYPE_CHECKING:
    from ..run.flows.flow_module import FlowModule

__all__ = ["compile_"]


@opt.with_options(but=("threads",))
def compile_(
    graph: Annotated[
        Path, typer.Argument(metavar="MODEL", help="An ONNX file, .mlir (StableHLO), or graph.json.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The bundle: a folder, or a stored zip if it ends in .zip.")
    ],
    options: Options,
    device: opt.Devices = None,
    library: Annotated[
        list[Path] | None,
        typer.Option("--library", help="A library for functions without gr.op, to include; repeatable."),
    ] = None,
    params: opt.Params = None,
    input: opt.Inputs = None,
    march: opt.March = "auto",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Compilers at a time.")] = None,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Measure the kernels of host ops that have several, and take the fastest. Times are "
            "kept in the cache.",
        ),
    ] = False,
    closed: Annotated[
        bool, typer.Option("--closed", help="Omit the model from the bundle: it has only the sizes of --dim.")
    ] = False,
    html: Html = None,
    verbose: opt.Verbose = False,
    json: opt.Json = False,
) -> None:
    """Import a model, place and plan it, generate and compile C for its kernels, and write a bundle. For a
    model of open sizes, the bundle contains the model, and programs for the sizes of --dim.

    Example: graph-runtime compile model.onnx --device cpu:0 --device tt:0 -o model.bundle

    Example: graph-runtime compile net.json --params p.bin --device tt:0 --place 'soft*=cpu:0' -o net.zip
    """
    from ..codegen.build import prepare_programs, write_prepared  # the only command that needs a C compiler
    from ..codegen.cache import open_cache

    with progress(not json) as tell:
        opened = open_given(graph, device, library, params, options, tell)
        if isinstance(opened, Waiting):
            if opened.bundle is not None or library or params:
                raise opened.why
            from .flows import compile_flow  # needs onnx, unlike most commands

            given = pairs(input, "--input")
            _say_flow(compile_flow(opened, output, options, given, closed, tell), output, closed, json)
            return
        if input:
            raise InputError(f"--input is for models whose values a run finds: {graph} needs none", got=input)
        if opened.bundle is not None:
            raise InputError(
                f"{graph} is a bundle, compiled already; compile takes a graph.json, "
                "StableHLO or an ONNX file; the one in a bundle is named by graph-runtime inspect",
                got=str(graph),
            )
        with page_of_problem(html, opened.name):
            prepared = prepare_programs(
                {"main": opened},
                opened.devices,
                options,
                libraries=library or (),
                measure=Tuner(open_cache().times) if tune else None,
                tell=tell,
            )
        warn_of(prepared["main"])
        write = partial(write_prepared, libraries=library or (), built_in=core.generic_kernels(), tell=tell)
        write(prepared, output, options, march=march, jobs=jobs)
    made = prepared["main"]
    write_prepared_page(html, opened.name, made)
    if json:
        opt.print_json(
            {
                "bundle": str(output),
                "devices": list(map(str, made.plan.devices)),
                "notes": opt.notes_json(made.notes),
            }
        )
        return
    if verbose:
        opt.print_notes(made.notes)
    typer.echo(f"wrote {output}")


def _say_flow(flow: FlowModule, output: Path, closed: bool, json: bool) -> None:
    sizes = flow.programs.sizes
    if json:
        opt.print_json({"bundle": str(output), "programs": sizes, "closed": closed})
        return
    if sizes:
        typer.echo(flow.describe())
    if closed:
        typer.echo(f"wrote {output}: these sizes, values and branches, and no others")
        return
    has = "programs of these sizes, values and branches" if sizes else "no program yet"
    inputs = ", ".join(f"{port.name} {port}" for port in flow.inputs)
    typer.echo(
        f"wrote {output}: {has}; the model is in it, and others are made when a run meets them: {inputs}"
    )
