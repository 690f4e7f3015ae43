"""StableHLO texts -> Model: what jax, torch-xla and IREE's tools print, read without any of them.

model = graph_runtime.frontends.stablehlo.load_model("model.mlir")

Read tokens, attribute_trees, pretty, descent (text to functions of ops), source, then conversion and walk
(order, calls, loops), op_context, a family of converters, op_stages (what a run decides).
docs/stablehlo.md is for users.
"""

from __future__ import annotations

from typing import Any

from ...base.garbage import gc_paused
from ...ir.model import Model

__all__ = ["load_model"]


def load_model(source: Any) -> Model:
    """The Model of a StableHLO module: a path, its text, bytes, or a Source.

    Arguments are inputs (%arg0 is arg0), results outputs (output0, ...); constants stay in the file where
    they are hexadecimal. Raises DocumentError with line and column (no StableHLO), UnsupportedOpError (all
    ops that cannot be converted, with counts), GraphError (ill-formed), UnknownValueError (a run decides).
    """
    from . import families  # noqa: F401  (it fills the table of converters)
    from .conversion import OpImporter
    from .source import read_source

    with gc_paused():
        return OpImporter(read_source(source)).model()
