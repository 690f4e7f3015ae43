"""tvm.contrib.graph_executor."""
from ....factory import create
from ....module import GraphModule as _GraphModule

__all__ = ["GraphModule", "create"]


def GraphModule(module: _GraphModule) -> _GraphModule:  # noqa: N802 (TVM's name)
    """What ``lib["default"](device)`` returns is a GraphModule already."""
    return module
