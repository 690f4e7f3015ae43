"""Graph + devices -> Placement: which device each node runs on, and why.

A pin decides first, then the file's device columns, then a policy (placing/), else devices[0]; an input
without any of these goes to its first consumer. The caller's list keeps its order: its first device is the
fallback, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..base.errors import InputError, did_you_mean
from ..base.machine.devices import Device, parse_list
from ..base.option_fields import PLACING
from ..base.option_words import options_of, takes_words
from ..base.options import Options
from ..ir.graph import COPY, NOP, Graph
from .columns import slot_nid
from .device_columns import Causes, from_columns, index_of
from .fallbacks import FALLBACKS, fall_back, require_able, require_kernels, to_the_host
from .globs import matching
from .pricing import Pricing
from .streaming import AUTO, choose_streamed, named_inputs
from .types import Placement

if TYPE_CHECKING:
    from ..base.options import Words
    from .placing.problem import PlacementProblem

__all__ = ["place"]


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

    ``options``: those of placing count here; ``words`` are such fields of it, which come first, and ``pins``
    is its field ``place``. gr.Options says what each of them is; formats, layouts and numerics are those
    that the plan will have. Costs: ``inputs``, graph inputs that every run sets anew; ``kernels``, function
    -> device kinds that libraries have it for; ``constants``, inputs that rewrite.target, which follows,
    knows; ``weights``: host -> format of the weights of its products, which rewrite.target gives them.

    Raises PlanError for a pin or mapping that names nothing, for a node whose outputs lie on two devices, for
    a policy's answer that is no placement, and under ``strict``; CapacityError where a policy finds nothing
    that has room; UnsupportedOpError, which lists all of them, where devices have no kernel for nodes;
    InputError for unknown words.
    """
    options = options_of(place, options, words)
    pins, kernels, placement = options.place if pins is None else pins, kernels or {}, options.placement
    devices = parse_list(devices)
    _require_fallback(options.fallback)
    if placement is not None or options.objective != "serial":
        _require_known(placement, options.objective)
    causes = Causes()
    did, cause_id, said, warnings = from_columns(graph, devices, options, causes)
    pinned = _apply_pins(graph, devices, pins, did, cause_id, causes) | said
    asked = np.where(pinned, did, -1).astype(np.int32)
    if options.fallback == "host":
        fallen, texts = fall_back(graph, devices, did, pinned | (placement is None), kernels)
        cause_id[fallen] = [causes.add(text) for text in texts]
        warnings += texts
        asked[fallen] = np.where(asked[fallen] < 0, 0, asked[fallen])  # devices[0] was asked for
    problem = None
    streamed = named_inputs(graph, devices, [glob for glob in options.stream if glob != AUTO], inputs)
    pricing = Pricing(_priced(options), tuple(inputs), kernels, constants, streamed, weights or {})
    if placement is not None:
        from .placing.problem import make_problem  # policies and costs are loaded where they decide only
        from .placing.shortages import require_circular

        pinned |= _foreign(graph, kernels, pinned, cause_id, causes, devices)
        if AUTO in options.stream:
            pricing = _with_streamed(pricing, graph, devices, np.where(pinned, did, -1), placement)
            streamed = pricing.streamed
        problem = make_problem(graph, devices, pricing, pin=np.where(pinned, did, -1))
        require_circular(problem)
        require_able(graph, devices, did, kernels, problem.allowed)
        warnings += _follow_policy(problem, placement, pinned, did, cause_id, causes)
    if streamed:
        pinned |= _keep_on_host(graph, devices, streamed, did, cause_id, causes)
    if not said.all():
        _inputs_follow(graph, devices, pinned, did, cause_id, causes)
    require_kernels(graph, devices, did, kernels)
    return Placement(
        graph, devices, did, cause_id, tuple(causes.texts), tuple(warnings), asked, problem, pricing
    )


def _priced(options: Options) -> Options:
    """With one model of costs, which knows how chips and machines are connected."""
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
    """With the weights that are streamed where that is better than what else fits."""
    streamed = pricing.streamed

    from .placing.problem import make_problem

    def problem(names: Collection[str]) -> PlacementProblem:
        kept = (*streamed, *(name for name in names if name not in streamed))
        return make_problem(graph, devices, replace(pricing, streamed=kept), pin=pin)

    more = choose_streamed(problem, policy, pricing.constants)
    return replace(pricing, streamed=(*streamed, *(name for name in more if name not in streamed)))


def _keep_on_host(
    graph: Graph,
    devices: tuple[Device, ...],
    streamed: Collection[str],
    did: np.ndarray,
    cause_id: np.ndarray,
    causes: Causes,
) -> np.ndarray:
    """bool [nodes]: the inputs that are streamed, now on the first host."""
    chosen, kept = set(streamed), np.zeros(graph.num_nodes, bool)
    kept[[n for n, name in zip(graph.inputs.tolist(), graph.input_names, strict=True) if name in chosen]] = (
        True
    )
    host = next(i for i, device in enumerate(devices) if device.descriptor.on_host)
    did[kept], cause_id[kept] = host, causes.add("streamed: it stays here, and each run copies it")
    return kept


def _require_fallback(fallback: str) -> None:
    """Raises InputError for a word that is none."""
    if fallback not in FALLBACKS:
        text = f"fallback is {' or '.join(map(repr, FALLBACKS))}, not {fallback!r}"
        text += did_you_mean(fallback, FALLBACKS)
        raise InputError(text, got=fallback, wanted=list(FALLBACKS))


def _require_known(placement: str | Callable[..., Any] | None, objective: str) -> None:
    """Raises InputError for words that are no policy and no objective."""
    from .placing.policies import find_policy
    from .placing.schedule import require_objective

    require_objective(objective)
    if placement is not None:
        find_policy(placement)


# **************** policies ****************


def _foreign(
    graph: Graph,
    kernels: Mapping[str, Collection[str]],
    pinned: np.ndarray,
    cause_id: np.ndarray,
    causes: Causes,
    devices: tuple[Device, ...],
) -> np.ndarray:
    """bool [nodes]: nodes without a pin whose function only a library knows that the caller did not name."""
    unknown = [f.op is None and f.name not in (COPY, NOP) and f.name not in kernels for f in graph.funcs]
    found = np.array([*unknown, False])[graph.func_id] & ~pinned
    if found.any():
        cause_id[found] = causes.add(
            f"only a library knows the function, and no library was named: it stays "
            f"on the first device of the list, {devices[0]}"
        )
    return found


def _follow_policy(
    problem: PlacementProblem,
    policy: str | Callable[..., Any],
    pinned: np.ndarray,
    did: np.ndarray,
    cause_id: np.ndarray,
    causes: Causes,
) -> list[str]:
    """Write what a policy says into did and cause_id; warnings."""
    calls = problem.graph.func_id >= 0
    free = np.flatnonzero(calls & ~pinned)
    name = policy if isinstance(policy, str) else getattr(policy, "__name__", "function")
    if not len(free):
        return (
            [f"placement {name} decides nothing: pins and the file's device columns place every node"]
            if calls.any()
            else []
        )
    from .placing.causes import sentences
    from .placing.policies import decide

    decided = decide(problem, policy)
    did[free] = decided[free]
    cause_id[free] = [causes.add(text) for text in sentences(problem, decided, free, name)]
    return []


# **************** pins and inputs ****************


def _apply_pins(
    graph: Graph,
    devices: tuple[Device, ...],
    pins: Mapping[str, str | Device],
    did: np.ndarray,
    cause_id: np.ndarray,
    causes: Causes,
) -> np.ndarray:
    """Write the pinned nodes into did and cause_id; bool [nodes], True where a pin matched."""
    pinned = np.zeros(graph.num_nodes, bool)
    for glob, target in pins.items():
        target_did = index_of(devices, target, f"pin {glob!r}")
        hit = matching(graph, glob, "pin")
        pinned |= hit
        did[hit] = target_did
        cause_id[hit] = causes.add(f"pin {glob!r}: {devices[target_did]}")
    return pinned


def _inputs_follow(
    graph: Graph,
    devices: tuple[Device, ...],
    pinned: np.ndarray,
    did: np.ndarray,
    cause_id: np.ndarray,
    causes: Causes,
) -> None:
    """Inputs that nothing placed live where their first consumer runs; one that nothing reads, and that the
    first device cannot hold, on the host."""
    if len(devices) == 1:
        return
    several = bool((did != did[:1]).any())
    consumer = np.full(graph.num_entries, -1, np.int64)
    consumer[graph.in_eid[::-1]] = slot_nid(graph)[::-1]  # the earliest is written last and stays
    free = np.flatnonzero((graph.func_id < 0) & ~pinned)
    reader = consumer[graph.row_ptr[free]]
    for nid, home, text in to_the_host(graph, devices, did, free[reader < 0].tolist()):
        did[nid], cause_id[nid] = home, causes.add(text)
    free, reader = free[reader >= 0], reader[reader >= 0]
    if not several:
        return
    did[free] = did[reader]
    texts = [causes.add(f"an input lives where its first consumer runs: {d}") for d in devices]
    cause_id[free] = np.array(texts, np.int32)[did[free]]
