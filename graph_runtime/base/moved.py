"""Import paths of earlier versions: ``import graph_runtime.documents.params`` gives the module at its new
place, with a DeprecationWarning that names it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

__all__ = ["MOVED", "install"]

# old name below the package -> new one; what was below an old folder is below the new one
MOVED: Mapping[str, str] = {
    "builder": "ir.builder",
    "bundles": "artifacts.bundles",
    "comparison": "accuracy",
    "core": "binding.core",
    "devices": "base.machine.devices",
    "documents": "ir.documents",
    "dtypes": "base.dtypes",
    "errors": "base.errors",
    "factory": "run.factory",
    "graph": "ir.graph",
    "layout": "base.machine.layout",
    "libraries": "artifacts.libraries",
    "library": "run.library",
    "model": "ir.model",
    "module": "run.module",
    "numerics": "run.oracle",
    "onnx_backend": "compat.onnx_backend",
    "ops": "ir.ops",
    "packing": "binding.packing",
    "progress": "base.progress",
    "run.numerics": "run.oracle",
    "sessions": "run.sessions",
    "shards": "base.machine.shards",
    "stitching": "runtime.stitching",
    "tensors": "run.tensors",
    "testing.numerics": "testing.operands",
    "tvm": "compat.tvm_files",
}
_PUBLIC = {"errors"}  # another name of the same module, which stays


def install(package: str) -> None:
    """Let the old names below ``package`` be imported. The finder comes first: else the folder that an alias
    leads to would answer for what is below the old name, and make each module twice."""
    sys.meta_path.insert(0, _Finder(f"{package}."))  # type: ignore[arg-type]


class _Finder:
    def __init__(self, prefix: str):
        self._prefix = prefix

    def find_spec(self, fullname: str, path: object, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith(self._prefix):
            return None
        name, rest = fullname[len(self._prefix) :], ""
        while name and name not in MOVED:
            name, _, last = name.rpartition(".")
            rest = f".{last}{rest}"
        if not name:
            return None
        new = f"{self._prefix}{MOVED[name]}{rest}"
        if name not in _PUBLIC:
            warnings.warn(f"{fullname} is now {new}", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, _Alias(new), is_package=True)  # type: ignore[arg-type]  # it has what is used


class _Alias:
    """Puts the module of another name in the place of the one that is loaded."""

    def __init__(self, name: str):
        self._name = name

    def create_module(self, spec: ModuleSpec) -> None:
        """The import system's own."""

    def exec_module(self, module: ModuleType) -> None:
        assert module.__spec__ is not None
        sys.modules[module.__spec__.name] = import_module(self._name)
