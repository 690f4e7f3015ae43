"""torch.autocast("tt"): products in the lower precision, sums and exponentials in float32."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

# operations that run in autocast's dtype, and operations that run in float32
_LOWER = (
    "linear.default mm.default bmm.default addmm.default baddbmm.default matmul.default conv1d.default "
    "conv2d.default convolution.default scaled_dot_product_attention.default"
).split()
_FLOAT32 = (
    "softmax.int log_softmax.int layer_norm.default nll_loss.default cross_entropy_loss.default "
    "mse_loss.default exp.default log.default pow.Tensor_Scalar sum.default sum.dim_IntList"
).split()
_KEY = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)


def _cast(x: Any, dtype: torch.dtype) -> Any:
    if isinstance(x, torch.Tensor):
        return x.to(dtype) if x.is_floating_point() and x.device.type == "tt" and x.dtype != dtype else x
    if isinstance(x, (list, tuple)):
        return type(x)(_cast(item, dtype) for item in x)
    return x


def _kernel(op: Any, lower: bool) -> Any:
    def kernel(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(_KEY):
            dtype = torch.get_autocast_dtype("tt") if lower else torch.float32
            return op(*[_cast(arg, dtype) for arg in args], **{k: _cast(v, dtype) for k, v in kwargs.items()})

    return kernel


def _bfloat16_by_default(plain: Callable[..., None]) -> Callable[..., None]:
    """autocast.__init__ with bfloat16 as tt's default dtype. set_autocast_dtype sets the default of the
    calling thread only; in other threads it would be float16."""

    @functools.wraps(plain)
    def init(self: Any, device_type: str, dtype: Any = None, *args: Any, **more: Any) -> None:
        dtype = torch.bfloat16 if dtype is None and device_type == "tt" else dtype
        plain(self, device_type, dtype, *args, **more)

    return init


def register(library: Any) -> None:
    """Add the kernels of autocast to a torch.library.Library of aten, and make bfloat16 tt's default
    dtype."""
    torch.set_autocast_dtype("tt", torch.bfloat16)
    torch.amp.autocast_mode.autocast.__init__ = _bfloat16_by_default(
        torch.amp.autocast_mode.autocast.__init__
    )
    for names, lower in ((_LOWER, True), (_FLOAT32, False)):
        for name in names:
            packet, overload = name.split(".")
            op = getattr(getattr(torch.ops.aten, packet), overload)
            library.impl(name.removesuffix(".default"), _kernel(op, lower), "AutocastPrivateUse1")
