"""Const evaluation: outputs of const programs are kept while the inputs from which they were computed exist.

The key consists of a hash of the program's computation (so that equal programs of several bundles share
entries), the device, and the versions of the inputs. An entry is dropped when one of its inputs is.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ...base.machine.devices import Device
from ...run.tensors.tensor import Tensor
from ...run.tensors.traffic import record


class Opened(Protocol):
    """What this module reads of an OpenDevice."""

    @property
    def device(self) -> Device: ...


class Target(Protocol):
    """What this module reads of an Executable with a const program."""

    @property
    def fingerprint(self) -> str: ...
    @property
    def opened(self) -> Opened: ...


class _Entry(NamedTuple):
    outputs: tuple[Tensor, ...]
    inputs: tuple[weakref.ref[Tensor], ...]

    @property
    def alive(self) -> bool:
        return all((made := ref()) is not None and made.is_allocated for ref in self.inputs)


_kept: dict[tuple[Any, ...], _Entry] = {}


def key_of(target: Target, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
    """The key under which results are kept. The key is made before the program is queued: if another thread
    writes an input meanwhile, the entry is for contents that never occur again."""
    return target.fingerprint, target.opened.device, tuple(tensor.version for tensor in inputs)


def find(target: Target, key: tuple[Any, ...]) -> list[Tensor] | None:
    """New retained handles on the outputs kept under the key, or None if none are kept (any more). Counts a
    hit or a miss."""
    found = _kept.get(key)
    if found is not None and all(tensor.is_allocated for tensor in found.outputs):
        record("const_hit", target.opened.device)
        return [tensor.alias() for tensor in found.outputs]
    record("const_miss", target.opened.device)
    return None


def keep(key: tuple[Any, ...], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Keep the outputs while all inputs live; return retained handles on the outputs."""
    for tensor in outputs:
        tensor.retain = True
    made = _Entry(tuple(tensor.alias() for tensor in outputs), tuple(weakref.ref(t) for t in inputs))
    for other, entry in list(
        _kept.items()
    ):  # a list, because tensors that die may remove entries at any time
        if not entry.alive:
            _kept.pop(other, None)  # an input was deallocated, but a handle on it still exists
    _kept[key] = made
    for tensor in inputs:
        weakref.finalize(tensor, _kept.pop, key, None).atexit = False
    return list(outputs)


def forget(fingerprint: str, device: Device) -> None:
    """Drop the kept results of the program with that hash, which was unloaded from the device."""
    for key in list(_kept):
        if key[:2] == (fingerprint, device):
            _kept.pop(key, None)


def entries() -> int:
    """The number of results kept now."""
    return len(_kept)
