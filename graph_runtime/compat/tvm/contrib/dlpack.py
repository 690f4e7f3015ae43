"""tvm.contrib.dlpack: functions that accept other packages' tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..runtime.ndarray import from_dlpack

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    tvm_func: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """``tvm_func`` as a function on tensors of another type, whose memory it reads and writes directly."""

    def called(*args: Any) -> Any:
        return tvm_func(
            *[from_dlpack(to_dlpack_func(arg)) if isinstance(arg, tensor_type) else arg for arg in args]
        )

    return called


def to_pytorch_func(tvm_func: Callable[..., Any]) -> Callable[..., Any]:
    """``tvm_func`` as a function on torch's tensors."""
    import torch
    from torch.utils.dlpack import to_dlpack

    return convert_func(tvm_func, torch.Tensor, to_dlpack)
