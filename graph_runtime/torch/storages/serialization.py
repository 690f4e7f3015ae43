"""Storages that are handled without tensors, as for files and copy.deepcopy. torch would look for an
allocator in C++, find none, and crash."""

from __future__ import annotations

from typing import Any

import torch

from .. import content
from ..required import TorchDeviceError
from ..store import Store, device_of, empty, storage_of, twin

_PRIORITY = 5  # our functions are tried before torch's for other devices


def _tag(storage: Any) -> str | None:
    """The location that files name for a storage; None for a storage that is not on tt."""
    untyped = getattr(storage, "_untyped_storage", storage)
    if untyped.device.type != "tt":
        return None
    found = storage_of(untyped.data_ptr())
    return "tt:0" if found is None else f"tt:{found.index}"


def _restore(storage: Any, location: str) -> Any:
    """A storage with the bytes of a CPU storage on the device that ``location`` names; None if it names no tt
    device."""
    if not (location == "tt" or location.startswith("tt:")):
        return None
    made = empty((storage.nbytes(),), None, torch.uint8, device_of(location))
    content.put(made, torch.tensor([], dtype=torch.uint8).set_(storage))
    return made.untyped_storage()


def register() -> None:
    """Register the locations tt:0, tt:1, .. with torch.save and torch.load, and the device with
    torch.UntypedStorage."""
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
    torch.UntypedStorage.__new__ = _new
    torch.UntypedStorage.clone = _clone
    torch.UntypedStorage.resize_ = _resize
    torch.UntypedStorage.nbytes = torch.UntypedStorage.size = torch.UntypedStorage.__len__ = _nbytes


_plain_new, _plain_clone = torch.UntypedStorage.__new__, torch.UntypedStorage.clone
_plain_resize, _plain_nbytes = torch.UntypedStorage.resize_, torch.UntypedStorage.nbytes


def _store(storage: Any) -> Store | None:
    """The Store of a storage on tt; None for any other storage."""
    return storage_of(storage.data_ptr()) if storage.device.type == "tt" else None


def _new(cls: type, *args: Any, device: Any = None, **more: Any) -> Any:
    """torch.UntypedStorage(bytes, device=...)"""
    if device is None:
        return _plain_new(cls, *args, **more)
    if torch.device(device).type != "tt":
        return _plain_new(cls, *args, device=device, **more)
    if len(args) > 1 or (args and not isinstance(args[0], int)):
        raise TypeError("a storage on tt is created from a number of bytes, not from data")
    return empty((args[0] if args else 0,), None, torch.uint8, device_of(device)).untyped_storage()


def _clone(storage: Any) -> Any:
    """A new storage with the same bytes. It shares memory with the given storage until one of the two is
    written."""
    found = _store(storage)
    return _plain_clone(storage) if found is None else twin(found).untyped_storage()


def _resize(storage: Any, nbytes: int) -> Any:
    """Resize a storage to 0 bytes, or back to its original size, with undefined values. At 0 bytes its memory
    is freed while its tensors keep their shapes: torch's FSDP frees parameters this way. Raises
    TorchDeviceError for other sizes."""
    found = _store(storage)
    if found is None:
        return _plain_resize(storage, nbytes)
    made_with = _plain_nbytes(storage)
    if nbytes not in (0, made_with):
        text = (
            f"a storage on tt has 0 bytes or those that it was made with, {made_with}, not {nbytes}: "
            "x.resize_() gives a tensor another storage"
        )
        raise TorchDeviceError(text, got=nbytes, wanted=(0, made_with))
    if nbytes != found.nbytes:
        found.clear(nbytes)
    return storage


def _nbytes(storage: Any) -> int:
    """The size of a storage in bytes; for a storage on tt, the size that resize_ last set."""
    found = _store(storage)
    return _plain_nbytes(storage) if found is None else found.nbytes
