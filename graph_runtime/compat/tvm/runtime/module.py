"""Modules with TVM's interface: functions by name, and time_evaluator.

load_module(path) --> LibraryModule["default"](device) --> ExecutorModule["run"]()
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, NoReturn

from ....base.errors import InputError, did_you_mean
from ....base.files.writing import write_whole
from ....binding import core
from ....run.benchmark import BenchmarkResult
from ....run.library import SystemLibrary
from ...tvm_files.library import TvmModule
from ...tvm_files.library import load_module as _load_module
from ...tvm_files.python_library import PythonLibrary
from .device import device as _device
from .device import opened
from .executors import executor_of
from .global_functions import provide, with_arrays
from .ndarray import lent, tensor_of
from .packed import PackedModule

__all__ = [
    "BenchmarkResult",
    "FrontendTestModule",
    "LibraryModule",
    "Module",
    "PackedModule",
    "enabled",
    "libraries_of",
    "load_module",
    "load_static_library",
    "num_threads",
    "system_lib",
]

core.tvm_publish()  # for libraries that a script opens by ctypes.CDLL before it calls system_lib


class LibraryModule(PackedModule):
    """A loaded library, which has operators or a factory. ``artifact``: the TvmModule that reads its file."""

    is_dso_exportable = True

    def __init__(self, artifact: TvmModule, whole: bool = True):
        self.artifact, self.library = artifact, artifact.library
        self._whole = whole  # whether the file has exactly the library's contents
        self._imports: list[LibraryModule] = []

    @property
    def type_key(self) -> str:  # type: ignore[override]
        return self.artifact.type_key

    @property
    def imported_modules(self) -> list[PackedModule]:
        return [*(LibraryModule(one) for one in self.artifact.imported_modules), *self._imports]

    def import_module(self, module: PackedModule) -> None:
        """Import a module, as PackedModule.import_module does. Raises InputError also for libraries that
        would import each other in a circle."""
        if not isinstance(module, LibraryModule):
            raise InputError(
                f"{module!r} is not a library: only libraries can be imported", got=type(module).__name__
            )
        core.tvm_import(self.library.handle, module.library.handle)
        self._imports.append(module)

    def export_library(self, file_name: Any, fcompile: Any = None, **_: Any) -> str:
        """Copy the library's file to ``file_name``; returns the path. Raises InputError if the library
        differs from its file (imports were added, or parameters removed), or for another file format."""
        path = str(file_name)
        if (
            not self._whole
            or self._imports
            or not path.endswith(".so")
            or not os.path.isfile(self.library.path)
        ):
            raise InputError(
                f"{self!r} is a loaded library, whose unchanged file export_library can copy to a .so: "
                "export other contents by TVM's compiler",
                got=path,
            )
        write_whole(path, self.library.contents(), 0o777)
        return path

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The factory's function or the operator called ``name``. Raises AttributeError if the module has no
        such function."""
        imports = self._imports if query_imports else []
        holder = next((one for one in imports if one.implements_function(name, True)), None)
        if holder is not None and not self.implements_function(name):
            return holder.get_function(name, True)
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
            return lambda: LibraryModule(found(), whole=False)
        return lambda *args: executor_of(found(*map(opened, args)))

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {self.library.path})"


class FrontendTestModule(PackedModule):
    """A module of Python functions, ``module["name"] = f``, which get NDArrays."""

    type_key = "frontend_test"

    def __init__(self) -> None:
        self.library = PythonLibrary()

    def __setitem__(self, name: str, function: Callable[..., Any]) -> None:
        self.library[name] = with_arrays(function) if callable(function) else function

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The function called ``name``. Raises AttributeError if the module has no such function."""
        if name not in self.library.callables:
            raise AttributeError(
                f"Module has no function {name!r}{did_you_mean(name, self.library.callables)}"
            )
        return self.library[name]

    def __repr__(self) -> str:
        return f"Module({self.type_key}, {id(self.library):x})"


Module = PackedModule


def libraries_of(module: Any) -> Any:
    """The libraries of a module and of all modules that it imports, in the form that create() takes; any
    other value is returned unchanged."""
    if not isinstance(module, LibraryModule):
        return module
    found = {id(module.library): module.library}
    for one in module._imports:
        found |= {id(library): library for library in libraries_of(one)}
    return list(found.values())


def load_static_library(path: Any, func_names: Any) -> NoReturn:
    """Raises InputError: only TVM's compiler can link a static library into another."""
    raise InputError(
        f"{path} is a static library: let TVM link it where the model is exported, or link its objects "
        "into a .so by tvm.contrib.cc.create_shared",
        got=str(path),
    )


@provide("runtime.ModuleLoadFromFile")
def load_module(path: str | os.PathLike[str], fmt: str = "") -> LibraryModule:
    """Load a library; its executors run even if inputs are not set, as TVM's do. Raises ValueError if there
    is no file at the path; other errors as for graph_runtime.load_module."""
    if not os.path.exists(path):
        raise ValueError(f"cannot find file {path}")
    artifact = _load_module(path)
    artifact.options["unset_inputs"] = "allow"
    return LibraryModule(artifact)


load = load_module  # the name of load_module up to TVM 0.6


@provide("runtime.SystemLib")
def system_lib(symbol_prefix: str = "") -> LibraryModule:
    """A library of the functions that system libraries in this process have registered. Such libraries are
    opened by load_module or by ctypes.CDLL, with or without RTLD_GLOBAL. ``symbol_prefix``: prefix of the
    functions' names."""
    return LibraryModule(TvmModule(SystemLibrary(symbol_prefix), None, None))


@provide("runtime.RuntimeEnabled")
def enabled(target: str) -> bool:
    """Whether libraries for a target can run here."""
    try:
        return _device(target).exist
    except ValueError:
        return False


@provide("runtime.NumThreads")
def num_threads() -> int:
    """Number of threads that one operator may use."""
    return core.pool_threads()
