"""PythonLibrary: a library whose functions are Python callables.

library["myadd"] = f --> create(graph, library): a node of that func_name calls f with its tensors
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...base.errors import InputError, LibraryError, did_you_mean
from ...binding import core
from ...binding.programs.program import Kernel
from ...run.library import Library
from .packed_functions import packed_of


class PythonLibrary(Library):
    """Functions by name, for nodes on the host. A function gets Tensors over the node's inputs, then Tensors
    over its outputs, which the function writes. Its exception becomes the run's KernelError."""

    def __init__(self) -> None:
        self.path, self.manifest, self.sealed, self.signature = Path("python"), None, None, None
        self.kernels, self.flavour, self.system, self.asks = {}, "packed", False, ()
        self.callables: dict[str, Callable[..., Any]] = {}
        self._addresses: dict[str, int] = {}

    @property
    def functions(self) -> frozenset[str]:  # type: ignore[override]
        """The names of the functions."""
        return frozenset(self._addresses)

    def contents(self) -> memoryview:
        """Empty bytes, because there is no file."""
        return memoryview(b"")

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.callables[name]

    def __setitem__(self, name: str, function: Callable[..., Any]) -> None:
        """Set a function. Raises InputError for a value that is not callable."""
        if not callable(function):
            raise InputError(f"{name!r} is a {type(function).__name__}, not a function", got=name)
        self._addresses[name] = core.address_of(packed_of(name, function))
        self.callables[name] = function

    def kernel(self, name: str, kind: str) -> Kernel:
        """The kernel of the function called ``name``, as for any library."""
        if not self.has(name, kind):
            text = f"there is no Python function {name!r} for {kind}{did_you_mean(name, self.callables)}"
            raise LibraryError(text, got=name)
        return Kernel(name, self._addresses[name], packed=True, origin=str(self.path), owner=self)
