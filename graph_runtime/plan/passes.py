"""plan(): the passes in order, each with its options; and the first pass, place(): graph and devices ->
Placement, the device of each node and the reason for it.

The device of a node comes from a pin, else from the file's device columns, else from a policy (placing/),
else it is devices[0]. An input without a pin, column or policy goes to its first consumer. The first device
of the caller's list is the fallback, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..base.errors import InputError, PlanError, did_you_mean
from ..base.machine.devices import Device, parse_list
from ..base.option_fields import PLACING
from ..base.option_words import takes_words
from ..base.options import Options, options_of
from ..ir.graph import COPY, NOP, Graph
from .checker.check import check
from .columns import slot_nid
from .compute_config import assign_numerics
from .device_columns import from_columns, index_of, read_map
from .globs import matching
from .layouts import assign_layouts
from .pricing import Pricing
from .storage.memory import assign_storage
from .streaming import AUTO, choose_streamed, named_inputs
from .supports import FALLBACKS, fall_back, require_able, require_kernels, to_the_host
from .transfers import insert_transfers
from .types import Causes, PlacedGraph, Placement, Plan, Supplies

if TYPE_CHECKING:
    from ..base.options import Words
    from .placing.problem import PlacementProblem


@takes_words()
def plan(
    graph: Graph,
    devices: str | Device | Sequence[str | Device],
    options: Options | None = None,
    *,
    placed: Placement | None = None,
    inputs: Collection[str] = (),
    supplies: Supplies | None = None,
    use_storage_hints: bool = True,
    reorder: bool = True,
    **words: Unpack[Words],
) -> Plan:
    """Decide devices, copies, layouts and storage of a graph, and check the result.

    ``options``: options of the plan, of which the fields for placing, storing and computing apply; ``words``
    are fields of Options, too, and take precedence. ``placed``: ready Placement of this graph on these
    devices, which replaces the options for placing. ``inputs``: graph inputs that every run sets anew, as in
    place(). ``use_storage_hints`` and ``reorder``: switches, as in assign_storage.

    Raises PlanError, CheckError, CapacityError, UnsupportedOpError, DeviceError, InputError (options, types).
    """
    if words or not isinstance(options, Options):
        options = Options.of(options, **words)
    supplies = supplies or Supplies()
    _require(graph, options.policy)
    if placed is None:
        placed = place(graph, devices, options, inputs=inputs, kernels=supplies.kernels)
    _require_match(placed, graph, devices)
    copied = PlacedGraph.of(placed) if len(placed.devices) == 1 else insert_transfers(placed)
    laid_out = assign_layouts(copied, options, by_policy=placed.by_policy)
    if options.order is not None:
        from .storage.order import in_order_of

        laid_out, reorder = in_order_of(laid_out, options.order), False
    edited = bool(options.place or options.layouts or placed.problem) or laid_out.placed.graph is not graph
    planned = assign_storage(
        laid_out,
        options,
        supplies,
        loaded=graph if edited else None,
        use_hints=use_storage_hints,
        reorder=reorder,
    )
    if options.numerics or graph.hints.numerics:
        planned = assign_numerics(planned, options)
    planned = replace(planned, placement=placed)
    policy = options.policy or graph.hints.policy
    if policy is not None:
        from .balance import assign_models  # only a balancer needs this import

        planned = assign_models(planned, policy)
    return check(planned, inplace=supplies.inplace)


def _require_match(
    placement: Placement, graph: Graph, devices: str | Device | Sequence[str | Device]
) -> None:
    if placement.graph is not graph or placement.devices != parse_list(devices):
        text = f"{placement} is of another graph or device list: make one of this graph and these devices"
        raise PlanError(text, got=placement)


def _require(graph: object, policy: str | None) -> None:
    """Raises InputError for a value that is no Graph and for an unknown policy."""
    if policy is not None:
        from .balance import require_policy

        require_policy(policy)
    if not isinstance(graph, Graph):
        kind = type(graph).__name__
        raise InputError(
            f"plan takes a Graph, got {kind}: use GraphBuilder.build() or load_graph(file)", got=kind
        )


# **************** placement ****************


@takes_words(PLACING)
def place(
    graph: Graph,
    devices: str | Device | Sequence[str | Device],
    options: Options | None = None,
    *,
    pins: Mapping[str, str | Device] | None = None,
    inputs: Collection[str] = (),
    kernels: Mapping[str, Collection[str]] | None = None,
    constants: Collection[str] | None = None,
    weights: Mapping[str, str] | None = None,
    **words: Unpack[Words],
) -> Placement:
    """Give each node a device of ``devices``.

    ``options``: options of which the fields for placing apply (gr.Options describes each field), and the
    formats, layouts and numerics, which later passes will use. ``words`` are such fields, too, and take
    precedence; ``pins`` replaces the field ``place``. Costs depend on the other arguments. ``inputs``: graph
    inputs that every run sets anew. ``kernels``: {function: device kinds for which libraries have the
    function}. ``constants``: inputs whose values are known to rewrite.target, which runs later. ``weights``:
    {host: format that rewrite.target gives the weights of the host's products}.

    Raises PlanError for a pin or mapping that names nothing, for a node whose outputs lie on two devices, for
    a policy's answer that is no placement, and under ``strict``; CapacityError if a policy finds no placement
    that has room; UnsupportedOpError, which lists all nodes for which their devices have no kernel;
    InputError for unknown words.
    """
    if words or not isinstance(options, Options):
        options = options_of(place, options, words)
    pins, kernels, placement = options.place if pins is None else pins, kernels or {}, options.placement
    devices = parse_list(devices)
    if options.fallback not in FALLBACKS:
        text = f"fallback is {' or '.join(map(repr, FALLBACKS))}, not {options.fallback!r}"
        text += did_you_mean(options.fallback, FALLBACKS)
        raise InputError(text, got=options.fallback, wanted=list(FALLBACKS))
    if placement is not None or options.objective != "serial":
        _require_known(placement, options.objective)
    causes = Causes()
    draft = _Draft(graph, devices, *_as_said(graph, devices, options, causes), causes)
    said = draft.pinned
    draft.pin(pins)
    asked = np.where(draft.pinned, draft.did, -1).astype(np.int32)
    if options.fallback == "host":
        free = draft.pinned | (placement is None)
        fallen, texts = fall_back(graph, devices, draft.did, free, kernels)
        draft.cause_id[fallen] = [causes.add(text) for text in texts]
        draft.warnings += texts
        asked[fallen] = np.where(asked[fallen] < 0, 0, asked[fallen])  # missing columns: devices[0]
    problem = None
    streamed: tuple[str, ...] = ()
    if options.stream:
        streamed = named_inputs(graph, devices, [glob for glob in options.stream if glob != AUTO], inputs)
    pricing = Pricing(_priced(options), tuple(inputs), kernels, constants, streamed, weights or {})
    if placement is not None:
        from .placing.problem import make_problem  # only policies need these imports
        from .placing.shortages import require_circular

        draft.keep_foreign(kernels)
        pin = np.where(draft.pinned, draft.did, -1)
        if AUTO in options.stream:
            pricing = _with_streamed(pricing, graph, devices, pin, placement)
        problem = make_problem(graph, devices, pricing, pin=pin)
        require_circular(problem)
        require_able(graph, devices, draft.did, kernels, problem.allowed)
        draft.follow_policy(problem, placement)
    if pricing.streamed:
        draft.keep_on_host(pricing.streamed)
    if not said.all():
        draft.place_inputs()
    require_kernels(graph, devices, draft.did, kernels)
    columns = draft.did, draft.cause_id, tuple(causes.texts), tuple(draft.warnings)
    return Placement(graph, devices, *columns, asked, problem, pricing)


def _as_said(
    graph: Graph, devices: tuple[Device, ...], options: Options, causes: Causes
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """The result of from_columns; if the file has no device columns, the first device for all nodes."""
    mapped = read_map(devices, options.device_map) if options.device_map else {}
    if graph.hints.device_type is not None:
        return from_columns(graph, devices, mapped, options.strict, causes)
    count = graph.num_nodes
    first = causes.add(f"no device column: the first device of the list, {devices[0]}")
    return np.zeros(count, np.int32), np.full(count, first, np.int32), np.zeros(count, bool), []


def _priced(options: Options) -> Options:
    """``options`` with a single cost model, which includes the topology and the interconnect."""
    if options.topology is None and options.interconnect is None:
        return options
    from ..costs import find_costs

    model = find_costs(options.costs, options.topology, options.interconnect)
    return replace(options, costs=model, topology=None, interconnect=None)


def _with_streamed(
    pricing: Pricing,
    graph: Graph,
    devices: tuple[Device, ...],
    pin: np.ndarray,
    policy: str | Callable[..., Any],
) -> Pricing:
    """``pricing`` with further inputs streamed: the weights whose streaming gives a better placement than any
    placement that fits without streaming."""
    from .placing.problem import make_problem

    streamed = pricing.streamed

    def problem(names: Collection[str]) -> PlacementProblem:
        kept = (*streamed, *(name for name in names if name not in streamed))
        return make_problem(graph, devices, replace(pricing, streamed=kept), pin=pin)

    more = choose_streamed(problem, policy, pricing.constants)
    return replace(pricing, streamed=(*streamed, *(name for name in more if name not in streamed)))


def _require_known(placement: str | Callable[..., Any] | None, objective: str) -> None:
    """Raises InputError for an unknown policy or objective."""
    from .placing.policies import find_policy
    from .placing.schedule import require_objective

    require_objective(objective)
    if placement is not None:
        find_policy(placement)


# **************** placement in the making ****************


@dataclass(slots=True)
class _Draft:
    """A placement in the making, changed in place: ``did`` and ``cause_id`` of each node; ``pinned`` bool
    [nodes]: no policy may move the node."""

    graph: Graph
    devices: tuple[Device, ...]
    did: np.ndarray
    cause_id: np.ndarray
    pinned: np.ndarray
    warnings: list[str]
    causes: Causes

    def pin(self, pins: Mapping[str, str | Device]) -> None:
        """Place the nodes that ``pins`` name."""
        for glob, target in pins.items():
            target_did = index_of(self.devices, target, f"pin {glob!r}")
            hit = matching(self.graph, glob, "pin")
            self.pinned = self.pinned | hit
            self.did[hit] = target_did
            self.cause_id[hit] = self.causes.add(f"pin {glob!r}: {self.devices[target_did]}")

    def keep_foreign(self, kernels: Mapping[str, Collection[str]]) -> None:
        """Pin each node whose function is known only to a library that the caller did not name."""
        funcs = self.graph.funcs
        unknown = [f.op is None and f.name not in (COPY, NOP) and f.name not in kernels for f in funcs]
        found = np.array([*unknown, False])[self.graph.func_id] & ~self.pinned
        if found.any():
            self.cause_id[found] = self.causes.add(
                f"only a library knows the function, and no library was named: it stays "
                f"on the first device of the list, {self.devices[0]}"
            )
        self.pinned = self.pinned | found

    def follow_policy(self, problem: PlacementProblem, policy: str | Callable[..., Any]) -> None:
        """Place the nodes that are not pinned, by a policy's decision."""
        calls = problem.graph.func_id >= 0
        free = np.flatnonzero(calls & ~self.pinned)
        name = policy if isinstance(policy, str) else getattr(policy, "__name__", "function")
        if not len(free):
            if calls.any():
                text = "decides nothing: pins and the file's device columns place every node"
                self.warnings.append(f"placement {name} {text}")
            return
        from .placing.causes import sentences
        from .placing.policies import decide

        decided = decide(problem, policy)
        self.did[free] = decided[free]
        self.cause_id[free] = [self.causes.add(text) for text in sentences(problem, decided, free, name)]

    def keep_on_host(self, streamed: Collection[str]) -> None:
        """Place the inputs that are streamed on the first host."""
        graph, chosen, kept = self.graph, set(streamed), np.zeros(self.graph.num_nodes, bool)
        kept[[n for n, name in zip(graph.inputs, graph.input_names, strict=True) if name in chosen]] = True
        self.did[kept] = next(i for i, device in enumerate(self.devices) if device.descriptor.on_host)
        self.cause_id[kept] = self.causes.add("streamed: it stays here, and each run copies it")
        self.pinned = self.pinned | kept

    def place_inputs(self) -> None:
        """Place an input without a pin where its first consumer runs. An input that no node reads and that
        the first device cannot hold goes to the host."""
        if len(self.devices) == 1:
            return
        graph, did = self.graph, self.did
        several = bool((did != did[:1]).any())
        consumer = np.full(graph.num_entries, -1, np.int64)
        consumer[graph.in_eid[::-1]] = slot_nid(graph)[::-1]  # the earliest reader is written last
        free = np.flatnonzero((graph.func_id < 0) & ~self.pinned)
        reader = consumer[graph.row_ptr[free]]
        for nid, home, text in to_the_host(graph, self.devices, did, free[reader < 0].tolist()):
            did[nid], self.cause_id[nid] = home, self.causes.add(text)
        free, reader = free[reader >= 0], reader[reader >= 0]
        if several:
            did[free] = did[reader]
            texts = (f"an input lives where its first consumer runs: {d}" for d in self.devices)
            self.cause_id[free] = np.array([self.causes.add(text) for text in texts], np.int32)[did[free]]
