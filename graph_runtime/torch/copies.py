"""The kernels that torch needs for any device: views, copies, resizing."""

from __future__ import annotations

from typing import Any

import torch

from ..base.dtypes import FLOATS
from ..run.tensors.tensor import Tensor
from . import content
from .counters import Unsupported, count, note_host
from .kinds import kind_of
from .magnitudes import MOST, bound_of
from .recording import spoil
from .store import devices, empty, store_of, wrap
from .wide import narrowed, whole_numbers, widened

aten = torch.ops.aten
_CPU = torch._C.DispatchKeySet(torch._C.DispatchKey.CPU)
COMPOSITE = torch._C.DispatchKeySet(torch._C.DispatchKey.CompositeExplicitAutograd)


# **************** copying ****************


def copy_from(source: torch.Tensor, target: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """aten::_copy_from: copies between host and device, or between devices, for any strides and dtypes."""
    if source.device.type == "cpu" or any(t.is_conj() or t.is_neg() for t in (source, target)):
        if source.device.type == target.device.type:
            note_host("aten::_copy_from", source, "what it shows is conjugated or negated")
        source = source if source.device.type == "cpu" else content.fetch(source)
        if target.device.type == "cpu":
            return target.copy_(source)
        content.put(target, source.to(target.dtype).expand(target.shape), "aten::_copy_from")
    elif target.device.type == "cpu":
        target.copy_(content.fetch(source).to(target.dtype))
    elif target.numel():
        _on_devices(source, target)
    return target


def _on_devices(source: torch.Tensor, target: torch.Tensor) -> None:
    try:
        bound = store_of(source).bound
        if source.dtype == target.dtype and source.shape == target.shape:
            values = _stored(source)
        else:
            bound = bound_of(source)
            values = _cast(_integers(source, target), target)
            count("device")
        content.assign(target, move(values, target), bound)
    except Unsupported as refused:
        note_host("aten::_copy_from", source, refused.args[0])
        content.put(target, content.fetch(source).to(target.dtype).expand(target.shape))


def _integers(source: torch.Tensor, target: torch.Tensor) -> Tensor:
    """The values of ``source``, with 64-bit integers as int32. Raises Unsupported if a cast from int32 to the
    target's dtype might give another result."""
    if source.dtype != torch.int64:
        return content.image(source)
    bound = bound_of(source)
    if (bound is None or bound > MOST) and (target.dtype == torch.bool or target.dtype.is_floating_point):
        raise Unsupported("its 64-bit integers may not fit 32 bits")
    return narrowed(source)


def _stored(source: torch.Tensor) -> Tensor:
    """The values of a tensor as the device stores them. For a dtype that the device only stores, the result
    has words. If the storage is copied whole, the result is its base."""
    if not kind_of(source.dtype).raw:
        return content.image(source)
    store = store_of(source)
    whole = content.shows_all(source, store) and store.dtype == source.dtype
    return content.words(source) if not whole or store.base is None else store.base


def _cast(values: Tensor, target: torch.Tensor) -> Tensor:
    kind = kind_of(target.dtype)
    if target.dtype == torch.int64:
        if values.type.dtype in FLOATS:
            return whole_numbers(_shown(_as(values, "float32"), target))
        return widened(_shown(_as(values, "int32"), target))
    if kind.raw:
        raise Unsupported(f"the device does not compute with {target.dtype}".replace("torch.", ""))
    return _shown(_as(values, kind.stored), target)


def _as(values: Tensor, dtype: str) -> Tensor:
    return values if values.type.dtype == dtype else content.apply("cast", (("to", dtype),), values)


def _shown(values: Tensor, target: torch.Tensor) -> Tensor:
    shape = tuple(target.shape)
    if values.type.shape == shape:
        return values
    return content.apply("broadcast_to", (("shape", shape),), values)


def move(values: Tensor, target: torch.Tensor) -> Tensor:
    """The values, moved to the device of the tensor ``target``."""
    device = devices()[target.device.index]
    return values if values.device == device else values.to(device, values.layout)


def duplicate(tensor: torch.Tensor) -> torch.Tensor:
    """A row-major tensor with the same values; it shares memory with ``tensor`` until one of the two is
    written."""
    bound = store_of(tensor).bound  # a bound of all elements of the storage
    return wrap(_stored(tensor), tensor.dtype, tensor.device.index, tuple(tensor.shape), bound)


def to_copy(
    source: torch.Tensor, *, pin_memory: Any = None, non_blocking: bool = False, **more: Any
) -> torch.Tensor:
    """aten::_to_copy. ``non_blocking`` has no effect: a copy to the CPU is complete when the call
    returns. torch would need pinned memory for an asynchronous copy."""
    return aten._to_copy.default.redispatch(COMPOSITE, source, **more)


def copy_from_and_resize(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """aten::_copy_from_and_resize"""
    if target.shape != source.shape:
        resize_(target, source.shape)
    return copy_from(source, target)


def local_scalar_dense(tensor: torch.Tensor) -> Any:
    """aten::_local_scalar_dense: the one element of a tensor as a Python number."""
    return content.fetch(tensor).item()


# **************** metadata only ****************


def _metadata(op: Any) -> Any:
    def kernel(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        return op.redispatch(_CPU, self, *args, **kwargs)

    return kernel


def _set(tensor: torch.Tensor, storage: Any, offset: int, size: Any, stride: Any = ()) -> torch.Tensor:
    """aten::set_.source_Storage_storage_offset"""
    made = aten.set_.source_Storage_storage_offset.redispatch(_CPU, tensor, storage, offset, size, stride)
    if made.numel():
        content.retype(store_of(made), made)
    return made


def set_storage(self: torch.Tensor, storage: Any) -> torch.Tensor:
    """aten::set_.source_Storage, which storage.cpu() needs"""
    return _set(self, storage, 0, [storage.nbytes() // self.element_size()], [1])


def set_tensor(self: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """aten::set_.source_Tensor"""
    return _set(self, other.untyped_storage(), other.storage_offset(), [*other.size()], [*other.stride()])


def resize_(self: torch.Tensor, size: Any, *, memory_format: Any = None) -> torch.Tensor:
    """aten::resize_: sets the shape, and keeps the elements for which the new shape has room."""
    shape = tuple(size)
    if shape == tuple(self.shape):
        return self
    spoil()  # a repeated call would write to the storage that this call replaces
    made = empty(shape, None, self.dtype, self.device.index)
    kept = min(self.numel(), made.numel()) if self.is_contiguous() else 0
    if kept == made.numel() and kept and not kind_of(self.dtype).raw:
        content.assign(made, content.image(self.as_strided(shape, made.stride())))
    elif kept:
        note_host("aten::resize_", self, "the host keeps the elements that fit")
        host = torch.zeros(made.numel(), dtype=self.dtype)
        host[:kept] = content.fetch(self.as_strided((self.numel(),), (1,)))[:kept]
        content.put(made, host.reshape(shape))
        count("partial")
    return set_tensor(self, made)


VIEWS = (
    aten.as_strided.default,
    aten.view.default,
    aten._reshape_alias.default,
    aten.unfold.default,
    aten.view_as_real.default,
    aten.view_as_complex.default,
)
KERNELS = {
    "_copy_from_and_resize": copy_from_and_resize,
    "_to_copy": to_copy,
    "_local_scalar_dense": local_scalar_dense,
    "set_.source_Storage_storage_offset": _set,
    "set_.source_Storage": set_storage,
    "set_.source_Tensor": set_tensor,
    "resize_": resize_,
    **{op._schema.name.removeprefix("aten::"): _metadata(op) for op in VIEWS},
}
