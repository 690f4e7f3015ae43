"""A pytest plugin for ttnn_table.py: at most SAMPLED_MOST cases of a file, spread evenly over its tests."""

from __future__ import annotations

import os


def pytest_collection_modifyitems(items):
    most = int(os.environ.get("SAMPLED_MOST", "0"))
    if most and len(items) > most:
        items[:] = [items[at * len(items) // most] for at in range(most)]
