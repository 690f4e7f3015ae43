"""Plannable libraries: files whose code runs.

Code of a file runs here and nowhere else: this module is the only caller of core.library_open and
core.tvm_open, which are the only ways to dlopen a file (but for OpenBLAS, an installed package: blas.py).
``load_library`` opens what its caller named, because naming a library is asking for its code.
``open_libraries`` opens such files too, and what came with a bundle where artifacts/trust.py trusts those
very bytes, which nothing can change any more (sealed.py). A test holds that there is no other dlopen.
docs/security.md says what that gives.
"""

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

__all__ = [
    "Library",
    "SystemLibrary",
    "load_library",
    "missing_functions",
    "open_libraries",
    "require_functions",
]

_OURS = ("TVM", "__gnu_")  # how names begin that the core has for libraries (native/tvm)
_kept: list[object] = []  # files of libraries that stay open to the end of the process


class Library(LibraryFile):
    """An opened library. Stays mapped as long as this object, or a Kernel it gave out, is alive."""

    def __init__(self, file: LibraryFile, handle: int):
        super().__init__(file.path, file.manifest, file.shared, file.sealed, file.signature)
        self.handle = handle
        if self.manifest is not None:
            # not at exit: a thread may still be in a kernel then
            weakref.finalize(self, core.library_close, handle).atexit = False
        elif self.sealed is not None:  # what TVM made stays open, see core.tvm_open: opened anew it is found
            _kept.append(self.sealed)

    def __repr__(self) -> str:
        return f"<{self.flavour} library {self.path}, {len(self.kernels) or len(self.functions)} functions>"

    def _registers(self, name: str) -> bool:
        return self._registered(name) != 0

    def _registered(self, name: str) -> int:
        """Address of a function that a system library registered instead of exporting it, 0 if it did not."""
        return core.tvm_function(core.tvm_system(), name) if self.system else 0

    def kernel(self, name: str, kind: str) -> Kernel:
        """The function, ready for a program. Raises LibraryError, with what there is, if it has none of that
        name and kind."""
        if not self.has(name, kind):
            raise LibraryError(
                f"library {self.path} has no {name!r} for {kind}{did_you_mean(name, self.names(kind))}",
                got=name,
                wanted=self.names(kind),
            )
        if self.manifest is None:
            address = core.tvm_function(self.handle, name) or self._registered(name)
            return Kernel(name, address, packed=True, origin=str(self.path), owner=self)
        entry = self.kernels[name, kind]
        return Kernel(
            name,
            core.library_symbol(self.handle, entry.symbol),
            scratch=entry.scratch,
            origin=str(self.path),
            owner=self,
        )


class SystemLibrary(Library):
    """The functions that system libraries have registered, also those that ctypes opened (TVM's system_lib).
    ``prefix``: what their names begin with, which callers leave out."""

    def __init__(self, prefix: str = ""):
        self.path, self.manifest, self.sealed, self.signature = Path("system-lib"), None, None, None
        self.functions, self.kernels, self.flavour, self.system = frozenset(), {}, "packed", True
        self.asks = ()
        self.handle, self.prefix = core.tvm_system(), prefix

    def contents(self) -> memoryview:
        """No file."""
        return memoryview(b"")

    def _registered(self, name: str) -> int:
        return core.tvm_function(self.handle, self.prefix + name)

    def kernel(self, name: str, kind: str) -> Kernel:
        """As of any library."""
        if not self.has(name, kind):
            text = f"no system library has registered {self.prefix + name!r} for {kind}: open one before"
            raise LibraryError(text, got=name)
        return Kernel(name, self._registered(name), packed=True, origin=str(self.path), owner=self)


def missing_functions(names: Sequence[str]) -> list[str]:
    """Of packed functions that a library asks for those that are not here, the runtime's or the user's."""
    return [name for name in names if core.lib.gr_tvm_global(name.encode()) == core.ffi.NULL]


def require_functions(library: LibraryFile) -> None:
    """Raises LibraryError, before anything runs, where functions are missing that a library's operators will
    ask for: each with whose it was, and the way out."""
    names = missing_functions(library.asks)
    if names:
        text = f"{library.path} asks for functions that are not here: {'; '.join(map(way_out, names))}"
        raise LibraryError(text, got=names)


def load_library(path: str | os.PathLike[str], *, sha256: str | None = None) -> Library:
    """Open the library at a path: naming it is asking for its code. ``sha256`` (hex): only if it is those
    bytes.

    Raises LibraryError, before anything of the library runs, for another ABI, architecture or instruction set
    (both sides named), a malformed manifest, a kernel that is listed and missing, or another hash.
    """
    file = read_library(path)
    if sha256 is not None:
        sealed = seal(str(file.path), file.path, 0, len(file.contents()))
        if sealed.sha256 != sha256:
            raise LibraryError(
                f"{path} is not the file that is wanted: its sha256 is {sealed.sha256}, not {sha256}",
                got=sealed.sha256,
                wanted=sha256,
            )
        file = judge_sealed(file.path, sealed)
    return Library(file, _open(file))


def open_libraries(files: Sequence[LibraryFile]) -> list[Library]:
    """Libraries, opened; those that are open stay as they are.

    Raises UntrustedLibraryError, before anything of any of them runs, for one that came with a bundle and is
    not trusted, LibraryError for what the dynamic linker refuses.
    """
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
