"""tvm.nd: arrays. ``NDArray`` is graph_runtime's Tensor."""

from ...devices import cpu
from ...tensors.arrays import array, empty
from ...tensors.tensor import Tensor as NDArray

__all__ = ["NDArray", "array", "cpu", "empty"]
