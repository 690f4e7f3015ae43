"""What operations on tt tensors did, counted. What the host did in the device's stead:
run/tensors/journal.py."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..base.locks import new_lock
from ..run.tensors import journal
from .recording import now, spoil
from .store import devices

__all__ = [
    "Stats",
    "Unsupported",
    "count",
    "count_all",
    "note_exact",
    "note_graph",
    "note_host",
    "note_split",
    "stats",
    "type_of",
]

KINDS = {
    "device": "operations done on a device",
    "made": "ranges and random numbers that the host made for a device",
    "views": "images made of a view: slices, transposes, of what a storage holds",
    "partial": "writes into a part of a storage",
    "programs": "compiled programs that were submitted",
    "bucketed": "runs of a compiled graph by a program of larger sizes",
    "compiles": "graphs that torch.compile gave and that became programs",
    "fused": "nodes of their graphs that became part of others",
    "graphs_split": "graphs that torch.compile gave and that run in pieces, some operations one at a time",
    "graphs_eager": "graphs that torch.compile gave and that run op by op instead",
    "prepared": "arguments of programs that had to be brought into another layout or dtype first",
}
_MOST = 4096  # reasons that are kept apart


class Unsupported(Exception):
    """An operation cannot be done on the device; ``args[0]`` is the reason, a sentence."""


@dataclass(frozen=True)
class Stats:
    """``counts`` {kind: how often}; ``fallbacks`` {(operation, reason): how often it was done on the host},
    eager operations of the process among them; ``eager_graphs`` {reason: how many}, ``split_graphs`` {why an
    operation of a graph runs by itself: how many}, ``exact_sizes`` {why a graph has a program of its own for
    sizes: how many sets of sizes}."""

    counts: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[tuple[str, str], int] = field(default_factory=dict)
    eager_graphs: dict[str, int] = field(default_factory=dict)
    split_graphs: dict[str, int] = field(default_factory=dict)
    exact_sizes: dict[str, int] = field(default_factory=dict)

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
        lines += [f"{times:>8} operations of split graphs: {why}" for why, times in self.split_graphs.items()]
        lines += [
            f"{times:>8} sizes with a program of their own: {why}" for why, times in self.exact_sizes.items()
        ]
        return "\n".join(lines) or "nothing was done"


_lock = new_lock()
_counts = dict.fromkeys(KINDS, 0)
_graphs: dict[str, int] = {}
_split: dict[str, int] = {}
_exact: dict[str, int] = {}


def count(kind: str, times: int = 1) -> None:
    """Count events of a kind."""
    _counts[kind] += times  # may lose one of another thread's at the same moment, which is told
    if (notes := now.notes) is not None:
        notes.counts[kind] += times


def count_all(counts: Iterable[tuple[str, int]]) -> None:
    """Count events of calls that were noted before."""
    for kind, times in counts:
        _counts[kind] += times


def note_host(op: str, tensor: Any, reason: str) -> None:
    """Tell the journal that the values of a tt tensor go through the host, which is about to do ``op`` with
    them. Raises what journal.refuse raises."""
    spoil()
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
        _note(_graphs, reason)


def note_exact(reason: str) -> None:
    """Count a set of sizes that a graph has a program of its own for."""
    with _lock:
        _note(_exact, reason)


def note_split(name: str, operations: int, reasons: Iterable[str]) -> None:
    """Count a graph that runs in pieces, and warn, once, of what is left out of its programs."""
    count("graphs_split")
    found = Counter(reasons)
    with _lock:
        for reason, times in found.items():
            _note(_split, reason, times)
    shown = "; ".join(f"{reason} ({times})" for reason, times in found.most_common(4))
    more = f"; and {len(found) - 4} other reasons" if len(found) > 4 else ""
    text = f"{found.total()} of {operations} operations of graph {name} run one at a time: {shown}{more}"
    warnings.warn(text, UserWarning, stacklevel=2)


def _note(table: dict[str, int], reason: str, times: int = 1) -> None:
    key = reason if reason in table or len(table) < _MOST else "(more)"
    table[key] = table.get(key, 0) + times


def stats(clear: bool = False) -> Stats:
    """What happened since the import, or the last ``clear``, which clears eager.fallbacks(), too."""
    found: dict[tuple[str, str], int] = {}
    for one in journal.fallbacks(clear):
        key = (one.op, one.reason)
        found[key] = found.get(key, 0) + one.count
    with _lock:
        made = Stats(dict(_counts), found, dict(_graphs), dict(_split), dict(_exact))
        if clear:
            _counts.update(dict.fromkeys(KINDS, 0))
            _graphs.clear()
            _split.clear()
            _exact.clear()
    return made
