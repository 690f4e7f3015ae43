"""tvm.nd: arrays. ``NDArray`` is graph_runtime's Tensor."""
from ...arrays import array, empty
from ...devices import cpu
from ...tensor import Tensor as NDArray

__all__ = ["NDArray", "array", "cpu", "empty"]
