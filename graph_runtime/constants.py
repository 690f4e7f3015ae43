"""Outputs of const programs, kept as long as the inputs that they were made of: const evaluation.

The key is what the program computes (a hash, so that equal programs of several bundles share it), the device,
and the versions of the inputs. An entry goes with any of its inputs.
"""
from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import NamedTuple

from .executable import Executable
from .locks import new_lock
from .tensor import Tensor
from .traffic import record

__all__ = ["entries", "find", "keep"]


class _Entry(NamedTuple):
    outputs: tuple[Tensor, ...]
    inputs: tuple[weakref.ref[Tensor], ...]

    @property
    def alive(self) -> bool:
        return all((made := ref()) is not None and made.is_allocated for ref in self.inputs)


_lock = new_lock()
_kept: dict[tuple, _Entry] = {}


def _key(target: Executable, inputs: Sequence[Tensor]) -> tuple:
    return target.fingerprint(), target.opened.device, tuple(tensor.version for tensor in inputs)


def find(target: Executable, inputs: Sequence[Tensor]) -> list[Tensor] | None:
    """New handles on the outputs that are kept for these inputs, retained; None if there are none (any
    more). Counts a hit or a miss."""
    with _lock:
        found = _kept.get(_key(target, inputs))
    if found is not None and all(tensor.is_allocated for tensor in found.outputs):
        record("const_hit", target.opened.device)
        return [tensor.alias() for tensor in found.outputs]
    record("const_miss", target.opened.device)
    return None


def keep(target: Executable, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Tensor]:
    """Keep the outputs while all inputs live; returns retained handles on them."""
    key = _key(target, inputs)
    for tensor in outputs:
        tensor.retain = True
    made = _Entry(tuple(tensor.alias() for tensor in outputs), tuple(weakref.ref(t) for t in inputs))
    with _lock:
        for other in [other for other, entry in _kept.items() if not entry.alive]:
            del _kept[other]                       # an input was deallocated, its handle is still there
        _kept[key] = made
    for tensor in inputs:
        weakref.finalize(tensor, _kept.pop, key, None).atexit = False
    return list(outputs)


def entries() -> int:
    """How many results are kept now."""
    with _lock:
        return len(_kept)
