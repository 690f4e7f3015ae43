"""tvm.contrib.graph_executor."""
from ....factory import create
from ....module import GraphModule

__all__ = ["GraphModule", "create"]
