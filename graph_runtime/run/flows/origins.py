"""What a flow's stages come from: an ONNX file, or a StableHLO text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...base.errors import InputError
from ...frontends.onnx.carried import carried_files
from ...frontends.onnx.elements import Strings
from ...frontends.onnx.host_ops import host_op
from ...frontends.onnx.parse import ParsedFile
from ...frontends.onnx.stages import Known, Stage, StagedNode, Type, next_stage
from ...frontends.stablehlo.op_stages import body_nodes, next_ops
from ...frontends.stablehlo.source import Source
from .flow_values import constant_of
from .host_node import HostNode
from .loops import Loop, LoopBody, LoopNode, body_of

__all__ = ["OnnxOrigin", "Origin", "StableHloOrigin"]

Make = Callable[[tuple[StagedNode, ...], tuple[str, ...], Mapping[str, Known]], LoopBody]


class Origin(Protocol):
    """Gives a flow its stages and loops."""

    @property
    def strings(self) -> Strings:
        """The texts of the model."""

    @property
    def proto(self) -> Any:
        """The ModelProto. Raises InputError where there is none."""

    def files(self) -> Mapping[str, memoryview | Path]:
        """What a bundle must have to make this origin again: the model first, by their names in a folder.
        Raises MissingDataError."""

    def next_stage(
        self,
        nodes: Iterable[StagedNode],
        known: Mapping[str, Known],
        types: Mapping[str, Type],
        outputs: Sequence[str],
    ) -> Stage:
        """As frontends.onnx.stages.next_stage."""

    def loop(self, path: str, node: Any, stage: Stage, make: Make) -> Loop | HostNode:
        """What runs a node that a stage leaves to the host; ``make``: the flow of a body."""


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

    def next_stage(
        self,
        nodes: Iterable[StagedNode],
        known: Mapping[str, Known],
        types: Mapping[str, Type],
        outputs: Sequence[str],
    ) -> Stage:
        return next_stage(self.file, nodes, known, types, outputs)

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

    def next_stage(
        self,
        nodes: Iterable[StagedNode],
        known: Mapping[str, Known],
        types: Mapping[str, Type],
        outputs: Sequence[str],
    ) -> Stage:
        return next_ops(self.source, nodes, known, types, outputs)

    def loop(self, path: str, node: Any, stage: Stage, make: Make) -> Loop:
        """The loop of a while, whose body makes its next condition too."""
        nodes, names, outputs, around = body_nodes(node, path)
        known = {name: stage.known[name] for name in around if name in stage.known}
        free = tuple(name for name in around if name not in known)
        body = make(nodes, outputs, known)
        given = {n: constant_of(stage.known[n], self.strings) for n in node.inputs if n in stage.known}
        where = LoopNode("Loop", node.outputs[0] if node.outputs else "while", path)
        reads = ("", *node.inputs)
        return Loop(where, reads, tuple(node.outputs), body, names, free, len(names) - 2, {}, given, ())
