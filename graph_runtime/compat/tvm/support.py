"""tvm.support: build settings, and modules of Python functions."""

from __future__ import annotations

from .runtime.module import FrontendTestModule

__all__ = ["FrontendTestModule", "libinfo"]

_HERE = ("GRAPH_EXECUTOR", "PROFILER", "RANDOM", "SORT", "THREADS")
_ELSEWHERE = (
    "AOT_EXECUTOR ARM_COMPUTE_LIB BLAS CUBLAS CUDA CUDNN DNNL HEXAGON LLVM METAL MICRO MKL NNPACK OPENCL "
    "OPENMP PIPELINE_EXECUTOR ROCM RPC TENSORRT_RUNTIME TFLITE THRUST VULKAN"
).split()


def libinfo() -> dict[str, str]:
    """TVM's build settings by name: "ON" for features that exist here, else "OFF"."""
    return {f"USE_{name}": "ON" for name in _HERE} | {f"USE_{name}": "OFF" for name in _ELSEWHERE}
