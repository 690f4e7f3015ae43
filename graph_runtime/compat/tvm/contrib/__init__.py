"""tvm.contrib: the executors. ``graph_runtime`` is the graph executor's name up to TVM 0.7."""

from . import cc, debugger, dlpack, download, graph_executor, graph_runtime, ndk, tar, util, utils

__all__ = [
    "cc",
    "debugger",
    "dlpack",
    "download",
    "graph_executor",
    "graph_runtime",
    "ndk",
    "tar",
    "util",
    "utils",
]
