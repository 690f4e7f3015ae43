"""Library files, judged by their bytes: kind, contents, and whether this machine can run them. No code of a
library runs here, and commands that only look (inspect, verify, plan, estimate, export) do no more than this.

    path --read_library--> LibraryFile        a library that the caller names: its file is mapped
    Sealed --judge_sealed--> LibraryFile      a library from a bundle: its bytes can no longer change

library.py opens a LibraryFile. The flavour "module" is a library with a manifest, made by ``graph-runtime
compile``. "packed" is any other shared object; its functions are taken to be of TVM's packed convention.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from ...base.errors import ForeignMachineError, LibraryError
from ...base.files.mapped import as_path, open_file
from ...base.machine import isa
from ...base.machine.descriptors import HOST_KERNELS
from .asked import asked
from .elf import BLOB, SharedObject, read_elf
from .manifest import KernelEntry, Manifest, direct_symbol, manifest_in
from .sealed import Sealed

_REGISTER = "TVMBackendRegisterSystemLibSymbol"  # function called by the constructor of a system library
_FFI = ("__tvm_ffi", "__tvmffi")  # prefixes of names in TVM's later ABI


class LibraryFile:
    """A library, not opened. ``path``: its path; ``flavour``: "module" or "packed"; ``manifest``: its
    manifest, None for "packed"; ``functions``: names of exported functions; ``kernels`` {(func_name, kind):
    KernelEntry}; ``shared``: its ELF tables; ``system``: whether it registers functions when it is opened.

    ``sealed``: the library's bytes, if the library came with a bundle; None if the caller named the library's
    path and so asked for its code. ``signature``: the bundle's signature by its owner's key (trust.py).
    """

    functions: frozenset[str]
    manifest: Manifest | None
    path: Path
    shared: SharedObject
    sealed: Sealed | None
    signature: str | None
    system: bool

    def __init__(
        self,
        path: Path,
        manifest: Manifest | None,
        shared: SharedObject,
        sealed: Sealed | None = None,
        signature: str | None = None,
    ):
        self.path, self.manifest, self.shared, self.functions = path, manifest, shared, shared.functions
        self.sealed, self.signature = sealed, signature
        self.system = _REGISTER in shared.undefined
        self.flavour = "module" if manifest else "packed"
        kernels = {(entry.name, entry.kind): entry for entry in (manifest.kernels if manifest else ())}
        self.kernels: Mapping[tuple[str, str], KernelEntry] = MappingProxyType(kernels)

    def __repr__(self) -> str:
        count = len(self.kernels) or len(self.functions)
        return f"<{self.flavour} library file {self.path}, {count} functions>"

    def contents(self) -> memoryview:
        """The library's bytes, mapped for reading. Raises LibraryError if the file can no longer be read."""
        return self.sealed.view() if self.sealed else memoryview(_mapped(self.path))

    @property
    def sha256(self) -> str:
        """sha256 in hex of a library that came with a bundle; "" if the caller named the path."""
        return self.sealed.sha256 if self.sealed else ""

    def has(self, name: str, kind: str) -> bool:
        """Whether the library has the function ``name`` for devices of ``kind``. Packed functions are for
        cpu. A system library that is not open counts as having each function whose name occurs in its file.
        """
        if self.manifest is not None:
            return (name, kind) in self.kernels
        return kind == HOST_KERNELS and (name in self.functions or self._registers(name))

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """Names of the packed functions that the library's operators will look up (asked.py)."""
        return () if self.manifest else tuple(asked(self.shared, self.contents()))

    def _registers(self, name: str) -> bool:
        return self.system and b"\0" + name.encode() + b"\0" in bytes(self.contents())

    def names(self, kind: str) -> list[str]:
        """Names of the library's functions for devices of ``kind``, sorted."""
        if self.manifest is None:
            return sorted(self.functions) if kind == HOST_KERNELS else []
        return sorted(name for name, of in self.kernels if of == kind)


def read_library(path: str | os.PathLike[str]) -> LibraryFile:
    """The library at a path, judged.

    Raises LibraryError for a file that is not a library, or whose manifest is malformed, is for another ABI,
    or lists a missing kernel; ForeignMachineError for another architecture or instruction set.
    """
    # the system would search its own folders for a name without a folder
    path = Path(os.path.abspath(as_path(path, "a library")))
    return _judge(path, _mapped(path), None, None)


def judge_sealed(path: Path, sealed: Sealed, signature: str | None = None) -> LibraryFile:
    """The library in bytes that came with a bundle, judged as by read_library. ``path``: name of the library
    in errors."""
    return _judge(path, sealed.view(), sealed, signature)


def _mapped(path: Path) -> mmap.mmap:
    try:
        with open_file(path) as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise LibraryError(f"cannot read library {path}: {error}", got=str(path)) from None


def _judge(
    path: Path, data: mmap.mmap | memoryview, sealed: Sealed | None, signature: str | None
) -> LibraryFile:
    shared = read_elf(path, data)
    manifest = manifest_in(path, data, shared.beside(BLOB, len(data)))
    if manifest is not None:
        _check_manifest(path, manifest, shared)
    else:
        _refuse_ffi(path, shared)
        _refuse_kernels(path, shared)
    return LibraryFile(path, manifest, shared, sealed, signature)


def _refuse_ffi(path: Path, shared: SharedObject) -> None:
    defined = shared.functions | shared.objects.keys()
    marks = sorted(name for name in defined if name.lower().startswith(_FFI))
    if marks:
        text = (
            f"{path} was compiled by TVM 0.21 or later (it has {marks[0]}), whose functions take other "
            f"arguments than those of 0.5 to 0.20: compile the model with a TVM up to 0.19, which also "
            f"writes graph.json"
        )
        raise LibraryError(text, got=marks[0], wanted="a library of TVM 0.5 to 0.20")


def _refuse_kernels(path: Path, shared: SharedObject) -> None:
    ours = sorted(name for name in shared.functions if name.endswith(direct_symbol("", HOST_KERNELS)))
    if ours:
        raise LibraryError(
            f"{path} has kernels of gr_abi.h ({ours[0]}) and no manifest, so it would be called as "
            "TVM's libraries are: build it by `graph-runtime kernel`",
            got=ours,
        )


def _check_manifest(path: Path, manifest: Manifest, shared: SharedObject) -> None:
    if manifest.arch != isa.host_arch():
        text = (
            f"{path} was built for {manifest.arch}, this machine is {isa.host_arch()}: compile the graph here"
        )
        raise ForeignMachineError(text, got=manifest.arch, wanted=isa.host_arch())
    missing = isa.missing_features(manifest.isa)
    if missing is None:
        text = f"{path} was built for an instruction set this version does not know: {manifest.isa!r}"
        raise ForeignMachineError(text, got=manifest.isa, wanted=tuple(isa.LEVELS))
    if missing:
        level, here = manifest.isa.split("+")[0], isa.best_level()
        text = (
            f"{path} was built for {level}, this CPU ({here or isa.host_arch()}) lacks {', '.join(missing)}: "
            f"compile with --march {here or 'auto'}"
        )
        raise ForeignMachineError(text, got=manifest.isa, wanted=here)
    seen = set()
    for entry in manifest.kernels:
        if (entry.name, entry.kind) in seen:
            text = f"{path}: its manifest lists kernel {entry.name!r} for {entry.kind} twice"
            raise LibraryError(text, got=entry.name)
        seen.add((entry.name, entry.kind))
        if entry.symbol not in shared.functions:
            raise LibraryError(
                f"{path}: its manifest lists kernel {entry.name!r} for {entry.kind} as {entry.symbol}, the "
                "file does not export that: it was cut or edited; compile the graph again",
                got=entry.symbol,
            )


# **************** offered kernels ****************


def inplace_rules(libraries: Iterable[LibraryFile]) -> dict[str, tuple[int, ...]]:
    """{func_name: inputs that output 0 may overwrite}, from the libraries' manifests."""
    return {name: entry.inplace for library in libraries for (name, _), entry in library.kernels.items()}


def library_kernels(libraries: Sequence[LibraryFile]) -> dict[str, set[str]]:
    """{func_name: kinds of devices for which libraries have the function}. Only functions that a manifest
    lists are included, though a library without a manifest may have others."""
    found: dict[str, set[str]] = {}
    for name, kind in (key for library in libraries for key in library.kernels):
        found.setdefault(name, set()).add(kind)
    for name, kinds in found.items():
        if any(library.has(name, HOST_KERNELS) for library in libraries):
            kinds.add(HOST_KERNELS)
    return found
