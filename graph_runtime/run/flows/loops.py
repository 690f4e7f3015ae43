"""Loop and Scan nodes that are not unrolled. The body is a flow of its own, which is run until the condition
is false or the last iteration is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ...base.errors import DeviceMemoryError, GraphError
from ...frontends.onnx.attributes import attributes_of
from ...frontends.onnx.control_checks import body_inputs, one_value, subgraph_of
from ...frontends.onnx.elements import elements_of
from ...frontends.onnx.importer import Importer
from ...frontends.onnx.inlining import opset_of
from ...frontends.onnx.nodes import names_read
from ...frontends.onnx.parse import ParsedFile
from ...frontends.onnx.read import dtype_name
from ...frontends.onnx.stages import Stage, first_nodes
from ...ir.graph import TensorType
from .flow_values import FlowValue, array_of, carried, constant_of, kept, nbytes_of
from .resident import ResidentBody


class LoopBody(Protocol):
    """The methods of a loop's body, a Flow, that loops use."""

    outputs: tuple[str, ...]
    most_steps: int

    @property
    def most_bytes(self) -> int: ...
    def run(self, values: dict[str, FlowValue]) -> list[FlowValue]: ...

    def resident(
        self, values: Mapping[str, FlowValue], fed: Sequence[str], states: Sequence[str], first: int
    ) -> ResidentBody | None: ...


@dataclass(frozen=True)
class LoopNode:
    """The node of a loop. ``op_type``: "Loop" or "Scan"; ``path``: place of the node in the file."""

    op_type: str
    name: str
    path: str


@dataclass(eq=False)
class Loop:
    """A Loop or a Scan of a flow. ``reads``: names of the loop's inputs, "" for an input that is not given;
    ``results``: names of the loop's outputs; ``body``: flow of one iteration; ``names``: names of the body's
    inputs; ``around``: names of outer values that the body reads; ``num_states``: number of values that one
    iteration hands to the next; ``attrs``: attributes of a Scan; ``known``: constant inputs; ``stacked``: for
    each stacked result the type of one iteration's part, as far as the file gives it; a loop of no iterations
    needs these types."""

    node: LoopNode
    reads: tuple[str, ...]
    results: tuple[str, ...]
    body: LoopBody
    names: tuple[str, ...]
    around: tuple[str, ...]
    num_states: int
    attrs: Mapping[str, Any]
    known: Mapping[str, Any]
    stacked: tuple[TensorType, ...]
    _held: int = 0  # bytes of the results that will be stacked

    def run(self, values: dict[str, FlowValue]) -> None:
        """Add the outputs to ``values``. Raises GraphError for a loop that does not end, DeviceMemoryError if
        the host has no room for the results."""
        self._held = 0
        outputs = self._scan(values) if self.node.op_type == "Scan" else self._loop(values)
        values |= {name: value for name, value in zip(self.results, outputs, strict=False) if name}

    # ---------------------------------------------------------------- the two ops

    def _loop(self, values: Mapping[str, FlowValue]) -> list[FlowValue]:
        limit, go, *states = (self._value(name, values) for name in self.reads)
        most = None if limit is None else int(self._one(limit, "the trip count"))
        going = go is None or bool(self._one(go, "the condition"))
        outer = {name: values[name] for name in self.around}
        columns: list[list[FlowValue]] = [[] for _ in self.body.outputs[1 + self.num_states :]]
        trip = 0
        while going and (most is None or trip < most):
            self._bounded(trip)
            given = [np.array(trip, np.int64), np.array(True), *states]
            values = {**dict(zip(self.names, given, strict=True)), **outer}
            go, *made = self.body.run(dict(values))
            going = bool(self._one(go, "the condition that its body makes"))
            states = self._hand_on(made, columns)
            trip += 1
            if trip == 1 and going:
                resident = self.body.resident(values, self.names[:1], self.names[2:], 1)
                if resident is not None and resident.outputs[0].size == 1:
                    states = self._loop_on(resident, most, columns)
                    break
        first = 1 + self.num_states
        return [*states, *(self._stacked(c, first + i, 0) for i, c in enumerate(columns))]

    def _loop_on(
        self, resident: ResidentBody, most: int | None, columns: Sequence[list[FlowValue]]
    ) -> list[FlowValue]:
        """The states after the last iteration. The first iteration has already run; the resident body runs
        the others."""
        condition = resident.outputs[0]
        live = condition.reshape(-1) if isinstance(condition, np.ndarray) else None
        made, trip = resident.outputs[1:], 1
        while (array_of(condition).reshape(-1) if live is None else live)[0] and (
            most is None or trip < most
        ):
            self._bounded(trip)
            resident.hand_on()
            resident.feed(self.names[0], trip)
            resident.step()
            if columns:
                self._collect(made, columns)
            trip += 1
        return [kept(value) for value in made[: self.num_states]]

    def _scan(self, values: Mapping[str, FlowValue]) -> list[FlowValue]:
        count = int(self.attrs["num_scan_inputs"])
        inputs = [self._value(name, values) for name in self.reads]
        states, rows = inputs[: len(inputs) - count], self._rows([array_of(v) for v in inputs[-count:]])
        outer = {name: values[name] for name in self.around}
        columns: list[list[FlowValue]] = [[] for _ in self.body.outputs[self.num_states :]]
        total, resident = len(rows[0]), None
        for t in range(total):
            if resident is not None:
                self._scan_on(resident, [row[t] for row in rows], columns)
                continue
            parts = [np.asarray(row[t], order="C") for row in rows]
            given = {**dict(zip(self.names, [*states, *parts], strict=True)), **outer}
            states = self._hand_on(self.body.run(dict(given)), columns)
            if t == 0 and total > 1:
                carried, fed = self.names[: self.num_states], self.names[self.num_states :]
                resident = self.body.resident(given, fed, carried, 0)
        if resident is not None:
            states = [kept(value) for value in resident.outputs[: self.num_states]]
        out_axes, turned = (
            self._list(f"scan_output_{what}", len(columns)) for what in ("axes", "directions")
        )
        return [
            *states,
            *(
                self._stacked(column[::-1] if turn else column, self.num_states + i, int(axis))
                for i, (column, axis, turn) in enumerate(zip(columns, out_axes, turned, strict=True))
            ),
        ]

    def _rows(self, scanned: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The scan inputs with iterations along axis 0, in the order of the iterations."""
        given, back = (self._list(f"scan_input_{what}", len(scanned)) for what in ("axes", "directions"))
        axes = [self._axis(a, value.ndim) for a, value in zip(given, scanned, strict=True)]
        rows = [np.moveaxis(value, axis, 0) for value, axis in zip(scanned, axes, strict=True)]
        steps = {len(row) for row in rows}
        if len(steps) != 1:
            raise self._fault(f": scan inputs of {sorted(steps)} steps")
        return [row[::-1] if b else row for row, b in zip(rows, back, strict=True)]

    def _scan_on(
        self, resident: ResidentBody, parts: Sequence[np.ndarray], columns: Sequence[list[FlowValue]]
    ) -> None:
        """Run one iteration, not the first one, in the resident body."""
        resident.hand_on()
        for name, part in zip(self.names[self.num_states :], parts, strict=True):
            resident.feed(name, part)
        resident.step()
        if columns:
            self._collect(resident.outputs, columns)

    # ---------------------------------------------------------------- parts

    def _value(self, name: str, values: Mapping[str, FlowValue]) -> FlowValue | None:
        if not name:
            return None
        return values[name] if name in values else self.known[name]

    def _one(self, value: FlowValue, what: str) -> Any:
        return one_value(array_of(value), what, self.node, self.node.path)

    def _axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise self._fault(f": axis {axis} is out of range for {rank} dimensions", got=axis)
        return axis % rank

    def _list(self, name: str, count: int) -> Sequence[int]:
        return self.attrs.get(name) or [0] * count

    def _fault(self, text: str, **fields: Any) -> GraphError:
        what = f"{self.node.op_type} {self.node.name!r}"
        return GraphError(f"{what}{text}", path=self.node.path, node=self.node.name, **fields)

    def _bounded(self, trip: int) -> None:
        if trip >= self.body.most_steps:
            text = f" has run {trip} iterations and goes on: raise the option most_steps to allow more"
            raise self._fault(text, op="Loop", got=trip)

    def _hand_on(self, made: Sequence[FlowValue], columns: Sequence[list[FlowValue]]) -> list[FlowValue]:
        """Copies of the states, which stay on their device. Also adds to ``columns`` the results that will be
        stacked."""
        self._collect(made, columns)
        return [carried(value) for value in made[: self.num_states]]

    def _collect(self, made: Sequence[FlowValue], columns: Sequence[list[FlowValue]]) -> None:
        """Add copies to ``columns`` of the results that will be stacked. Raises DeviceMemoryError if these
        results and the states exceed the limit."""
        for column, value in zip(columns, made[self.num_states :], strict=True):
            column.append(kept(value))
            self._held += nbytes_of(value)
        needed = self._held + sum(map(nbytes_of, made[: self.num_states]))
        if needed > self.body.most_bytes:
            text = (
                f"{self.node.op_type} {self.node.name!r} would keep {needed} B of results and states, the "
                f"host has room for {self.body.most_bytes}"
            )
            raise DeviceMemoryError(
                text, path=self.node.path, node=self.node.name, got=needed, wanted=self.body.most_bytes
            )

    def _stacked(self, column: Sequence[FlowValue], output: int, axis: int) -> np.ndarray:
        if column:
            shapes = {value.shape for value in column}
            if len(shapes) > 1:
                name = self.body.outputs[output]
                text = f": iterations make values of different sizes for {name!r}: {sorted(shapes)}"
                raise self._fault(text)
            return np.stack(column, self._axis(axis, column[0].ndim + 1))
        kind = self.stacked[output - (len(self.body.outputs) - len(self.stacked))]
        shape = list(kind.shape)
        shape.insert(axis % (len(shape) + 1), 0)
        return np.array(elements_of(kind.dtype, shape))


def _item_type(info: Any) -> TensorType:
    kind = info.type.tensor_type
    shape = tuple(d.dim_value if d.HasField("dim_value") else 0 for d in kind.shape.dim)
    return TensorType(dtype_name(kind.elem_type or 1, "a result"), shape)


def body_of(file: ParsedFile, path: str, node: Any, stage: Stage, make: Callable[..., LoopBody]) -> Loop:
    """The Loop of a node whose inputs are constants or results of earlier nodes. ``make``: function that
    makes a body from nodes, names of outputs and constants."""
    graph = subgraph_of(node, "body", path)
    importer = Importer(file)
    attrs = attributes_of(file.file, node, opset_of(node, file.opsets))
    own = importer.initializers(graph, whole=True)
    names = tuple(body_inputs(graph))
    inner = {name for each in graph.node for name in names_read(each)} | {o.name for o in graph.output}
    made = {name for each in graph.node for name in each.output} | set(names) | set(own)
    free = sorted(inner - made - {""})
    known = {**{name: stage.known[name] for name in free if name in stage.known}, **own}
    around = tuple(name for name in free if name not in known)
    taken = 2 if node.op_type == "Loop" else int(attrs["num_scan_inputs"])  # inputs that are no states
    given = len(node.input) - taken
    outputs = tuple(info.name for info in graph.output)
    body = make(first_nodes(graph, f"{path}.body"), outputs, known)
    constants = {n: constant_of(stage.known[n], file.file.strings) for n in node.input if n in stage.known}
    first = given + (node.op_type == "Loop")
    stacked = tuple(map(_item_type, graph.output[first:]))
    where = LoopNode(node.op_type, node.name, path)
    reads, results = tuple(node.input), tuple(node.output)
    scan = attrs if node.op_type == "Scan" else {}
    return Loop(where, reads, results, body, names, around, given, scan, constants, stacked)
