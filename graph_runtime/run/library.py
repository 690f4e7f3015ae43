"""Opened libraries, and the rule that finds the kernel of a function.

Code of a file runs here and nowhere else: this module is the only caller of core.library_open and
core.tvm_open, which are the only ways to dlopen a file (but for OpenBLAS, an installed package: blas.py).
``load_library`` opens what its caller named, because naming a library is asking for its code.
``open_libraries`` opens such files too, and what came with a bundle where build/trust.py trusts those
very bytes, which nothing can change any more (sealed.py). A test holds that there is no other dlopen.
docs/security.md says what that gives.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from ..base.errors import LibraryError, UnsupportedOpError, did_you_mean
from ..base.machine.devices import NO_KERNELS
from ..build.libraries.judge import LibraryFile, judge_sealed, read_library
from ..build.libraries.manifest import KernelEntry
from ..build.libraries.sealed import seal
from ..build.trust import require_trust
from ..ir.graph import COPY, Func, TensorType
from ..ir.ops import numerics, registry
from ..ir.ops.select import call_words, numeric_words
from . import blas, core
from .programs.program import Kernel

__all__ = ["Library", "generic_kernel", "load_library", "open_libraries", "resolve"]

Types = Sequence[TensorType]

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


def load_library(path: str | os.PathLike, *, sha256: str | None = None) -> Library:
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
        return core.tvm_open(path, any(name.startswith("TVM") for name in file.shared.undefined))
    except LibraryError as error:
        raise LibraryError(str(error).replace(path, str(file.path)), got=str(file.path)) from None


# ------------------------------------------------------------------------------------------------ resolution
def resolve(
    func: Func, kind: str, inputs: Types, outputs: Types, libraries: Sequence[LibraryFile] = ()
) -> Kernel:
    """The kernel that runs ``func`` on devices of ``kind``: from the one library that has it, else one built
    into the wheel. Of a library that is not open it has no address: a program of it can be checked, not run.

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
        if isinstance(library, Library):
            kernel = library.kernel(func.name, kind)
        else:
            kernel = Kernel(func.name, 0, origin=str(library.path))
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
    if func.takes_flat:
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


def _nowhere(func: Func, kind: str, libraries: Sequence[LibraryFile]) -> LibraryError:
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
