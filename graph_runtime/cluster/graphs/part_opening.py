"""How a worker gets its part of a graph: the bundle by its content's hash, its files only if they are not
there yet, and the sheet that says what it does.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..travel import content_hash, pack
from .fleet import Fleet
from .fleet_members import FleetMember

__all__ = ["PartOpener", "RemotePart"]


@dataclass(frozen=True, slots=True, eq=False)
class RemotePart:
    """What a machine is to open: the bundle at ``path`` here, by ``sheet``; ``inputs`` of the whole graph
    that it reads, ``state``: those of them that its runs write. ``devices`` there, None: the bundle's."""

    path: Path
    sheet: Mapping[str, Any]
    inputs: frozenset[str]
    state: tuple[str, ...]
    devices: tuple[str, ...] | None = None
    libraries: bool = True


class PartOpener:
    """Opens parts of one ``module`` on workers. ``deadline``: seconds of each wait."""

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
        """Have a worker open a machine's part, with ``values`` of inputs. ``first`` run that it will see,
        and the last one, ``known``, whose inputs for all later runs are among the values. Raises what it
        raises."""
        digest = self._sent(machine, part, member)
        header = {
            "do": "open",
            "module": self._module,
            "hash": digest,
            "sheet": part.sheet,
            "devices": part.devices,
            "threads": self._threads,
            "libraries": part.libraries,
            "first": first,
            "known": known,
            "in_flight": self._in_flight,
        }
        given = {name: value for name, value in values.items() if name in part.inputs}
        self._fleet.ask(member, header, given, self._deadline)

    def _sent(self, machine: str, part: RemotePart, member: FleetMember) -> str:
        """The hash of a part's bundle, which the worker has then."""
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
