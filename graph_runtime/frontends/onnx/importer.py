"""ModelProto -> Model: nodes are converted in the file's order, with a value for each name; all refusals are
collected into one error."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.errors import GraphError, GraphRuntimeError, KernelError, UnsupportedOpError
from ...ir.model import Model, Note
from .attributes import attributes_of
from .budget import CONSTANT, Budget
from .context import Context, UnknownValueError, no_converter, table
from .elements import BY_CODE
from .emit import emit
from .inlining import opset_of
from .nodes import op_key
from .parse import ParsedFile
from .read import DTYPES, initializer_constant
from .tape import Tape, TapeSequence, TapeValue

UNKNOWN = object()  # result of a node that could not be converted
_MOST_NAMED = 20  # number of unconverted nodes that an error's text names per reason; ``failures`` has all
_BYTES_A_STEP = 64  # a node of more bytes counts as several, because each iteration decodes it anew
_MALFORMED = (LookupError, ValueError, TypeError, ArithmeticError, AttributeError, RuntimeError)


class _UnknownError(Exception):
    """The result of a subgraph depends on a node outside that could not be converted."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A node that cannot be converted. ``path``: place in the file, such as $.graph.node[3]. ``error``: the
    error of the op's converter; None if there is no converter. Nodes that only depend on such a node have no
    Failure."""

    node: str
    op: str
    reason: str
    path: str
    error: GraphRuntimeError | None = None


@dataclass(eq=False)
class Importer:
    """Conversion of one file. ``scope``: values by name; model() adds the file's inputs and constants before
    it converts nodes."""

    source: ParsedFile
    tape: Tape = field(default_factory=Tape)
    notes: list[Note] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    scope: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tape.strings = self.source.file.strings

    def model(self) -> Model:
        """The Model. Raises UnsupportedOpError, which lists every node that cannot be converted and why;
        GraphError for an ill-formed graph."""
        graph = self.source.file.proto.graph
        self.tape.budget = Budget(len(self.source.file.data))
        scope = self.initializers(graph)
        self.tape.budget.grow(sum(self.source.file.outside.values()))
        inputs = []
        for info in graph.input:
            if info.name in scope:
                continue  # before IR version 4 the inputs include initialisers
            if info.name in self.source.given:
                scope[info.name] = self.tape.array(self.source.given[info.name], source=f"input {info.name}")
            else:
                self._plain(info, f"$.graph.input.{info.name}", "input")
                scope[info.name] = TapeValue(self.source.types[info.name], info.name)
                inputs.append(scope[info.name])
        self.scope = scope
        self.nodes(graph, scope, "$.graph")
        self.refuse()
        outputs = {}
        for i, info in enumerate(graph.output):
            outputs[info.name] = self._output(scope, info, f"$.graph.output[{i}]")
        scope.clear()  # values are freed during emit, as soon as nothing needs them
        order = [info.name for info in graph.output]
        return emit(self.tape, inputs, outputs, self.notes, self.source.dims, order=order)

    def initializers(self, graph: Any, whole: bool = False) -> dict[str, Any]:
        """{name: value} of a graph's initialisers. ``whole``: whether the data is in the ModelProto, as for
        subgraphs."""
        self.tape.budget.step(CONSTANT * len(graph.initializer), "the initializers of a graph")
        found = {}
        for i, tensor in enumerate(graph.initializer):
            constant = initializer_constant(self.source.file, tensor, None if whole else i)
            element = BY_CODE.get(tensor.data_type)
            found[tensor.name] = TapeValue(constant.type, tensor.name, constant, element=element)
        return found

    def _plain(self, info: Any, path: str, what: str) -> None:
        """Raise UnknownValueError for an input or output (``info``) whose elements have no dtype in
        graphs."""
        element = BY_CODE.get(info.type.tensor_type.elem_type)
        if element is not None:
            text = (
                f"{what} {info.name!r} has elements of {element.name}, for which a graph has no dtype; "
                "gr.create and graph-runtime run accept such values"
            )
            raise UnknownValueError(text, path=path, got=element.name)

    def _output(self, scope: Mapping[str, Any], info: Any, path: str) -> TapeValue:
        value = scope[info.name]
        if isinstance(value, TapeSequence) or value.bound:
            raise UnknownValueError(
                f"output {info.name!r} has a size that is known at run time only; gr.create and "
                "graph-runtime run find it while they run",
                path=path,
            )
        self._plain(info, path, "output")
        code = info.type.tensor_type.elem_type
        if code and DTYPES.get(code) != value.dtype:
            text = (
                f"output {info.name!r} is declared as {DTYPES.get(code, code)}, but the nodes "
                f"make {value.dtype}"
            )
            raise GraphError(text, path=path, got=value.dtype, wanted=DTYPES.get(code))
        if self.source.batch:
            self.source.batch.check(info, value, path)
        return value

    # ---------------------------------------------------------------- nodes

    def nodes(self, graph: Any, scope: MutableMapping[str, Any], path: str, prefix: str = "") -> None:
        """Convert a graph's nodes; the results are added to ``scope``."""
        for i, node in enumerate(graph.node):
            self.tape.budget.step(1 + node.ByteSize() // _BYTES_A_STEP, f"{path}.node[{i}]")
            results = self.convert_node(node, scope, f"{path}.node[{i}]", prefix)
            for name, value in zip(node.output, results, strict=False):
                if name:
                    scope[name] = value

    def convert_node(
        self, node: Any, scope: MutableMapping[str, Any], path: str, prefix: str = ""
    ) -> list[Any]:
        """Results of a node. If it cannot be converted, they are UNKNOWN, and the reason is among the
        failures."""
        name = prefix + (node.name or next((o for o in node.output if o), node.op_type))
        key = op_key(node)
        op, unknown = ".".join(filter(None, key)), [UNKNOWN] * len(node.output)
        entry = table().get(key)
        if entry is None:
            self._failed(name, op, "there is no converter for this op" + no_converter([key]), path)
            return unknown
        inputs = [scope[i] if i else None for i in node.input]
        if any(value is UNKNOWN for value in inputs):
            return unknown
        if any(value is not None and value.bound for value in inputs):
            error = UnknownValueError("the size of an input is known at run time only", op=op)
            self._failed(name, op, str(error), path, error)
            return unknown
        first = len(self.tape.nodes)
        try:
            results = self._convert(node, entry, inputs, op, scope, path, name)
        except _UnknownError:
            return unknown
        except (GraphError, KernelError) as error:
            if self.tape.budget.is_spent:
                raise
            failed: GraphRuntimeError = error
        except MemoryError as error:
            failed = GraphError(f"it needs more memory than there is: {error}")
        except _MALFORMED as error:  # converters rely on what the ONNX standard promises
            failed = GraphError(f"the node is ill-formed: {type(error).__name__}: {error}")
        else:
            self._name(self.tape.nodes[first:], results, name)
            return results
        self._failed(name, op, str(failed), path, failed)
        return unknown

    def _convert(
        self,
        node: Any,
        entry: Any,
        inputs: list[Any],
        op: str,
        scope: MutableMapping[str, Any],
        path: str,
        name: str,
    ) -> list[Any]:
        opset = opset_of(node, self.source.opsets)
        attrs = attributes_of(self.source.file, node, opset)

        def subgraph(graph: Any, bound: Mapping[str, TapeValue], step: str) -> list[TapeValue]:
            return self._subgraph(graph, scope, bound, f"{path}.{step}", f"{name}.{step}.")

        outer = self.tape.what
        ctx = Context(
            self.tape, node, inputs, attrs, opset, op, len(node.output), subgraph, self.source.batch
        )
        results = entry.convert(ctx)
        self.tape.what = outer
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        if unread := ctx.unread():
            ctx.fail(f"attribute {unread[0]!r} is not supported")
        for i, wanted in enumerate(node.output):
            if wanted and (i >= len(results) or results[i] is None):
                ctx.fail(f"output {i} is not supported")
        return results

    def _subgraph(
        self, graph: Any, scope: Mapping[str, Any], bound: Mapping[str, TapeValue], path: str, prefix: str
    ) -> list[TapeValue]:
        """Values of a subgraph's outputs. ``bound``: {input of the subgraph: its value}; ``scope``: values of
        the graph around the subgraph, which the subgraph also sees."""
        outer = scope.maps if isinstance(scope, ChainMap) else [scope]
        inner = ChainMap({**bound}, *outer)  # copying the scope in each iteration takes too long
        inner |= self.initializers(graph, whole=True)
        before = len(self.failures)
        self.nodes(graph, inner, path, prefix)
        if unknown := _unknown(self.failures[before:]):
            raise UnknownValueError(
                "its subgraph needs values that are not known before a run", op=prefix, inputs=unknown
            )
        if len(self.failures) > before:
            raise UnsupportedOpError("its subgraph has nodes that are not supported", op=prefix)
        found = []
        for info in graph.output:
            if info.name not in inner:
                raise GraphError(f"no node makes output {info.name!r} of the subgraph", path=path)
            if inner[info.name] is UNKNOWN:
                raise _UnknownError
            found.append(inner[info.name])
        return found

    def _name(self, nodes: list[Any], results: list[Any], name: str) -> None:
        """Name new nodes. The node that makes the result gets the ONNX node's name, and the other nodes get
        names derived from it."""
        made = [v for r in results for v in (r.values if isinstance(r, TapeSequence) else (r,))]
        last = {id(value.node) for value in made if value is not None and value.node is not None}
        for node in nodes:
            if not node.name:
                node.name = name if id(node) in last else f"{name}.{node.call.op}"

    # ---------------------------------------------------------------- refusing

    def _failed(
        self, name: str, op: str, reason: str, path: str, error: GraphRuntimeError | None = None
    ) -> None:
        if error is not None:
            error.__traceback__ = None  # a traceback keeps all values of its frames alive
        self.failures.append(Failure(name, op, reason, path, error))

    def refuse(self) -> None:
        """Raise one error that lists all failures, if there are any."""
        if not self.failures:
            return
        unknown = _unknown(self.failures)
        kind: type[GraphError] = UnsupportedOpError
        if all(isinstance(f.error, UnknownValueError) for f in self.failures):
            kind = UnknownValueError
        elif all(f.error and not isinstance(f.error, UnsupportedOpError) for f in self.failures):
            kind = GraphError
        first = self.failures[0]
        waits = kind is UnknownValueError
        found = "; gr.create and graph-runtime run find such values while they run" if waits else ""
        raise kind(
            f"{len(self.failures)} node{'s' * (len(self.failures) > 1)} of {self.source.file.name} cannot be "
            f"converted: {_listed(self.failures)}{found}",
            path=first.path,
            op=first.op,
            node=first.node,
            failures=tuple(self.failures),
            inputs=unknown,
        )


def _listed(failures: Sequence[Failure]) -> str:
    """Text of all failures. For each op and reason it lists the first nodes."""
    groups: dict[tuple[str, str], list[str]] = {}
    for failure in failures:
        groups.setdefault((failure.op, failure.reason), []).append(repr(failure.node))
    texts = []
    for (op, reason), nodes in groups.items():
        more = f" and {len(nodes) - _MOST_NAMED} more" if len(nodes) > _MOST_NAMED else ""
        texts.append(f"{op} {', '.join(nodes[:_MOST_NAMED])}{more} ({reason})")
    return "; ".join(texts)


def _unknown(failures: Sequence[Failure]) -> tuple[str, ...]:
    """Names of the graph inputs whose values would make the conversion possible; () if a failure has another
    cause than unknown values."""
    errors = [f.error for f in failures if isinstance(f.error, UnknownValueError)]
    if len(errors) < len(failures):
        return ()
    return tuple(sorted({name for error in errors for name in error.inputs}))
