"""The kernel of a function: from the one library that has it, else from those built into the wheel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from ..base.errors import LibraryError
from ..base.machine.devices import NO_KERNELS
from ..binding.programs.program import Kernel, Program, built_in_kernel, calls_of, nowhere, program_of_calls
from ..ir.graph import COPY, Func, TensorType
from ..ir.ops import numerics, registry
from ..ir.ops.rules import numeric_words
from ..plan.types import Plan

if TYPE_CHECKING:
    from ..artifacts.libraries.judge import LibraryFile
    from ..artifacts.libraries.manifest import KernelEntry

Types = Sequence[TensorType]


def lowered(plan: Plan, libraries: Sequence[LibraryFile] = ()) -> Program:
    """The program of a plan, with kernels from these libraries or built-in kernels. Raises the errors of
    resolve."""
    calls = calls_of(plan)
    return program_of_calls(calls, [resolve(*call, tuple(libraries)) for call in calls.asked])


def resolve(
    func: Func, kind: str, inputs: Types, outputs: Types, libraries: Sequence[LibraryFile] = ()
) -> Kernel:
    """The kernel that runs ``func`` on devices of ``kind``: from the one library that has the function, or
    else a kernel built into the wheel. A kernel of a library that is not open has no address: its program can
    be checked, but not run. Raises LibraryError if two libraries have the function, if its signature differs,
    or if no library has it and the node has no gr.op; UnsupportedOpError for an op without a kernel for these
    types.
    """
    if func.name == COPY or kind == NO_KERNELS:
        return built_in_kernel(func, kind, inputs, outputs)
    holders = [library for library in libraries if library.has(func.name, kind)]
    if len(holders) > 1:
        text = (
            f"function {func.name!r} for {kind} is in both {holders[0].path} and {holders[1].path}: give "
            "only one of them, or rename one function"
        )
        raise LibraryError(text, got=[str(h.path) for h in holders], op=func.op)
    if holders:
        library = holders[0]
        if library.manifest is not None:
            _check_signature(library.path, library.kernels[func.name, kind], func, inputs, outputs)
        from .library import Library, require_functions  # loaded only if there is a library

        if library.manifest is None:
            require_functions(library)
        if isinstance(library, Library):
            kernel = library.kernel(func.name, kind)
        else:
            kernel = Kernel(func.name, 0, origin=str(library.path))
        return replace(kernel, words=numeric_words(registry.get(func.op or ""), func.attrs, kind))
    if func.op is None:
        raise nowhere(func, kind, libraries)
    return built_in_kernel(func, kind, inputs, outputs)


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
        text = f"library {path} has {func.name!r} as {entry}, the graph calls it as {wanted}: {mend}"
        raise LibraryError(text, op=func.op, got=str(entry), wanted=str(wanted))
    asked, has = _plain(wanted.attrs), _plain(entry.attrs)
    if asked != has:
        differ = sorted(k for k in {*asked, *has} if asked.get(k) != has.get(k))
        texts = ", ".join(f"{k}: library {has.get(k)!r}, graph {asked.get(k)!r}" for k in differ)
        text = f"library {path} has {func.name!r} with other attributes ({texts}): compile the graph again"
        raise LibraryError(text, op=func.op, got=has, wanted=asked)


def _plain(attrs: Mapping[str, object]) -> dict[str, object]:
    # as in the manifest: lists for tuples, and no numerics, because numerics belong to the call and not to
    # the compiled kernel
    return orjson.loads(orjson.dumps({k: v for k, v in attrs.items() if k not in numerics.NAMES}))
