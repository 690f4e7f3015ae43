"""A pytest plugin: some of the tests that were chosen.

SAMPLED_MOST (ttnn_table.py): at most so many cases of a file, spread evenly over its tests. SAMPLED_PART
(aarch64.sh): one case of so many of each function, at least one, drawn by SEED.
"""

from __future__ import annotations

import os
import random


def pytest_collection_modifyitems(config, items):
    most = int(os.environ.get("SAMPLED_MOST", "0"))
    if most and len(items) > most:
        items[:] = [items[at * len(items) // most] for at in range(most)]
    part = int(os.environ.get("SAMPLED_PART", "1"))
    if part > 1:
        drawn = _drawn([item.nodeid for item in items], part, os.environ.get("SEED", "0"))
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in drawn])
        items[:] = [item for item in items if item.nodeid in drawn]


def _drawn(ids: list[str], part: int, seed: str) -> set[str]:
    """A smaller part of the same seed is in a larger one."""
    cases: dict[str, list[str]] = {}
    for one in ids:
        cases.setdefault(one.partition("[")[0], []).append(one)
    drawn: set[str] = set()
    for name, among in cases.items():
        random.Random(f"{seed} {name}").shuffle(among)
        drawn.update(among[: -(-len(among) // part)])
    return drawn
