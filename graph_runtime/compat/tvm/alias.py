"""This layer under the name ``tvm``, so that unchanged scripts import it, and errors for the import of TVM
modules that are missing here.

python -m graph_runtime.compat.tvm deploy.py --its arguments
"""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from .missing import why

__all__ = ["install", "name_missing"]

_HERE = __name__.rpartition(".")[0]


class _Missing(MetaPathFinder):
    """The last import finder: it raises ImportError, with the reason, if a TVM module is imported that is
    missing here."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.startswith(f"{_HERE}."):
            raise ImportError(why(fullname.removeprefix(f"{_HERE}.")), name=fullname)


class _SameModule(Loader):
    """Loader that returns an existing module, which is imported under another name, unchanged."""

    def __init__(self, name: str):
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = importlib.import_module(self.name)
        self._spec = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system put the new name's spec here


class _Renamed(MetaPathFinder):
    """Finder that maps ``tvm`` and ``tvm.x`` to this package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "tvm":
            return None
        return ModuleSpec(fullname, _SameModule(_HERE + fullname.removeprefix("tvm")))


def _add(finder: type[MetaPathFinder], first: bool) -> None:
    if not any(isinstance(one, finder) for one in sys.meta_path):
        sys.meta_path.insert(0 if first else len(sys.meta_path), finder())


def name_missing() -> None:
    """Make the import of a TVM module that is missing here raise an error with the reason, from now on."""
    _add(_Missing, first=False)


def install() -> None:
    """Make ``import tvm`` in this process import this package from now on. Raises ImportError if TVM itself
    was imported before."""
    known = sys.modules.get("tvm")
    if known is not None and known is not sys.modules[_HERE]:
        raise ImportError("TVM itself is imported already: install() comes before the first import of tvm")
    _add(_Renamed, first=True)
