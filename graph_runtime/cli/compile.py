"""graph-runtime compile"""
from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..loader import load_graph
from . import options as opt
from .sources import asked_devices, is_bundle

__all__ = ["compile_"]


def compile_(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="graph.json.")],
    output: Annotated[Path, typer.Option(
        "--output", "-o", help="The bundle to write: a folder, or a stored zip if it ends in .zip.")],
    device: opt.Devices = None,
    library: Annotated[list[Path] | None, typer.Option(
        "--library", help="A module library that the bundle takes along, for functions without gr.op; "
                          "repeat for more.")] = None,
    params: opt.Params = None,
    place: opt.Place = None, map: opt.Map = None, format: opt.Formats = None,
    layout: opt.Layouts = None, strict: opt.Strict = False,
    march: Annotated[str, typer.Option(
        "--march", help="auto (x86-64-v3 where this CPU has it, else v2), native, or a level.")] = "auto",
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Compilers at a time.")] = None,
    json: opt.Json = False,
) -> None:
    """Plan a graph, generate C for its kernels, compile it, and write a bundle.

    Example: graph-runtime compile net.json --params p.bin --device cpu:0 --device tt:0 -o net.bundle
    """
    from codegen.build import build_bundle  # the only command that needs a C compiler

    if is_bundle(graph):
        raise InputError(f"{graph} is a bundle, compiled already; compile takes a graph.json, and the one in "
                         "a bundle is named by graph-runtime inspect", got=str(graph))
    loaded = load_graph(graph)
    devices = device or asked_devices(loaded)
    with _progress(not json) as progress:
        build_bundle(loaded, devices, output, params=params, libraries=library or (), march=march, jobs=jobs,
                     progress=progress, **opt.plan_options(place, map, format, strict, layouts=layout))
    if json:
        opt.print_json({"bundle": str(output), "devices": list(devices)})
    else:
        typer.echo(f"wrote {output}")


@contextmanager
def _progress(shown: bool) -> Iterator[Any]:
    """A progress bar on stderr, fed by (steps done, steps in all); gone when it is done."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("compiling", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
