"""Errors about too little room on devices. Each names the memory and the bytes needed, and for what, and says
what would fit."""

from __future__ import annotations

import numpy as np

from ...base.errors import CapacityError
from ...base.machine.layout import L1
from ..supports import circular_room, too_large
from .problem import PlacementProblem


def require_circular(problem: PlacementProblem) -> None:
    """Raises CapacityError for a node whose circular buffers are too large on every device that may run the
    node, with ``node``, ``device``, ``memory``, ``needed`` and ``available`` (bytes of a core's L1)."""
    able = problem.allowed.any(1) | (problem.graph.func_id < 0)
    room = np.array([circular_room(device) for device in problem.devices])
    asked = (problem.pin[:, None] < 0) | (problem.pin[:, None] == np.arange(problem.num_devices))
    for nid, did in np.argwhere((problem.circular > room) & asked & ~able[:, None]).tolist():
        node, device, needed = problem.graph.node(nid), problem.devices[did], int(problem.circular[nid, did])
        pinned = f"it is pinned to {device}" if problem.pin[nid] == did else "no other device can run it"
        text = (
            f"node {node.name!r} ({node.op} on {device}) {too_large(needed, device)}, and {pinned}: cut node "
            f"{node.name!r} into smaller ones, or give the list a device that has room for it, as cpu:0"
        )
        raise CapacityError(
            text, device=str(device), memory=L1, needed=needed, available=int(room[did]), node=node.name
        )


def no_room(problem: PlacementProblem, did: np.ndarray, policy: str) -> CapacityError:
    """The error for a policy's answer ``did`` that does not fit, with the ``device`` and ``memory`` that lack
    the most bytes, and ``needed``, ``available``, ``parameters``, ``activations``, ``circular`` (bytes of a
    bank)."""
    room = problem.room
    parts = np.stack([part(did[None])[0] for part in (room.parameters, room.activations, room.buffers)])
    beside = np.where(parts[2] > 0, _kept_free(problem), 0)  # bytes that only circular buffers can take
    parts[2] += beside
    needed, available = parts.sum(0), room.available + beside
    worst = int(np.argmax(needed - available))
    short = [at for at in range(len(needed)) if needed[at] > available[at]]
    rows = [_shortage(problem, did, at, parts[:, at].tolist(), int(available[at])) for at in short]
    device, memory = _where(problem, worst)
    each = "" if problem.devices[device].descriptor.memory(memory).banks == 1 else ", in bytes of each bank"
    return CapacityError(
        f"placement policy {policy} found no placement that fits{each}: {'; '.join(rows)}; "
        f"change: {', or '.join(_changes(problem, did, device, memory))}",
        device=str(problem.devices[device]),
        memory=memory,
        needed=int(needed[worst]),
        available=int(available[worst]),
        parameters=int(parts[0, worst]),
        activations=int(parts[1, worst]),
        circular=int(parts[2, worst]),
    )


def _where(problem: PlacementProblem, store: int) -> tuple[int, str]:
    """(device, memory) of a store of the room."""
    device = int(problem.room.device[store])
    main = problem.devices[device].main_memory.name
    return device, main if store < problem.num_devices else L1


def _kept_free(problem: PlacementProblem) -> np.ndarray:
    """int64 [stores]: bytes of L1 that circular buffers may take and tensors may not; 0 for other
    memories."""
    room = problem.room
    free = [circular_room(problem.devices[device]) for device in room.device.tolist()]
    beside = np.arange(len(free)) >= problem.num_devices
    return np.where(beside, np.array(free) - room.available, 0)


def _shortage(
    problem: PlacementProblem, did: np.ndarray, store: int, parts: list[int], available: int
) -> str:
    room, (device, memory) = problem.room, _where(problem, store)
    named = f"{problem.devices[device]}{'' if store < problem.num_devices else ' ' + memory}"
    mine = np.flatnonzero((did == device) & (problem.graph.func_id >= 0))
    text = f"parameters and inputs {parts[0]} B, activations {parts[1]} B"
    if parts[2]:
        nid = int(np.argmax(np.where(did == device, room.circular[:, store], -1)))
        text += f", circular buffers {parts[2]} B, of node {problem.graph.names[nid]!r}"
    fitting = _fitting(problem, did, device, mine)
    return (
        f"{named} needs {sum(parts)} B of {available} B ({text}), "
        f"the first {fitting} of its {len(mine)} nodes would fit"
    )


def _fitting(problem: PlacementProblem, did: np.ndarray, device: int, mine: np.ndarray) -> int:
    """Number of a device's nodes, from the first on, that fit on it together."""
    low, high = 0, len(mine)
    while low < high:
        middle = (low + high + 1) // 2
        part = did.copy()
        part[mine[middle:]] = -1
        if problem.room.missing(part[None])[0, device] > 0:
            high = middle - 1
        else:
            low = middle
    return low


def _changes(problem: PlacementProblem, did: np.ndarray, worst: int, memory: str) -> list[str]:
    """Advice to a user about device ``worst``, whose ``memory`` lacks bytes."""
    name, calls = str(problem.devices[worst]), problem.graph.func_id >= 0
    pinned = (problem.pin == worst) & calls
    only = (problem.allowed.sum(1) == 1) & problem.allowed[:, worst] & calls
    change = ["a format of fewer bytes (--format), a smaller batch, one more device in the list"]
    if memory == L1 and problem.devices[worst].main_memory.name != L1:
        change.insert(0, f"fewer tensors in l1 (--layout '...={problem.devices[worst].main_memory.name}')")
    if pinned.any():
        change.append(f"fewer pins to {name} ({int(pinned.sum())} nodes are pinned to it)")
    if (only & ~pinned).any():
        node = problem.graph.names[int(np.flatnonzero(only & ~pinned)[0])]
        change.append(f"a device that can run what only {name} can, as node {node!r}")
    return change
