"""ONNX files -> Model, for opsets 7 and later. Every dimension is bound to a size, and weights stay in their
file.

model = graph_runtime.frontends.onnx.load_model("bert.onnx", dims={"batch": 4})

Read wire and read (the file without its weights), parse (check, batch), importer (attributes, context),
families (the converters), tape (the ops that converters emit), emit. docs/onnx.md is for users,
docs/onnx-ops.md the table of ops.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Never

import numpy as np

from ...base.absent import installing, load_fault
from ...base.errors import InputError, refuse_words
from ...base.progress import gc_paused
from ...ir.model import Model

__all__ = ["load_model", "require_onnx"]


def load_model(
    source: str | os.PathLike[str] | bytes | Any,
    *,
    dims: Mapping[str, int | tuple[int, ...]] | None = None,
    batch: int | None = None,
    values: Mapping[str, Any] | None = None,
    folder: str | os.PathLike[str] | None = None,
    **unknown: Never,
) -> Model:
    """The Model of an ONNX file.

    ``source``: a path, the bytes of a file, or a ModelProto; external data of bytes and of a ModelProto is
    searched for in ``folder``. ``dims``: sizes of symbolic dimensions, by name; an input without a shape gets
    all its sizes under its own name. ``batch``: size for the first dimension of every input. The file must
    either leave these dimensions open, or fix all of them to one size; in the second case reshapes to
    constant shapes are changed, too. ``values``: {name: number or array} of graph inputs that become
    constants; the sizes of the arrays also bind dimensions. Some ops cannot be converted without such values;
    Reshape, for example, needs its shape.

    Raises InputError (no onnx, dimensions not bound, no batch), DocumentError (not an ONNX file), GraphError
    (the graph is ill-formed, or does not allow this batch), UnsupportedOpError (one error lists all nodes
    that cannot be converted).
    """
    refuse_words(unknown, load_model)
    onnx = require_onnx()
    from . import families  # noqa: F401  (it fills the table of converters)
    from .importer import Importer
    from .parse import parse_file

    given = {name: np.asarray(value) for name, value in (values or {}).items()}
    file = parse_file(source, onnx, dict(dims or {}), batch, given, None if folder is None else Path(folder))
    with gc_paused():
        return Importer(file).model()


def require_onnx() -> ModuleType:
    """The onnx package. Raises InputError with the command that installs it."""
    try:
        import onnx
        import onnx.inliner
    except ImportError as error:
        raise InputError(
            f"reading ONNX files needs the onnx package{load_fault(error)}: {installing('onnx')}",
            wanted="onnx",
        ) from error
    return onnx
