"""graph-runtime serve"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ..base.errors import InputError
from ..base.files.temporary import temporary_folder
from ..base.options import Options
from . import options as opt
from .output.pictures import Trace

__all__ = ["serve"]

Models = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL...",
        help="A bundle, ONNX file, .mlir or graph.json, as [NAME[:VERSION]=]PATH[#PROGRAM]. Without a name "
        "it is the file's; #PROGRAM serves only one program of a bundle.",
    ),
]
Replicas = Annotated[
    str, typer.Option("--replicas", help="Processes that run each model; auto: by the length of its queue.")
]
Address = Annotated[
    str, typer.Option("--address", help="HOST:PORT of a Ray cluster; local starts one on this machine.")
]


@opt.with_options()
def serve(
    models: Models,
    options: Options,
    replicas: Replicas = "1",
    address: Address = "local",
    host: Annotated[str, typer.Option("--host", help="The address on which HTTP listens.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="The port; 0: any free one.")] = 8000,
    device: opt.Devices = None,
    library: opt.LibraryFiles = None,
    params: opt.Params = None,
    native: opt.Native = True,
    queue: Annotated[
        int, typer.Option("--queue", min=1, help="Most waiting requests of a model; more are refused (429).")
    ] = 256,
    delay_ms: Annotated[
        float,
        typer.Option("--delay-ms", min=0, help="Time that a request waits for others if a replica is free."),
    ] = 0,
    deadline: Annotated[
        float,
        typer.Option("--deadline", min=0.001, help="Seconds within which a request is answered or refused."),
    ] = 60,
    trace: Trace = None,
    max_body_mb: Annotated[int, typer.Option("--max-body-mb", min=1, help="Most MiB of one request.")] = 256,
    json: opt.Json = False,
) -> None:
    """Serve models over HTTP (Open Inference Protocol, version 2) by replicas on Ray. SIGHUP reads all files
    again and replaces changed models; Ctrl-C answers waiting requests, and ends.

    Example: graph-runtime serve net.bundle --replicas 2

    Example: graph-runtime serve digits=model.onnx --dim batch=1,4,16 --replicas auto --port 8080
    """
    from ..cluster.offers import Making, make_source, parse_offer, require_used  # only this command needs Ray
    from ..cluster.server import Named, Serving, serve_models

    offers = [parse_offer(text) for text in models]
    serving = Serving(
        replicas=_replicas(replicas),
        cores=len(os.sched_getaffinity(0)),
        threads=options.threads,
        address=address,
        host=host,
        port=port,
        queued=queue,
        delay=delay_ms / 1e3,
        deadline=deadline,
        most_body=max_body_mb << 20,
        trace=trace,
    )
    with tempfile.TemporaryDirectory(dir=temporary_folder()) as folder:
        making = Making(
            Path(folder), tuple(device) if device else None, options, tuple(library or ()), params, native
        )
        require_used(offers, making)
        named = [Named(o.name, o.version, partial(make_source, o, making)) for o in offers]
        serve_models(named, serving, _say_json if json else typer.echo)


def _say_json(text: str) -> None:
    opt.print_json({"said": text})


def _replicas(text: str) -> int | None:
    if text == "auto":
        return None
    if not text.isdecimal() or len(text) > 4 or not 0 < int(text) <= 1024:
        raise InputError(f"--replicas is a number, 1 to 1024, or auto; got {text!r}", got=text)
    return int(text)
