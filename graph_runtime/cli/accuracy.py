"""graph-runtime accuracy"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from ..artifacts.door import Plannable
from ..base.errors import InputError
from ..base.files.writing import write_whole
from ..base.machine.devices import parse, parse_list
from ..base.option_fields import COMPILING, RUNNING
from ..base.options import Options
from ..ir.documents.params import save_params
from ..ir.documents.write import graph_to_json
from ..plan.record import record
from ..run.library import open_libraries
from ..views.exactness import accuracy_page, found_text, models_text, sweeps_text
from . import options as opt
from .sources import is_bundle, open_first, pairs, progress, read_input

if TYPE_CHECKING:
    from ..accuracy.precision import Precision
    from ..accuracy.searching import Found
    from ..accuracy.side_by_side import Question
    from ..accuracy.thresholds import Thresholds

__all__ = ["accuracy"]

What = Annotated[
    list[str],
    typer.Argument(
        metavar="MODEL | OP...",
        help="A model: an ONNX file, .mlir, graph.json or a bundle. Or ops: names, or globs as '*'.",
    ),
]
Precisions = Annotated[
    list[str] | None,
    typer.Option(
        "--as",
        help="A precision, as words between slashes: bf16, bfp8_b/LoFi, f32/exact/dst=bf16; repeat to "
        "compare several side by side.",
    ),
]
Limits = Annotated[
    Path | None,
    typer.Option(
        "--thresholds",
        help='A JSON file of limits: {"outputs": {"*": {"pcc": 0.99}}, "alone": {...}, '
        '"accumulated": {...}, "ops": {"*": {"max_ulp": 1}}}. Exit code 1 if one is missed.',
    ),
]
Search = Annotated[
    str | None,
    typer.Option(
        "--search",
        help="Find nodes that may be coarser, so that every output reaches pcc=0.99 (or cosine, nmse, "
        "max_abs, max_rel, max_ulp, p99_ulp). Exit code 1 if the unchanged model misses that.",
    ),
]
Choices = Annotated[
    list[str] | None,
    typer.Option("--choice", help="A precision for --search to choose from, as for --as; repeat for more."),
]
Runs = Annotated[int, typer.Option("--runs", min=3, help="Most runs of the whole model by --search.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Write --search's graph with its plan, and its weights as .params."),
]
Html = Annotated[Path | None, typer.Option("--html", help="Write the results as one HTML file.")]
_MODELS = (".onnx", ".mlir", ".json", ".bundle")


@opt.with_options(but=(COMPILING, RUNNING))
def accuracy(
    what: What,
    options: Options,
    device: opt.Devices = None,
    as_: Precisions = None,
    input: opt.Inputs = None,
    params: opt.Params = None,
    library: opt.LibraryFiles = None,
    seed: opt.Seed = 0,
    thresholds: Limits = None,
    search: Search = None,
    choice: Choices = None,
    runs: Runs = 32,
    output: Output = None,
    html: Html = None,
    json: opt.Json = False,
) -> None:
    """Measure the errors of ops or a model on a simulated device, in several formats, fidelities and
    arithmetics side by side. Ops are swept over all bf16 numbers; each node of a model is compared with
    numpy, alone and with errors accumulated. docs/accuracy.md explains the numbers.

    Example: graph-runtime accuracy exp gelu --as bf16 --as bfp8_b

    Example: graph-runtime accuracy model.onnx --as bf16 --as bfp8_b/LoFi --thresholds limits.json

    Example: graph-runtime accuracy model.onnx --as f32 --as bf16 --html accuracy.html

    Example: graph-runtime accuracy model.onnx --as bf16 --search pcc=0.99 -o coarser.json
    """
    from ..accuracy.precision import Precision
    from ..accuracy.thresholds import Thresholds

    precisions = [Precision.of(text) for text in as_ or ()]
    limits = None if thresholds is None else Thresholds.read(thresholds)
    found: Found | None = None
    if len(what) == 1 and _is_model(what[0]):
        asked = _Search(search, choice, runs, output)
        with progress(not json) as tell:
            opened = open_first(Path(what[0]), device, library, params, options, tell)
            opened, options = _on_devices(opened, device, options)
            question = _question(opened, options, pairs(input, "--input"), seed)
            document, missed = _model(question, precisions or [Precision()], limits, tell)
            found = asked.found(question, precisions, tell)
        if found is not None:
            document["search"] = found.as_dict()
    else:
        _ops_only(
            {
                "--search": search,
                "--choice": choice,
                "--output": output,
                "--input": input,
                "--params": params,
                "--library": library,
                **{
                    f"option {name!r}": True
                    for name in options.as_json()
                    if name not in ("formats", "numerics")
                },
            }
        )
        document, missed = _ops(what, device, precisions, options, limits)
    document["missed"] = [str(one) for one in missed]
    if html:
        command = shlex.join(["graph-runtime", *sys.argv[1:]])
        write_whole(
            html, accuracy_page(document, f"accuracy of {' '.join(what)}", command).encode(), through=True
        )
    if json:
        opt.print_json(document)
    else:
        _show(document)
    if missed or (found is not None and not found.ok):
        raise typer.Exit(1)


def _is_model(text: str) -> bool:
    path = Path(text)
    return path.suffix in _MODELS or path.is_file() or is_bundle(path)


def _on_devices(opened: Plannable, asked: list[str] | None, options: Options) -> tuple[Plannable, Options]:
    """(source, options) with a device for each node. If the caller or the file chooses devices, both are
    unchanged. Otherwise a node runs on the first simulated device (by default tt:0) if there is a kernel for
    the node, else on a host.
    """
    if opened.bundle is not None or opened.graph.hints.device_type is not None:
        return opened, options
    opened = replace(opened, asked=asked or ["tt:0", "cpu:0"])
    devices = parse_list(opened.devices)
    far = next((d for d in devices if not d.descriptor.on_host), None)
    if far is None or options.place or options.placement:
        return opened, options
    host = any(d.descriptor.on_host for d in devices)
    return opened, Options.of(options, place={"*": str(far)}, fallback="host" if host else None)


def _ops_only(given: Mapping[str, Any]) -> None:
    for flag, value in given.items():
        if value:
            raise InputError(
                f"{flag} is for models, and ops are swept over all bf16 numbers: leave it out", got=flag
            )


# ---------------------------------------------------------------- ops


def _ops(
    names: list[str],
    device: list[str] | None,
    precisions: list[Precision],
    options: Options,
    limits: Thresholds | None,
) -> tuple[dict[str, Any], list[Any]]:
    from ..accuracy.precision import Precision
    from ..accuracy.sweeping import named_ops, sweep

    if device and len(device) > 1:
        raise InputError("ops are swept on one device: give one --device", got=device)
    at = parse(device[0] if device else "tt:0")
    told = [Precision.from_options(options, at)] if not precisions else precisions
    ops = named_ops(names, at.kind)
    sweeps = [sweep(op, at, precision) for op in ops for precision in told]
    return {"ops": [one.as_dict() for one in sweeps]}, limits.of_sweeps(sweeps) if limits else []


# ---------------------------------------------------------------- a model


def _question(opened: Plannable, options: Options, given: dict[str, str], seed: int) -> Question:
    from ..accuracy.side_by_side import Question
    from ..base.errors import did_you_mean

    graph, rng = opened.graph, np.random.default_rng(seed)
    types = dict(zip(graph.input_names, map(graph.entry_type, graph.input_eids.tolist()), strict=True))
    for name in given:
        if name not in types:
            text = f"--input {name}: the graph has no such input{did_you_mean(name, types)}"
            raise InputError(text, got=name)
    return Question.of(
        opened,
        opened.devices,
        options,
        inputs={name: read_input(text, types[name], rng) for name, text in given.items()},
        seed=seed,
        libraries=open_libraries(opened.libraries),
    )


def _model(
    question: Question, precisions: list[Precision], limits: Thresholds | None, tell: Any
) -> tuple[dict[str, Any], list[Any]]:
    answers = [question.answer(precision, tell) for precision in precisions]
    missed = [m for a in answers for m in (limits.of_model(a.precision, a.comparison) if limits else ())]
    return {"precisions": [answer.as_dict() for answer in answers]}, missed


class _Search:
    """The value of --search and of its flags, checked before anything runs."""

    def __init__(self, text: str | None, choices: list[str] | None, runs: int, output: Path | None):
        from ..accuracy.precision import Precision
        from ..accuracy.searching import CHOICES, Goal

        if text is None and (choices or output):
            raise InputError("--choice and --output need --search: give one, as in --search pcc=0.99")
        self._goal = None if text is None else Goal.of(text)
        self._choices, self._runs, self._output = choices or CHOICES, runs, output
        for one in self._choices:
            Precision.of(one)

    def found(self, question: Question, precisions: list[Precision], tell: Any) -> Found | None:
        """The result of the search, which is also written to --output; None without --search. The search
        begins with the first precision."""
        from ..accuracy.searching import search

        if self._goal is None:
            return None
        first = precisions[0] if precisions else None
        found = search(
            question, self._goal, precision=first, choices=self._choices, runs=self._runs, tell=tell
        )
        if self._output:
            write_whole(self._output, graph_to_json(record(found.prepared.plan)), through=True)
            if constants := found.prepared.model.constants:
                values = save_params({name: one.read() for name, one in constants.items()})
                write_whole(self._output.with_suffix(".params"), values, through=True)
        return found


def _show(document: dict[str, Any]) -> None:
    width = opt.terminal_width()
    if "ops" in document:
        typer.echo(sweeps_text(document["ops"], width))
    if "precisions" in document:
        typer.echo(models_text(document["precisions"], width))
    if "search" in document:
        typer.echo("\n" + found_text(document["search"], width))
    for text in document["missed"]:
        typer.echo(f"MISSED {text}")
