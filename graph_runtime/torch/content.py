"""Reading and writing what tt tensors show: as tensors of the runtime, or as tensors of the CPU.

image(t) -> Tensor         the values of any view, contiguous, in the layout that the device's kernels like
assign(t, Tensor)          the values of any view become these; other views of the storage see them
fetch(t) -> cpu tensor     the values on the host
put(t, cpu tensor)         the values become these
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ..base.errors import DeviceMemoryError
from ..ir.graph import TensorType
from ..ir.ops import registry
from ..run.single import apply as single
from ..run.single.upload import push
from ..run.tensors.spec import default_spec
from ..run.tensors.tensor import Tensor
from . import clock
from .counters import Unsupported, count, note_host
from .geometry import box_of
from .kinds import array_of, kind_of, tensor_of
from .store import Store, collect, number_of, store_of

__all__ = ["apply", "assign", "cut", "fetch", "image", "put", "retype", "upload"]


def apply(op: str, attrs: tuple[tuple[str, Any], ...], *inputs: Tensor) -> Tensor:
    """One op of the registry on the device. Raises Unsupported."""
    if registry.get(op) is None:
        raise Unsupported(f"the registry has no op {op}")
    try:
        made = single.apply(op, attrs, *inputs)
        if clock.running.on:
            clock.launched(number_of(inputs[0].device), op, attrs, inputs)
        return made
    except single.Refused as refused:
        if isinstance(refused.error, DeviceMemoryError):
            collect()
        raise Unsupported(refused.reason) from refused


def shows_all(tensor: torch.Tensor, store: Store) -> bool:
    """Whether a tensor shows its storage from the first byte to the last, in order."""
    return (
        tensor.is_contiguous()
        and not tensor.storage_offset()
        and tensor.numel() * tensor.element_size() == store.nbytes
    )


# **************** on the device ****************


def image(tensor: torch.Tensor) -> Tensor:
    """The values that a tt tensor with elements shows, as a tensor of the runtime of its shape.

    Raises Unsupported for a dtype that the device does not compute with, and for views that are no box.
    """
    store, kind = store_of(tensor), kind_of(tensor.dtype)
    retype(store, tensor)
    if kind.raw:
        raise Unsupported(f"{store.device} does not compute with {tensor.dtype}".replace("torch.", ""))
    if store.dtype == tensor.dtype and store.base is not None and shows_all(tensor, store):
        return _shaped(store.base, tuple(tensor.shape), store)
    key = (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
    found = store.images.get(key)
    if found is None:
        if store.dtype != tensor.dtype:
            raise Unsupported(
                f"its storage holds {store.dtype}, seen as {tensor.dtype}".replace("torch.", "")
            )
        count("views")
        found = store.keep(key, cut(tensor, store))
    return found


def _shaped(base: Tensor, shape: tuple[int, ...], store: Store) -> Tensor:
    if base.type.shape == shape:
        return base
    key = shape
    found = store.images.get(key)
    return store.keep(key, apply("reshape", (("shape", shape),), base)) if found is None else found


def _box(tensor: torch.Tensor, store: Store) -> Any:
    box = box_of(tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), _base(store).type.size)
    if box is None:
        raise Unsupported("its strides show no box of the storage")
    return box


def _base(store: Store) -> Tensor:
    if store.base is None:
        raise Unsupported("its storage has no values yet")
    return store.base


def cut(tensor: torch.Tensor, store: Store) -> Tensor:
    """The values of a view of a store with a base, cut out of it. Raises Unsupported."""
    box = _box(tensor, store)
    at = _digits(_base(store), box)
    if box.sizes != box.digits:
        axes = tuple(i for i, (s, d) in enumerate(zip(box.sizes, box.digits, strict=True)) if s != d)
        starts = tuple(box.starts[i] for i in axes)
        ends = tuple(box.starts[i] + box.sizes[i] for i in axes)
        at = apply("slice", (("starts", starts), ("ends", ends), ("axes", axes)), at)
    if box.perm != tuple(range(len(box.perm))):
        at = apply("transpose", (("perm", box.perm),), at)
    at = _reshaped(at, box.kept)
    if box.repeats:
        at = apply("broadcast_to", (("shape", tuple(tensor.shape)),), at)
    return at


def _digits(base: Tensor, box: Any) -> Tensor:
    """The storage in the shape of the box's digits; without the elements behind the last whole row."""
    if box.used != base.type.size:
        flat = _reshaped(base, (base.type.size,))
        base = apply("slice", (("starts", (0,)), ("ends", (box.used,)), ("axes", (0,))), flat)
    return _reshaped(base, box.digits)


def _reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.type.shape == shape else apply("reshape", (("shape", shape),), tensor)


def assign(tensor: torch.Tensor, values: Tensor) -> None:
    """Let a tt tensor show these values, of its dtype and shape. Raises Unsupported where the device
    cannot."""
    store = store_of(tensor)
    if shows_all(tensor, store):
        store.settle(values, tensor.dtype)
        return
    if store.dtype != tensor.dtype or kind_of(tensor.dtype).raw:
        raise Unsupported(f"its storage holds {store.dtype}".replace("torch.", ""))
    box = _box(tensor, store)
    if box.repeats:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    back = tuple(box.perm.index(i) for i in range(len(box.perm)))
    values = _reshaped(values, tuple(box.sizes[i] for i in box.perm))
    if back != tuple(range(len(back))):
        values = apply("transpose", (("perm", back),), values)
    if not box.whole:
        count("partial")
        if box.used != _base(store).type.size:
            raise Unsupported("it ends inside of a row of the storage")
        values = apply(
            "slice_update",
            (("starts", box.starts), ("axes", tuple(range(len(box.starts))))),
            _digits(_base(store), box),
            values,
        )
    store.settle(values, tensor.dtype)


# **************** on the host ****************


def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tt tensor as a contiguous CPU tensor of its own memory. Raises what failed to make
    them."""
    if tensor.is_conj() or tensor.is_neg():
        made = _fetched(tensor)
        made = made.conj() if tensor.is_conj() else made
        return (-made if tensor.is_neg() else made).resolve_conj()
    return _fetched(tensor)


def _fetched(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.numel():
        return torch.empty(tensor.shape, dtype=tensor.dtype)
    store = store_of(tensor)
    key = (tensor.dtype, tensor.shape, tensor.stride(), tensor.storage_offset())
    made = store.images.get(key)
    if made is not None:
        return tensor_of(made.numpy(), tensor.dtype, tuple(tensor.shape))
    flat = _bytes(store)
    if shows_all(tensor, store):
        return flat.view(tensor.dtype).reshape(tensor.shape)
    whole = flat[: flat.numel() // tensor.element_size() * tensor.element_size()].view(tensor.dtype)
    return whole.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).contiguous()


def _bytes(store: Store) -> torch.Tensor:
    """All bytes of a storage on the host: uint8 [nbytes]."""
    if store.base is None:
        return torch.zeros(store.nbytes, dtype=torch.uint8)
    array = store.base.numpy()
    flat = tensor_of(array, store.dtype, (array.size // kind_of(store.dtype).words,)).view(torch.uint8)
    missing = store.nbytes - flat.numel()
    return flat if missing <= 0 else torch.cat([flat, torch.zeros(missing, dtype=torch.uint8)])


def upload(values: torch.Tensor, store: Store) -> Tensor:
    """CPU values as a new tensor on the device of a store. Raises DeviceMemoryError."""
    array = array_of(values)
    kind = kind_of(values.dtype)
    spec = default_spec(store.device, TensorType(kind.stored, array.shape))
    collect()
    try:
        return push(array, spec)
    except DeviceMemoryError:
        collect()
        return push(array, spec)


def put(tensor: torch.Tensor, values: torch.Tensor, op: str | None = None) -> None:
    """Let a tt tensor show CPU values of its dtype and shape. ``op``: what the journal calls it where the
    whole storage has to go through the host for that; None: it knows already."""
    if not tensor.numel():
        return
    if tensor.is_conj() or tensor.is_neg():  # what is stored is not what it shows
        values = values.conj() if tensor.is_conj() else values
        values = (-values if tensor.is_neg() else values).resolve_conj()
    store = store_of(tensor)
    if shows_all(tensor, store):
        store.base = None  # first: memory for both is not needed
        store.settle(upload(values, store), tensor.dtype)
        return
    try:
        assign(tensor, upload(values, store))
    except Unsupported as refused:
        if op is not None:
            note_host(op, tensor, refused.args[0])
        flat = _bytes(store)
        usable = flat.numel() // tensor.element_size() * tensor.element_size()
        seen = flat[:usable].view(tensor.dtype)
        seen.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(values)
        _settle_bytes(store, flat)


def _settle_bytes(store: Store, flat: torch.Tensor) -> None:
    """A storage gets all its bytes anew, in the dtype and shape that it had."""
    dtype = store.dtype
    if store.nbytes % dtype.itemsize:
        dtype = torch.uint8
    shape: tuple[int, ...] = (store.nbytes // dtype.itemsize,)
    if (
        store.base is not None
        and dtype == store.dtype
        and kind_of(dtype).words == 1
        and math.prod(store.base.type.shape) == shape[0]
    ):
        shape = store.base.type.shape
    store.settle(upload(flat[: store.nbytes].view(dtype).reshape(shape), store), dtype)


def retype(store: Store, tensor: torch.Tensor) -> None:
    """Let a storage that was made as plain bytes (of a file, say) hold them as the dtype by which a tensor
    shows all of it."""
    if store.dtype == torch.uint8 != tensor.dtype and shows_all(tensor, store) and tensor.numel():
        store.settle(upload(fetch(tensor), store), tensor.dtype)
