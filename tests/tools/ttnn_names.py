"""Count the names of ttnn 0.81.1 (graph_runtime/ttnn/released/names.txt): served, declined by reason, absent.

python tests/tools/ttnn_names.py             prints the counts
python tests/tools/ttnn_names.py operation   prints the names of a kind, too, that are not served
"""

from __future__ import annotations

import functools
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.released.absent import Absent
from graph_runtime.ttnn.released.names import released_names


def states() -> Iterator[tuple[str, str, str]]:
    """(kind, name, "served", "absent" or the reason) of each name of the release."""
    for module, names in released_names().items():
        for name, kind in names.items():
            path = f"{module}.{name}".removeprefix(".")
            yield kind, path, state(path)


def state(path: str) -> str:
    try:
        found = functools.reduce(getattr, path.split("."), ttnn)
    except AttributeError:
        return "absent"
    if isinstance(found, Absent):
        return found.reason
    return getattr(found, "reason", "") or "served" if isinstance(found, ttnn.Operation) else "served"


def main() -> int:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    shown: dict[str, list[str]] = defaultdict(list)
    for kind, name, how in states():
        counts[kind][how] += 1
        if kind in sys.argv[1:] and how != "served":
            shown[how].append(name)
    for kind, of in sorted(counts.items()):
        print(f"{kind}: {of['served']} of {sum(of.values())} served, {of['absent']} absent")
        for how, count in of.most_common():
            if how not in ("served", "absent"):
                print(f"    {count:4}  {how}")
                if shown[how]:
                    print(f"          {' '.join(shown[how])}")
    return 1 if any(of["absent"] for of in counts.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
