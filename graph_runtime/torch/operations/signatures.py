"""Signatures of calls: calls of one signature do the same work on different values."""

from __future__ import annotations

import math
from typing import Any

import torch

from ...run.tensors.tensor import Tensor
from ..store import Store, current, storage_of, whole

_PLAIN = (int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format)
# the tensor that an argument stands for: the base of its Store, a kept image of a view, or a kept image in
# which 64-bit integers are int32
BASE, IMAGE, NARROWED = range(3)


class Signature:
    """The signature of a call, and the call's tensors. Raises LookupError for arguments that have no
    signature.

    ``key``: the signature in hashable form.
    ``given``: for each tensor on a device, the runtime's tensor.
    ``stores``: for each of these tensors, its Store.
    ``taken``: for each of these tensors, (which tensor of the Store it is, its spec).
    ``target``: number of the written tensor; ``written``: the written tensor as a torch tensor.
    ``indices``: positions of arguments whose 64-bit integers are needed as 32-bit integers.

    A torch tensor stands for its storage's base, or for its view if the storage keeps an image of the view.
    """

    given: list[Tensor]
    key: tuple[Any, ...]
    stores: list[Store]
    taken: list[tuple[int, Any]]
    target: int | None
    written: torch.Tensor | None

    __slots__ = ("_key", "given", "key", "stores", "taken", "target", "written")

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        indices: tuple[int, ...] = (),
        written: str | int | None = None,
    ):
        self._key: list[Any] = []
        self.given, self.stores, self.taken, self.target, self.written = [], [], [], None, None
        for position, arg in enumerate(args):
            self._argument(arg, position in indices, position == written)
        for name, arg in kwargs.items():
            self._key.append(name)
            self._argument(arg, False, name == written)
        if len(self.given) > 1:
            self._key += self.shared()
        elif not self.given:
            self._key.append(torch.get_default_dtype())
        self.key = tuple(self._key)

    def shared(self) -> tuple[int, ...]:
        """For each tensor the number of the first tensor that is the same object: x * x is not repeated as x
        * y."""
        seen = [id(tensor) for tensor in self.given]
        return tuple(map(seen.index, seen))

    def looked_at(self) -> list[tuple[int, Any, int]]:
        """For each tensor (which tensor of its Store it is, its spec, number of the first tensor that is the
        same object), for repeated_calls.cpp."""
        return [(*taken, first) for taken, first in zip(self.taken, self.shared(), strict=True)]

    def _argument(self, arg: Any, index: bool, written: bool) -> None:
        if isinstance(arg, torch.Tensor):
            self._tensor(arg, index, written)
        elif isinstance(arg, (list, tuple)) and any(isinstance(item, torch.Tensor) for item in arg):
            self._key.append(len(arg))
            for item in arg:
                self._argument(item, index, False)
        else:
            self._key += _plain(arg)

    def _tensor(self, arg: torch.Tensor, index: bool, written: bool) -> None:
        if arg.is_cpu:
            self._key += _number(arg)
            return
        if written:
            self.target, self.written = len(self.given), arg
        store = whole(arg)
        if store is not None and not (index and arg.dtype is torch.int64):
            assert store.base is not None, "of what is whole"
            self._take(BASE, store, store.base)
            return
        offset = arg.storage_offset()
        store = storage_of(arg.data_ptr() - offset * arg.element_size())
        if store is None or store.base is None or store.dtype is not arg.dtype or not arg.numel():
            raise LookupError
        if arg.is_conj() or arg.is_neg():
            raise LookupError
        shape, strides = arg.shape, arg.stride()
        which, made = BASE, None
        if not written and store.images:
            which, made = _image(store, arg, shape, strides, offset, index)
        self._key += (which, shape, strides, offset)
        self._take(which, store, store.base if made is None else made)

    def _take(self, which: int, store: Store, tensor: Tensor) -> None:
        spec = tensor.spec
        self._key += (spec, store.dtype)
        self.given.append(tensor)
        self.stores.append(store)
        self.taken.append((which, spec))


def _image(
    store: Store, arg: torch.Tensor, shape: Any, strides: Any, offset: int, index: bool
) -> tuple[int, Tensor | None]:
    """(kind, image). The kind is BASE, IMAGE or NARROWED; the image is the one that the storage keeps of the
    view, None for BASE."""
    images = store.images
    if index and arg.dtype is torch.int64:
        made = images.get(("narrowed", shape, strides, offset))
        return (BASE if made is None else NARROWED), made
    made = images.get((arg.dtype, shape, strides, offset))
    if made is None and not offset and arg.is_contiguous() and arg.nbytes == store.nbytes:
        made = images.get(tuple(shape))
    return (BASE if made is None else IMAGE), made


def _number(tensor: torch.Tensor) -> tuple[Any, ...]:
    """Key of a CPU tensor without dimensions. Raises LookupError for a tensor with dimensions."""
    if tensor.dim():
        raise LookupError
    return tensor.dtype, *_plain(tensor.item())


def _plain(arg: Any) -> tuple[Any, Any]:
    """Key of a number, flag, name, or list of numbers; 0.0 and -0.0 have different keys. Raises LookupError
    for anything else."""
    if not isinstance(arg, _PLAIN):
        if not isinstance(arg, (list, tuple)):
            raise LookupError
        return list, tuple([_plain(item) for item in arg])
    if isinstance(arg, torch.device) and arg.index is None:
        return arg, current.index
    return arg.__class__, "-0.0" if arg == 0 and arg.__class__ is float and math.copysign(1, arg) < 0 else arg
