"""What users bring from outside by name: "package.module:name"."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from .errors import PlanError, did_you_mean

__all__ = ["find_outside", "load_entry_points", "name_of"]


def find_outside(what: str, name: str) -> Any:
    """The value of ``package.module:name``; ``what`` it is, for messages.

    Raises PlanError for a module that cannot be imported and for a name that it does not have.
    """
    module, _, attribute = name.partition(":")
    try:
        found = import_module(module)
    except Exception as error:  # whatever a module's own code does when it is imported
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        absent = missing is not None and missing == module.partition(".")[0]
        raise PlanError(
            f"{what} {name}: cannot import {module}: {type(error).__name__}: {error}"
            + (f"; is the folder of {missing} on PYTHONPATH?" if absent else ""),
            got=name,
        ) from error
    value = getattr(found, attribute, None)
    if not callable(value):
        there = [k for k, v in vars(found).items() if callable(v) and not k.startswith("_")]
        raise PlanError(
            f"{what} {name}: {module} has no function {attribute!r}{did_you_mean(attribute, there)}",
            got=name,
        )
    return value


def load_entry_points(group: str, what: str) -> None:
    """Import what installed packages name under an entry point. One that fails is a warning: its ``what``
    stay unknown."""
    from importlib.metadata import entry_points  # it takes a while to import

    for entry in entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # whatever another package does
            text = f"{what} of {entry.name} ({entry.value}) were not loaded: {type(error).__name__}: {error}"
            warnings.warn(text, stacklevel=3)


def name_of(value: Any) -> str:
    """How messages call what a user gave: a name as it is, a function or class by its own, else its class."""
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)
