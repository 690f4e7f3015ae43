"""The kernels that are built into the core, by the functions that they serve."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.errors import UnsupportedOpError
from ..ir.graph import Func, TensorType
from ..ir.ops import registry
from ..ir.ops.select import call_words
from . import blas, core
from .programs.program import Kernel

__all__ = ["generic_kernel"]

Types = Sequence[TensorType]


def generic_kernel(func: Func, kind: str, inputs: Types, outputs: Types) -> Kernel:
    """The kernel built into the wheel for a function with gr.op. Raises UnsupportedOpError, which lists what
    there is."""
    op = registry.require(func.op or func.name)
    selected = blas.select_present(op, func.attrs, kind, inputs, outputs)
    address = core.generic_kernels().get(selected.generic)
    if address is None:
        raise UnsupportedOpError(
            f"op {op.name}: the kernel {selected.generic} is not built into this installation: build it anew "
            "(`pip install -e .` in a checkout), or compile it for the graph (compile=True, graph-runtime "
            "compile)",
            op=op.name,
            got=selected.generic,
        )
    words = call_words(op, func.attrs, kind, inputs, outputs)
    return Kernel(
        func.name, address, words=words, scratch=selected.scratch, origin=f"built in: {selected.generic}"
    )
