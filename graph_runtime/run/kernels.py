"""The rule that finds the kernel of a function: in the one library that has it, else built into the wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from ..base.errors import LibraryError, did_you_mean
from ..base.machine.devices import NO_KERNELS
from ..binding import core
from ..binding.built_in import generic_kernel
from ..binding.programs.program import Kernel
from ..ir.graph import COPY, Func, TensorType
from ..ir.ops import numerics, registry
from ..ir.ops.select import numeric_words

if TYPE_CHECKING:
    from ..artifacts.libraries.judge import LibraryFile
    from ..artifacts.libraries.manifest import KernelEntry

__all__ = ["resolve"]

Types = Sequence[TensorType]


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
        from .library import Library, require_functions  # loaded where there is a library only

        if library.manifest is None:
            require_functions(library)
        if isinstance(library, Library):
            kernel = library.kernel(func.name, kind)
        else:
            kernel = Kernel(func.name, 0, origin=str(library.path))
        return replace(kernel, words=numeric_words(registry.get(func.op or ""), func.attrs, kind))
    if func.op is not None:
        return generic_kernel(func, kind, inputs, outputs)
    raise _nowhere(func, kind, libraries)


def _check_signature(path: Path, entry: KernelEntry, func: Func, inputs: Types, outputs: Types) -> None:
    from ..artifacts.libraries.manifest import KernelEntry

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
    if wanted.op != entry.op or not entry.takes(len(inputs), [(t.dtype, t.shape) for t in types]):
        mend = "compile the graph again" if entry.op else "change the node, or what the source announces"
        raise LibraryError(
            f"library {path} has {func.name!r} as {entry}, the graph calls it as {wanted}: {mend}",
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
