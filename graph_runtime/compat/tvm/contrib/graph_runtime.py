"""tvm.contrib.graph_runtime: the name of graph_executor in TVM 0.2 to 0.7."""

from .graph_executor import GraphModule, create

__all__ = ["GraphModule", "create"]
