"""tvm.contrib.graph_executor."""

from functools import partial

from ....run.factory import create as _create
from ....run.module import GraphModule

create = partial(_create, unset_inputs="allow")  # in TVM an input that was never set computes, too

__all__ = ["GraphModule", "create"]
