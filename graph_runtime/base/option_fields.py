"""What a field of Options carries beside type and default: flags, an example, and where it applies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .errors import InputError

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
    "checked",
    "json_form",
    "option",
    "require_mapping",
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


def checked(name: str, value: Any, example: str) -> Any:
    """A field's value, which cannot be changed any more. Raises InputError for one that is no mapping, or no
    list, as the example is."""
    if example.startswith("{"):
        require_mapping(name, value, example)
        return MappingProxyType({key: _listed(inner) for key, inner in value.items()})
    called = "function" in example
    if not isinstance(value, (list, tuple)) or not all(
        isinstance(one, str) or (called and callable(one)) for one in value
    ):
        raise InputError(f"{name} is a list of {example}; got {value!r}", got=type(value).__name__)
    return tuple(value)


def require_mapping(name: str, value: object, example: str) -> None:
    """Raises InputError for what is none."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is a mapping, as {example}; got {value!r}", got=type(value).__name__)


def _listed(value: Any) -> Any:
    """An array as lists, which compare and are JSON."""
    return value.tolist() if hasattr(value, "tolist") else value


def json_form(value: Any) -> Any:
    """A field's value as JSON has it. A function is named "module:function"."""
    if isinstance(value, Mapping):
        return {str(key): json_form(inner) for key, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return [json_form(inner) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}" if callable(value) or _is_model(value) else str(value)


def _is_model(value: Any) -> bool:
    """Whether it is an object of the field ``costs``, named by its class."""
    return hasattr(value, "dispatch") and hasattr(value, "copy")
