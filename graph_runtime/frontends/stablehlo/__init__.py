"""StableHLO texts -> Model: texts that jax, torch-xla or IREE's tools print, read without these packages.

model = graph_runtime.frontends.stablehlo.load_model("model.mlir")

Read tokens, attribute_trees, pretty, descent (text to functions of ops), source, then conversion and walk
(order, calls, loops), op_context, families (the converters), op_stages (texts with decisions that only a run
can make). docs/stablehlo.md is for users.
"""

from __future__ import annotations

from typing import Any

from ...base.progress import gc_paused
from ...ir.model import Model

__all__ = ["load_model"]


def load_model(source: Any) -> Model:
    """The Model of a StableHLO module: a path, its text, bytes, or a Source.

    Arguments become inputs (%arg0 is arg0), and results become outputs (output0, ...). Hexadecimal constants
    stay in the file. Raises DocumentError with line and column (not StableHLO), UnsupportedOpError (it lists
    all ops that cannot be converted, with counts), GraphError (ill-formed), UnknownValueError (a branch or
    loop depends on values that only a run finds).
    """
    from . import families  # noqa: F401  (it fills the table of converters)
    from .conversion import OpImporter
    from .source import read_source

    with gc_paused():
        return OpImporter(read_source(source)).model()
