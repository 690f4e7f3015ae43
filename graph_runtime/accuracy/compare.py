"""Compare results of devices with the numpy interpreter's: the outputs, every node in a run of the whole
(errors accumulate), and every node alone (with exact inputs).

report = compare(graph, None, ["cpu:0", "tt:0"], nodes=True)
report.ok; print(report)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..artifacts.door import open_model
from ..artifacts.prepare import Prepared
from ..base.errors import PlanError, UnsupportedOpError
from ..ir.graph import Graph, NodeView
from ..ir.model import Model
from ..ir.ops import get
from ..ir.ops.inputs import draw_array, nmse
from ..plan import Plan, plan
from ..run import factory
from .differences import Comparison, EntryDifference, bounds_of
from .interpreter import heads, interpret
from .rearrange import as_placed, cut, keep_all, permuted, replanned

_SAME = 1e-3  # nmse below which the source's value replaces a rewritten value


def compare(
    graph: Any,
    library: Any = None,
    devices: Any = ("cpu:0",),
    *,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    bound: float | None = None,
    nodes: bool = False,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    **options: Any,
) -> Comparison:
    """Run a graph on devices and by the interpreter on the same inputs.

    ``graph``, ``library``, ``devices``, ``options`` (place, formats, device_map, ...): arguments as of
    factory.create. ``inputs``: {name: array}; missing inputs are drawn from ``seed``. ``bound``: largest nmse
    allowed for outputs and for nodes alone; None: a bound that depends on the plan's formats. ``nodes``:
    whether each node is compared, too, in the whole run and alone. ``functions``: {func_name: callable}, as
    in interpret.

    Raises what create, run and interpret raise.
    """
    graph = open_model(graph).graph
    arrays = random_inputs(graph, seed) | {name: np.asarray(a) for name, a in (inputs or {}).items()}
    wanted = interpret(graph, arrays, functions=functions)
    made = factory.create(graph, library, devices, **options)
    case = _Case(graph, made.session.plan, wanted, heads(graph, wanted), library, devices, options)
    return case.report(_run(made, arrays), arrays, bound, nodes)


def compare_prepared(
    prepared: Prepared,
    library: Any = None,
    *,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    bound: float | None = None,
    nodes: bool = True,
    functions: Mapping[str, Callable[..., Any]] | None = None,
    original: Sequence[np.ndarray] | None = None,
) -> Comparison:
    """Compare the result of prepare.prepare with the imported model before any rewrite. A node that replaces
    several nodes is compared with the last node that it replaces. ``original``: result of judge() for these
    inputs, which several comparisons can share.
    """
    source, model = prepared.source, prepared.model
    given = given_inputs(source, inputs, seed)
    if original is None:
        original = judge(source, given, functions)
    arrays = given | _constants(model)
    wanted = interpret(model.graph, arrays, functions=functions, settle=_originals(source, original, model))
    made = factory.create(prepared.plan, library)
    case = _Case(
        model.graph,
        prepared.plan,
        wanted,
        heads(source.graph, original),
        library,
        prepared.plan.devices,
        prepared.of_tensors,
    )
    return case.report(_run(made, arrays), arrays, bound, nodes)


def given_inputs(
    source: Model, inputs: Mapping[str, Any] | None = None, seed: int = 0
) -> dict[str, np.ndarray]:
    """Values of those inputs of a model that are not constants: the caller's ``inputs``, and values drawn
    from ``seed`` for missing inputs."""
    drawn = random_inputs(source.graph, seed, set(source.constants))
    return drawn | {name: np.asarray(a) for name, a in (inputs or {}).items()}


def judge(
    source: Model,
    given: Mapping[str, np.ndarray],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> list[np.ndarray]:
    """The value of every entry of the imported model, by the interpreter. Raises what interpret raises."""
    return interpret(source.graph, {**given, **_constants(source)}, functions=functions)


def _constants(model: Model) -> dict[str, np.ndarray]:
    return {name: constant.read() for name, constant in model.constants.items()}


def _originals(
    source: Model,
    values: Sequence[np.ndarray],
    model: Model,
) -> Callable[[int, np.ndarray], np.ndarray]:
    """A function settle() for interpret. It replaces the value of a rewritten node by the source's value, if
    both have the same dtype and shape, or would have after the channels of an image are moved. Other values,
    such as packed panels, are kept."""
    graph = model.graph
    rows = {name: int(row) for name, row in zip(source.graph.names, source.graph.row_ptr[:-1], strict=True)}
    entry_nid = graph.entry_nid

    def settle(eid: int, value: np.ndarray) -> np.ndarray:
        nid = int(entry_nid[eid])
        name = graph.names[nid]
        row = rows.get(model.origins.get(name, (name,))[-1])
        if row is None:
            return value
        other = row + eid - int(graph.row_ptr[nid])
        found = values[other] if other < len(values) else value
        if found.ndim == 4 and found.shape != value.shape:
            found = np.moveaxis(found, 1, -1)  # channels are axis 1 in the source, last here
        if (found.dtype, found.shape) != (value.dtype, value.shape):
            return value
        return np.asarray(found, order="C") if nmse(value, found) < _SAME else value

    return settle


@dataclass(frozen=True)
class _Case:
    """One comparison: a graph and its plan, the expected value of every entry and output, and the arguments
    to create it again."""

    graph: Graph
    plan: Plan
    wanted: Sequence[np.ndarray]
    heads: Sequence[np.ndarray]
    library: Any
    devices: Any
    options: Mapping[str, Any]

    def report(
        self,
        results: Sequence[np.ndarray],
        arrays: Mapping[str, np.ndarray],
        bound: float | None,
        nodes: bool,
    ) -> Comparison:
        """The comparison of the outputs; with ``nodes`` also of every entry that a function computes."""
        graph, bounds = self.graph, bounds_of(self.plan) if bound is None else (bound, bound)
        outputs = self._measure(graph.outputs, self.heads, results)
        if not nodes:
            return Comparison(outputs, *bounds)
        placed = as_placed(graph, self.plan)
        made = np.flatnonzero((graph.func_id >= 0)[graph.entry_nid])
        wanted = [self.wanted[eid] for eid in made.tolist()]
        accumulated = self._rerun(keep_all(placed), arrays)
        alone, feeds = cut(placed)
        isolated = self._rerun(alone, {name: self.wanted[eid] for name, eid in feeds.items()})
        return Comparison(
            outputs,
            *bounds,
            self._measure(made, wanted, [accumulated[eid] for eid in made.tolist()]),
            self._measure(made, wanted, isolated),
        )

    def _rerun(self, graph: Graph, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        options = _without_place(self.options)
        return _run(factory.create(graph, self.library, self.devices, **options), arrays)

    def _measure(
        self, eids: Sequence[int] | np.ndarray, wanted: Sequence[np.ndarray], actual: Sequence[np.ndarray]
    ) -> tuple[EntryDifference, ...]:
        devices = [str(self.plan.devices[did]) for did in self.plan.did.tolist()]
        rows, device_of = [], dict(zip(self.plan.graph.names, devices, strict=True))
        for eid, want, got in zip(np.asarray(eids).tolist(), wanted, actual, strict=True):
            node = self.graph.node(self.graph.maker(eid))
            name = node.name if len(node.outputs) == 1 else f"{node.name}:{eid - node.outputs[0]}"
            type_ = self.graph.entry_type(eid)
            rows.append(EntryDifference.of(name, node.op, device_of[node.name], type_, got, want))
        return tuple(sorted(rows, key=lambda d: -d.nmse))


def compare_arrangements(
    graph: Any, library: Any = None, devices: Any = ("cpu:0",), **options: Any
) -> dict[str, Comparison | str]:
    """{arrangement: result of compare()}. The arrangements are: the graph as planned, the storage planned
    anew, and the devices permuted among the nodes (every permutation of up to three devices, every rotation
    of more devices).

    The value of an impossible arrangement (a dtype that the device lacks) is the reason, as text.
    ``options``: options as in compare. It must be possible to plan the unchanged graph.
    """
    graph = open_model(graph).graph
    reports: dict[str, Comparison | str] = {"as given": compare(graph, library, devices, **options)}
    of_plan = ("place", "formats", "layouts", "numerics", "policy", "device_map", "strict")
    plan_options = {k: v for k, v in options.items() if k in of_plan}
    planned = plan(graph, devices, **plan_options)
    options = _without_place(options)
    reports["storage planned anew"] = compare(
        replanned(as_placed(graph, planned)), library, devices, **options
    )
    for order in _orders(len(planned.devices)):
        names = [str(planned.devices[i]) for i in order]
        label = ", ".join(
            f"{old} as {new}" for old, new in zip(map(str, planned.devices), names, strict=True)
        )
        try:
            moved = permuted(replanned(as_placed(graph, planned)), planned.devices, order)
            reports[label] = compare(moved, library, devices, **options)
        except (PlanError, UnsupportedOpError) as error:
            reports[label] = str(error)
    return reports


def _orders(count: int) -> list[tuple[int, ...]]:
    """All permutations of count devices except the identity; only the rotations if there are too many
    permutations."""
    if count <= 3:
        return list(itertools.permutations(range(count)))[1:]
    return [tuple((i + shift) % count for i in range(count)) for shift in range(1, count)]


def random_inputs(graph: Graph, seed: int = 0, but: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Values for all inputs except ``but``, drawn from a seed: each input resembles the data in the first
    test case of the op that reads the input. Indices stay in range."""
    rng = np.random.default_rng(seed)
    return {
        name: draw_array(graph.entry_type(eid), rng, _how(graph, eid))
        for name, eid in zip(graph.input_names, graph.input_eids.tolist(), strict=True)
        if name not in but
    }


def _how(graph: Graph, eid: int) -> str:
    for nid in graph.consumers(eid).tolist():
        node = graph.node(nid)
        op = get(node.callee.op or "")
        slot = node.inputs.index(eid)
        make = op.cases[0].make if op and op.cases else ()
        if slot < len(make):
            if make[slot].startswith("index:"):
                return f"index:{max(1, min(_indexed(node), default=1))}"
            return make[slot]
    return "normal"


def _indexed(node: NodeView) -> list[int]:
    """The dimensions of an op's data in which its indices select: the op's axis, or any dimension if the op
    has no axis."""
    shape, axis = node.input_types[0].shape, node.callee.attrs.get("axis")
    return list(shape) if axis is None else [shape[axis]]


def _run(module: Any, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    module.run(**arrays)
    return [np.array(module.get_output(i).numpy()) for i in range(module.get_num_outputs())]


def _without_place(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options without pins and maps of devices. The graph already carries the devices to which these
    options led."""
    done = ("place", "device_map", "placement", "objective", "fallback", "inplace")
    return {k: v for k, v in options.items() if k not in done}
