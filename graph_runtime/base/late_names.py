"""Public names of a package, imported on first use.

A package lists its public names as lines ``from .home import name as name`` below ``if TYPE_CHECKING:``,
where type checkers and editors read them, too. This module reads those lines when the first name is asked
for."""

from __future__ import annotations

import sys
from functools import cached_property
from importlib import import_module
from typing import Any

from .errors import no_attribute


class LateNames:
    """The public names of a package, which uses this object in its ``__getattr__`` and ``__dir__``. One of
    the names is ``__all__``."""

    def __init__(self, package: str) -> None:
        self._package = package

    @cached_property
    def homes(self) -> dict[str, str]:
        """{public name: module that defines the name, or the package of that module}; modules are relative to
        this package."""
        spec = sys.modules[self._package].__spec__
        text = spec.loader.get_data(spec.origin).decode()  # type: ignore[union-attr]
        lines = [line.split() for line in text.splitlines() if line.startswith("    from .")]
        return {name: home for _, home, _, name, *_ in sorted(lines, key=lambda words: words[3])}

    def find(self, name: str) -> Any:
        """The value of a name, for the package's ``__getattr__``; the value becomes an attribute of the
        package."""
        if name == "__all__":
            return list(self.homes)
        if name not in self.homes:
            raise no_attribute(self._package, name, list(self.homes))
        value = self._load(self.homes[name], name)
        setattr(sys.modules[self._package], name, value)
        return value

    def _load(self, home: str, name: str) -> Any:
        module = None if home.strip(".") == "" else import_module(home, self._package)
        if hasattr(module, name):
            return getattr(module, name)
        return import_module(f"{home.rstrip('.')}.{name}", self._package)  # the name is the name of a module
