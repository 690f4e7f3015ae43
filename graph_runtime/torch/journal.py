"""What operations on tt tensors did, counted: on the device, on the host and why, conversions of layout."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..errors import UnsupportedOpError
from ..locks import new_lock

__all__ = ["Refused", "Stats", "count", "forbidden", "no_fallback", "note_fallback", "stats"]

KINDS = {
    "device": "operations done on a device",
    "views": "images made of a view: slices, transposes, of what a storage holds",
    "partial": "writes into a part of a storage",
    "programs": "compiled programs that were submitted",
    "compiles": "graphs that torch.compile gave and that became programs",
    "fused": "nodes of their graphs that became part of others",
    "graphs_eager": "graphs that torch.compile gave and that run op by op instead",
    "prepared": "arguments of programs that had to be brought into another layout or dtype first",
}
_MOST = 4096  # reasons that are kept apart


class Refused(Exception):
    """An operation cannot be done on the device; ``args[0]`` is the reason, a sentence."""


@dataclass(frozen=True)
class Stats:
    """``counts`` {kind: how often}; ``fallbacks`` {(operation, reason): how often it was done on the host};
    ``eager_graphs`` {reason: how many}."""

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
_fallbacks: dict[tuple[str, str], int] = {}
_graphs: dict[str, int] = {}
_forbidden = 0  # depth, of the process: autograd goes backward in threads of its own


def count(kind: str, times: int = 1) -> None:
    """Count events of a kind."""
    _counts[kind] += times  # may lose one of another thread's at the same moment, which is told


def note_fallback(op: str, reason: str) -> None:
    """Count an operation that is about to be done on the host. Raises UnsupportedOpError inside of
    no_fallback()."""
    if _forbidden:
        raise UnsupportedOpError(
            f"{op} would be done on the host: {reason}; no_fallback() forbids that", op=op
        )
    _add(_fallbacks, (op, reason), ("(more)", "one of more reasons than are kept"))


def note_graph(reason: str) -> None:
    """Count a graph of torch.compile's that runs op by op."""
    count("graphs_eager")
    _add(_graphs, reason, "(more)")


def _add(table: dict, key: object, spare: object) -> None:
    with _lock:
        key = key if key in table or len(table) < _MOST else spare
        table[key] = table.get(key, 0) + 1


def stats(clear: bool = False) -> Stats:
    """What happened since the import, or the last ``clear``."""
    with _lock:
        made = Stats(dict(_counts), dict(_fallbacks), dict(_graphs))
        if clear:
            _counts.update(dict.fromkeys(KINDS, 0))
            _fallbacks.clear()
            _graphs.clear()
    return made


@contextmanager
def no_fallback() -> Iterator[None]:
    """Until this block ends, what would be done on the host raises UnsupportedOpError, in all threads."""
    global _forbidden
    with _lock:
        _forbidden += 1
    try:
        yield
    finally:
        with _lock:
            _forbidden -= 1


def forbidden() -> bool:
    """Whether somebody is inside of no_fallback()."""
    return bool(_forbidden)
