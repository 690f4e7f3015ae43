"""PYTHONPATH=tests/tools/no_core: in this Python, and in all that it
starts, the compiled core cannot be imported."""

import sys


class _NoCore:
    def find_spec(self, name, path=None, target=None):
        if name == "graph_runtime._core":
            raise ImportError("this run has no compiled core")


sys.meta_path.insert(0, _NoCore())
