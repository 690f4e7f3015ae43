"""The origin of a flow's stages, an ONNX file or a StableHLO text; and HostNode, a node that runs on the
host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...base.errors import GraphError, InputError
from ...frontends.onnx.elements import Strings, element_name
from ...frontends.onnx.host_ops import HostOp, host_op
from ...frontends.onnx.parse import ParsedFile
from ...frontends.onnx.read import carried_files
from ...frontends.onnx.stages import Known, Stage, StagedNode, Type, next_stage
from ...frontends.stablehlo.op_stages import body_nodes, next_ops
from ...frontends.stablehlo.source import Source
from .flow_values import FlowValue, array_of, constant_of
from .loops import Loop, LoopBody, LoopNode, body_of


@dataclass(eq=False)
class HostNode:
    """A node that runs on the host between specializations, because it makes or reads strings, or draws
    random numbers. ``op``: function of the node, with checked attributes. ``known``: values of the inputs
    that are constants.
    """

    path: str
    node: Any
    op: HostOp
    known: Mapping[str, FlowValue]

    @property
    def results(self) -> tuple[str, ...]:
        return tuple(self.node.output)

    def run(self, values: dict[str, FlowValue]) -> None:
        """Add the outputs to ``values``. Raises GraphError, which names the node, for values that the node
        refuses."""
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


Make = Callable[[tuple[StagedNode, ...], tuple[str, ...], Mapping[str, Known]], LoopBody]


class Origin(Protocol):
    @property
    def strings(self) -> Strings:
        """The texts of the model."""

    @property
    def proto(self) -> Any:
        """The ModelProto. Raises InputError for another origin."""

    def files(self) -> Mapping[str, memoryview | Path]:
        """The files from which a bundle makes this origin again: {name in a folder: contents}, the model
        first. Raises MissingDataError."""

    def next_stage(
        self,
        nodes: Iterable[StagedNode],
        known: Mapping[str, Known],
        types: Mapping[str, Type],
        outputs: Sequence[str],
    ) -> Stage:
        """The next stage, as in frontends.onnx.stages.next_stage."""

    def loop(self, path: str, node: Any, stage: Stage, make: Make) -> Loop | HostNode:
        """The object that runs a node which no specialization can run. ``make``: function that makes the flow
        of a loop's body."""


@dataclass(frozen=True, eq=False)
class OnnxOrigin:
    """An ONNX file."""

    file: ParsedFile

    @property
    def strings(self) -> Strings:
        return self.file.file.strings

    @property
    def proto(self) -> Any:
        return self.file.file.proto

    def files(self) -> Mapping[str, memoryview | Path]:
        return carried_files(self.file.file)

    def next_stage(self, *given: Any) -> Stage:
        return next_stage(self.file, *given)

    def loop(self, path: str, node: Any, stage: Stage, make: Make) -> Loop | HostNode:
        if node.op_type in ("Loop", "Scan"):
            return body_of(self.file, path, node, stage, make)
        known = {n: constant_of(stage.known[n], self.strings) for n in node.input if n in stage.known}
        return HostNode(path, node, host_op(self.file, node, path), known)


@dataclass(frozen=True, eq=False)
class StableHloOrigin:
    """A StableHLO text."""

    source: Source

    @property
    def strings(self) -> Strings:
        return Strings()

    @property
    def proto(self) -> Any:
        raise InputError("a StableHLO text is no ModelProto")

    def files(self) -> Mapping[str, memoryview | Path]:
        return {"model.mlir": memoryview(self.source.text.data)}

    def next_stage(self, *given: Any) -> Stage:
        return next_ops(self.source, *given)

    def loop(self, path: str, node: Any, stage: Stage, make: Make) -> Loop:
        """The loop of a while op. Its body also computes the condition for the next iteration."""
        nodes, names, outputs, around = body_nodes(node, path)
        known = {name: stage.known[name] for name in around if name in stage.known}
        free = tuple(name for name in around if name not in known)
        body = make(nodes, outputs, known)
        given = {n: constant_of(stage.known[n], self.strings) for n in node.inputs if n in stage.known}
        where = LoopNode("Loop", node.outputs[0] if node.outputs else "while", path)
        reads = ("", *node.inputs)
        return Loop(where, reads, tuple(node.outputs), body, names, free, len(names) - 2, {}, given, ())
