"""ONNX files -> Model: opsets 7 and later, every dimension bound, weights left in their file.

model = graph_runtime.frontends.onnx.load_model("bert.onnx", dims={"batch": 4})

Read wire and read (the file without its weights), parse (check, batch), importer (attributes, context), a
family of converters, tape (what they emit), emit. docs/onnx.md is for users, docs/onnx-ops.md the table of
ops.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Never

import numpy as np

from ...base.absent import load_fault
from ...base.errors import InputError, refuse_words
from ...base.garbage import gc_paused
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

    ``source``: a path, the bytes of a file, or a ModelProto; external data of the latter two is looked for
    in ``folder``. ``dims``: sizes of symbolic dimensions, by name; by an input's name all sizes of one
    without a shape. ``batch``: size of the first dimension of every input, where the file leaves it open, and
    where it fixes all of them alike (reshapes to constant shapes follow it). ``values``: graph inputs that
    become constants, by name, numbers or arrays, whose sizes bind dimensions, too; needed where an op must
    know values when it is converted, as Reshape its shape.

    Raises InputError (no onnx, dimensions not bound, no batch), DocumentError (no ONNX file), GraphError (an
    ill-formed graph, or one that another batch does not fit), UnsupportedOpError (all nodes that cannot be
    converted, in one).
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
            f"reading ONNX files needs the onnx package{load_fault(error)}: "
            'pip install "graph-runtime[onnx]"',
            wanted="onnx",
        ) from error
    return onnx
