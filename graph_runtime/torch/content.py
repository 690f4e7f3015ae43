"""Reading and writing the values that tt tensors show, as tensors of the runtime or of the CPU.

image(t) -> Tensor         the values of any view, contiguous, in the layout that the device's kernels prefer
assign(t, Tensor)          replace the values of any view; other views of the storage show the new values
fetch(t) -> cpu tensor     the values on the host
put(t, cpu tensor)         replace the values by those of the host
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
from .recording import now, spoil
from .store import Store, collect, devices, number_of, store_of, stored_shape

_MOST_PLACES = 2**31 - 1  # largest position, an int32


def apply(op: str, attrs: tuple[tuple[str, Any], ...], *inputs: Tensor) -> Tensor:
    """The result of one registry op, run on the inputs' device. Raises Unsupported if the device cannot run
    it."""
    if registry.get(op) is None:
        raise Unsupported(f"the registry has no op {op}")
    try:
        made = single.apply(op, attrs, *inputs)
        if clock.running.on and inputs[0].device in devices():  # work of the host has no simulated time
            clock.launched(number_of(inputs[0].device), op, attrs, inputs)
        if (notes := now.notes) is not None:
            notes.steps.append((op, attrs, inputs, made))
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
    """The values of a tt tensor with elements, as a tensor of the runtime with the same shape.

    Raises Unsupported for a dtype that the device does not compute with, and for views that cannot be
    cut out of the storage.
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
        if store.dtype != tensor.dtype and not parts_of(store, tensor):
            raise Unsupported(
                f"its storage holds {store.dtype}, seen as {tensor.dtype}".replace("torch.", "")
            )
        count("views")
        found = store.keep(key, cut(tensor, store))
    return found


def parts_of(store: Store, tensor: torch.Tensor) -> bool:
    """Whether the storage holds complex numbers and the tensor shows their real and imaginary parts, or the
    reverse. Both are stored as pairs of float32."""
    return {store.dtype, tensor.dtype} == {torch.complex64, torch.float32}


def _shaped(base: Tensor, shape: tuple[int, ...], store: Store) -> Tensor:
    if base.type.shape == shape:
        return base
    key = shape
    found = store.images.get(key)
    return store.keep(key, apply("reshape", (("shape", shape),), base)) if found is None else found


def _seen(tensor: torch.Tensor, store: Store) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """(shape, strides, offset) of a view, counted in stored words. If an element has several words, the words
    are an additional last dimension."""
    words = kind_of(store.dtype).words
    if words == 1 or parts_of(store, tensor):
        return tuple(tensor.shape), tensor.stride(), tensor.storage_offset()
    strides = (*(s * words for s in tensor.stride()), 1)
    return (*tensor.shape, words), strides, tensor.storage_offset() * words


def _box(tensor: torch.Tensor, store: Store) -> Any:
    return box_of(*_seen(tensor, store), _base(store).type.size)


def _places(tensor: torch.Tensor, store: Store) -> Tensor:
    """int32 [elements]: the position in the storage of each of a view's elements, computed on the host."""
    at = torch.zeros((), dtype=torch.int64)
    shape, strides, offset = _seen(tensor, store)
    for size, stride in zip(shape, strides, strict=True):
        at = at[..., None] + torch.arange(size) * stride
    at = (at + offset).reshape(-1)
    if int(at[-1]) > _MOST_PLACES:
        raise Unsupported("its strides reach beyond the positions of int32")
    return upload(at.to(torch.int32), store)


def _base(store: Store) -> Tensor:
    if store.base is None:
        raise Unsupported("its storage has no values yet")
    return store.base


def cut(tensor: torch.Tensor, store: Store) -> Tensor:
    """The values of a view, cut out of the store's base. If an element has several words, the words are an
    additional last dimension. Raises Unsupported."""
    box, shape = _box(tensor, store), _seen(tensor, store)[0]
    if box is None:  # the view is no box, for example overlapping windows
        flat = _reshaped(_base(store), (_base(store).type.size,))
        return _reshaped(apply("take", (("axis", 0),), flat, _places(tensor, store)), shape)
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
        at = apply("broadcast_to", (("shape", shape),), at)
    return at


def words(tensor: torch.Tensor) -> Tensor:
    """The bits of a view with elements, as stored words, in the shape that a contiguous tensor of such values
    is stored in. Raises Unsupported."""
    store, kind = store_of(tensor), kind_of(tensor.dtype)
    if store.dtype != tensor.dtype:
        raise Unsupported(f"its storage holds {store.dtype}, seen as {tensor.dtype}".replace("torch.", ""))
    return _reshaped(cut(tensor, store), stored_shape(kind, tuple(tensor.shape)))


def _digits(base: Tensor, box: Any) -> Tensor:
    """The values of a storage, reshaped to the ``digits`` of a Box (geometry.py), without the elements after
    the last whole row."""
    if box.used != base.type.size:
        flat = _reshaped(base, (base.type.size,))
        base = apply("slice", (("starts", (0,)), ("ends", (box.used,)), ("axes", (0,))), flat)
    return _reshaped(base, box.digits)


def _reshaped(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    return tensor if tensor.type.shape == shape else apply("reshape", (("shape", shape),), tensor)


def assign(tensor: torch.Tensor, values: Tensor, bound: int | None = None) -> None:
    """Write values, which have a tt tensor's dtype and shape, into that tensor. ``bound``: largest magnitude
    of the values, if they are 64-bit integers. Raises Unsupported if the device cannot write them."""
    store = store_of(tensor)
    if shows_all(tensor, store):
        store.settle(values, tensor.dtype, bound)
        return
    if store.dtype != tensor.dtype or parts_of(store, tensor):
        raise Unsupported(f"its storage holds {store.dtype}".replace("torch.", ""))
    old = store.bound
    bound = None if bound is None or old is None else max(bound, old)
    box = _box(tensor, store)
    if box.repeats if box is not None else torch._debug_has_internal_overlap(tensor) == 1:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a "
            "single memory location. Please clone() the tensor before performing the operation."
        )
    if box is None or (not box.whole and box.used != _base(store).type.size):
        count("partial")
        _scatter(tensor, store, values, bound)
        return
    back = tuple(box.perm.index(i) for i in range(len(box.perm)))
    values = _reshaped(values, tuple(box.sizes[i] for i in box.perm))
    if back != tuple(range(len(back))):
        values = apply("transpose", (("perm", back),), values)
    if not box.whole:
        count("partial")
        values = apply(
            "slice_update",
            (("starts", box.starts), ("axes", tuple(range(len(box.starts))))),
            _digits(_base(store), box),
            values,
        )
    store.settle(values, tensor.dtype, bound)


def _scatter(tensor: torch.Tensor, store: Store, values: Tensor, bound: int | None) -> None:
    """Write the elements of a view one by one, because the view is not a box of the storage."""
    flat, size = _reshaped(values, (values.type.size,)), _base(store).type.size
    base, shape = _reshaped(_base(store), (size,)), _base(store).type.shape
    made = apply("scatter_elements", (("axis", 0),), base, _places(tensor, store), flat)
    store.settle(_reshaped(made, shape), tensor.dtype, bound)


# **************** on the host ****************


def fetch(tensor: torch.Tensor) -> torch.Tensor:
    """The values of a tt tensor as a contiguous CPU tensor with its own memory. Raises the error of the
    queued work that should have made the values."""
    if tensor.is_conj() or tensor.is_neg():
        made = _fetched(tensor)
        made = made.conj() if tensor.is_conj() else made
        return (-made if tensor.is_neg() else made).resolve_conj()
    return _fetched(tensor)


def _fetched(tensor: torch.Tensor) -> torch.Tensor:
    spoil()
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
    """Write CPU values, which have a tt tensor's dtype and shape, into that tensor. ``op``: name of the
    operation in the journal, in case the whole storage must go through the host; None if the journal has the
    operation already."""
    if not tensor.numel():
        return
    if tensor.is_conj() or tensor.is_neg():  # the stored values differ from those shown
        values = values.conj() if tensor.is_conj() else values
        values = (-values if tensor.is_neg() else values).resolve_conj()
    store = store_of(tensor)
    if shows_all(tensor, store):
        store.base = None  # freed first, so that old and new values need not fit at once
        store.settle(upload(values, store), tensor.dtype, _measured(values))
        return
    try:
        assign(tensor, upload(values, store), _measured(values))
    except Unsupported as refused:
        if op is not None:
            note_host(op, tensor, refused.args[0])
        flat = _bytes(store)
        usable = flat.numel() // tensor.element_size() * tensor.element_size()
        seen = flat[:usable].view(tensor.dtype)
        seen.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).copy_(values)
        _settle_bytes(store, flat)


def _measured(values: torch.Tensor) -> int | None:
    """The largest magnitude of int64 or int32 values on the CPU; None for other dtypes, and without
    elements."""
    if values.dtype not in (torch.int64, torch.int32) or not values.numel():
        return None
    low, high = torch.aminmax(values)
    return max(abs(int(low)), abs(int(high)))


def fill(tensor: torch.Tensor, number: Any) -> None:
    """Fill a tt tensor with one number, if its dtype is one that the device only stores: the words of the
    number are repeated on the device. Raises Unsupported."""
    store, kind = store_of(tensor), kind_of(tensor.dtype)
    one = torch.tensor([number], dtype=tensor.dtype)
    words = upload(one, store)
    count = tensor.numel()
    made = apply("broadcast_to", (("shape", (count, kind.words)),), _reshaped(words, (1, kind.words)))
    made = apply("reshape", (("shape", stored_shape(kind, tuple(tensor.shape))),), made)
    assign(tensor, made, _measured(one))


def _settle_bytes(store: Store, flat: torch.Tensor) -> None:
    """Replace all bytes of a storage. The storage keeps its dtype and shape if they can hold these bytes."""
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
    """Convert a storage that was made as plain bytes (read from a file, for example) to the dtype of a tensor
    that shows all of it."""
    if store.dtype == torch.uint8 != tensor.dtype and shows_all(tensor, store) and tensor.numel():
        store.settle(upload(fetch(tensor), store), tensor.dtype)
