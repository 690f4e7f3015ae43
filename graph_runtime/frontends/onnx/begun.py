"""An ONNX file on its way to a Model, or to the flow that it needs: read once, each node converted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError
from ...base.garbage import gc_paused
from ...ir.model import Model
from . import require_onnx
from .dynamic import found_by_runs
from .importer import Importer
from .parse import checked_file, parse_file
from .read import ModelFile

__all__ = ["Begun", "begin_model"]


@dataclass(frozen=True, eq=False)
class Begun:
    """A model that its runs complete. ``importer``: has converted what can be before a run, None where sizes
    or inputs were in the way; ``scope``: the values of names then."""

    file: ModelFile
    importer: Importer | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)


def begin_model(source: Any, dims: Mapping[str, Any], values: Mapping[str, Any]) -> Model | Begun:
    """The Model of an ONNX file as load_model's; where it lacks only what runs find, what is there of it.
    Raises as load_model."""
    onnx = require_onnx()
    from . import families  # noqa: F401  (it fills the table of converters)

    given = {name: np.asarray(value) for name, value in values.items()}
    file = checked_file(source, onnx, None)
    importer: Importer | None = None
    try:
        importer = Importer(parse_file(file, onnx, dict(dims), None, given, None))
        with gc_paused():
            return importer.model()
    except GraphRuntimeError as error:
        if not found_by_runs(error):
            raise
        if importer is None or not importer.scope:
            return Begun(file)
        return Begun(file, importer, importer.scope)
