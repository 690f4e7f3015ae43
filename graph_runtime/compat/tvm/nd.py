"""tvm.nd: arrays. ``NDArray`` is graph_runtime's Tensor."""

from ...base.machine.devices import cpu
from ...run.tensors.arrays import array, empty
from ...run.tensors.tensor import Tensor as NDArray

__all__ = ["NDArray", "array", "cpu", "empty"]
