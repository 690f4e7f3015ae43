"""Storages by themselves, as files and copy.deepcopy see them. torch would ask C++ for their memory, where it
finds no allocator and crashes."""

from __future__ import annotations

from typing import Any

import torch

from .. import content
from ..required import TorchDeviceError
from ..store import device_of, empty, storage_of, twin

__all__ = ["register"]

_PRIORITY = 5  # before torch's own packages of other devices


def _tag(storage: Any) -> str | None:
    """Where a storage is, as files say it; None for one that is not on tt."""
    untyped = getattr(storage, "_untyped_storage", storage)
    if untyped.device.type != "tt":
        return None
    found = storage_of(untyped.data_ptr())
    return "tt:0" if found is None else f"tt:{found.index}"


def _restore(storage: Any, location: str) -> Any:
    """A storage on the device that a location names, with the bytes of one on the CPU; None for other
    locations."""
    if not (location == "tt" or location.startswith("tt:")):
        return None
    made = empty((storage.nbytes(),), None, torch.uint8, device_of(location))
    content.put(made, torch.tensor([], dtype=torch.uint8).set_(storage))
    return made.untyped_storage()


def register() -> None:
    """Let torch.save and torch.load know the locations tt:0, tt:1, .., and torch.UntypedStorage the
    device."""
    torch.serialization.register_package(_PRIORITY, _tag, _restore)
    torch.UntypedStorage.__new__ = _new
    torch.UntypedStorage.clone = _clone
    torch.UntypedStorage.resize_ = _resize
    torch.UntypedStorage.nbytes = torch.UntypedStorage.size = torch.UntypedStorage.__len__ = _nbytes


_plain_new, _plain_clone = torch.UntypedStorage.__new__, torch.UntypedStorage.clone
_plain_resize, _plain_nbytes = torch.UntypedStorage.resize_, torch.UntypedStorage.nbytes


def _new(cls: type, *args: Any, device: Any = None, **more: Any) -> Any:
    """torch.UntypedStorage(bytes, device=...)"""
    if device is None:
        return _plain_new(cls, *args, **more)
    if torch.device(device).type != "tt":
        return _plain_new(cls, *args, device=device, **more)
    if len(args) > 1 or (args and not isinstance(args[0], int)):
        raise TypeError("a storage on tt is made by its number of bytes")
    return empty((args[0] if args else 0,), None, torch.uint8, device_of(device)).untyped_storage()


def _clone(storage: Any) -> Any:
    """A storage with the same bytes; values are shared until one of the two is written."""
    found = storage_of(storage.data_ptr()) if storage.device.type == "tt" else None
    return _plain_clone(storage) if found is None else twin(found).untyped_storage()


def _resize(storage: Any, nbytes: int) -> Any:
    """Let a storage have 0 bytes, or as many again as it was made with, undefined. With 0 its memory is given
    back, and tensors over it keep their shapes: so torch's FSDP frees parameters. Raises TorchDeviceError for
    other sizes."""
    found = storage_of(storage.data_ptr()) if storage.device.type == "tt" else None
    if found is None:
        return _plain_resize(storage, nbytes)
    made_with = _plain_nbytes(storage)
    if nbytes not in (0, made_with):
        raise TorchDeviceError(
            f"a storage on tt has 0 bytes or those that it was made with, {made_with}, not {nbytes}: "
            "x.resize_() gives a tensor another storage",
            got=nbytes,
            wanted=(0, made_with),
        )
    if nbytes != found.nbytes:
        found.clear(nbytes)
    return storage


def _nbytes(storage: Any) -> int:
    """How many bytes a storage has: of one on tt, since resize_."""
    found = storage_of(storage.data_ptr()) if storage.device.type == "tt" else None
    return _plain_nbytes(storage) if found is None else found.nbytes
