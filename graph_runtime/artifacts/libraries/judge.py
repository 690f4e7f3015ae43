"""Library files, judged by their bytes: what one is, what it has, whether it can run on this machine. Nothing
of it runs here, so commands that only look (inspect, verify, plan, estimate, export) stop at this.

    path --read_library--> LibraryFile        named by the caller: the file is mapped
    Sealed --judge_sealed--> LibraryFile      came with a bundle: its bytes cannot change any more

library.py opens one. "module" is a library with a manifest (made by ``graph-runtime compile``), "packed" any
other shared object, whose functions are taken to be of TVM's packed convention.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from ...base.errors import ForeignMachineError, LibraryError, as_path
from ...base.files.mapped import open_file
from ...base.machine import isa
from ...base.machine.descriptors import HOST_KERNELS
from .asked import asked
from .elf import BLOB, SharedObject, read_elf
from .manifest import KernelEntry, Manifest, direct_symbol, manifest_in
from .sealed import Sealed

__all__ = ["LibraryFile", "judge_sealed", "read_library"]

_REGISTER = "TVMBackendRegisterSystemLibSymbol"  # what the constructor of a system library calls
_FFI = ("__tvm_ffi", "__tvmffi")  # how names of TVM's later ABI begin


class LibraryFile:
    """A library that is not open. ``path``, ``manifest`` (None for flavour "packed"), ``flavour``,
    ``functions`` that it exports, ``kernels`` {(func_name, kind): KernelEntry}, ``shared`` its tables,
    ``system`` whether it registers functions when it is opened.

    ``sealed``: its bytes, where it came with a bundle; None where the caller named its path, which is asking
    for its code. ``signature``: what the bundle brings of its owner's key (trust.py).
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
        entries = manifest.kernels if manifest else ()
        self.kernels: Mapping[tuple[str, str], KernelEntry] = MappingProxyType(
            {(e.name, e.kind): e for e in entries}
        )

    def __repr__(self) -> str:
        return (
            f"<{self.flavour} library file {self.path}, {len(self.kernels) or len(self.functions)} functions>"
        )

    def contents(self) -> memoryview:
        """Its bytes, mapped for reading. Raises LibraryError where they cannot be read any more."""
        return self.sealed.view() if self.sealed else memoryview(_mapped(self.path))

    @property
    def sha256(self) -> str:
        """Of the bytes that a bundle brought, in hex; "" where the caller named the path."""
        return self.sealed.sha256 if self.sealed else ""

    def has(self, name: str, kind: str) -> bool:
        """Whether it has the function ``name`` for devices of ``kind``. Packed functions are for cpu; of a
        system library that is not open, those whose name is in its file."""
        if self.manifest is not None:
            return (name, kind) in self.kernels
        return kind == HOST_KERNELS and (name in self.functions or self._registers(name))

    @cached_property
    def asks(self) -> tuple[str, ...]:
        """The packed functions that its operators will ask for by name (asked.py)."""
        return () if self.manifest else tuple(asked(self.shared, self.contents()))

    def _registers(self, name: str) -> bool:
        return self.system and b"\0" + name.encode() + b"\0" in bytes(self.contents())

    def names(self, kind: str) -> list[str]:
        """Names of its functions for devices of ``kind``, sorted."""
        if self.manifest is None:
            return sorted(self.functions) if kind == HOST_KERNELS else []
        return sorted(name for name, of in self.kernels if of == kind)


def read_library(path: str | os.PathLike[str]) -> LibraryFile:
    """The library at a path, judged.

    Raises LibraryError for what is no library, a malformed manifest, another ABI, or a kernel that is listed
    and missing; ForeignMachineError for another architecture or instruction set.
    """
    # a bare name would be searched for in the system's folders
    path = Path(os.path.abspath(as_path(path, "a library")))
    return _judge(path, _mapped(path), None, None)


def judge_sealed(path: Path, sealed: Sealed, signature: str | None = None) -> LibraryFile:
    """As read_library, for bytes that came with a bundle. ``path``: what errors call it."""
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
        raise LibraryError(
            f"{path} was compiled by TVM 0.21 or later (it has {marks[0]}), whose functions take other "
            f"arguments than those of 0.5 to 0.20: compile the model with a TVM up to 0.19, which also "
            f"writes graph.json",
            got=marks[0],
            wanted="a library of TVM 0.5 to 0.20",
        )


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
        raise ForeignMachineError(
            f"{path} was built for {manifest.arch}, this machine is {isa.host_arch()}: compile the "
            f"graph here",
            got=manifest.arch,
            wanted=isa.host_arch(),
        )
    missing = isa.missing_features(manifest.isa)
    if missing is None:
        raise ForeignMachineError(
            f"{path} was built for an instruction set this version does not know: {manifest.isa!r}",
            got=manifest.isa,
            wanted=tuple(isa.LEVELS),
        )
    if missing:
        level, here = manifest.isa.split("+")[0], isa.best_level()
        raise ForeignMachineError(
            f"{path} was built for {level}, this CPU ({here or isa.host_arch()}) lacks {', '.join(missing)}: "
            f"compile with --march {here or 'auto'}",
            got=manifest.isa,
            wanted=here,
        )
    seen = set()
    for entry in manifest.kernels:
        if (entry.name, entry.kind) in seen:
            raise LibraryError(
                f"{path}: its manifest lists kernel {entry.name!r} for {entry.kind} twice", got=entry.name
            )
        seen.add((entry.name, entry.kind))
        if entry.symbol not in shared.functions:
            raise LibraryError(
                f"{path}: its manifest lists kernel {entry.name!r} for {entry.kind} as {entry.symbol}, the "
                "file does not export that: it was cut or edited; compile the graph again",
                got=entry.symbol,
            )
