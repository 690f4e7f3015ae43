"""What operations on tt tensors did, counted. What the host did in the device's stead:
run/tensors/journal.py."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..base.locks import new_lock
from ..run.tensors import journal
from .store import devices

__all__ = ["Stats", "Unsupported", "count", "note_graph", "note_host", "stats", "type_of"]

KINDS = {
    "device": "operations done on a device",
    "made": "ranges and random numbers that the host made for a device",
    "views": "images made of a view: slices, transposes, of what a storage holds",
    "partial": "writes into a part of a storage",
    "programs": "compiled programs that were submitted",
    "compiles": "graphs that torch.compile gave and that became programs",
    "fused": "nodes of their graphs that became part of others",
    "graphs_eager": "graphs that torch.compile gave and that run op by op instead",
    "prepared": "arguments of programs that had to be brought into another layout or dtype first",
}
_MOST = 4096  # reasons that are kept apart


class Unsupported(Exception):
    """An operation cannot be done on the device; ``args[0]`` is the reason, a sentence."""


@dataclass(frozen=True)
class Stats:
    """``counts`` {kind: how often}; ``fallbacks`` {(operation, reason): how often it was done on the host},
    eager operations of the process among them; ``eager_graphs`` {reason: how many}."""

    counts: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[tuple[str, str], int] = field(default_factory=dict)
    eager_graphs: dict[str, int] = field(default_factory=dict)

    @property
    def on_host(self) -> int:
        """Operations done on the host."""
        return sum(self.fallbacks.values())

    def __getitem__(self, kind: str) -> int:
        return self.counts.get(kind, 0)

    def __str__(self) -> str:
        lines = [f"{count:>8} {KINDS[kind]}" for kind, count in self.counts.items()]
        lines += [f"{times:>8} {op} on the host: {why}" for (op, why), times in self.fallbacks.items()]
        lines += [f"{times:>8} graphs run op by op: {why}" for why, times in self.eager_graphs.items()]
        return "\n".join(lines) or "nothing was done"


_lock = new_lock()
_counts = dict.fromkeys(KINDS, 0)
_graphs: dict[str, int] = {}


def count(kind: str, times: int = 1) -> None:
    """Count events of a kind."""
    _counts[kind] += times  # may lose one of another thread's at the same moment, which is told


def note_host(op: str, tensor: Any, reason: str) -> None:
    """Tell the journal that the values of a tt tensor go through the host, which is about to do ``op`` with
    them. Raises what journal.refuse raises."""
    device, types = devices()[tensor.device.index], (type_of(tensor),)
    journal.refuse(op, device, types, reason)
    journal.record(op, device, types, reason, tensor.numel() * tensor.element_size())


def type_of(tensor: Any) -> str:
    """What the journal says of a torch tensor, as of one of the runtime: "float32[2, 3]"."""
    return f"{tensor.dtype}{list(tensor.shape)}".removeprefix("torch.")


def note_graph(reason: str) -> None:
    """Count a graph of torch.compile's that runs op by op."""
    count("graphs_eager")
    with _lock:
        key = reason if reason in _graphs or len(_graphs) < _MOST else "(more)"
        _graphs[key] = _graphs.get(key, 0) + 1


def stats(clear: bool = False) -> Stats:
    """What happened since the import, or the last ``clear``, which clears eager.fallbacks(), too."""
    found: dict[tuple[str, str], int] = {}
    for one in journal.fallbacks(clear):
        key = (one.op, one.reason)
        found[key] = found.get(key, 0) + one.count
    with _lock:
        made = Stats(dict(_counts), found, dict(_graphs))
        if clear:
            _counts.update(dict.fromkeys(KINDS, 0))
            _graphs.clear()
    return made
