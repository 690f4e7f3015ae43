"""Libraries that TVM exported, loaded as TVM's own load_module does: factories in a single file, plain
operator libraries, .o and .tar files.

    deploy.so --load_library--> Library --import blob--> TvmModule["default"](devices) --> GraphModule

The blob is read from the mapped library. Parameters of a factory are views of the mapping until a session
copies them, so memory holds them once.
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
from ...run.tensors.tensor import aligned_empty
from .blob import Blob, ConstLoader, Factory, parse_blob
from .debugger import create_debug
from .packed_values import call_packed, dl_tensors

ENTRY = "__tvm_main__"  # symbol of the text that names a library's entry function
_PLAIN = (int, float, str, np.integer, np.floating)
_handed_over: list[Any] = []  # objects given to libraries, which may use them until the process ends


class TvmModule:
    """The result of load_module. ``library``: the operators. ``blob``: the data packed with the operators, or
    None. ``factory``: the graph of a single-file library; None for a plain operator library. ``options``:
    keyword arguments of create() for the executors that the module makes.

    ``module["default"](device, ...)`` makes a GraphModule with the factory's parameters set;
    ``module["<function>"]`` calls an operator.
    """

    blob: Blob | None
    factory: Factory | None
    library: Library

    def __init__(
        self, library: Library, blob: Blob | None, factory: Factory | None, contents: memoryview | None = None
    ):
        self.library, self.blob, self.factory, self._contents = library, blob, factory, contents
        self.options: dict[str, Any] = {}

    @property
    def type_key(self) -> str:
        """TVM's name for the kind of module: "GraphExecutorFactory" or "library"."""
        return "library" if self.factory is None else "GraphExecutorFactory"

    @property
    def imported_modules(self) -> list[TvmModule]:
        """The operator library of a factory, in a list; for an operator library an empty list."""
        return [] if self.factory is None else [TvmModule(self.library, None, None)]

    def __getitem__(self, name: str) -> Callable[..., Any]:
        return self.get_function(name)

    @cached_property
    def entry(self) -> str:
        """The name of the entry function, which a library of one function has; "" if the library has no entry
        function."""
        shared = getattr(self.library, "shared", None)  # a system library has no file
        if shared is None or ENTRY not in shared.objects:
            return ""
        return bytes(shared.view(ENTRY, self.library.contents())).partition(b"\0")[0].decode(errors="replace")

    def get_function(self, name: str, query_imports: bool = False) -> Callable[..., Any]:
        """The factory's function ("default", "get_graph_json", ...) or the operator called ``name``, which
        takes arrays. Raises AttributeError if the module has no such function."""
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
            text = f"{self.library.path} is a plain operator library: give its graph.json to create()"
            raise LibraryError(text, got="library", wanted="a factory library")
        return self.factory

    def create(self, *devices: Device | str | Sequence[Device | str], **options: Any) -> GraphModule:
        """A GraphModule on ``devices``; its parameters are set, the largest first. ``options``: as for
        create()."""
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
        if self._contents is not None:  # the parameters were copied: their pages may leave memory
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
        """A module of the factory without its parameters, which must then be loaded from elsewhere."""
        factory = self._only_factory()
        return TvmModule(self.library, self.blob, Factory(factory.graph_json, {}, factory.module_name))

    def __repr__(self) -> str:
        return f"TvmModule({self.type_key}, {self.library.path})"


class Operator:
    """One function of a library, called with arrays: first its inputs, then its outputs, which the function
    writes. Arguments may also be numbers and texts."""

    library: Library
    name: str

    def __init__(self, library: Library, name: str):
        self.library, self.name = library, name
        self._address = library.kernel(name, "cpu").fn

    def __call__(self, *args: Any) -> Any:
        """Call the operator. Raises KernelError with the operator's text, and LibraryError for an array that
        is not C-contiguous on the host. Raises LibraryError also for None, because the operator would look
        for a tensor at its address."""
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
    """Load a library that TVM 0.5 to 0.20 exported: ``.so`` files, or ``.o`` and ``.tar`` files, which are
    linked first.

    A user who gives a file's name permits its code to run: constructors of the library run during loading.
    Raises LibraryError if the file is not such a library, is truncated, or contains a module kind that cannot
    run here; CompileError if a linker is needed but missing.
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
    # the library is mapped as in the file: parse_blob checks its length
    contents = library.contents()
    blob = parse_blob(library.shared.view(BLOB, contents), str(library.path))
    _wire(library, blob)
    root = blob.modules[blob.root] if blob.root is not None else None
    factories = [m for m in blob.modules if isinstance(m, Factory)]
    factory = root if isinstance(root, Factory) else factories[0] if len(factories) == 1 else None
    return TvmModule(library, blob, factory, contents)


def _wire(library: Library, blob: Blob) -> None:
    """Pass constants to the operators that need them, before any of these operators can be called."""
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
    """A copy of the array with the alignment that generated code expects."""
    copy = aligned_empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def _link(path: Path) -> Path:
    """A shared object linked from an object file, or from a tar of object files, in a folder that is deleted
    when the process ends."""
    from ...codegen.toolchain import find_compiler  # imported here: only unlinked objects need a compiler

    folder = Path(tempfile.mkdtemp(dir=temporary_folder()))
    objects = [str(path.absolute())] if path.suffix == ".o" else _unpack(path, folder)
    out = folder / (path.stem + ".so")
    try:
        find_compiler().run(["-shared", "-fPIC", "-o", str(out), *objects, "-lm"], folder)
    except CompileError as error:
        raise LibraryError(f"cannot link {path}: {error}", got=str(path)) from error
    return out


def _unpack(path: Path, folder: Path) -> list[str]:
    """The paths of a tar's object files, which are written into ``folder`` under new names, because names in
    a tar are not trusted."""
    objects: list[str] = []
    try:
        with open_file(path) as file, tarfile.open(fileobj=file) as tar:
            for member in tar:
                if not member.isfile() or not member.name.endswith((".o", ".c", ".cc")):
                    continue
                target = folder / f"{len(objects)}{Path(member.name).suffix}"
                held = tar.extractfile(member)
                assert held is not None  # the member is a file, so it is not None
                target.write_bytes(held.read())
                objects.append(str(target))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise LibraryError(f"cannot read {path}: {error}", got=str(path)) from None
    if not objects:
        raise LibraryError(f"{path} holds no object files", got=str(path))
    return objects
