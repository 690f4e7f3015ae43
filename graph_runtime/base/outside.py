"""Functions and classes that users give by name: "package.module:name"."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

from .errors import PlanError, did_you_mean


def find_outside(what: str, name: str) -> Any:
    """The function or class ``package.module:name``. ``what``: use of the function or class, for error texts.
    Raises PlanError for a module that cannot be imported, and for a name that is no function or class of the
    module."""
    module, _, attribute = name.partition(":")
    try:
        found = import_module(module)
    except Exception as error:  # a module's own code may raise anything when it is imported
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        absent = missing is not None and missing == module.partition(".")[0]
        raise PlanError(
            f"{what} {name}: cannot import {module}: {type(error).__name__}: {error}"
            + (f"; is the folder of {missing} on PYTHONPATH?" if absent else ""),
            got=name,
        ) from error
    value = getattr(found, attribute, None)
    if not callable(value):
        own = [k for k, v in vars(found).items() if _is_own(found.__name__, k, v)]
        text = f"{module} has no function {attribute!r}"
        if value is not None:
            text = f"{attribute!r} of {module} is a {type(value).__name__}, no function"
        raise PlanError(f"{what} {name}: {text}{did_you_mean(attribute, own)}", got=name)
    return value


def _is_own(module: str, name: str, value: Any) -> bool:
    """Whether a name of ``module`` is a public function or class that ``module``, or a module below it,
    defines."""
    home = getattr(value, "__module__", None) or ""
    return callable(value) and not name.startswith("_") and f"{home}.".startswith(f"{module}.")


def load_entry_points(group: str, what: str) -> None:
    """Import the modules that installed packages name under an entry point. A module that fails gives a
    warning. ``what``: plural noun for the things that the modules add; the warning says that these were not
    loaded."""
    from importlib.metadata import entry_points  # the import is slow

    for entry in entry_points(group=group):
        try:
            entry.load()
        except Exception as error:  # another package's code may raise anything
            text = f"{what} of {entry.name} ({entry.value}) were not loaded: {type(error).__name__}: {error}"
            warnings.warn(text, stacklevel=3)


def name_of(value: Any) -> str:
    """Name of a user's value in messages: a str itself; for a function or class its name; for any other value
    the name of its class."""
    return value if isinstance(value, str) else getattr(value, "__name__", type(value).__name__)
