"""Tensors of the runtime in the device's memory, found by the address of a torch storage.

    torch storage --address--> Store
    Store.base      the values, row after row, in the layout that is best for the device
    Store.images    the same values as views show them; an image is made when an op needs it

Values are immutable: a write makes a new base (and drops the images), so copies and detached tensors share
memory until one of them is written. The address of a storage is no address of host memory: reading
there faults.
"""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections import OrderedDict
from typing import Any

import torch

from ..base.config import get
from ..base.errors import DeviceMemoryError
from ..base.locks import new_rlock
from ..base.machine import devices as runtime_devices
from ..base.machine.devices import Device
from ..binding import core
from ..binding.core import ffi, lib
from ..ir.graph import TensorType
from ..run.queues.limbo import keep_until
from ..run.tensors.arrays import allocate
from ..run.tensors.spec import default_spec
from ..run.tensors.tensor import Tensor
from .kinds import Kind, kind_of
from .recording import now
from .required import TorchDeviceError

_MOST_IMAGES = 8  # maximum number of images of one Store: views that are used once must not fill the device

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype, _capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_from_dlpack = torch._C._from_dlpack
_export, _address, _collect = lib.gr_handle_export, lib.gr_handle_address, lib.gr_handles_collect


class Store:
    """The values of one torch storage of ``nbytes`` on ``device``, whose number in torch is ``index``.

    ``base`` holds the storage's elements, as ``dtype``, in row-major order; None while the values are
    undefined. ``images`` {(dtype, shape, strides, offset): the contiguous tensor that such a view shows}.
    ``bound``: the largest magnitude of the 64-bit integers; None if it is not known.
    """

    __slots__ = ("base", "bound", "device", "dtype", "images", "index", "nbytes")

    device: Device
    index: int
    nbytes: int

    def __init__(self, device: Device, index: int, nbytes: int, base: Tensor | None, dtype: torch.dtype):
        self.device, self.index, self.nbytes, self.base, self.dtype = device, index, nbytes, base, dtype
        self.images: OrderedDict[Any, Tensor] = OrderedDict()
        self.bound: int | None = None

    def settle(self, base: Tensor, dtype: torch.dtype, bound: int | None = None) -> None:
        """Replace the storage's values."""
        self.base, self.dtype, self.bound = base, dtype, bound
        if self.images:
            self.images = OrderedDict()

    def clear(self, nbytes: int) -> None:
        """Set the storage's size in bytes. Its values become undefined. Raises DeviceMemoryError."""
        self.nbytes, self.base, self.images = nbytes, None, OrderedDict()
        if nbytes:
            self.base = reserve(kind_of(self.dtype), (nbytes // self.dtype.itemsize,), self.device)

    def keep(self, key: Any, image: Tensor) -> Tensor:
        """Keep the image of a view; if there are too many images, drop the oldest."""
        self.images[key] = image
        if (notes := now.notes) is not None:
            notes.kept.append((self, key, image))
        while len(self.images) > _MOST_IMAGES:
            self.images.popitem(last=False)
        return image


# **************** devices ****************

_devices: tuple[Device, ...] = ()


def devices() -> tuple[Device, ...]:
    """The devices that torch knows as tt:0, tt:1, .., from the setting GR_TORCH_DEVICES."""
    global _devices
    if not _devices:
        _devices = runtime_devices.parse_list([name.strip() for name in str(get("TORCH_DEVICES")).split(",")])
    return _devices


def number_of(device: Device) -> int:
    """torch's number of a device of the runtime."""
    return devices().index(device)


def torch_device(index: int) -> torch.device:
    """torch's name of device number ``index``."""
    return torch.device("tt", index)


def device_of(device: torch.device | str | int | None) -> int:
    """The number of a torch device; None, or a device without index, means the current device. Raises
    TorchDeviceError for a missing device."""
    place = torch.device(device) if isinstance(device, str) else device
    index = place.index if isinstance(place, torch.device) else place
    index = current.index if index is None else index
    if not 0 <= index < len(devices()):
        text = f"there is no device tt:{index}: torch sees {len(devices())}, named by GR_TORCH_DEVICES"
        raise TorchDeviceError(text, device=f"tt:{index}", wanted=[str(d) for d in devices()])
    return index


class _Current(threading.local):
    """For each thread, the number of the device that "tt" means."""

    index = 0


current = _Current()


# **************** storages ****************

stores: dict[int, Store] = {}  # {address of a torch storage: its Store}
lock = new_rlock()  # guards the addresses; a finalizer that runs while it is held may take it again
_gone = ffi.new("uint64_t[256]")


def collect() -> bool:
    """Free the memory of storages that torch has dropped; return whether there were any. Functions that make
    a tensor on a device call this first."""
    with lock:
        count = _collect(_gone, 256)
        some = bool(count)
        while count:
            for address in _gone[0:count]:
                stores.pop(address, None)
            count = _collect(_gone, 256)
    return some


def _join_limbo() -> None:
    """Register collect() to be called when other code looks for memory to free."""
    keep_until(collect, _join_limbo)


_join_limbo()


class Form:
    """The description of a tensor for torch: ``dtype``, shape, and ``strides`` (None for row-major). All
    tensors of the same description share it."""

    __slots__ = ("bits", "code", "dims", "dtype", "nbytes", "ndim", "steps")

    def __init__(self, dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None):
        kind = kind_of(dtype)
        self.dtype, self.code, self.bits, self.ndim = dtype, kind.code, kind.bits, len(shape)
        self.nbytes = math.prod(shape) * dtype.itemsize
        self.dims = ffi.new("int64_t[]", shape) if shape else ffi.NULL
        self.steps = ffi.NULL if strides is None or not shape else ffi.new("int64_t[]", strides)

    def tensor(self, store: Store) -> torch.Tensor:
        """A torch tensor whose storage has the Store ``store``."""
        with lock:
            managed = _export(store.index, self.code, self.bits, self.ndim, self.dims, self.steps)
            if not managed:
                raise DeviceMemoryError(core.last_error(), device=str(store.device))
            stores[_address(managed)] = store
        return _from_dlpack(_capsule(managed, b"dltensor", None))

    def of(self, made: Tensor, index: int, bound: int | None = None) -> torch.Tensor:
        """A row-major torch tensor of values that are already on device number ``index``. ``bound``: largest
        magnitude of the values, if they are 64-bit integers."""
        store = Store(made.device, index, self.nbytes, made, self.dtype)
        store.bound = bound
        return self.tensor(store)


form_of = functools.lru_cache(maxsize=4096)(Form)


def empty(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: torch.dtype, index: int
) -> torch.Tensor:
    """A torch tensor of undefined values, row-major if ``strides`` is None. Raises DeviceMemoryError, and
    TypeError for a dtype that no device holds."""
    kind, device = kind_of(dtype), devices()[index]
    if 0 in shape:
        return Form(dtype, shape, strides).tensor(Store(device, index, 0, None, dtype))
    count = (
        math.prod(shape)
        if strides is None
        else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    )
    dense = tuple(shape) if count == math.prod(shape) else (count,)
    store = Store(device, index, count * dtype.itemsize, reserve(kind, dense, device), dtype)
    return Form(dtype, shape, strides).tensor(store)


def reserve(kind: Kind, shape: tuple[int, ...], device: Device) -> Tensor:
    """Memory with undefined values, for values of a dtype's Kind in a shape. Raises DeviceMemoryError."""
    collect()
    spec = default_spec(device, TensorType(kind.stored, stored_shape(kind, shape)))
    holder = holder_of(kind.dtype, shape)
    try:
        made = allocate(spec.type, device, spec.layout, holder)
    except DeviceMemoryError:
        collect()
        made = allocate(spec.type, device, spec.layout, holder)
    if (notes := now.notes) is not None:
        notes.steps.append((None, (), (), made))
    return made


def holder_of(dtype: Any, shape: tuple[int, ...]) -> str:
    """The name of a tensor's memory in error texts: "torch float32 [64, 64]"."""
    return f"torch {str(dtype).removeprefix('torch.')} {list(shape)}"


def stored_shape(kind: Kind, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape in which values of a Kind are stored. If an element has several words, they follow one
    another along the last axis."""
    if kind.words == 1:
        return tuple(shape)
    return (*shape[:-1], shape[-1] * kind.words) if shape else (kind.words,)


def wrap(
    made: Tensor,
    dtype: torch.dtype,
    index: int,
    shape: tuple[int, ...] | None = None,
    bound: int | None = None,
) -> torch.Tensor:
    """A row-major torch tensor of values that are already on device number ``index``. ``shape``: shape of the
    torch tensor, given for raw values, which are stored in another shape; ``bound``: largest magnitude of the
    values, if they are 64-bit integers."""
    return form_of(dtype, made.type.shape if shape is None else tuple(shape)).of(made, index, bound)


def twin(store: Store) -> torch.Tensor:
    """uint8 [nbytes]: a tensor with a new storage that has the same bytes."""
    made = Store(store.device, store.index, store.nbytes, store.base, store.dtype)
    made.bound = store.bound
    return form_of(torch.uint8, (store.nbytes,)).tensor(made)


def store_of(tensor: torch.Tensor) -> Store:
    """The Store behind a tt tensor with elements. Raises TorchDeviceError for a storage that was not made
    here."""
    address = tensor.data_ptr()
    found = stores.get(address)
    if found is None or tensor.storage_offset():
        address -= tensor.storage_offset() * tensor.element_size()
        found = stores.get(address)
    if found is None:
        raise TorchDeviceError(
            f"the memory of this tensor on {tensor.device} was not made by graph_runtime: "
            "make tt tensors by torch's functions only",
            got=hex(address),
        )
    return found


def whole(tensor: torch.Tensor) -> Store | None:
    """The Store of a tt tensor that shows all of the Store in its stored form; None for any other tensor."""
    store = stores.get(tensor.data_ptr())  # None for CPU tensors, and for views that begin elsewhere
    if store is None or store.dtype is not tensor.dtype:
        return None
    base = store.base
    if base is None or base.type.shape != tensor.shape or not tensor.is_contiguous():
        return None
    return store


def storage_of(address: int) -> Store | None:
    """The Store of the storage at an address; None for an unknown address."""
    return stores.get(address)


def live() -> list[Store]:
    """The Stores of all storages that torch has not dropped."""
    collect()
    return list(stores.values())
