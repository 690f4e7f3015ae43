"""Opening of a part of a graph on a worker. The bundle is named by the hash of its contents, and its files
are sent only if the worker lacks them; the sheet of instructions is always sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..travel import content_hash, pack
from .fleet import Fleet
from .link_calls import FleetMember
from .opened_part import PartOrder
from .sheets import Sheet


@dataclass(frozen=True, slots=True, eq=False)
class RemotePart:
    """A part for a machine. ``path``: path of the part's bundle on this machine; ``sheet``: instructions for
    the machine. ``inputs``: names of the inputs of the whole graph that the part reads; ``state``: names of
    the inputs among these that the part's runs write. ``devices``: names of devices as the machine names
    them; None: the bundle's devices."""

    path: Path
    sheet: Sheet
    inputs: frozenset[str]
    state: tuple[str, ...]
    devices: tuple[str, ...] | None = None
    libraries: bool = True


class PartOpener:
    """An opener of parts on workers. ``module``: name of the module of all these parts; ``deadline``: longest
    time of each wait, in seconds."""

    def __init__(self, fleet: Fleet, module: str, threads: int | None, in_flight: int, deadline: float):
        self._fleet, self._module, self._threads = fleet, module, threads
        self._in_flight, self._deadline = in_flight, deadline
        self._hashes: dict[str, str] = {}

    def open(
        self,
        machine: str,
        part: RemotePart,
        member: FleetMember,
        values: Mapping[str, np.ndarray],
        *,
        first: int = 0,
        known: int = -1,
    ) -> None:
        """Have a worker open a machine's part, with ``values`` of inputs. ``first``: number of the first run
        that the part will see; ``known``: number of the last run that set inputs for all later runs, which
        are among the values. Raises the worker's errors."""
        digest = self._sent(machine, part, member)
        own = (self._threads, self._in_flight, first, known)
        order = PartOrder(self._module, digest, part.sheet, part.devices, part.libraries, *own)
        given = {name: value for name, value in values.items() if name in part.inputs}
        self._fleet.ask(member, {"do": "open", "order": order}, given, self._deadline)

    def _sent(self, machine: str, part: RemotePart, member: FleetMember) -> str:
        """The hash of a part's bundle, after the bundle was sent to the worker, if the worker lacked it."""
        packed = None
        if machine not in self._hashes:
            packed = pack(part.path, bytes)
            self._hashes[machine] = content_hash(packed)
        digest, fleet, seconds = self._hashes[machine], self._fleet, self._deadline
        if fleet.ask(member, {"do": "store", "hash": digest}, seconds=seconds).header["there"]:
            return digest
        packed = packed or pack(part.path, bytes)
        for name, (_, data) in packed.items():
            block = {"file": np.frombuffer(data, np.uint8)}
            header = {"file": name, "hash": digest}
            fleet.own.endpoint.send(member.address, header, block, time.monotonic() + seconds)
        files = {name: sha256 for name, (sha256, _) in packed.items()}
        fleet.ask(member, {"do": "store", "hash": digest, "files": files}, seconds=seconds)
        return digest
