"""tvm.contrib: the executors. ``graph_runtime`` is the graph executor's name up to 0.7."""

from . import debugger, graph_executor, graph_runtime, util, utils

__all__ = ["debugger", "graph_executor", "graph_runtime", "util", "utils"]
