"""Compare what devices compute with the numpy interpreter: outputs, every node with errors added up, every
node alone.

report = compare(graph, None, ["cpu:0", "tt:0"], nodes=True)
report.ok; print(report)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from . import factory
from .errors import PlanError, UnsupportedOpError
from .graph import Graph, TensorType
from .interpreter import heads, interpret
from .ops import get
from .ops.inputs import draw_array, nmse
from .ops.numerics import Numerics
from .plan import Plan, plan
from .rearrange import cut, keep_all, permuted, replanned

__all__ = ["Difference", "Report", "compare", "compare_arrangements", "random_inputs"]

# Normalised mean squared error that the outputs of a network may have, by the coarsest format in which a
# float was stored.
_BOUNDS = {"f64": 1e-20, "f32": 1e-8, "f16": 1e-4, "bf16": 5e-3, "bfp8_b": 2e-2, "bfp4_b": 2e-1}


@dataclass(frozen=True, slots=True)
class Difference:
    """How one entry differs from the interpreter's. ``max_rel`` is relative to the wanted element where that
    is not 0;
    ``correlation`` is Pearson's, 1.0 where both are constant and equal."""

    name: str
    op: str
    device: str
    type: TensorType
    max_abs: float
    max_rel: float
    nmse: float
    correlation: float

    def __str__(self) -> str:
        return (
            f"{self.nmse:10.2e} {self.max_abs:10.2e} {self.max_rel:10.2e} {self.correlation:12.9f}  "
            f"{self.name} ({self.op} on {self.device}) {self.type}"
        )


@dataclass(frozen=True, slots=True)
class Report:
    """Differences, worst nmse first. ``outputs``: the graph's heads, one a head. With nodes=True also one an
    entry:
    ``accumulated``, run as a whole, and ``isolated``, each node fed with the interpreter's values. ``bound``:
    the nmse that the outputs are judged by."""

    outputs: tuple[Difference, ...]
    bound: float
    accumulated: tuple[Difference, ...] = ()
    isolated: tuple[Difference, ...] = ()

    @property
    def worst(self) -> float:
        """The greatest nmse of an output; 0.0 for a graph without outputs."""
        return max((d.nmse for d in self.outputs), default=0.0)

    @property
    def ok(self) -> bool:
        """Whether every output is within the bound, and every node alone."""
        return all(d.nmse <= self.bound for d in (*self.outputs, *self.isolated))

    def __str__(self) -> str:
        lines = [
            f"{'as numpy' if self.ok else 'DIFFERS from numpy'}: worst nmse {self.worst:.2e}, "
            f"bound {self.bound:.0e}"
        ]
        for title in ("outputs", "isolated", "accumulated"):
            rows = getattr(self, title)
            if rows:
                lines += [
                    f"{title:<10}       nmse    max abs    max rel  correlation",
                    *(f"{'':6}{d}" for d in rows[:20]),
                ]
                lines += [f"{'':6}... and {len(rows) - 20} more"] if len(rows) > 20 else []
        return "\n".join(lines)


def compare(
    graph: Any,
    library: Any = None,
    devices: Any = ("cpu:0",),
    *,
    inputs: Mapping[str, Any] | None = None,
    seed: int = 0,
    bound: float | None = None,
    nodes: bool = False,
    functions: Mapping[str, Callable] | None = None,
    **options: Any,
) -> Report:
    """Run a graph on devices and by the interpreter on the same inputs.

    ``graph``, ``library``, ``devices`` and ``options`` (place, formats, device_map, ...) as factory.create.
    ``inputs``: {name: array}; what it leaves out is drawn from ``seed``. ``bound``: the greatest nmse; by
    default what the formats of the plan allow. ``nodes``: also each node accumulated and alone. ``functions``
    as interpret.

    Raises what create, run and interpret raise.
    """
    graph = factory.read_graph(graph)
    arrays = random_inputs(graph, seed) | {name: np.asarray(a) for name, a in (inputs or {}).items()}
    wanted = interpret(graph, arrays, functions=functions)
    made = factory.create(graph, library, devices, **options)
    planned = made.session.plan
    bound = _bound(planned) if bound is None else bound
    outputs = _measure(graph, graph.outputs, heads(graph, wanted), _run(made, arrays), planned)
    if not nodes:
        return Report(outputs, bound)
    del made
    whole = keep_all(placed := _as_placed(graph, planned))
    accumulated = _run(factory.create(whole, library, devices, **_without_place(options)), arrays)
    alone, feeds = cut(placed)
    fed = {name: wanted[eid] for name, eid in feeds.items()}
    isolated = _run(factory.create(alone, library, devices, **_without_place(options)), fed)
    made_by_op = np.flatnonzero((graph.func_id >= 0)[graph.entry_nid])
    return Report(
        outputs,
        bound,
        _measure(
            graph, made_by_op, [wanted[e] for e in made_by_op], [accumulated[e] for e in made_by_op], planned
        ),
        _measure(graph, made_by_op, [wanted[e] for e in made_by_op], isolated, planned),
    )


def compare_arrangements(
    graph: Any, library: Any = None, devices: Any = ("cpu:0",), **options: Any
) -> dict[str, Report | str]:
    """compare(), and again with the storage planned anew, and with the devices permuted among the nodes:
    every permutation of up to three devices, every rotation of more.

    The value of an arrangement that cannot be (a dtype the device does not have) is the reason, as text.
    Options as compare; the plan of the graph as it is must exist.
    """
    graph = factory.read_graph(graph)
    reports: dict[str, Report | str] = {"as given": compare(graph, library, devices, **options)}
    of_plan = ("place", "formats", "layouts", "numerics", "policy", "device_map", "strict")
    plan_options = {k: v for k, v in options.items() if k in of_plan}
    planned = plan(graph, devices, **plan_options)
    options = _without_place(options)
    reports["storage planned anew"] = compare(
        replanned(_as_placed(graph, planned)), library, devices, **options
    )
    for order in _orders(len(planned.devices)):
        names = [str(planned.devices[i]) for i in order]
        label = ", ".join(
            f"{old} as {new}" for old, new in zip(map(str, planned.devices), names, strict=True)
        )
        try:
            moved = permuted(replanned(_as_placed(graph, planned)), planned.devices, order)
            reports[label] = compare(moved, library, devices, **options)
        except (PlanError, UnsupportedOpError) as error:
            reports[label] = str(error)
    return reports


def _orders(count: int) -> list[tuple[int, ...]]:
    """Permutations of count devices but the identity; rotations where there would be too many."""
    if count <= 3:
        return list(itertools.permutations(range(count)))[1:]
    return [tuple((i + shift) % count for i in range(count)) for shift in range(1, count)]


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, np.ndarray]:
    """Values for all inputs, drawn from a seed as their first reader's first test case draws them; indices
    stay in range."""
    rng = np.random.default_rng(seed)
    return {
        name: draw_array(graph.entry_type(eid), rng, _how(graph, eid))
        for name, eid in zip(graph.input_names, graph.input_eids.tolist(), strict=True)
    }


def _how(graph: Graph, eid: int) -> str:
    for nid in graph.consumers(eid).tolist():
        node = graph.node(nid)
        op = get(node.func.op) if node.func.op else None
        slot = node.inputs.index(eid)
        make = op.cases[0].make if op and op.cases else ()
        if slot < len(make):
            if make[slot].startswith("index:"):
                return f"index:{max(1, node.input_types[0].shape[node.func.attrs['axis']])}"
            return make[slot]
    return "normal"


def _run(module: Any, arrays: Mapping[str, np.ndarray]) -> list[np.ndarray]:
    module.run(**arrays)
    return [np.array(module.get_output(i).numpy()) for i in range(module.get_num_outputs())]


def _measure(
    graph: Graph,
    eids: Sequence[int],
    wanted: Sequence[np.ndarray],
    actual: Sequence[np.ndarray],
    planned: Plan,
) -> tuple[Difference, ...]:
    rows = []
    device_of = _devices_by_name(planned)
    for eid, want, got in zip(np.asarray(eids).tolist(), wanted, actual, strict=True):
        node = graph.node(int(graph.entry_nid[eid]))
        name = node.name if len(node.outputs) == 1 else f"{node.name}:{eid - node.outputs[0]}"
        rows.append(
            Difference(name, node.op, device_of[node.name], graph.entry_type(eid), *_distances(got, want))
        )
    return tuple(sorted(rows, key=lambda d: -d.nmse))


def _distances(got: np.ndarray, want: np.ndarray) -> tuple[float, float, float, float]:
    """max abs, max rel, nmse, correlation."""
    error = nmse(got, want)
    with np.errstate(all="ignore"):
        a, w = np.asarray(got, np.float64).ravel(), np.asarray(want, np.float64).ravel()
        both = np.isfinite(a) & np.isfinite(w)
        a, w = a[both], w[both]
        distance = np.abs(a - w)
        relative = distance[w != 0] / np.abs(w[w != 0])
        da, dw = a - a.mean() if a.size else a, w - w.mean() if w.size else w
        norm = np.sqrt((da * da).sum() * (dw * dw).sum())
        correlation = float((da * dw).sum() / norm) if norm else float(error == 0.0)
    return float(distance.max(initial=0.0)), float(relative.max(initial=0.0)), error, correlation


def _devices_by_name(planned: Plan) -> dict[str, str]:
    return {
        name: str(planned.devices[did])
        for name, did in zip(planned.graph.names, planned.did.tolist(), strict=True)
    }


def _as_placed(graph: Graph, planned: Plan) -> Graph:
    """The loaded graph with the plan's device of each node as columns, so that a rearranged graph keeps
    them."""
    did = np.zeros(graph.num_nodes, np.int64)
    loaded = planned.origin >= 0
    did[planned.origin[loaded]] = planned.did[loaded]
    types = np.array([d.dl_type for d in planned.devices])
    ordinals = np.array([types[:i].tolist().count(t) for i, t in enumerate(types.tolist())])
    entry_did = did[graph.entry_nid]
    return replace(
        graph, hints=replace(graph.hints, device_type=types[entry_did], device_id=ordinals[entry_did])
    )


def _without_place(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options for a graph that carries its devices: pins and maps have done their work."""
    return {k: v for k, v in options.items() if k not in ("place", "device_map")}


def _bound(planned: Plan) -> float:
    used = {planned.layouts[i].format for i in np.unique(planned.layout_id).tolist()}
    if planned.numerics or any(Numerics.of(f.attrs).as_dict() for f in planned.graph.funcs):
        used.add("bf16")                          # operands or sums are cut, whatever they are stored as
    return max((_BOUNDS[f] for f in used if f in _BOUNDS), default=0.0)
