"""Compare what devices compute with the numpy interpreter: outputs, every node with errors added up, every
node alone.

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

__all__ = [
    "compare",
    "compare_arrangements",
    "compare_prepared",
    "given_inputs",
    "judge",
    "random_inputs",
]

_SAME = 1e-3  # nmse up to which a rewritten value is taken to be the source's, in the source's form


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

    ``graph``, ``library``, ``devices`` and ``options`` (place, formats, device_map, ...) as factory.create.
    ``inputs``: {name: array}; what it leaves out is drawn from ``seed``. ``bound``: the greatest nmse, of
    nodes alone too; by default what the formats of the plan allow. ``nodes``: also each node accumulated and
    alone. ``functions`` as interpret.

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
    """As compare, for what prepare.prepare gave: the judge is the model as it was imported, before
    any rewrite. A node that stands for several is compared with what the last of them makes there.
    ``original``: what judge() gave for these inputs, of a model that is compared several times.
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
    """Values of the inputs of a model that are no constants: ``inputs``, and the rest drawn from a seed."""
    drawn = random_inputs(source.graph, seed, set(source.constants))
    return drawn | {name: np.asarray(a) for name, a in (inputs or {}).items()}


def judge(
    source: Model,
    given: Mapping[str, np.ndarray],
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> list[np.ndarray]:
    """The value of every entry of a model as it was imported, by the interpreter. Raises what interpret
    raises."""
    return interpret(source.graph, {**given, **_constants(source)}, functions=functions)


def _constants(model: Model) -> dict[str, np.ndarray]:
    return {name: constant.read() for name, constant in model.constants.items()}


def _originals(
    source: Model,
    values: Sequence[np.ndarray],
    model: Model,
) -> Callable[[int, np.ndarray], np.ndarray]:
    """settle() of interpret: the value that the source has in the place of a rewritten node, where it has it
    in the same form, or as an image with its channels last (panels, say, it has not)."""
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
            found = np.moveaxis(found, 1, -1)  # an image, whose channels are last there
        if (found.dtype, found.shape) != (value.dtype, value.shape):
            return value
        return np.asarray(found, order="C") if nmse(value, found) < _SAME else value

    return settle


@dataclass(frozen=True)
class _Case:
    """A graph and its plan, what every entry and every head should be, and how to run it once more."""

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
        """Judge the heads, and with ``nodes`` every entry that a function makes."""
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
        rows, device_of = [], _devices_by_name(self.plan)
        for eid, want, got in zip(np.asarray(eids).tolist(), wanted, actual, strict=True):
            node = self.graph.node(self.graph.maker(eid))
            name = node.name if len(node.outputs) == 1 else f"{node.name}:{eid - node.outputs[0]}"
            type_ = self.graph.entry_type(eid)
            rows.append(EntryDifference.of(name, node.op, device_of[node.name], type_, got, want))
        return tuple(sorted(rows, key=lambda d: -d.nmse))


def compare_arrangements(
    graph: Any, library: Any = None, devices: Any = ("cpu:0",), **options: Any
) -> dict[str, Comparison | str]:
    """compare(), and again with the storage planned anew, and with the devices permuted among the nodes:
    every permutation of up to three devices, every rotation of more.

    The value of an arrangement that cannot be (a dtype the device does not have) is the reason, as text.
    Options as compare; the plan of the graph as it is must exist.
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
    """Permutations of count devices but the identity; rotations where there would be too many."""
    if count <= 3:
        return list(itertools.permutations(range(count)))[1:]
    return [tuple((i + shift) % count for i in range(count)) for shift in range(1, count)]


def random_inputs(graph: Graph, seed: int = 0, but: Collection[str] = ()) -> dict[str, np.ndarray]:
    """Values for all inputs ``but`` some, drawn from a seed as their first reader's first test case draws
    them; indices stay in range."""
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
    """The dimensions that an op's indices reach: the axis that it has, else any of its data's."""
    shape, axis = node.input_types[0].shape, node.callee.attrs.get("axis")
    return list(shape) if axis is None else [shape[axis]]


def _run(module: Any, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    module.run(**arrays)
    return [np.array(module.get_output(i).numpy()) for i in range(module.get_num_outputs())]


def _devices_by_name(planned: Plan) -> dict[str, str]:
    return {
        name: str(planned.devices[did])
        for name, did in zip(planned.graph.names, planned.did.tolist(), strict=True)
    }


def _without_place(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for a graph that carries its devices: pins and maps have done their work."""
    done = ("place", "device_map", "placement", "objective", "fallback", "inplace")
    return {k: v for k, v in options.items() if k not in done}
