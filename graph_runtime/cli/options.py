"""Options that several commands have, and the reading of their values."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from ..base.errors import InputError, all_there_are
from ..base.options import Options
from .values import constants, pairs, sizes

if TYPE_CHECKING:
    from ..ir.model import Note

Source = Annotated[
    Path, typer.Argument(metavar="MODEL", help="An ONNX file, .mlir (StableHLO), graph.json, or a bundle.")
]
Devices = Annotated[
    list[str] | None,
    typer.Option(
        "--device",
        help="A device, as cpu:0, tt:0, tt:0=e150 or tt:0=wormhole_b0/buda[rows=9,clock=900]; repeat "
        "for more. The first is the fallback.",
    ),
]
LibraryFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--library", help="A module library; repeat for more. Without one the kernels built in serve."
    ),
]
Params = Annotated[
    Path | None,
    typer.Option("--params", help="Parameters: TVM's binary, .npz, .safetensors, or those of a bundle."),
]
Native = Annotated[
    bool,
    typer.Option(
        "--native/--no-native",
        help="Whether the libraries of a bundle run, which must have been compiled here "
        "or be trusted; without them the kernels built in serve.",
    ),
]
Rebuild = Annotated[
    bool,
    typer.Option("--rebuild", help="Compile the kernels anew from the graph: no library of a bundle runs."),
]
Dims = Annotated[
    list[str] | None,
    typer.Option(
        "--dim",
        help="Bind a symbolic dimension of an ONNX file: batch=4; of an input without a shape all of them: "
        "x=1x3x224x224; several sizes are buckets of programs: batch=1,8,32; repeatable.",
    ),
]
Batch = Annotated[
    int | None,
    typer.Option("--batch", min=1, help="The first dimension of the inputs of an ONNX file, open or not."),
]
Values = Annotated[
    list[str] | None,
    typer.Option(
        "--value",
        help="Make an input of an ONNX file a constant: sr=16000, sizes=1,80 or a .npy file; repeatable.",
    ),
]
Fuse = Annotated[
    bool | None,
    typer.Option(
        "--fuse/--no-fuse",
        help="Whether nodes are fused and rewritten. Without either: those of an ONNX file "
        "are, those of a graph.json are run as they are written.",
    ),
]
Compile = Annotated[
    bool | None,
    typer.Option(
        "--compile/--no-compile",
        help="Whether C is generated and compiled for kernels that the installed ones do more slowly. "
        "Without either: those of an ONNX file, and where nodes are rewritten.",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what import and rewrites did, and why.")]
Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        help="A rewrite rule of your own, before nodes are fused: package.module:function; repeatable.",
    ),
]
Costs = Annotated[
    str | None,
    typer.Option(
        "--costs", help="A cost model of your own, for placing and simulating: package.module:Name."
    ),
]
Cabled = Annotated[
    str | None,
    typer.Option(
        "--topology",
        help="How chips are cabled, for placing and simulating: n300, t3000, galaxy, or a file of your own.",
    ),
]
Connected = Annotated[
    str | None,
    typer.Option(
        "--interconnect",
        help="How machines are connected, for devices as node1/tt:0: a file (docs/devices.md).",
    ),
]
Stream = Annotated[
    list[str] | None,
    typer.Option(
        "--stream",
        help="Inputs that stay on the host and that every run copies: a glob over their names, or auto for "
        "as many weights as have no room; repeatable.",
    ),
]
Bound = Annotated[
    str | None,
    typer.Option(
        "--error-bound",
        help="Choose devices and formats of nodes so that the predicted time is least while every output "
        "reaches pcc=0.999 (or cosine, nmse, max_abs, max_rel, max_ulp, p99_ulp), proved by runs.",
    ),
]
BoundInputs = Annotated[
    list[str] | None,
    typer.Option(
        "--bound-input",
        help="A value of an input for the runs of --error-bound: x=x.npy; repeatable; others are random.",
    ),
]
Order = Annotated[
    str | None, typer.Option("--order", help="An order of nodes of your own: package.module:function.")
]
Packer = Annotated[
    str | None, typer.Option("--packer", help="A memory packer of your own: package.module:function.")
]
Place = Annotated[
    list[str] | None,
    typer.Option(
        "--place", help="Pin nodes: 'conv*=tt:0' (a glob over node, op and function names); repeatable."
    ),
]
Placement = Annotated[
    str | None,
    typer.Option(
        "--placement",
        help="The placement policy: what places nodes that neither --place nor the file places: single, "
        "greedy, mincut, heft, optimal, or package.module:function; without it mincut where nodes may be "
        "rewritten, else the first device.",
    ),
]
Objective = Annotated[
    str, typer.Option("--objective", help="What --placement makes least: serial, makespan or throughput.")
]
Fallback = Annotated[
    str,
    typer.Option(
        "--fallback", help="A node that cannot run where it is asked to: error, or host with a warning."
    ),
]
Map = Annotated[
    list[str] | None,
    typer.Option("--map", help="Use a device for a device type of the file: opencl=tt:0; repeatable."),
]
Formats = Annotated[
    list[str] | None,
    typer.Option("--format", help="How a device stores floats: tt=bf16, or tt:1=bfp8_b; repeatable."),
]
Fidelity = Annotated[
    list[str] | None,
    typer.Option("--fidelity", help="Math fidelity of a device: tt=LoFi, HiFi2, HiFi3 or HiFi4; repeatable."),
]
Dst = Annotated[
    list[str] | None,
    typer.Option("--dst", help="What a device keeps sums in: tt=fp32 or tt=bf16; repeatable."),
]
NumericsOf = Annotated[
    list[str] | None,
    typer.Option(
        "--numerics", help="Arithmetic of a device: tt=fast, exact (slow), or ttnn's functions; repeatable."
    ),
]
Layouts = Annotated[
    list[str] | None,
    typer.Option(
        "--layout",
        help="Where and how nodes' values lie on a device: 'conv*=l1/block[4x8]', 'h=dram/row_major' "
        "(a glob as of --place); repeatable.",
    ),
]
Policy = Annotated[
    str | None,
    typer.Option(
        "--policy",
        help="The balancer policy: how ops are cut onto the cores of a buda board: nlp, ribbon, cnn, "
        "optimal, ...; without it each kernel cuts its own. Also takes what --placement takes, but for "
        "optimal.",
    ),
]
Reuse = Annotated[
    str | None,
    typer.Option(
        "--reuse", help="Which values may share memory: serial (least), safe (no waits between queues), off."
    ),
]
Strict = Annotated[
    bool, typer.Option("--strict", help="No fallback: a device type that no --device has is an error.")
]
Threads = Annotated[
    int | None, typer.Option("--threads", min=1, max=256, help="Threads that one kernel may use.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Whole = Annotated[
    bool,
    typer.Option(
        "--whole", help="All tables, whatever the model's size: a large one has a summary otherwise."
    ),
]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", help="A value for an input: x=x.npy, or x=random; repeatable.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of random inputs.")]


# every flag that says something of Options: parameter of the command -> (its type, its default)
_FLAGS: dict[str, tuple[Any, Any]] = {
    "dim": (Dims, None),
    "batch": (Batch, None),
    "value": (Values, None),
    "fuse": (Fuse, None),
    "compile": (Compile, None),
    "rule": (Rules, None),
    "place": (Place, None),
    "placement": (Placement, None),
    "objective": (Objective, "serial"),
    "fallback": (Fallback, "error"),
    "costs": (Costs, None),
    "topology": (Cabled, None),
    "interconnect": (Connected, None),
    "stream": (Stream, None),
    "error_bound": (Bound, None),
    "bound_input": (BoundInputs, None),
    "map": (Map, None),
    "strict": (Strict, False),
    "format": (Formats, None),
    "layout": (Layouts, None),
    "fidelity": (Fidelity, None),
    "dst": (Dst, None),
    "numerics": (NumericsOf, None),
    "policy": (Policy, None),
    "reuse": (Reuse, None),
    "order": (Order, None),
    "packer": (Packer, None),
    "threads": (Threads, None),
}


def with_options(*but: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command all flags of _FLAGS ``but`` some, in the place of its parameter ``options``, which it
    gets as one Options. Raises InputError, when it is called, for a flag that says nothing."""
    flags = {name: flag for name, flag in _FLAGS.items() if name not in but}

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        parameters = []
        for own in signature(command, eval_str=True).parameters.values():
            shown = {own.name: (own.annotation, own.default)} if own.name != "options" else flags
            parameters += [
                Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
                for name, (annotation, default) in shown.items()
            ]

        @wraps(command)
        def told(**given: Any) -> Any:
            said = {name: given.pop(name) for name in flags}
            return command(options=read_options(**said), **given)

        vars(told)["__signature__"] = Signature(parameters)  # what typer reads
        told.__annotations__ = {one.name: one.annotation for one in parameters}
        return told

    return decorate


def read_options(
    *,
    dim: Sequence[str] | None = None,
    value: Sequence[str] | None = None,
    rule: Sequence[str] | None = None,
    map: Sequence[str] | None = None,
    place: Sequence[str] | None = None,
    format: Sequence[str] | None = None,
    layout: Sequence[str] | None = None,
    fidelity: Sequence[str] | None = None,
    dst: Sequence[str] | None = None,
    numerics: Sequence[str] | None = None,
    stream: Sequence[str] | None = None,
    bound_input: Sequence[str] | None = None,
    policy: str | None = None,
    placement: str | None = None,
    **others: Any,
) -> Options:
    """The Options that flags say; ``others`` have the name and the form of their field already."""
    policy, placement = policies(policy, placement)
    words: dict[str, dict[str, str]] = {}
    for name, items in (("fidelity", fidelity), ("dst", dst), ("numerics", numerics)):
        for device, word in pairs(items, f"--{name}").items():
            words.setdefault(device, {})[name] = word
    return Options.of(
        dims=sizes(dim),
        values=constants(pairs(value, "--value")),
        rules=tuple(rule or ()),
        device_map=pairs(map, "--map"),
        place=pairs(place, "--place"),
        formats=pairs(format, "--format"),
        layouts=pairs(layout, "--layout"),
        numerics=words,
        stream=tuple(stream or ()),
        bound_inputs=pairs(bound_input, "--bound-input"),
        policy=policy,
        placement=placement,
        **others,
    )


def policies(policy: str | None, placement: str | None) -> tuple[str | None, str | None]:
    """(--policy, --placement), where --policy may also have been given a placement policy.

    Raises InputError for an unknown policy, and for two placement policies.
    """
    if policy is None:
        return policy, placement
    from ..plan.balance.types import BALANCER_POLICIES  # loaded where one is asked for only
    from ..plan.placing.policies import PLACEMENT_POLICIES

    if policy in BALANCER_POLICIES:
        return policy, placement
    known = [*BALANCER_POLICIES, *PLACEMENT_POLICIES]
    if ":" not in policy and policy not in known:
        raise InputError(
            f"unknown policy {policy!r}{all_there_are(policy, known)}",
            got=policy,
            wanted=known,
        )
    if placement not in (None, policy):
        raise InputError(
            f"--policy {policy} and --placement {placement} both place nodes: give one", got=policy
        )
    return None, policy


def notes_json(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """What import and rewrites did, as JSON-able rows."""
    return [{"rule": note.rule, "text": note.text, "nodes": note.nodes} for note in notes]


def print_notes(notes: Sequence[Note]) -> None:
    """A line a note, on stderr."""
    for note in notes:
        typer.echo(f"{note.rule}: {note.text}", err=True)


def terminal_width() -> int | None:
    """Characters a line of the terminal; None where stdout is none: a pipe gets whole lines."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(value: Mapping[str, Any]) -> None:
    """One line of JSON on stdout."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode())
