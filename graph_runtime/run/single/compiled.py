"""A kernel compiled for the very shapes of a call, as ``graph-runtime compile`` would: kept in the same
cache."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ...ir.graph import Func, TensorType
from ...ir.ops import registry
from ..library import load_library, resolve
from ..programs.program import Kernel

__all__ = ["compiled_kernel"]


def compiled_kernel(
    func: Func, kind: str, inputs: Sequence[TensorType], outputs: Sequence[TensorType]
) -> Kernel:
    """The kernel of an op for these types, compiled now. Raises CompileError, UnsupportedOpError,
    LibraryError."""
    from codegen.bodies import find_bodies
    from codegen.compile import compile_library, native_folder
    from codegen.render import Kernel as Wanted
    from codegen.render import render

    signature = repr((func.op, sorted(func.attrs.items()), kind, inputs, outputs))
    named = replace(func, name=f"eager_{func.op}_{hashlib.sha256(signature.encode()).hexdigest()[:12]}")
    wanted = Wanted(named.name, kind, registry.require(func.op), func.attrs, tuple(inputs), tuple(outputs))
    with tempfile.TemporaryDirectory(prefix="graph_runtime_") as folder:
        path = Path(folder) / f"{named.name}.so"
        compile_library(render([wanted], find_bodies(native_folder() / "kernels")), path)
        return resolve(named, kind, inputs, outputs, [load_library(path)])  # it stays mapped without the file
