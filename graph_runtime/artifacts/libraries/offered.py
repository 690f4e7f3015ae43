"""What libraries offer to planning, as their manifests say. Without a library nothing else of this folder is
loaded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from ...base.machine.descriptors import HOST_KERNELS

if TYPE_CHECKING:
    from .judge import LibraryFile

__all__ = ["inplace_rules", "library_kernels"]


def inplace_rules(libraries: Iterable[LibraryFile]) -> dict[str, tuple[int, ...]]:
    """func_name -> inputs that output 0 may overwrite, as the libraries' manifests say."""
    return {name: entry.inplace for library in libraries for (name, _), entry in library.kernels.items()}


def library_kernels(libraries: Sequence[LibraryFile]) -> dict[str, set[str]]:
    """func_name -> the device kinds that libraries have it for. Names that no manifest lists are left out:
    a library without a manifest may have them."""
    found: dict[str, set[str]] = {}
    for name, kind in (key for library in libraries for key in library.kernels):
        found.setdefault(name, set()).add(kind)
    for name, kinds in found.items():
        if any(library.has(name, HOST_KERNELS) for library in libraries):
            kinds.add(HOST_KERNELS)
    return found
