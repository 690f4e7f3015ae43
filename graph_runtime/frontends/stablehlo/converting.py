"""What converters and walks ask of the importer that they work for."""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from typing import Any, Protocol

from ..onnx.tape import Tape, TapeValue
from .source import Source
from .syntax import HloOp, OpRegion, TextFunc

__all__ = ["Converting"]


class Converting(Protocol):
    """``thin``: by the id of a broadcast value what it was broadcast from, and itself; ``copies``: how often
    functions, bodies and branches were put in."""

    source: Source
    tape: Tape
    thin: dict[int, tuple[TapeValue, TapeValue]]
    copies: int

    def convert(self, op: HloOp, scope: MutableMapping[str, Any], values: Sequence[TapeValue]) -> list[Any]:
        """An op's results."""

    def region(
        self, region: OpRegion, values: Sequence[TapeValue], scope: MutableMapping[str, Any]
    ) -> list[TapeValue]:
        """What a region returns for these values."""

    def function(self, name: Any, at: int) -> TextFunc:
        """A function that is called."""
