"""Libraries that TVM exported, loaded as TVM's own load_module does: single-file factories, plain operator
libraries, .o and .tar.

    deploy.so --load_library--> Library --import blob--> TvmModule["default"](devices) --> GraphModule

The blob is read from the mapped library; parameters of a factory are views of it until a session copies
them, so they are held once.
"""

from __future__ import annotations

import mmap
import os
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np

from ...artifacts.libraries.asked import way_out
from ...artifacts.libraries.elf import BLOB
from ...base.errors import CompileError, LibraryError, did_you_mean
from ...base.files.mapped import open_file
from ...base.files.temporary import temporary_folder
from ...base.machine.devices import Device
from ...binding import core
from ...run.factory import create
from ...run.library import Library, load_library, missing_functions
from ...run.module import GraphModule
from ...run.tensors.host_values import aligned_empty
from .blob import Blob, ConstLoader, Factory, parse_blob
from .debugger import create_debug
from .packed_values import call_packed, dl_tensors

__all__ = ["ENTRY", "TvmModule", "load_module"]

ENTRY = "__tvm_main__"  # a text in the library, which names its entry function
_PLAIN = (int, float, str, np.integer, np.floating)
_handed_over: list[Any] = []  # to libraries, which stay open to the end of the process and may keep it


class TvmModule:
    """What load_module returns. ``library`` has the operators, ``blob`` what was packed beside them (None:
    nothing), ``factory`` the graph of a single-file library (None: a plain operator library). ``options`` of
    create() for the executors that it makes.

    ``module["default"](device, ...)`` makes a GraphModule with the factory's parameters set;
    ``module["<function>"]`` calls an operator.
    """

    blob: Blob | None
    factory: Factory | None
    library: Library

    def __init__(
        self,
        library: Library,
        blob: Blob | None,
        factory: Factory | None,
        contents: memoryview | None = None,
    ):
        self.library, self.blob, self.factory, self._contents = library, blob, factory, contents
        self.options: dict[str, Any] = {}

    @property
    def type_key(self) -> str:
        """TVM's name of the kind: "GraphExecutorFactory" or "library"."""
        return "library" if self.factory is None else "GraphExecutorFactory"

    @property
    def imported_modules(self) -> list[TvmModule]:
        """A factory's operator library; empty for a library."""
        return [] if self.factory is None else [TvmModule(self.library, None, None)]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name)

    @cached_property
    def entry(self) -> str:
        """The function that a library of one function names as its entry, "" where it names none."""
        shared = getattr(self.library, "shared", None)  # a library of the process has no file
        if shared is None or ENTRY not in shared.objects:
            return ""
        return bytes(shared.view(ENTRY, self.library.contents())).partition(b"\0")[0].decode(errors="replace")

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """A factory's function ("default", "get_graph_json", ...) or an operator that takes arrays. Raises
        AttributeError."""
        if self.factory is not None:
            functions = self._factory_functions()
            if name in functions:
                return functions[name]
        name = self.entry if name == ENTRY and self.entry else name
        if (self.factory is None or query_imports) and self.library.has(name, "cpu"):
            return Operator(self.library, name)
        known = [*self._factory_functions(), *self.library.names("cpu")]
        raise AttributeError(f"Module has no function {name!r}{did_you_mean(name, known)}")

    def _factory_functions(self) -> dict[str, Callable[..., Any]]:
        if self.factory is None:
            return {}
        return {
            self.factory.module_name: self.create,
            "debug_create": self.debug_create,
            "get_graph_json": self.get_graph_json,
            "get_graph_params": self.get_graph_params,
            "remove_params": self.remove_params,
        }

    def _only_factory(self) -> Factory:
        if self.factory is None:
            raise LibraryError(
                f"{self.library.path} is a plain operator library: give its graph.json to create()",
                got="library",
                wanted="a factory library",
            )
        return self.factory

    def create(self, *devices: Device | str | Sequence[Device | str], **options: Any) -> GraphModule:
        """A GraphModule on ``devices`` with the parameters set, biggest first. ``options`` as create()."""
        return self._made(create, devices, options)

    def _made(self, make: Callable[..., Any], devices: Sequence[Any], options: dict[str, Any]) -> Any:
        factory = self._only_factory()
        made = make(
            factory.graph_json,
            self.library,
            _flat(devices),
            params=factory.params or None,
            **{**self.options, **options},
        )
        if self._contents is not None:  # the parameters were read, and the file stays for a later reading
            cast("mmap.mmap", self._contents.obj).madvise(mmap.MADV_DONTNEED)
        return made

    def debug_create(self, name: str, *devices: Device | str, **options: Any) -> Any:
        """A debug executor of the model called ``name``."""
        factory = self._only_factory()
        if name != factory.module_name:
            raise LibraryError(
                f"the library has the model {factory.module_name!r}, not {name!r}: Currently we only "
                "support single model for now.",
                got=name,
                wanted=factory.module_name,
            )
        return self._made(create_debug, devices, options)

    def get_graph_json(self) -> str:
        """The graph of a factory."""
        return self._only_factory().graph_json

    def get_graph_params(self) -> dict[str, np.ndarray]:
        """A factory's parameters: read-only views into the library, empty after remove_params."""
        return dict(self._only_factory().params)

    def remove_params(self) -> TvmModule:
        """The same factory without parameters, which are then to be loaded from elsewhere."""
        factory = self._only_factory()
        return TvmModule(self.library, self.blob, Factory(factory.graph_json, {}, factory.module_name))

    def __repr__(self) -> str:
        return f"TvmModule({self.type_key}, {self.library.path})"


class Operator:
    """One function of a library, called with arrays: inputs, then outputs, which it writes; also with
    numbers and texts."""

    library: Library
    name: str

    def __init__(self, library: Library, name: str):
        self.library, self.name = library, name
        self._address = library.kernel(name, "cpu").fn

    def __call__(self, *args: Any) -> Any:
        """Raises KernelError with the operator's text, LibraryError for an array that is not C-contiguous on
        the host, and for None, at whose address the operator would look for a tensor."""
        if any(arg is None for arg in args):
            raise LibraryError(f"{self.name} takes arrays, numbers and texts, not None", got="None")
        if any(isinstance(arg, _PLAIN) for arg in args):
            return call_packed(core.ffi.cast("void *", self._address), args)
        table, _alive = dl_tensors(args)
        core.tvm_call(self._address, table.ctypes.data, len(args))
        return None


def _flat(devices: Sequence[Any]) -> list[Device | str]:
    listed = [d for item in devices for d in (item if isinstance(item, (list, tuple)) else [item])]
    return listed or ["cpu:0"]


# **************** loading ****************


def load_module(path: str | os.PathLike[str]) -> TvmModule:
    """Load a library that TVM 0.5 to 0.20 exported: ``.so``, or ``.o`` and ``.tar``, which are linked first.

    Naming a file is asking for its code: constructors of the library run here. Raises LibraryError where the
    file is no such library, is cut, or holds a module kind that cannot run here; CompileError where a linker
    is needed and there is none.
    """
    path = Path(path)
    if path.suffix in (".o", ".tar"):
        path = _link(path)
    library = load_library(path)
    names = missing_functions(library.asks)
    if names:
        sentences = "; ".join(map(way_out, names))
        warnings.warn(f"{path} asks for functions that are not here: {sentences}", stacklevel=2)
    if BLOB not in library.shared.objects:
        return TvmModule(library, None, None)
    # mapped, as it is in the file: that it has as many bytes as it says is for parse_blob to check
    contents = library.contents()
    blob = parse_blob(library.shared.view(BLOB, contents), str(library.path))
    _wire(library, blob)
    root = blob.modules[blob.root] if blob.root is not None else None
    factories = [m for m in blob.modules if isinstance(m, Factory)]
    factory = root if isinstance(root, Factory) else factories[0] if len(factories) == 1 else None
    return TvmModule(library, blob, factory, contents)


def _wire(library: Library, blob: Blob) -> None:
    """Hand constants to the operators that want them, before anybody can call those."""
    for module in blob.modules:
        if not isinstance(module, ConstLoader):
            continue
        for symbol, names in module.consts.items():
            start = core.tvm_function(library.handle, f"__init_{symbol}")
            if not start:
                raise LibraryError(
                    f"{library.path}: constants for {symbol!r} are packed, but there is no function "
                    f"__init_{symbol}",
                    got=symbol,
                )
            arrays = [_aligned(module.arrays[name]) for name in names]
            table, shapes = dl_tensors(arrays)
            _handed_over.append((table, shapes, arrays))
            core.tvm_call(start, table.ctypes.data, len(names))


def _aligned(array: np.ndarray) -> np.ndarray:
    """A copy that starts where generated code expects it."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _link(path: Path) -> Path:
    """A shared object made of an object file or a tar of them, in a folder that goes with the process."""
    from ...codegen.toolchain import find_compiler  # only unlinked objects need a compiler

    folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
    objects = [str(path.absolute())] if path.suffix == ".o" else _unpack(path, folder)
    out = folder / (path.stem + ".so")
    try:
        find_compiler().run(["-shared", "-fPIC", "-o", str(out), *objects, "-lm"], folder)
    except CompileError as error:
        raise LibraryError(f"cannot link {path}: {error}", got=str(path)) from error
    return out


def _unpack(path: Path, folder: Path) -> list[str]:
    """The object files of a tar, written flat into ``folder``: names in a tar are not trusted."""
    objects: list[str] = []
    try:
        with open_file(path) as file, tarfile.open(fileobj=file) as tar:
            for member in tar:
                if not member.isfile() or not member.name.endswith((".o", ".c", ".cc")):
                    continue
                target = folder / f"{len(objects)}{Path(member.name).suffix}"
                held = tar.extractfile(member)
                assert held is not None  # it is a file
                target.write_bytes(held.read())
                objects.append(str(target))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise LibraryError(f"cannot read {path}: {error}", got=str(path)) from None
    if not objects:
        raise LibraryError(f"{path} holds no object files", got=str(path))
    return objects
