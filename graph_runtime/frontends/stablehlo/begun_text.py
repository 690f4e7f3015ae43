"""A StableHLO text on its way to a Model, or to the flow that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphRuntimeError, afresh
from ...base.garbage import gc_paused
from ...ir.model import Model
from ..onnx.context import UnknownValueError
from .conversion import OpImporter
from .op_stages import stays_open
from .source import Source, read_source

__all__ = ["BegunText", "begin_text", "read_source"]


@dataclass(frozen=True, eq=False)
class BegunText:
    """A text that its runs complete. ``why``: the error of what is missing before a run, None where it was
    not looked for."""

    text: Source
    why: GraphRuntimeError | None = None

    def anew(self) -> BegunText:
        """As it is: nothing of a text is converted before a run."""
        return self


def begin_text(source: Any, unroll: bool = True) -> Model | BegunText:
    """The Model of a StableHLO text as load_model's, or the text, where it leaves loops or branches to a run.
    ``source`` as load_model's, or a BegunText. ``unroll``: every loop whose end is known before a run is part
    of a Model, however long. Raises as load_model."""
    from . import families  # noqa: F401  (it fills the table of converters)

    text = source.text if isinstance(source, BegunText) else read_source(source)
    if not unroll and stays_open(text):
        return BegunText(text)
    try:
        with gc_paused():
            return OpImporter(text).model()
    except UnknownValueError as error:
        if not unroll or not stays_open(text):
            raise
        return BegunText(text, afresh(error))
