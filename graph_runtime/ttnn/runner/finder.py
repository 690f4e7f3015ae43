"""A finder of imports: where no ttnn is installed, ``import ttnn`` imports that of graph_runtime.

``python -m graph_runtime.ttnn --install`` copies this file into an environment, whose interpreter loads it at
each start: it imports the package only when ttnn is asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType

_WITH_TTNN = ("loguru", "tracy", "tt_lib")  # what scripts may import before ttnn, of those that it brings


class SimulatedTtnn:
    """The finder. It is the first, and asks the others: a ttnn that any of them has, wherever it was
    installed and when, is taken. A folder named ttnn that is no package is none (tt-metal's sources have
    one)."""

    simulates_ttnn = True  # what tells one of these from another module's finder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "ttnn" and fullname not in _WITH_TTNN:
            return None
        if other(fullname) is not None or find_spec("graph_runtime") is None:
            return None
        if fullname == "ttnn":
            return ModuleSpec(fullname, self, origin="graph_runtime.ttnn.interface", is_package=True)  # type: ignore[arg-type]
        import_module("ttnn")  # its own finder of such modules is the last
        return None

    def create_module(self, spec: ModuleSpec) -> None:
        """Leave the making of a module to Python: exec_module puts another into its place."""

    def exec_module(self, module: ModuleType) -> None:
        """Let sys.modules have the package's ttnn in the place of ``module``."""
        del sys.modules["ttnn"]
        import_module("graph_runtime.ttnn.runner.install").install(like_wheel=True)


def other(name: str) -> ModuleSpec | None:
    """What ``import name`` would find without this finder, None if there is nothing or only a folder."""
    for finder in list(sys.meta_path):
        if not hasattr(finder, "simulates_ttnn") and hasattr(finder, "find_spec"):
            spec = finder.find_spec(name, None)
            if spec is not None:
                return None if spec.origin is None and spec.submodule_search_locations is not None else spec
    return None


def begin() -> None:
    """Ask a SimulatedTtnn before all other finders from now on."""
    sys.meta_path.insert(0, SimulatedTtnn())  # type: ignore[arg-type]  # it has what is used
