"""A packer from outside (docs/extending.md): found by name, and its answers checked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...base.errors import GraphRuntimeError, InputError, PlanError
from ...base.outside import find_outside, name_of
from .conflicts import Groups
from .offsets import FITS, IMPOSSIBLE, UNKNOWN, Packer

__all__ = ["find_packer"]


def find_packer(given: Callable[..., Any] | str) -> Packer:
    """The packer of "package.module:function", or a function itself, whose answers are checked: offsets that
    do not fit are a PlanError, never a plan. Raises InputError for what is none, PlanError for a name that
    cannot be found."""
    name = name_of(given)
    if isinstance(given, str) and ":" in given:
        packer = find_outside("packer", given)
    elif callable(given):
        packer = given
    else:
        raise InputError(f"a packer is a function or package.module:function, got {given!r}", got=given)

    def checked(groups: Groups, size: np.ndarray, capacity: int) -> tuple[str, np.ndarray | None]:
        try:
            status, offset = packer(groups, size.copy(), capacity)
        except GraphRuntimeError:
            raise
        except Exception as error:
            raise PlanError(f"packer {name} failed: {type(error).__name__}: {error}", got=name) from error
        if status not in (FITS, IMPOSSIBLE, UNKNOWN):
            _refuse(name, f"{status!r}, which is none of {FITS!r}, {IMPOSSIBLE!r} and {UNKNOWN!r}")
        return (FITS, _offsets(name, offset, groups, size, capacity)) if status == FITS else (status, None)

    return checked


def _offsets(name: str, said: Any, groups: Groups, size: np.ndarray, capacity: int) -> np.ndarray:
    """int64 [buffers]: where each begins, apart in every group and within the capacity."""
    offset = np.asarray(said)
    if offset.shape != size.shape or offset.dtype.kind not in "iu":
        _refuse(name, f"{offset.dtype}{list(offset.shape)} of offsets, for integers [{len(size)}]")
    offset = offset.astype(np.int64)
    ends = offset + size
    out = np.flatnonzero((offset < 0) | (ends > capacity))
    if len(out):
        at = int(out[0])
        _refuse(name, f"bytes {offset[at]} to {ends[at]} of {capacity} for buffer {at}")
    group = np.repeat(np.arange(len(groups.ptr) - 1), np.diff(groups.ptr))
    order = np.lexsort((ends[groups.member], offset[groups.member], group))
    group, member = group[order], groups.member[order]
    over = np.flatnonzero((group[1:] == group[:-1]) & (ends[member[:-1]] > offset[member[1:]]))
    # a buffer without bytes is in no one's way
    over = over[(size[member[over]] > 0) & (size[member[over + 1]] > 0)]
    if len(over):
        a, b = int(member[over[0]]), int(member[over[0] + 1])
        _refuse(
            name, f"bytes {offset[a]} to {ends[a]} for buffer {a} and from {offset[b]} for {b}, which overlap"
        )
    return offset


def _refuse(name: str, text: str) -> None:
    raise PlanError(f"packer {name} answered {text}", got=name)
