"""Graph + devices -> Placement: which device each node runs on, and why.

A pin decides first, then the file's device columns, then a policy (placing/), else devices[0]; an input
without any of these goes to its first consumer. The caller's list keeps its order: its first device is the
fallback, whatever its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import InputError, PlanError, did_you_mean
from ..base.machine.devices import Device, dl_types, parse, parse_list, type_name
from ..ir.graph import COPY, NOP, Graph
from .columns import intern, slot_nid
from .fallbacks import FALLBACKS, fall_back, require_able, require_kernels, to_the_host
from .globs import matching
from .streaming import AUTO, choose_streamed, named_inputs
from .types import Placement, Pricing

if TYPE_CHECKING:
    from ..base.machine.topology import Topology
    from ..costs import CostModel
    from .placing.problem import PlacementProblem

__all__ = ["place"]


def place(
    graph: Graph,
    devices: str | Device | Sequence[str | Device],
    *,
    pins: Mapping[str, str | Device] | None = None,
    device_map: Mapping[str, str | Device] | None = None,
    strict: bool = False,
    placement: str | Callable[[PlacementProblem], np.ndarray] | None = None,
    objective: str = "serial",
    fallback: str = "error",
    inputs: Collection[str] = (),
    formats: Mapping[str, str] | None = None,
    kernels: Mapping[str, Collection[str]] | None = None,
    costs: CostModel | str | None = None,
    topology: Topology | str | None = None,
    constants: Collection[str] | None = None,
    stream: Sequence[str] = (),
) -> Placement:
    """Give each node a device of ``devices``.

    ``pins``: glob over node name, op name and function name -> device; the last one that matches a node wins.
    ``device_map``: a DLDeviceType, by name or number, -> device: what the file's column calls "opencl" runs
    on tt:0. ``strict``: a type or ordinal that the list does not have is an error instead of a warning.
    ``placement``: what places the rest: a policy's name (PLACEMENT_POLICIES), "package.module:function", or
    such a function; None: devices[0]. ``objective``: what policies make least, "serial", "makespan" or
    "throughput". ``fallback``: a node that was asked to run where it cannot is an "error", or runs on a
    "host" of the list, with a warning. Costs: ``inputs``, graph inputs that every run sets anew; ``formats``,
    device -> format of its floats; ``kernels``, function -> device kinds that libraries have it for;
    ``costs``, a costs.CostModel or "package.module:Name" of one, None: this package's; ``topology``, how
    chips are cabled, by name, path or as a Topology; ``constants``, inputs that rewrite.target, which
    follows, knows. ``stream``: globs over the inputs that stay on the host and that every run copies, or
    "auto" (streaming.py).

    Raises PlanError for a pin or mapping that names nothing, for a node whose outputs lie on two devices, for
    a policy's answer that is no placement, and under ``strict``; UnsupportedOpError, which lists all of
    them, where devices have no kernel for nodes; InputError for unknown words.
    """
    devices = parse_list(devices)
    _require_fallback(fallback)
    if placement is not None or objective != "serial":
        _require_known(placement, objective)
    causes = _Causes()
    did, cause_id, said, warnings = _from_columns(graph, devices, device_map or {}, strict, causes)
    pinned = _apply_pins(graph, devices, pins or {}, did, cause_id, causes) | said
    asked, kernels = np.where(pinned, did, -1).astype(np.int32), kernels or {}
    if fallback == "host":
        fallen, texts = fall_back(graph, devices, did, pinned | (placement is None), kernels)
        cause_id[fallen] = [causes.add(text) for text in texts]
        warnings += texts
        asked[fallen] = np.where(asked[fallen] < 0, 0, asked[fallen])  # devices[0] was asked for
    problem, streamed = None, named_inputs(graph, devices, [g for g in stream if g != AUTO], inputs)
    if topology is not None:
        from ..costs import find_costs

        costs = find_costs(costs, topology)
    if placement is not None:
        from .placing.problem import make_problem  # policies and costs are loaded where they decide only

        pinned |= _foreign(graph, kernels, pinned, cause_id, causes, devices)
        make = partial(
            make_problem,
            graph,
            devices,
            pin=np.where(pinned, did, -1),
            inputs=inputs,
            formats=formats,
            kernels=kernels,
            costs=costs,
            objective=objective,
            constants=constants,
        )
        if AUTO in stream:
            more = choose_streamed(lambda names: make(streamed={*streamed, *names}), placement, constants)
            streamed = (*streamed, *(name for name in more if name not in streamed))
        problem = make(streamed=streamed)
        require_able(graph, devices, did, kernels, problem.allowed)
        warnings += _follow_policy(problem, placement, pinned, did, cause_id, causes)
    if streamed:
        pinned |= _keep_on_host(graph, devices, streamed, did, cause_id, causes)
    if not said.all():
        _inputs_follow(graph, devices, pinned, did, cause_id, causes)
    require_kernels(graph, devices, did, kernels)
    pricing = Pricing(tuple(inputs), formats, kernels, costs, objective, constants, streamed)
    return Placement(
        graph, devices, did, cause_id, tuple(causes.texts), tuple(warnings), asked, problem, pricing
    )


def _keep_on_host(
    graph: Graph,
    devices: tuple[Device, ...],
    streamed: Collection[str],
    did: np.ndarray,
    cause_id: np.ndarray,
    causes: _Causes,
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
        raise InputError(text, got=fallback, wanted=list(FALLBACKS))


def _require_known(placement: str | Callable[..., Any] | None, objective: str) -> None:
    """Raises InputError for words that are no policy and no objective."""
    from .placing.policies import find_policy
    from .placing.schedule import require_objective

    require_objective(objective)
    if placement is not None:
        find_policy(placement)


class _Causes:
    """The sentences of one placement, each once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> int:
        self.texts.append(text)
        return len(self.texts) - 1


# **************** policies ****************


def _foreign(
    graph: Graph,
    kernels: Mapping[str, Collection[str]],
    pinned: np.ndarray,
    cause_id: np.ndarray,
    causes: _Causes,
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
    causes: _Causes,
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


# **************** columns ****************


def _from_columns(
    graph: Graph,
    devices: tuple[Device, ...],
    device_map: Mapping[str, str | Device],
    strict: bool,
    causes: _Causes,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[str]]:
    """did and cause of each node from device_index and device_id, whether the columns say it, and the
    warnings about devices that are not there."""
    mapped = _read_map(devices, device_map)
    if graph.hints.device_type is None:
        first = causes.add(f"no device column: the first device of the list, {devices[0]}")
        count = graph.num_nodes
        return np.zeros(count, np.int32), np.full(count, first, np.int32), np.zeros(count, bool), []
    types = np.asarray(graph.hints.device_type, np.int64)
    ids = (
        np.zeros_like(types) if graph.hints.device_id is None else np.asarray(graph.hints.device_id, np.int64)
    )
    rows, row = _distinct_pairs(types, ids)
    dids, reasons, warnings = [], [], []
    for dl_type, ordinal in rows:
        did, text, missing = _resolve(dl_type, ordinal, devices, mapped)
        if missing and strict:
            raise PlanError(
                f"{text}; strict placement has no fallback: add the device or map the type",
                path="$.attrs.device_index",
                got=dl_type,
                wanted=[str(d) for d in devices],
            )
        warnings += [text] if missing else []
        dids.append(did)
        reasons.append(causes.add(text))
    entry_did = np.array(dids, np.int32)[row]
    _check_outputs_agree(graph, entry_did, devices)
    node_row = _first_entry(graph, row)
    return (
        np.array([*dids, 0], np.int32)[node_row],
        np.array(
            [*reasons, causes.add(f"makes nothing: the first device of the list, {devices[0]}")], np.int32
        )[node_row],
        np.array([*(dl_type >= 0 for dl_type, _ in rows), False])[node_row],
        warnings,
    )


def _distinct_pairs(types: np.ndarray, ids: np.ndarray) -> tuple[list[tuple[int, int]], np.ndarray]:
    """The distinct (type, ordinal) pairs of the columns, and each entry's row in them."""
    if len(types) and 0 <= types.min() and types.max() < 64 and 0 <= ids.min() and ids.max() < 64:
        distinct, row = intern(types * 64 + ids, 64 * 64)
        return [(int(k) // 64, int(k) % 64) for k in distinct], row
    distinct, row = np.unique(np.stack([types, ids], 1), axis=0, return_inverse=True)
    return [(int(t), int(i)) for t, i in distinct], row.reshape(-1)


def _first_entry(graph: Graph, row: np.ndarray) -> np.ndarray:
    """row of each node's first entry; -1 for a node that makes nothing."""
    if len(row) == graph.num_nodes:
        return row
    empty = np.diff(graph.row_ptr) == 0
    return np.where(empty, -1, np.append(row, -1)[graph.row_ptr[:-1]])


def _resolve(
    dl_type: int, ordinal: int, devices: tuple[Device, ...], mapped: dict[int, int]
) -> tuple[int, str, bool]:
    """Device index, cause, and whether the list lacks what the column asks for. -1: it says nothing."""
    if dl_type < 0:
        return 0, f"the file says no device: the first of the list, {devices[0]}", False
    name = f"device_index {dl_type} ({type_name(dl_type) or 'unknown type'})"
    if dl_type in mapped:
        return mapped[dl_type], f"{name} is mapped to {devices[mapped[dl_type]]}", False
    same = [did for did, device in enumerate(devices) if device.dl_type == dl_type]
    if not same:
        return 0, f"{name}: no such device in the list, falls back to the first, {devices[0]}", True
    if not 0 <= ordinal < len(same):
        return (
            same[0],
            (
                f"{name}, device_id {ordinal}: the list has {len(same)} of that type, "
                f"falls back to the first of them, {devices[same[0]]}"
            ),
            True,
        )
    return same[ordinal], f"{name}, device_id {ordinal}: {devices[same[ordinal]]}", False


def _read_map(devices: tuple[Device, ...], device_map: Mapping[str, str | Device]) -> dict[int, int]:
    """DLDeviceType -> index into devices."""
    mapped, types = {}, dl_types()
    for key, target in device_map.items():
        name = str(key).lower()
        if not name.isdecimal() and name not in types:
            raise PlanError(
                f"unknown device type {key!r} in the device map{did_you_mean(name, types)}", got=key
            )
        mapped[int(name) if name.isdecimal() else types[name]] = _index(
            devices, target, f"device map {key!r}"
        )
    return mapped


def _index(devices: tuple[Device, ...], target: str | Device, what: str) -> int:
    """The position of a device in the caller's list. Raises PlanError where it is not in it."""
    device = parse(target)
    for did, known in enumerate(devices):
        if (known.kind, known.ordinal) == (device.kind, device.ordinal):
            return did
    raise PlanError(
        f"{what}: {device} is not in the device list{did_you_mean(str(device), map(str, devices))}",
        got=str(device),
        wanted=[str(d) for d in devices],
    )


def _check_outputs_agree(graph: Graph, entry_did: np.ndarray, devices: tuple[Device, ...]) -> None:
    if graph.num_entries == graph.num_nodes:
        return
    differs = np.flatnonzero(np.diff(entry_did))
    nid = graph.entry_nid
    same_node = differs[nid[differs] == nid[differs + 1]]
    if len(same_node):
        eid = int(same_node[0])
        a, b = devices[entry_did[eid]], devices[entry_did[eid + 1]]
        raise PlanError(
            f"outputs of node {graph.names[nid[eid]]!r} are on {a} and {b}: a node's outputs lie on its own "
            f"device; copy one of them in a node of its own",
            path=f"$.attrs.device_index[1][{eid + 1}]",
            node=graph.names[nid[eid]],
            got=str(b),
            wanted=str(a),
        )


# **************** pins and inputs ****************


def _apply_pins(
    graph: Graph,
    devices: tuple[Device, ...],
    pins: Mapping[str, str | Device],
    did: np.ndarray,
    cause_id: np.ndarray,
    causes: _Causes,
) -> np.ndarray:
    """Write the pinned nodes into did and cause_id; bool [nodes], True where a pin matched."""
    pinned = np.zeros(graph.num_nodes, bool)
    for glob, target in pins.items():
        target_did = _index(devices, target, f"pin {glob!r}")
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
    causes: _Causes,
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
