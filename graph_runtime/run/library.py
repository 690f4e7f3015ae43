"""Opened libraries of kernels. Their files contain code that runs.

Only this module runs code of files: it alone calls core.library_open and core.tvm_open, the only two
functions that dlopen a file (except OpenBLAS, which is an installed package: blas.py). ``load_library`` opens
the file that its caller names, because naming a library is asking for its code. ``open_libraries`` also opens
such files; it opens a bundle's files only if artifacts/trust.py trusts exactly their bytes, which cannot
change any more (sealed.py). A test checks that there is no other dlopen; see docs/security.md."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path

from ..artifacts.libraries.asked import way_out
from ..artifacts.libraries.judge import LibraryFile, judge_sealed, read_library
from ..artifacts.libraries.sealed import seal
from ..artifacts.trust import require_trust
from ..base.errors import LibraryError, did_you_mean
from ..binding import core
from ..binding.programs.program import Kernel

_OURS = ("TVM", "__gnu_")  # prefixes of functions that the core provides to libraries (native/tvm)
_kept: list[object] = []  # files of libraries that stay open to the end of the process


class Library(LibraryFile):
    """An opened library. The library stays mapped as long as this object, or a Kernel from it, is alive."""

    def __init__(self, file: LibraryFile, handle: int):
        super().__init__(file.path, file.manifest, file.shared, file.sealed, file.signature)
        self.handle = handle
        if self.manifest is not None:
            # not at exit: a thread may still be in a kernel then
            weakref.finalize(self, core.library_close, handle).atexit = False
        elif self.sealed is not None:  # a TVM library stays open (core.tvm_open), so its file does
            _kept.append(self.sealed)

    def __repr__(self) -> str:
        return f"<{self.flavour} library {self.path}, {len(self.kernels) or len(self.functions)} functions>"

    def _registers(self, name: str) -> bool:
        return self._registered(name) != 0

    def _registered(self, name: str) -> int:
        """Address of a function that a system library has not exported but registered, 0 if the function is
        not registered."""
        return core.tvm_function(core.tvm_system(), name) if self.system else 0

    def kernel(self, name: str, kind: str) -> Kernel:
        """The function as a Kernel, ready for a program. Raises LibraryError, which lists the known names,
        for an unknown name or kind."""
        if not self.has(name, kind):
            text = f"library {self.path} has no {name!r} for {kind}{did_you_mean(name, self.names(kind))}"
            raise LibraryError(text, got=name, wanted=self.names(kind))
        if self.manifest is None:
            address = core.tvm_function(self.handle, name) or self._registered(name)
            return Kernel(name, address, packed=True, origin=str(self.path), owner=self)
        entry = self.kernels[name, kind]
        address = core.library_symbol(self.handle, entry.symbol)
        return Kernel(name, address, scratch=entry.scratch, origin=str(self.path), owner=self)


class SystemLibrary(Library):
    """The functions that system libraries have registered (TVM's system_lib), including system libraries
    opened by ctypes. ``prefix``: the beginning of the functions' names, which callers leave out."""

    def __init__(self, prefix: str = ""):
        self.path, self.manifest, self.sealed, self.signature = Path("system-lib"), None, None, None
        self.functions, self.kernels, self.flavour, self.system = frozenset(), {}, "packed", True
        self.asks = ()
        self.handle, self.prefix = core.tvm_system(), prefix

    def contents(self) -> memoryview:
        """An empty view, because a system library has no file."""
        return memoryview(b"")

    def _registered(self, name: str) -> int:
        return core.tvm_function(self.handle, self.prefix + name)

    def kernel(self, name: str, kind: str) -> Kernel:
        if not self.has(name, kind):
            text = f"no system library has registered {self.prefix + name!r} for {kind}: open one first"
            raise LibraryError(text, got=name)
        return Kernel(name, self._registered(name), packed=True, origin=str(self.path), owner=self)


def missing_functions(names: Sequence[str]) -> list[str]:
    """Those of ``names`` for which neither the runtime nor the user provides a packed function."""
    return [name for name in names if core.lib.gr_tvm_global(name.encode()) == core.ffi.NULL]


def require_functions(library: LibraryFile) -> None:
    """Raise LibraryError, before anything runs, if functions are missing that a library's operators will ask
    for. The error says for each function which side has to provide it, and what to do."""
    names = missing_functions(library.asks)
    if names:
        text = f"{library.path} asks for functions that are not here: {'; '.join(map(way_out, names))}"
        raise LibraryError(text, got=names)


def load_library(path: str | os.PathLike[str], *, sha256: str | None = None) -> Library:
    """Open the library at a path: naming it is asking for its code. ``sha256`` (hex): open the library only
    if its bytes have this hash. Raises LibraryError, before anything of the library runs, for another ABI,
    architecture or instruction set (both sides named), a malformed manifest, a listed kernel that is missing,
    or another hash."""
    file = read_library(path)
    if sha256 is not None:
        sealed = seal(str(file.path), file.path, 0, len(file.contents()))
        if sealed.sha256 != sha256:
            text = f"{path} is not the wanted file: its sha256 is {sealed.sha256}, not {sha256}"
            raise LibraryError(text, got=sealed.sha256, wanted=sha256)
        file = judge_sealed(file.path, sealed)
    return Library(file, _open(file))


def open_libraries(files: Sequence[LibraryFile]) -> list[Library]:
    """The opened libraries; a library that is open already stays as it is. Raises UntrustedLibraryError,
    before any of their code runs, for a library that came with a bundle and is not trusted, and LibraryError
    with the dynamic linker's reason."""
    require_trust([file for file in files if file.sealed is not None and not isinstance(file, Library)])
    return [file if isinstance(file, Library) else Library(file, _open(file)) for file in files]


def _open(file: LibraryFile) -> int:
    path = str(file.path) if file.sealed is None else file.sealed.path
    try:
        if file.manifest is not None:
            return core.library_open(path)
        return core.tvm_open(path, any(name.startswith(_OURS) for name in file.shared.undefined))
    except LibraryError as error:
        raise LibraryError(str(error).replace(path, str(file.path)), got=str(file.path)) from None
