"""What a field of Options carries beside type and default: flags, an example, and where it applies. What
a value of such fields can do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from .errors import InputError, no_such

__all__ = [
    "COMPILING",
    "FLOWS",
    "NONE",
    "PLACING",
    "READING",
    "REWRITING",
    "RUNNING",
    "STORING",
    "Flag",
    "OptionValue",
    "option",
]

# where an option applies: what is named so takes it
READING = "reading"  # of a model's file
REWRITING = "rewriting"
COMPILING = "compiling"
PLACING = "placing"
STORING = "storing"  # values in memory, and computing them
RUNNING = "running"  # of one session
FLOWS = "flows"  # of programs, whose sizes and ends runs find

NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the commands, ``--name``. ``form``: how its texts become the field's value, one of
    the FORMS of cli/options.py. ``shown``: an example of a text. ``least`` and ``most`` of a number."""

    name: str
    help: str
    form: str = "text"
    shown: str = "NAME=VALUE"
    least: int | None = None
    most: int | None = None


def option(default: Any, at: str | tuple[str, ...], *flags: Flag, example: str = "") -> Any:
    """A dataclass field. ``at``: where it applies. ``example`` of a field that is a mapping or a tuple, for
    the error that asks for one."""
    about = {"flags": flags, "at": (at,) if isinstance(at, str) else at, "example": example}
    if default is NONE:
        return field(default_factory=lambda: NONE, metadata=about)
    return field(default=default, metadata=about)


class OptionValue:
    """What a dataclass of option_fields.option() can do."""

    def __new__(cls, *args: Any, **words: Any) -> Self:
        """Refuses names that are no fields, as of() does."""
        cls._require(words)
        return object.__new__(cls)

    def __post_init__(self) -> None:
        for one in fields(self):  # type: ignore[arg-type]
            if example := one.metadata["example"]:
                object.__setattr__(self, one.name, _checked(one.name, getattr(self, one.name), example))

    @classmethod
    def _require(cls, words: Mapping[str, Any]) -> None:
        known = [one.name for one in fields(cls)]  # type: ignore[arg-type]
        for name in words:
            if name not in known:
                raise InputError(no_such("option", name, known), got=name, wanted=known)

    @classmethod
    def of(cls, options: Self | None = None, /, **words: Any) -> Self:
        """``options``, or the defaults, with the fields that ``words`` names; one that is None stays as it
        was. Raises InputError for a word that is no field."""
        if options is not None and not isinstance(options, cls):
            text = f"options is a gr.Options, got {type(options).__name__}: give its fields as keywords"
            raise InputError(text, got=type(options).__name__)
        cls._require(words)
        given = {name: value for name, value in words.items() if value is not None}
        if options is None:
            return cls(**given)
        return replace(options, **given) if given else options  # type: ignore[type-var]

    def at(self, *places: str) -> Self:
        """The options that apply there, all others as they are by default."""
        kept = [one.name for one in fields(self) if {*places} & {*one.metadata["at"]}]  # type: ignore[arg-type]
        return type(self)(**{name: getattr(self, name) for name in kept})

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """What as_json() gave. Raises InputError for a name that is no field, and for a mapping that is
        none."""
        return cls.of(None, **raw)

    def as_json(self) -> dict[str, Any]:
        """The fields that are not the default, as JSON has them. A function is named "module:function"."""
        default, names = type(self)(), [one.name for one in fields(self)]  # type: ignore[arg-type]
        return {
            name: _json_form(getattr(self, name))
            for name in names
            if getattr(self, name) != getattr(default, name)
        }


def _checked(name: str, value: Any, example: str) -> Any:
    """A field's value, which cannot be changed any more. Raises InputError for one that is no mapping, or no
    list, as the example is."""
    if example.startswith("{"):
        _require_mapping(name, value, example)
        if ": {" in example:
            for key, inner in value.items():
                _require_mapping(f"{name} of {key}", inner, example.partition(": ")[2][:-1])
        return MappingProxyType({key: _listed(inner) for key, inner in value.items()})
    judged = "function" not in example  # those are judged where they are called
    if not isinstance(value, (list, tuple)) or (judged and not all(isinstance(one, str) for one in value)):
        raise InputError(f"{name} is a list of {example}; got {value!r}", got=type(value).__name__)
    return tuple(value)


def _require_mapping(name: str, value: object, example: str) -> None:
    """Raises InputError for what is none."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is a mapping, as {example}; got {value!r}", got=type(value).__name__)


def _listed(value: Any) -> Any:
    """An array as lists, which compare and are JSON."""
    return value.tolist() if hasattr(value, "tolist") else value


def _json_form(value: Any) -> Any:
    """A field's value as JSON has it. A function is named "module:function"."""
    if isinstance(value, Mapping):
        return {str(key): _json_form(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_json_form(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}" if callable(value) or _is_model(value) else str(value)


def _is_model(value: Any) -> bool:
    """Whether it is an object of the field ``costs``, named by its class."""
    return hasattr(value, "dispatch") and hasattr(value, "copy")
