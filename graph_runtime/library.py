"""Module libraries: judged by their bytes, then opened; and the rule that finds the kernel of a function.

Two flavours: "module" has a manifest (made by ``graph-runtime compile``), "packed" is any other shared
object, whose functions are taken to be of TVM's packed convention: it gets the services that operators of
TVM's compilers call. A library is code: it is opened only by explicit path.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import orjson

from . import blas, core
from .devices import NO_KERNELS
from .errors import ForeignMachineError, LibraryError, UnsupportedOpError, as_path, did_you_mean
from .graph import COPY, Func, TensorType
from .libraries import isa
from .libraries.elf import SharedObject, read_elf
from .libraries.manifest import KernelEntry, Manifest, find_manifest
from .ops import numerics, registry
from .ops.select import call_words, numeric_words
from .programs.program import Kernel

__all__ = ["Library", "generic_kernel", "load_library", "resolve"]

Types = Sequence[TensorType]
_REGISTER = "TVMBackendRegisterSystemLibSymbol"  # what the constructor of a system library calls


class Library:
    """An opened library. ``path``, ``manifest`` (None for flavour "packed"), ``flavour``, ``kernels``
    {(func_name, kind): KernelEntry}.

    Stays mapped as long as this object, or a Kernel it gave out, is alive.
    """

    def __init__(self, path: Path, manifest: Manifest | None, shared: SharedObject, handle: int):
        self.path, self.manifest, self.functions = path, manifest, shared.functions
        self.shared = shared
        self.system = _REGISTER in shared.undefined
        self.flavour = "module" if manifest else "packed"
        entries = manifest.kernels if manifest else ()
        self.kernels: Mapping[tuple[str, str], KernelEntry] = MappingProxyType(
            {(e.name, e.kind): e for e in entries}
        )
        self.handle = handle
        if manifest is not None:  # what TVM made stays open, see core.tvm_open
            # not at exit: a thread may still be in a kernel then
            weakref.finalize(self, core.library_close, handle).atexit = False

    def __repr__(self) -> str:
        return f"<{self.flavour} library {self.path}, {len(self.kernels) or len(self.functions)} functions>"

    def has(self, name: str, kind: str) -> bool:
        """Whether it has the function ``name`` for devices of ``kind``. Packed functions are for cpu."""
        if self.manifest is not None:
            return (name, kind) in self.kernels
        return kind == "cpu" and (name in self.functions or self._registered(name) != 0)

    def _registered(self, name: str) -> int:
        """Address of a function that a system library registered instead of exporting it, 0 if it did not."""
        return core.tvm_function(core.tvm_system(), name) if self.system else 0

    def names(self, kind: str) -> list[str]:
        """Names of its functions for devices of ``kind``, sorted."""
        if self.manifest is None:
            return sorted(self.functions) if kind == "cpu" else []
        return sorted(name for name, of in self.kernels if of == kind)

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


def load_library(path: str | os.PathLike, *, sha256: str | None = None) -> Library:
    """Open a library.

    ``sha256`` (hex) is what a bundle says of the file. Raises LibraryError, before anything of the library
    runs, for another hash, ABI, architecture or instruction set (both sides named), a malformed manifest, or
    a kernel that is listed and missing.
    """
    # a bare name would be searched for in the system's folders
    path = Path(os.path.abspath(as_path(path, "a library")))
    manifest = find_manifest(path)
    shared = _examine(path, sha256)
    if manifest is not None:
        _check_manifest(path, manifest, shared)
        return Library(path, manifest, shared, core.library_open(str(path)))
    _refuse_ffi(path, shared)
    externs = any(name.startswith("TVM") for name in shared.undefined)
    return Library(path, None, shared, core.tvm_open(str(path), externs))


def _refuse_ffi(path: Path, shared: SharedObject) -> None:
    defined = shared.functions | shared.objects.keys()
    marks = sorted(name for name in defined if name.lower().startswith(("__tvm_ffi", "__tvmffi")))
    if marks:
        raise LibraryError(
            f"{path} was compiled by TVM 0.21 or later (it has {marks[0]}), whose functions take other "
            f"arguments than those of 0.5 to 0.20: compile the model with a TVM up to 0.19, which also "
            f"writes graph.json",
            got=marks[0],
            wanted="a library of TVM 0.5 to 0.20",
        )


def _examine(path: Path, sha256: str | None) -> SharedObject:
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = hashlib.sha256(data).hexdigest() if sha256 is not None else None
            if found != sha256:
                raise LibraryError(
                    f"{path} is not the file that was bundled: its sha256 is {found}, the bundle says "
                    f"{sha256}",
                    got=found,
                    wanted=sha256,
                )
            return read_elf(path, data)
    except (OSError, ValueError) as error:
        raise LibraryError(f"cannot read library {path}: {error}", got=str(path)) from None


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
        level = manifest.isa.split("+")[0]
        raise ForeignMachineError(
            f"{path} was built for {level}, this CPU ({isa.best_level()}) lacks {', '.join(missing)}: "
            f"compile with --march {isa.best_level()}",
            got=manifest.isa,
            wanted=isa.best_level(),
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


# ------------------------------------------------------------------------------------------------ resolution
def resolve(
    func: Func, kind: str, inputs: Types, outputs: Types, libraries: Sequence[Library] = ()
) -> Kernel:
    """The kernel that runs ``func`` on devices of ``kind``: from the one library that has it, else one built
    into the wheel.

    Raises LibraryError where two libraries have it, where its signature is another, or where no library has
    it and the node has no gr.op; UnsupportedOpError for an op without a kernel for these types.
    """
    if func.name == COPY:
        return Kernel(COPY, core.copy_kernel())
    if kind == NO_KERNELS:
        return Kernel(func.name, core.null_kernel())
    holders = [library for library in libraries if library.has(func.name, kind)]
    if len(holders) > 1:
        raise LibraryError(
            f"function {func.name!r} for {kind} is in both {holders[0].path} and {holders[1].path}: give "
            "only one of them, or rename one function",
            got=[str(h.path) for h in holders],
            op=func.op,
        )
    if holders:
        library = holders[0]
        if library.manifest is not None:
            _check_signature(library.path, library.kernels[func.name, kind], func, inputs, outputs)
        kernel = library.kernel(func.name, kind)
        return replace(kernel, words=numeric_words(registry.get(func.op or ""), func.attrs, kind))
    if func.op is not None:
        return generic_kernel(func, kind, inputs, outputs)
    raise _nowhere(func, kind, libraries)


def generic_kernel(func: Func, kind: str, inputs: Types, outputs: Types) -> Kernel:
    """The kernel built into the wheel for a function with gr.op. Raises UnsupportedOpError, which lists what
    there is."""
    op = registry.require(func.op or func.name)
    selected = blas.select_present(op, func.attrs, kind, inputs, outputs)
    address = core.generic_kernels().get(selected.generic)
    if address is None:
        raise UnsupportedOpError(
            f"op {op.name}: the kernel {selected.generic} is not built into this installation",
            op=op.name,
            got=selected.generic,
        )
    words = call_words(op, func.attrs, kind, inputs, outputs)
    return Kernel(
        func.name, address, words=words, scratch=selected.scratch, origin=f"built in: {selected.generic}"
    )


def _check_signature(path: Path, entry: KernelEntry, func: Func, inputs: Types, outputs: Types) -> None:
    types = [*inputs, *outputs]
    if func.flatten and func.op is None:  # such a function is shown its arguments as 1-d
        types = [TensorType(t.dtype, (t.size,)) for t in types]
    wanted = KernelEntry(
        func.name,
        entry.kind,
        entry.symbol,
        func.op or entry.op,
        func.attrs if func.op else entry.attrs,
        len(inputs),
        tuple((t.dtype, t.shape) for t in types),
    )
    fits = (wanted.op, wanted.num_inputs, wanted.args) == (entry.op, entry.num_inputs, entry.args)
    if not fits:
        raise LibraryError(
            f"library {path} has {func.name!r} as {entry}, the graph calls it as {wanted}: compile the "
            f"graph again",
            op=func.op,
            got=str(entry),
            wanted=str(wanted),
        )
    asked, has = _plain(wanted.attrs), _plain(entry.attrs)
    if asked != has:
        differ = sorted(k for k in {*asked, *has} if asked.get(k) != has.get(k))
        texts = ", ".join(f"{k}: library {has.get(k)!r}, graph {asked.get(k)!r}" for k in differ)
        raise LibraryError(
            f"library {path} has {func.name!r} with other attributes ({texts}): compile the graph again",
            op=func.op,
            got=has,
            wanted=asked,
        )


def _plain(attrs: Mapping[str, object]) -> dict[str, object]:
    # as the manifest has them: tuples are lists; numerics are words of the call, not of the compiled kernel
    return orjson.loads(orjson.dumps({k: v for k, v in attrs.items() if k not in numerics.NAMES}))


def _nowhere(func: Func, kind: str, libraries: Sequence[Library]) -> LibraryError:
    elsewhere = sorted({of for library in libraries for name, of in library.kernels if name == func.name})
    if elsewhere:
        return LibraryError(
            f"function {func.name!r} is built for {', '.join(elsewhere)} devices only, the graph calls it "
            f"on {kind}: compile the graph for {kind}",
            got=kind,
            wanted=elsewhere,
        )
    known = {name for library in libraries for name in library.names(kind)}
    where = ", ".join(str(library.path) for library in libraries) or "no library was given"
    return LibraryError(
        f"no kernel for function {func.name!r} on {kind}{did_you_mean(func.name, known)}: it is in no "
        f"library ({where}) and its nodes have no gr.op to take a built-in kernel by; give the library that "
        "has it, for a graph of TVM's the one that was exported with it",
        got=func.name,
        wanted=sorted(known)[:50],
    )
