"""Modules in TVM's shape: functions by name, and time_evaluator.

load_module(path) --> LibraryModule["default"](device) --> ExecutorModule["run"]()
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ....run import core
from ....run.benchmark import BenchmarkResult
from ....run.library import SystemLibrary
from ...artifacts.library import TvmModule
from ...artifacts.library import load_module as _load_module
from .device import device as _device
from .device import opened
from .executors import executor_of
from .ndarray import lent, tensor_of
from .packed import PackedModule

__all__ = [
    "BenchmarkResult",
    "LibraryModule",
    "Module",
    "PackedModule",
    "enabled",
    "load_module",
    "num_threads",
    "system_lib",
]

core.tvm_publish()  # for libraries that a script opens by ctypes.CDLL before it asks for system_lib


class LibraryModule(PackedModule):
    """A loaded library: operators, or a factory. ``artifact`` is what reads the file."""

    is_dso_exportable = True

    def __init__(self, artifact: TvmModule):
        self.artifact, self.library = artifact, artifact.library

    @property
    def type_key(self) -> str:  # type: ignore[override]
        return self.artifact.type_key

    @property
    def imported_modules(self) -> list[PackedModule]:
        return [LibraryModule(one) for one in self.artifact.imported_modules]

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """A factory's function or an operator. Raises AttributeError."""
        found = self.artifact.get_function(name, query_imports)
        factory = self.artifact.factory
        if factory is None or name not in (
            factory.module_name,
            "debug_create",
            "get_graph_params",
            "remove_params",
        ):
            return lambda *args: found(*map(tensor_of, args))
        if name == "get_graph_params":
            return lambda: lent(found())
        if name == "remove_params":
            return lambda: LibraryModule(found())
        return lambda *args: executor_of(found(*map(opened, args)))

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {self.library.path})"


Module = PackedModule


def load_module(path: str | os.PathLike[str], fmt: str = "") -> LibraryModule:
    """Load a library; its executors compute with inputs that were never set, as TVM's do. Raises ValueError
    for a path where there is no file, and as graph_runtime.load_module."""
    if not os.path.exists(path):
        raise ValueError(f"cannot find file {path}")
    artifact = _load_module(path)
    artifact.options["unset_inputs"] = "allow"
    return LibraryModule(artifact)


load = load_module  # its name up to TVM 0.6


def system_lib(symbol_prefix: str = "") -> LibraryModule:
    """The functions that system libraries of this process have registered, opened by load_module or, with
    RTLD_GLOBAL or without, by ctypes.CDLL. ``symbol_prefix``: what their names begin with."""
    return LibraryModule(TvmModule(SystemLibrary(symbol_prefix), None, None))


def enabled(target: str) -> bool:
    """Whether libraries for a target can run here."""
    try:
        return _device(target).exist
    except ValueError:
        return False


def num_threads() -> int:
    """Threads that one operator may use."""
    return core.pool_threads()
