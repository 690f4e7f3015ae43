"""The layer under the name ``tvm``, so that an unchanged script imports it; and imports of what is not here.

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
    """Asked last: an import of a module of TVM's that is not here is an ImportError that says why."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.startswith(f"{_HERE}."):
            raise ImportError(why(fullname.removeprefix(f"{_HERE}.")), name=fullname)


class _SameModule(Loader):
    """Gives the module that has the other name, as it is."""

    def __init__(self, name: str):
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        found = importlib.import_module(self.name)
        self._spec = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec  # the import system has put the other name's there


class _Renamed(MetaPathFinder):
    """Leads ``tvm`` and ``tvm.x`` to this package."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] != "tvm":
            return None
        return ModuleSpec(fullname, _SameModule(_HERE + fullname.removeprefix("tvm")))


def _add(finder: type[MetaPathFinder], first: bool) -> None:
    if not any(isinstance(one, finder) for one in sys.meta_path):
        sys.meta_path.insert(0 if first else len(sys.meta_path), finder())


def name_missing() -> None:
    """From now on imports of what is not here say why."""
    _add(_Missing, first=False)


def install() -> None:
    """From now on ``import tvm`` of this process is this package. Raises ImportError where TVM is."""
    known = sys.modules.get("tvm")
    if known is not None and known is not sys.modules[_HERE]:
        raise ImportError("TVM itself is imported already: install() comes before the first import of tvm")
    _add(_Renamed, first=True)
