"""Fields of Options: each has a type, a default, its flags, an example and the places where it applies.
OptionValue has the methods of a value with such fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self

from .errors import InputError, no_such

# places where an option applies
READING = "reading"  # when the model's file is read
REWRITING = "rewriting"
COMPILING = "compiling"
PLACING = "placing"
STORING = "storing"  # when values are stored in memory, and computed
RUNNING = "running"  # in one session
FLOWS = "flows"  # in models whose sizes, or ends of loops, are found during a run

NONE: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Flag:
    """A flag of the commands, ``--name``. ``form``: conversion of the flag's text to the field's value, one
    of the FORMS of cli/options.py. ``shown``: an example of the flag's text. ``least`` and ``most``: limits
    of a number."""

    name: str
    help: str
    form: str = "text"
    shown: str = "NAME=VALUE"
    least: int | None = None
    most: int | None = None


def option(default: Any, at: str | tuple[str, ...], *flags: Flag, example: str = "") -> Any:
    """A dataclass field. ``at``: the places where the option applies. ``example``: a mapping or a tuple that
    errors show for a field of that type."""
    about = {"flags": flags, "at": (at,) if isinstance(at, str) else at, "example": example}
    if default is NONE:
        return field(default_factory=lambda: NONE, metadata=about)
    return field(default=default, metadata=about)


class OptionValue:
    """Base of a dataclass whose fields are made by option_fields.option()."""

    def __new__(cls, *args: Any, **words: Any) -> Self:
        """Refuse keywords that are no fields, as of() does."""
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
        """``options`` (None: the defaults) with the fields that ``words`` gives; a field given as None stays
        unchanged. Raises InputError for a word that is no field."""
        if options is not None and not isinstance(options, cls):
            text = f"options must be a gr.Options, got {type(options).__name__}: give its fields as keywords"
            raise InputError(text, got=type(options).__name__)
        cls._require(words)
        given = {name: value for name, value in words.items() if value is not None}
        if options is None:
            return cls(**given)
        return replace(options, **given) if given else options  # type: ignore[type-var]

    def at(self, *places: str) -> Self:
        """The options that apply at these places; all other options have their defaults."""
        kept = [one.name for one in fields(self) if {*places} & {*one.metadata["at"]}]  # type: ignore[arg-type]
        return type(self)(**{name: getattr(self, name) for name in kept})

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Self:
        """The value from the JSON that as_json() made. Raises InputError for a name that is no field, and for
        a field that should be a mapping but is not."""
        return cls.of(None, **raw)

    def as_json(self) -> dict[str, Any]:
        """{field: value as JSON} of the fields that are not the default. A function is named
        "module:function"."""
        default, names = type(self)(), [one.name for one in fields(self)]  # type: ignore[arg-type]
        return {
            name: _json_form(getattr(self, name))
            for name in names
            if getattr(self, name) != getattr(default, name)
        }


def _checked(name: str, value: Any, example: str) -> Any:
    """A field's value, made immutable. Raises InputError if the example is a mapping but the value is not a
    mapping, or if the example is a list but the value is not a list."""
    if example.startswith("{"):
        _require_mapping(name, value, example)
        if ": {" in example:
            for key, inner in value.items():
                _require_mapping(f"{name} of {key}", inner, example.partition(": ")[2][:-1])
        arrays = {key: inner.tolist() for key, inner in value.items() if hasattr(inner, "tolist")}
        return MappingProxyType({**value, **arrays})  # arrays as lists, which compare and are JSON
    judged = "function" not in example  # functions in a list are checked where they are called
    if not isinstance(value, (list, tuple)) or (judged and not all(isinstance(one, str) for one in value)):
        raise InputError(f"{name} is a list of {example}; got {value!r}", got=type(value).__name__)
    return tuple(value)


def _require_mapping(name: str, value: object, example: str) -> None:
    """Raise InputError if the value is no mapping."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is a mapping, as {example}; got {value!r}", got=type(value).__name__)


def _json_form(value: Any) -> Any:
    """A field's value in JSON. A function is named "module:function"."""
    if isinstance(value, Mapping):
        return {str(key): _json_form(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [_json_form(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}" if callable(value) or _is_model(value) else str(value)


def _is_model(value: Any) -> bool:
    """Whether a value is a cost model; JSON names a cost model by its class."""
    return hasattr(value, "dispatch") and hasattr(value, "copy")
