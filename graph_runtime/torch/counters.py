"""Counts of what operations on tt tensors did. Work that the host did instead of a device is counted in
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
_MOST = 4096  # maximum number of reasons that are counted separately


class Unsupported(Exception):
    """An operation that the device cannot do; ``args[0]`` is the reason, as a sentence."""


@dataclass(frozen=True)
class Stats:
    """Counts, by key.

    ``counts``: {kind of event: number of events}.
    ``fallbacks``: {(operation, reason): number of times that the host did the operation}, including the
    fallbacks of graph_runtime.eager.
    ``eager_graphs``: {reason: number of graphs that run op by op}.
    ``split_graphs``: {reason why an operation of a graph runs by itself: number of such operations}.
    ``exact_sizes``: {reason why a set of sizes has its own program: number of such sets}.
    """

    counts: dict[str, int] = field(default_factory=dict)
    fallbacks: dict[tuple[str, str], int] = field(default_factory=dict)
    eager_graphs: dict[str, int] = field(default_factory=dict)
    split_graphs: dict[str, int] = field(default_factory=dict)
    exact_sizes: dict[str, int] = field(default_factory=dict)

    @property
    def on_host(self) -> int:
        """Number of operations done on the host."""
        return sum(self.fallbacks.values())

    def __getitem__(self, kind: str) -> int:
        return self.counts.get(kind, 0)

    def __str__(self) -> str:
        lines = [f"{count:>8} {KINDS[kind]}" for kind, count in self.counts.items()]
        lines += [f"{times:>8} {op} on the host: {why}" for (op, why), times in self.fallbacks.items()]
        for what, reasons in (
            ("graphs run op by op", self.eager_graphs),
            ("operations of split graphs", self.split_graphs),
            ("sizes with a program of their own", self.exact_sizes),
        ):
            lines += [f"{times:>8} {what}: {why}" for why, times in reasons.items()]
        return "\n".join(lines) or "nothing was done"


_lock = new_lock()
_counts = dict.fromkeys(KINDS, 0)
_reasons: dict[str, dict[str, int]] = {"eager_graphs": {}, "split_graphs": {}, "exact_sizes": {}}


def count(kind: str, times: int = 1) -> None:
    """Count events of a kind."""
    _counts[kind] += times  # if two threads count at once, one count may be lost (as documented)
    if (notes := now.notes) is not None:
        notes.counts[kind] += times


def count_all(counts: Iterable[tuple[str, int]]) -> None:
    """Count the events of an earlier call, from its notes."""
    for kind, times in counts:
        _counts[kind] += times


def note_host(op: str, tensor: Any, reason: str) -> None:
    """Tell the journal that the host is about to do ``op``, for which the values of a tt tensor go through
    the host. Raises what journal.refuse raises."""
    spoil()
    device, types = devices()[tensor.device.index], (type_of(tensor),)
    journal.refuse(op, device, types, reason)
    journal.record(op, device, types, reason, tensor.numel() * tensor.element_size())


def type_of(tensor: Any) -> str:
    """The journal's text for a torch tensor, such as "float32[2, 3]", in the form used for the runtime's
    tensors."""
    return f"{tensor.dtype}{list(tensor.shape)}".removeprefix("torch.")


def note_graph(reason: str) -> None:
    """Count a graph of torch.compile that runs op by op."""
    count("graphs_eager")
    _note("eager_graphs", reason)


def note_exact(reason: str) -> None:
    """Count a set of sizes for which a graph gets its own program."""
    _note("exact_sizes", reason)


def note_split(name: str, operations: int, reasons: Iterable[str]) -> None:
    """Count a graph that runs in pieces; the first time, warn about the operations that its programs leave
    out."""
    count("graphs_split")
    found = Counter(reasons)
    for reason, times in found.items():
        _note("split_graphs", reason, times)
    shown = "; ".join(f"{reason} ({times})" for reason, times in found.most_common(4))
    more = f"; and {len(found) - 4} other reasons" if len(found) > 4 else ""
    text = f"{found.total()} of {operations} operations of graph {name} run one at a time: {shown}{more}"
    warnings.warn(text, UserWarning, stacklevel=2)


def _note(kind: str, reason: str, times: int = 1) -> None:
    table = _reasons[kind]
    with _lock:
        key = reason if reason in table or len(table) < _MOST else "(more)"
        table[key] = table.get(key, 0) + times


def stats(clear: bool = False) -> Stats:
    """The counts since the import, or since the last call with ``clear``, which also clears
    eager.fallbacks()."""
    found: dict[tuple[str, str], int] = {}
    for one in journal.fallbacks(clear):
        key = (one.op, one.reason)
        found[key] = found.get(key, 0) + one.count
    with _lock:
        made = Stats(dict(_counts), found, **{kind: dict(table) for kind, table in _reasons.items()})
        if clear:
            _counts.update(dict.fromkeys(KINDS, 0))
            for table in _reasons.values():
                table.clear()
    return made
