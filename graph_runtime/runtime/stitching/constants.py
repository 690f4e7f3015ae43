"""Outputs of const programs, kept as long as the inputs that they were made of: const evaluation.

The key is what the program computes (a hash, so that equal programs of several bundles share it), the device,
and the versions of the inputs. An entry goes with any of its inputs.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from ...base.machine.devices import Device
from ...run.tensors.tensor import Tensor
from ...run.tensors.traffic import record

__all__ = ["entries", "find", "forget", "keep", "key_of"]


class Opened(Protocol):
    """The device that a program is loaded on."""

    @property
    def device(self) -> Device: ...


class Target(Protocol):
    """A const program: an Executable."""

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
    """What results are kept by. Taken before the program is queued: should another thread write an input
    meanwhile, the results are found for contents that never come again."""
    return target.fingerprint, target.opened.device, tuple(tensor.version for tensor in inputs)


def find(target: Target, key: tuple[Any, ...]) -> list[Tensor] | None:
    """New handles on the outputs that are kept for these inputs, retained; None if there are none (any
    more). Counts a hit or a miss."""
    found = _kept.get(key)
    if found is not None and all(tensor.is_allocated for tensor in found.outputs):
        record("const_hit", target.opened.device)
        return [tensor.alias() for tensor in found.outputs]
    record("const_miss", target.opened.device)
    return None


def keep(key: tuple[Any, ...], inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Keep the outputs while all inputs live; returns retained handles on them."""
    for tensor in outputs:
        tensor.retain = True
    made = _Entry(tuple(tensor.alias() for tensor in outputs), tuple(weakref.ref(t) for t in inputs))
    for other, entry in list(_kept.items()):  # handles that end take entries out at any time
        if not entry.alive:
            _kept.pop(other, None)  # an input was deallocated, its handle is still there
    _kept[key] = made
    for tensor in inputs:
        weakref.finalize(tensor, _kept.pop, key, None).atexit = False
    return list(outputs)


def forget(fingerprint: str, device: Device) -> None:
    """The program with that hash is loaded for the device no longer: keep none of its results there."""
    for key in list(_kept):
        if key[:2] == (fingerprint, device):
            _kept.pop(key, None)


def entries() -> int:
    """How many results are kept now."""
    return len(_kept)
