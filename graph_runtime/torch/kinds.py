"""Element types: torch's, DLPack's, and what a device stores.

A device stores values of some dtypes directly. Of other dtypes (``raw``) it stores the bits, as integers of a
dtype that it has: it can move and copy such values, and the host computes with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from ..base import dtypes
from ..base.machine.devices import parse


@dataclass(frozen=True, slots=True)
class Kind:
    """A torch dtype, and how devices store it. An element is stored as ``words`` elements of dtype
    ``stored``; ``raw``: whether the words hold the element's bits rather than its value. ``code``, ``bits``:
    type code and number of bits in DLPack."""

    dtype: torch.dtype
    stored: str
    words: int
    raw: bool
    code: int
    bits: int


def _stored(dtype: str, f: dtypes.Format) -> Kind:
    """The Kind of a dtype. Values are stored directly if tt devices have the dtype; otherwise their bits are
    stored as integers of at most 32 bits."""
    own, code, bits = getattr(torch, dtype), f.dlpack, 8 * f.tile_bytes // 1024
    if f.name in parse("tt:0").descriptor.formats:
        return Kind(own, dtype, 1, False, code, bits)
    word = min(bits, 32)
    return Kind(own, f"int{word}", bits // word, True, code, bits)


_KINDS = {
    k.dtype: k
    for k in (
        *(_stored(dtype, f) for dtype, f in dtypes.BY_DTYPE.items()),
        # torch's dtypes that no op of the registry takes
        Kind(torch.complex64, "float32", 2, True, 5, 64),  # real part, then imaginary part
        Kind(torch.complex128, "int32", 4, True, 5, 128),
        Kind(torch.float8_e4m3fn, "uint8", 1, True, 10, 8),
        Kind(torch.float8_e5m2, "uint8", 1, True, 12, 8),
    )
}
_OF_STORED = {k.stored: k.dtype for k in _KINDS.values() if not k.raw}
# torch cannot read the bfloat16 that an extension adds to numpy, so torch and numpy exchange bits as integers
_BITS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int32, 16: torch.int32}


def kind_of(dtype: torch.dtype) -> Kind:
    """The Kind of a dtype. Raises TypeError for a dtype that devices cannot hold (quantized values, bits)."""
    found = _KINDS.get(dtype)
    if found is None:
        raise TypeError(f"the device tt holds no {dtype}")
    return found


def computed() -> set[torch.dtype]:
    """The dtypes that a device computes with."""
    return set(_OF_STORED.values())


def torch_dtype(stored: str) -> torch.dtype:
    """The torch dtype of values that a device stores directly as dtype ``stored``."""
    return _OF_STORED[stored]


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The values of a CPU tensor as a C-contiguous array of the stored dtype. If an element has several
    words, the last dimension is longer by that factor. The array shares the memory of a contiguous tensor."""
    kind = kind_of(tensor.dtype)
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    # a dimension of size 1 may have any stride, which would prevent a view as another dtype
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
    """The values of a CPU tensor as a C-contiguous array of its shape and dtype, for graphs on the host,
    whose ops take all of these dtypes. Raises TypeError for a dtype that numpy does not have."""
    kind = kind_of(tensor.dtype)
    if not kind.raw:
        return array_of(tensor).reshape(tuple(tensor.shape))
    return np.ascontiguousarray(tensor.detach().resolve_conj().resolve_neg().numpy()).reshape(tensor.shape)


def tensor_of(array: np.ndarray, dtype: torch.dtype, shape: tuple[int, ...]) -> torch.Tensor:
    """A CPU tensor of ``dtype`` and ``shape`` that shares the memory of an array made by array_of."""
    kind = kind_of(dtype)
    if not kind.raw and not dtypes.is_extension(kind.stored):
        return torch.from_numpy(array.reshape(shape))
    bits = array.reshape(-1).view(dtypes.to_numpy(str(_BITS[dtype.itemsize]).removeprefix("torch.")))
    return torch.from_numpy(bits).view(dtype).reshape(shape)
