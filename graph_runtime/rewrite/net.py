"""A model in a form that rules can change: nodes in order, values with their maker and readers.

    net = Net(model)
    for node in net.nodes("add"):
        x, y = node.inputs
        if y.scalar() == 0.0 and x.type == node.output.type:
            net.replace(node.output, x)
            net.note("neutral", f"{node.name} adds 0 and goes", [node])
    model = net.model()

Nodes without readers are removed at once. Names of inputs and outputs stay.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ..base.errors import GraphError
from ..base.machine.devices import kernel_kinds
from ..ir.documents.draft import call_attrs, op_call
from ..ir.graph import Func, TensorType
from ..ir.model import Constant, Model, Note
from ..ir.ops.moving.shape import exactly
from .assemble import assemble, column_devices
from .values import NetNode, NetValue, supports


class Net:
    """A model while rules rewrite it. ``inputs``: the graph's inputs and constants; ``outputs``: the graph's
    outputs.

    ``kinds``: a rewritten graph must run on each of these device kinds that could run the replaced nodes;
    None: all device kinds.
    """

    kinds: tuple[str, ...]
    source: Model
    changed: bool

    def __init__(self, model: Model, kinds: Sequence[str] | None = None):
        self.source, self.kinds = model, kernel_kinds() if kinds is None else tuple(kinds)
        self.notes: list[Note] = []
        self.changed = False
        self._functions: dict[tuple[Any, ...], tuple[Func, tuple[TensorType, ...]]] = {}
        self._by_op: dict[str | None, dict[NetNode, None]] = {}
        self._first: NetNode | None = None
        self._last: NetNode | None = None
        self.inputs: list[NetValue] = []
        self.outputs: list[NetValue] = []
        self._output_indices: dict[NetValue, list[int]] = {}  # a value's indices in outputs
        self._load(model)

    # ---------------------------------------------------------------- reading

    def nodes(self, *ops: str) -> Iterator[NetNode]:
        """The current nodes, in order; if ``ops`` are given, only nodes of these ops, in no certain order.
        Nodes removed during the iteration are left out; nodes added during it are not visited."""
        if ops:
            found = [node for op in ops for node in self._by_op.get(op, ())]
        else:
            found, at = [], self._first
            while at is not None:
                found.append(at)
                at = at.after
        return (node for node in found if node.alive)

    def __len__(self) -> int:
        return sum(map(len, self._by_op.values()))

    def together(self, nodes: Iterable[NetNode]) -> bool:
        """Whether nodes may become one node: no two of them are pinned to different devices."""
        return len({node.device for node in nodes}) < 2

    def keeps_support(
        self, nodes: Sequence[NetNode], op: str, inputs: Sequence[NetValue], **attrs: Any
    ) -> bool:
        """Whether an op runs on every device kind that runs all nodes that the op would replace. False also
        if the op does not accept these inputs."""
        try:
            func, made = self._function(op, tuple(v.type for v in inputs), attrs)
        except GraphError:
            return False
        types = [v.type for v in inputs]
        return all(
            supports(op, func.attrs, kind, types, made)
            for kind in self.kinds
            if all(node.supported_on(kind) for node in nodes)
        )

    # ---------------------------------------------------------------- rewriting

    def add(
        self,
        op: str,
        inputs: Sequence[NetValue],
        *,
        before: NetNode | None,
        name: str | None = None,
        device: str | None = None,
        origins: Sequence[str] = (),
        **attrs: Any,
    ) -> Any:
        """Add a node before ``before`` (None: at the end). Returns its result, a NetValue, or a tuple if it
        has several.

        Name, device and origins default to those of ``before``. Names need not be unique: model() makes them
        so. Raises GraphError and UnsupportedOpError as GraphBuilder.op.
        """
        func, made = self._function(op, tuple(v.type for v in inputs), attrs)
        if before is not None:
            name, device, origins = name or before.name, device or before.device, origins or before.origins
        node = NetNode(func, list(inputs), made, name or op, device, tuple(origins))
        self._link(node, before)
        self.changed = True
        return node.outputs[0] if len(made) == 1 else tuple(node.outputs)

    def constant(self, constant: Constant, name: str) -> NetValue:
        """A new value that is a constant; it is dropped if nothing reads it."""
        value = NetValue(constant.type, None, 0, name)
        value.constant = constant
        self.inputs.append(value)
        return value

    def replace(self, old: NetValue, new: NetValue) -> None:
        """Let all readers of ``old`` read ``new``, and remove nodes that only ``old`` needed.

        An output of the graph keeps its name. Raises GraphError if the types differ.
        """
        if old.type != new.type:
            text = f"{old.name} is {old.type} and cannot become {new.name}, {new.type}"
            raise GraphError(text, got=new.type, wanted=old.type)
        if old.heads:
            new = self._named(old, new)
        for reader, count in old.readers.items():
            reader.inputs = [new if value is old else value for value in reader.inputs]
            new.readers[reader] = new.readers.get(reader, 0) + count
        if old.heads:
            indices = self._output_indices.pop(old)
            self._output_indices.setdefault(new, []).extend(indices)
            for at in indices:
                self.outputs[at] = new
        new.heads, old.heads, old.readers = new.heads + old.heads, 0, {}
        self.changed = True
        if old.producer is not None:
            self._drop([old.producer])

    def replace_all(self, old: NetNode, new: NetValue | Sequence[NetValue]) -> None:
        """Let all readers of each result of ``old`` read the value at the same index in ``new``."""
        for was, now in zip(old.outputs, [new] if isinstance(new, NetValue) else new, strict=True):
            self.replace(was, now)

    def note(self, rule: str, text: str, nodes: Iterable[NetNode | str] = ()) -> None:
        """Record a rule's change and its reason: a sentence with the names of nodes."""
        names = (name for node in nodes for name in (node.origins if isinstance(node, NetNode) else (node,)))
        self.notes.append(Note(rule, text, tuple(dict.fromkeys(names))))

    def prune(self) -> None:
        """Remove nodes that no output needs."""
        self._drop(list(self.nodes()))

    def model(self) -> Model:
        """The rewritten model, or the original one if nothing changed but notes."""
        return assemble(self.source, self.inputs, self.nodes(), self.outputs, self.notes, self.changed)

    # ---------------------------------------------------------------- internal

    def _function(
        self, op: str, types: tuple[TensorType, ...], attrs: dict[str, Any]
    ) -> tuple[Func, tuple[TensorType, ...]]:
        key = (op, types, repr(attrs))
        if key not in self._functions:
            call = op_call(op, types, attrs)
            raw = call_attrs(call.func_name, len(types), len(call.made), call.raw)
            func = Func(call.func_name, op, call.attrs, len(types), len(call.made), raw=raw)
            self._functions[key] = func, call.made
        return self._functions[key]

    def _named(self, old: NetValue, new: NetValue) -> NetValue:
        """``new`` under the name of ``old``, which is an output. The producer of ``new`` is renamed if none
        of its results is an output yet; else a nop with the name is added."""
        a, b = old.producer, new.producer
        if (
            a is not None
            and b is not None
            and len(a.outputs) == len(b.outputs)
            and old.index == new.index
            and not any(v.heads for v in b.outputs)
        ):
            a.name, b.name = b.name, a.name
            return new
        return self.add("reshape", [new], before=a, name=old.name, **exactly(new.shape))

    def _link(self, node: NetNode, before: NetNode | None) -> None:
        node.after, node.before = before, self._last if before is None else before.before
        if node.before is None:
            self._first = node
        else:
            node.before.after = node
        if before is None:
            self._last = node
        else:
            before.before = node
        self._by_op.setdefault(node.op, {})[node] = None

    def _drop(self, nodes: list[NetNode]) -> None:
        """Remove the nodes without readers, and then those that only they read."""
        while nodes:
            node = nodes.pop()
            if not node.alive or not node.is_pure or any(v.heads or v.readers for v in node.outputs):
                continue
            node.alive, self.changed = False, True
            for value in dict.fromkeys(node.inputs):
                del value.readers[node]
                if value.producer is not None:
                    nodes.append(value.producer)
            self._unlink(node)
            del self._by_op[node.op][node]

    def _unlink(self, node: NetNode) -> None:
        if node.before is None:
            self._first = node.after
        else:
            node.before.after = node.after
        if node.after is None:
            self._last = node.before
        else:
            node.after.before = node.before

    def _load(self, model: Model) -> None:
        graph = model.graph
        column = column_devices(graph)
        entries: list[NetValue | None] = [None] * graph.num_entries
        types = [graph.types[t] for t in graph.type_id.tolist()]
        rows, reads = graph.row_ptr.tolist(), graph.in_eid.tolist()
        starts, func_id = graph.in_ptr.tolist(), graph.func_id.tolist()
        for nid in graph.inputs.tolist():
            name = graph.names[nid]
            value = NetValue(types[rows[nid]], None, 0, name)
            value.constant, value.device = model.constants.get(name), model.pins.get(name) or column[nid]
            self.inputs.append(value)
            entries[rows[nid]] = value
        for nid, name in enumerate(graph.names):
            if func_id[nid] < 0:
                continue
            node = NetNode(
                graph.funcs[func_id[nid]],
                [entries[e] for e in reads[starts[nid] : starts[nid + 1]]],
                tuple(types[rows[nid] : rows[nid + 1]]),
                name,
                model.pins.get(name) or column[nid],
                model.origins.get(name, (name,)),
            )
            entries[rows[nid] : rows[nid + 1]] = node.outputs
            self._link(node, None)
        self.outputs = [entries[e] for e in graph.outputs.tolist()]
        for at, value in enumerate(self.outputs):
            value.heads += 1
            self._output_indices.setdefault(value, []).append(at)
