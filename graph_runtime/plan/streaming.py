"""Streamed inputs: weights that stay on the host. Each run copies these weights to the device that reads
them, into memory that other values share; other weights lie on a device for as long as the session lives.

    "conv*", "w1"    streams the inputs whose names match these globs
    "auto"           streams as many of the largest weights as are needed for a placement to fit, if a policy
                     finds this placement better than any placement that fits without streaming
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import CapacityError, InputError, PlanError, did_you_mean
from ..base.machine.devices import Device
from ..ir.graph import Graph

if TYPE_CHECKING:
    from .placing.problem import PlacementProblem

AUTO = "auto"


def named_inputs(
    graph: Graph, devices: Sequence[Device], globs: Sequence[str], inputs: Collection[str]
) -> tuple[str, ...]:
    """The inputs that ``globs`` name, in the graph's order, without ``inputs``, which every run sets anyway.

    Raises PlanError for a glob that names no input, and for an input into which an output is written;
    InputError if there is no host to keep the streamed inputs.
    """
    names = list(graph.input_names)
    found: set[str] = set()
    for glob in globs:
        hits = fnmatch.filter(names, glob)
        if not hits:
            text = f"stream {glob!r} matches no input of the graph{did_you_mean(glob, names)}"
            raise PlanError(text, got=glob)
        found.update(hits)
    written = {names[into] for _, into in graph.hints.aliases if 0 <= into < len(names)}
    if found & written:
        name = sorted(found & written)[0]
        text = f"input {name!r} cannot be streamed: an output is written into it, on the device"
        raise PlanError(text, got=name, node=name)
    found -= set(inputs)
    if found and not any(device.descriptor.on_host for device in devices):
        text = "streamed inputs stay on a host: add one to the list of devices, as cpu:0"
        raise InputError(text, got=[str(device) for device in devices])
    return tuple(name for name in names if name in found)


def choose_streamed(
    make: Callable[[tuple[str, ...]], PlacementProblem],
    policy: str | Callable[..., Any],
    constants: Collection[str] | None,
) -> tuple[str, ...]:
    """The weights to stream for the best result of ``policy``; () if all weights have room, or streaming
    gains nothing. ``make``: function that makes the problem for given streamed inputs. ``constants``: inputs
    that are constants; None: they are not known."""
    from .placing.policies import decide, wanted_room
    from .placing.schedule import NO_ROOM, evaluate

    def ns_of(streamed: tuple[str, ...]) -> int:
        problem = make(streamed)
        try:
            did = decide(problem, policy)
        except CapacityError:
            return NO_ROOM
        return int(evaluate(problem, did[None])[0])

    problem = make(())
    missing = wanted_room(problem)
    if missing is None or not problem.on_host.any():
        return ()
    needed = missing.fields["needed"] - missing.fields["available"]
    device = [str(one) for one in problem.devices].index(missing.fields["device"])
    found = _weights(problem, device, constants)
    total = np.cumsum([nbytes for _, nbytes in found])
    counts = {
        min(int(np.searchsorted(total, needed * share + found[0][1])) + 1, len(found))
        for share in (1, 2, 4, 8)
        if found
    }
    streamed: tuple[str, ...] = ()
    best = ns_of(())
    for count in sorted(counts | {len(found)} - {0}):
        names = tuple(name for name, _ in found[:count])
        ns = ns_of(names)
        if ns < best:
            best, streamed = ns, names
    return streamed


def _weights(
    problem: PlacementProblem, device: int, constants: Collection[str] | None
) -> list[tuple[str, int]]:
    """Pairs (input, bytes of a bank) of the inputs that runs do not set, largest first. If constants are
    known, the list has only constants."""
    graph, room = problem.graph, problem.room
    written = {
        int(graph.input_eids[into]) for _, into in graph.hints.aliases if 0 <= into < len(graph.inputs)
    }
    names = dict(zip(graph.input_eids.tolist(), graph.input_names, strict=True))
    sizes = zip(room.resident_eid.tolist(), room.resident[:, device].tolist(), strict=True)
    rows = [
        (names[eid], nbytes)
        for eid, nbytes in sizes
        if nbytes and eid not in written and (constants is None or names[eid] in constants)
    ]
    return sorted(rows, key=lambda row: (-row[1], row[0]))
