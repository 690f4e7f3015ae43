"""An ONNX file on its way to a Model, or to the flow that it needs: read once, each node converted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError, afresh
from ...base.garbage import gc_paused
from ...ir.model import Model
from . import require_onnx
from .dynamic import found_by_runs
from .importer import Importer
from .parse import checked_file, parse_file
from .read import ModelFile

__all__ = ["Begun", "begin_file", "begin_model"]


@dataclass(frozen=True, eq=False)
class Begun:
    """A model that its runs complete. ``why``: the error of what is missing before a run, None where it was
    not looked for. ``importer``: has converted what can be before a run, None where sizes or inputs were in
    the way; ``scope``: the values of names then."""

    file: ModelFile
    why: GraphRuntimeError | None = None
    importer: Importer | None = None
    scope: Mapping[str, Any] = field(default_factory=dict)

    def anew(self) -> Begun:
        """Without what was converted."""
        return Begun(self.file, self.why)


def begin_file(source: Any, folder: Path | None = None) -> Begun:
    """An ONNX file that is read and checked, and not converted. Raises as load_model."""
    return Begun(checked_file(source, require_onnx(), folder))


def begin_model(
    source: Any, dims: Mapping[str, Any], values: Mapping[str, Any], batch: int | None = None
) -> Model | Begun:
    """The Model of an ONNX file as load_model's; where it lacks only what runs find, what is there of it.
    ``source`` as load_model's, or a Begun. Raises as load_model; with ``batch`` for whatever it lacks."""
    onnx = require_onnx()
    from . import families  # noqa: F401  (it fills the table of converters)

    given = {name: np.asarray(value) for name, value in values.items()}
    file = source.file if isinstance(source, Begun) else checked_file(source, onnx, None)
    importer: Importer | None = None
    try:
        importer = Importer(parse_file(file, onnx, dict(dims), batch, given, None))
        with gc_paused():
            return importer.model()
    except GraphRuntimeError as error:
        if batch or not found_by_runs(error):
            raise
        why = afresh(error)
    return Begun(file, why, importer, importer.scope) if importer and importer.scope else Begun(file, why)
