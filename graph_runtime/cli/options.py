"""Options shared by several commands, and the reading of their values."""

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
    typer.Option("--library", help="A module library; repeatable. Default: the built-in kernels."),
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
        "or be trusted; without them the built-in kernels are used.",
    ),
]
Rebuild = Annotated[
    bool,
    typer.Option("--rebuild", help="Compile the kernels anew from the graph: no library of a bundle runs."),
]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print the changes by import and rewrites, and why.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
Whole = Annotated[
    bool,
    typer.Option("--whole", help="Print all tables, also for a large model, which has a summary otherwise."),
]
March = Annotated[
    str, typer.Option("--march", help="auto (x86-64-v3 if this CPU has it, else v2), native, or a level.")
]
Inputs = Annotated[
    list[str] | None, typer.Option("--input", help="A value for an input: x=x.npy, or x=random; repeatable.")
]
Seed = Annotated[int, typer.Option("--seed", help="Seed of random inputs.")]


# **************** options ****************


def with_options(*only: str, but: tuple[str, ...] = ()) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives a command flags in place of its parameter ``options``; the command receives
    their values as one Options. There is a flag for each field in ``only`` (by default all fields), except
    the fields in ``but``. ``only`` and ``but``: names of fields, or of places where fields apply
    (base/option_fields.py). The command raises InputError for a flag with an invalid value."""
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

        vars(told)["__signature__"] = Signature(parameters)  # typer reads this signature
        told.__annotations__ = {one.name: one.annotation for one in parameters}
        return told

    return decorate


class FlagForm(NamedTuple):
    """Form of a flag. ``kind``: type of the value that typer reads. ``read``: function that converts typer's
    value to the field's value."""

    kind: Any
    read: Callable[[Any, Flag], Any] = lambda given, flag: given


def _pairs(given: Sequence[str] | None, flag: Flag) -> dict[str, str]:
    if not given:
        return {}
    from .sources import pairs  # loaded only if such a flag is given

    return pairs(given, f"--{flag.name}", flag.shown)


def _sizes(given: Sequence[str] | None, flag: Flag) -> dict[str, int | tuple[int, ...]]:
    if not given:
        return {}
    from .sources import sizes  # loaded only if such a flag is given

    return sizes(given)


def _constants(given: Sequence[str] | None, flag: Flag) -> dict[str, Any]:
    if not given:
        return {}
    from .sources import constants  # loaded only if such a flag is given

    return constants(_pairs(given, flag))


FORMS = {
    "text": FlagForm(str | None),
    "number": FlagForm(int | None),
    "choice": FlagForm(bool | None),  # a flag with the forms --name and --no-name
    "yes": FlagForm(bool),
    "texts": FlagForm(list[str] | None, lambda given, flag: tuple(given or ())),
    "pairs": FlagForm(list[str] | None, _pairs),
    "words": FlagForm(  # a flag whose values are device=word
        list[str] | None,
        lambda given, flag: {device: {flag.name: word} for device, word in _pairs(given, flag).items()},
    ),
    "sizes": FlagForm(list[str] | None, _sizes),
    "constants": FlagForm(list[str] | None, _constants),
}


def fields_of(only: Sequence[str], but: Sequence[str]) -> list[Field[Any]]:
    """The fields of Options that a command takes: the fields in ``only`` (by default all fields), except the
    fields in ``but``. ``only`` and ``but``: names of fields, or of places where fields apply."""
    said = {one.name: {one.name, *one.metadata["at"]} for one in fields(Options)}
    unknown = {*only, *but}.difference(*said.values())
    assert not unknown, f"no option is called, or applies at, {unknown}"
    chosen = [one for one in fields(Options) if not only or said[one.name] & {*only}]
    return [one for one in chosen if not said[one.name] & {*but}]


def flags_of(chosen: Sequence[Field[Any]]) -> dict[str, tuple[Field[Any], Flag]]:
    """{name of a command's parameter: (its field, its flag)}"""
    return {flag.name.replace("-", "_"): (one, flag) for one in chosen for flag in one.metadata["flags"]}


def parameter(name: str, one: Field[Any], flag: Flag) -> Parameter:
    """The parameter of a command from which typer makes a flag."""
    kind, form = FORMS[flag.form].kind, f"--{flag.name}"
    spelled = f"{form}/--no-{flag.name}" if flag.form == "choice" else form
    shown = typer.Option(spelled, min=flag.least, max=flag.most, help=flag.help)
    default = one.default if isinstance(one.default, (str, bool)) else None
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, shown])


def read_options(flags: Mapping[str, tuple[Field[Any], Flag]], given: Mapping[str, Any]) -> Options:
    """The Options that the values ``given`` to a command's flags mean. Raises InputError for an invalid
    value."""
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
    """{device: {name: word}} with the entries of both mappings. Where both have an entry, that of ``more`` is
    used."""
    return {device: {**words.get(device, {}), **more.get(device, {})} for device in {**words, **more}}


def policies(policy: str, placement: str | None) -> tuple[str | None, str | None]:
    """(balancer policy, placement policy). ``policy``: value of --policy, which may be either kind of policy;
    ``placement``: value of --placement.

    Raises InputError for an unknown policy, and for two placement policies.
    """
    from ..plan.balance.types import BALANCER_POLICIES  # loaded only when a policy is given
    from ..plan.placing.policies import PLACEMENT_POLICIES

    if policy in BALANCER_POLICIES:
        return policy, placement
    known = [*BALANCER_POLICIES, *PLACEMENT_POLICIES]
    if ":" not in policy and policy not in known:
        text = f"unknown policy {policy!r}{all_there_are(policy, known)}"
        raise InputError(text, got=policy, wanted=known)
    if placement not in (None, policy):
        text = f"--policy {policy} and --placement {placement} both place nodes: give one"
        raise InputError(text, got=policy)
    return None, policy


# **************** output ****************


def notes_json(notes: Sequence[Note]) -> list[dict[str, Any]]:
    """The changes made by import and rewrites, as JSON-able rows."""
    return [{"rule": note.rule, "text": note.text, "nodes": note.nodes} for note in notes]


def print_notes(notes: Sequence[Note]) -> None:
    """Print one line per note on stderr."""
    for note in notes:
        typer.echo(f"{note.rule}: {note.text}", err=True)


def terminal_width() -> int | None:
    """The number of characters per line of the terminal. None if stdout is no terminal: lines are then not
    cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def print_json(value: Mapping[str, Any]) -> None:
    """Print one line of JSON on stdout."""
    typer.echo(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS).decode())
