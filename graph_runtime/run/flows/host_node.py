"""A node that the host does between programs: what makes or reads texts, what draws random numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...base.errors import GraphError
from ...frontends.onnx.elements import element_name
from ...frontends.onnx.host_ops import HostOp
from .flow_values import Value, array_of

__all__ = ["HostNode"]


@dataclass(eq=False)
class HostNode:
    """``op``: what it does, its attributes checked. ``known``: values of inputs that are constants."""

    path: str
    node: Any
    op: HostOp
    known: Mapping[str, Value]

    @property
    def results(self) -> tuple[str, ...]:
        """Names of its outputs."""
        return tuple(self.node.output)

    def run(self, values: dict[str, Value]) -> None:
        """Put its outputs into ``values``. Raises GraphError, with the node, for values that it refuses."""
        given = [
            None if not name else array_of(values[name] if name in values else self.known[name])
            for name in self.node.input
        ]
        try:
            outputs = self.op(*given)
        except GraphError as error:
            raise self._refused(str(error), error.got) from error
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            kinds = ["nothing" if x is None else f"{element_name(x.dtype)}{list(x.shape)}" for x in given]
            raise self._refused(f"it does not take {', '.join(kinds)} ({error})", kinds) from error
        values |= {name: value for name, value in zip(self.results, outputs, strict=False) if name}

    def _refused(self, why: str, got: object) -> GraphError:
        node = self.node
        text = f"{node.op_type} {node.name!r}: {why}"
        return GraphError(text, path=self.path, node=node.name, op=node.op_type, got=got)
