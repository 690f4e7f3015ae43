"""Element types: torch's, DLPack's, and what a device stores.

A device stores some dtypes as they are; values of the others are kept bit by bit as integers that it has
(``raw``): they can be moved and copied there, and are computed with on the host.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..base import dtypes
from ..base.machine.devices import parse

__all__ = ["Kind", "array_of", "computed", "kind_of", "tensor_of", "torch_dtype", "values_of"]


@dataclass(frozen=True, slots=True)
class Kind:
    """A torch dtype: ``stored`` the dtype in which a device keeps it, ``words`` elements of that for each of
    its own, ``raw``: those are bits, not values. ``code`` and ``bits`` are DLPack's."""

    dtype: torch.dtype
    stored: str
    words: int
    raw: bool
    code: int
    bits: int


def _stored(dtype: str, f: dtypes.Format) -> Kind:
    """As it is where a tt device has it, else its bits as integers that it has, of 32 bits or fewer."""
    own, code, bits = getattr(torch, dtype), f.dlpack, 8 * f.tile_bytes // 1024
    if f.name in parse("tt:0").descriptor.formats:
        return Kind(own, dtype, 1, False, code, bits)
    word = min(bits, 32)
    return Kind(own, f"int{word}", bits // word, True, code, bits)


_KINDS = {
    k.dtype: k
    for k in (
        *(_stored(dtype, f) for dtype, f in dtypes.BY_DTYPE.items()),
        # torch has them, and no op of ours takes them
        Kind(torch.complex64, "float32", 2, True, 5, 64),  # its parts side by side
        Kind(torch.complex128, "int32", 4, True, 5, 128),
        Kind(torch.float8_e4m3fn, "uint8", 1, True, 10, 8),
        Kind(torch.float8_e5m2, "uint8", 1, True, 12, 8),
    )
}
_OF_STORED = {k.stored: k.dtype for k in _KINDS.values() if not k.raw}
# numpy has no bfloat16 that torch knows, as no dtype of an extension: bits go by integers of their width
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32, 16: torch.int32}


def kind_of(dtype: torch.dtype) -> Kind:
    """Raises TypeError for a dtype that a device cannot hold (quantized ones, bits)."""
    found = _KINDS.get(dtype)
    if found is None:
        raise TypeError(f"the device tt holds no {dtype}")
    return found


def computed() -> set[torch.dtype]:
    """The dtypes that a device computes with."""
    return set(_OF_STORED.values())


def torch_dtype(stored: str) -> torch.dtype:
    """The torch dtype of values that a device stores as they are."""
    return _OF_STORED[stored]


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The values of a CPU tensor as a C-contiguous array of the stored dtype; words of an element are a
    longer last dimension. Shares memory where the tensor is contiguous."""
    kind = kind_of(tensor.dtype)
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # dimensions of one element may have any stride, and then bits could not be seen as other dtypes
    if tensor.dim() and tensor.stride(-1) != 1:
        tensor = tensor.clone(memory_format=torch.contiguous_format)
    if tensor.dim() == 0:
        tensor = tensor.reshape(1) if kind.words > 1 else tensor
    if not kind.raw and not dtypes.is_extension(kind.stored):
        return tensor.numpy()
    shape = (*tensor.shape[:-1], tensor.shape[-1] * kind.words) if kind.words > 1 else tuple(tensor.shape)
    bits = tensor.view(_BITS[tensor.element_size()]).numpy().reshape(shape)
    return bits.view(dtypes.to_numpy(kind.stored))


def values_of(tensor: torch.Tensor) -> np.ndarray:
    """The values of a CPU tensor as a C-contiguous array of its shape and dtype, for graphs on the host: it
    computes with what devices only store. Raises TypeError for a dtype that numpy does not have."""
    kind = kind_of(tensor.dtype)
    if not kind.raw:
        return array_of(tensor).reshape(tuple(tensor.shape))
    return np.ascontiguousarray(tensor.detach().resolve_conj().resolve_neg().numpy()).reshape(tensor.shape)


def tensor_of(array: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """A CPU tensor of ``dtype`` and ``shape`` over the memory of what array_of made."""
    kind = kind_of(dtype)
    if not kind.raw and not dtypes.is_extension(kind.stored):
        return torch.from_numpy(array.reshape(shape))
    bits = array.reshape(-1).view(dtypes.to_numpy(str(_BITS[dtype.itemsize]).removeprefix("torch.")))
    return torch.from_numpy(bits).view(dtype).reshape(shape)
