"""Options that several commands have, and the reading of their values."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import orjson
import typer

from ..base.errors import InputError, all_there_are
from ..base.option_fields import Flag
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
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what import and rewrites did, and why.")]
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


# **************** options ****************


def with_options(*only: str, but: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a command the flags of Options in the place of its parameter ``options``, which it gets as one
    value: those of all fields, or of ``only`` some, without ``but`` some, by name or by where they apply
    (base/option_fields.py). Raises InputError, when it is called, for a flag that says nothing."""
    flags = flags_of(fields_of(only, but))

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        parameters = []
        for own in signature(command, eval_str=True).parameters.values():
            if own.name == "options":
                parameters += [parameter(name, *said) for name, said in flags.items()]
            else:
                parameters.append(own.replace(kind=Parameter.KEYWORD_ONLY))

        @wraps(command)
        def told(**given: Any) -> Any:
            said = {name: given.pop(name) for name in flags}
            return command(options=read_options(flags, said), **given)

        vars(told)["__signature__"] = Signature(parameters)  # what typer reads
        told.__annotations__ = {one.name: one.annotation for one in parameters}
        return told

    return decorate


class FlagForm(NamedTuple):
    """``kind``: the type that typer reads. ``read``: what that becomes as the value of a field, of a flag."""

    kind: Any
    read: Callable[[Any, Flag], Any] = lambda given, flag: given


def _pairs(given: Sequence[str] | None, flag: Flag) -> dict[str, str]:
    return pairs(given, f"--{flag.name}", flag.shown)


FORMS = {
    "text": FlagForm(str | None),
    "number": FlagForm(int | None),
    "choice": FlagForm(bool | None),  # --name, --no-name or neither
    "yes": FlagForm(bool),
    "texts": FlagForm(list[str] | None, lambda given, flag: tuple(given or ())),
    "pairs": FlagForm(list[str] | None, _pairs),
    "words": FlagForm(  # device=word
        list[str] | None,
        lambda given, flag: {device: {flag.name: word} for device, word in _pairs(given, flag).items()},
    ),
    "sizes": FlagForm(list[str] | None, lambda given, flag: sizes(given)),
    "constants": FlagForm(list[str] | None, lambda given, flag: constants(_pairs(given, flag))),
}


def fields_of(only: Sequence[str], but: Sequence[str]) -> list[Field[Any]]:
    """The fields of Options that a command takes: those that ``only`` names, by name or by where they apply,
    else all, without those that ``but`` names so."""
    said = {one.name: {one.name, *one.metadata["at"]} for one in fields(Options)}
    unknown = {*only, *but}.difference(*said.values())
    assert not unknown, f"no option is called, or applies at, {unknown}"
    chosen = [one for one in fields(Options) if not only or said[one.name] & {*only}]
    return [one for one in chosen if not said[one.name] & {*but}]


def flags_of(chosen: Sequence[Field[Any]]) -> dict[str, tuple[Field[Any], Flag]]:
    """{parameter of a command: the field and the flag that it is}"""
    return {flag.name.replace("-", "_"): (one, flag) for one in chosen for flag in one.metadata["flags"]}


def parameter(name: str, one: Field[Any], flag: Flag) -> Parameter:
    """What typer makes a flag of."""
    kind, form = FORMS[flag.form].kind, f"--{flag.name}"
    spelled = f"{form}/--no-{flag.name}" if flag.form == "choice" else form
    shown = typer.Option(spelled, min=flag.least, max=flag.most, help=flag.help)
    default = one.default if isinstance(one.default, (str, bool)) else None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


def read_options(flags: Mapping[str, tuple[Field[Any], Flag]], given: Mapping[str, Any]) -> Options:
    """The Options that a command's parameters mean. Raises InputError for a text that means nothing."""
    words: dict[str, Any] = {}
    for name, (one, flag) in flags.items():
        value = FORMS[flag.form].read(given[name], flag)
        words[one.name] = _merged(words.get(one.name, {}), value) if flag.form == "words" else value
    if words.get("policy") is not None:
        words["policy"], words["placement"] = policies(words["policy"], words["placement"])
    return Options.of(**words)


def _merged(
    words: Mapping[str, Mapping[str, str]], more: Mapping[str, Mapping[str, str]]
) -> dict[str, dict[str, str]]:
    """Both, device by device."""
    return {device: {**words.get(device, {}), **more.get(device, {})} for device in {**words, **more}}


def policies(policy: str, placement: str | None) -> tuple[str | None, str | None]:
    """(--policy, --placement), where --policy may also have been given a placement policy.

    Raises InputError for an unknown policy, and for two placement policies.
    """
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


# **************** output ****************


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
