"""tvm.nd: arrays, and devices by their names."""

from .runtime.ndarray import (
    Device,
    NDArray,
    array,
    context,
    cpu,
    cuda,
    device,
    empty,
    from_dlpack,
    gpu,
    numpyasarray,
)

__all__ = [
    "Device",
    "NDArray",
    "array",
    "context",
    "cpu",
    "cuda",
    "device",
    "empty",
    "from_dlpack",
    "gpu",
    "numpyasarray",
]
