"""Kinds of tensors that tt does not have: sparse, nested and quantized tensors. Making such a tensor on tt,
or moving it there, raises an error that says what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from .required import TorchDeviceError

_INSTEAD = {
    "sparse": "keep it on the CPU (x.cpu().to_sparse()), and make embeddings with sparse=False: their "
    "gradients are dense then",
    "nested": "pad the sequences and give a mask; of nn.TransformerEncoder leave mask_check on, or say "
    "enable_nested_tensor=False",
    "quantized": "keep it on the CPU, or choose a format of the device (option formats of "
    'torch.compile(backend="tt"))',
}
_KEYS = {
    "SparsePrivateUse1": "sparse",
    "SparseCsrPrivateUse1": "sparse",
    "NestedTensorPrivateUse1": "nested",
    "QuantizedPrivateUse1": "quantized",
}


def no_layout(layout: str, op: str | None = None) -> TorchDeviceError:
    """The error for a tensor layout, given by torch's name or as one of the kinds above."""
    kind = "nested" if layout == "jagged" else "sparse" if layout.startswith("sparse") else layout
    return TorchDeviceError(
        f"the device tt has no {kind} tensors: {_INSTEAD.get(kind, _INSTEAD['sparse'])}", got=layout, op=op
    )


def _refusing(kind: str) -> Callable[..., Any]:
    def kernel(op: Any, *args: Any, **more: Any) -> Any:
        raise no_layout(kind, op._schema.name)

    return kernel


def _not_aligned(x: torch.Tensor, mask: torch.Tensor) -> bool:
    """aten::_nested_tensor_from_mask_left_aligned, by which nn.TransformerEncoder decides whether to convert
    padded tensors to nested tensors. The result False keeps the tensors padded."""
    return False


KERNELS = {"_nested_tensor_from_mask_left_aligned": _not_aligned}


def register(rest: Any) -> None:
    """Add kernels that refuse these layouts to a torch.library.Library for all namespaces."""
    for key, kind in _KEYS.items():
        rest.fallback(_refusing(kind), key)
