"""OpenBLAS behind some kernels of the host: the wheel scipy-openblas32 (extra ``blas``), where installed.

Kernels that call it (Body.library "openblas") serve nodes that name them (``gr.kernel``), which
``compile --tune`` makes of those for which they are faster here. Without the wheel the op's default kernel
serves such a node.
"""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.errors import LibraryError
from ..ir.ops import registry
from ..ir.ops.select import Selected, select
from ..ir.ops.targets import kernel_by_rule
from . import core

if TYPE_CHECKING:
    from importlib.metadata import Distribution

__all__ = ["absent", "select_present", "version"]

_WHEEL = "scipy-openblas32"
_FILE = "libscipy_openblas*.so"
_PREFIX = "scipy_"  # of its symbols, so that no other library has them


@cache
def absent() -> str | None:
    """None once OpenBLAS is open, for the rest of the process; else why there is none."""
    wheel = _wheel()
    if wheel is None:
        return f"{_WHEEL} is not installed (pip install 'graph-runtime[blas]')"
    root = Path(str(wheel.locate_file(""))).resolve()
    found = [Path(str(file.locate())).resolve() for file in wheel.files or () if file.match(_FILE)]
    here = [path for path in found if path.is_relative_to(root) and path.is_file()]
    if not here:
        return f"{_WHEEL} {wheel.version} has no file {_FILE}"
    try:
        core.blas_open(here[0], _PREFIX)
    except LibraryError as error:
        return str(error)
    return None


def select_present(
    op: registry.Op, attrs: registry.Attrs, kind: str, inputs: registry.Types, outputs: registry.Types
) -> Selected:
    """The body that serves an op, as select; where the one it names calls a library that is absent,
    another one, with a warning."""
    selected = select(op, attrs, kind, inputs, outputs)
    reason = absent() if selected.library else None
    if reason is None:
        return selected
    others = {name: value for name, value in attrs.items() if name != registry.KERNEL}
    if kernel := kernel_by_rule(op, inputs, others):
        others[registry.KERNEL] = kernel
    other = select(op, others, kind, inputs, outputs)
    warnings.warn(
        f"{reason}: {other.name} serves nodes that name {selected.name}, which may be slower", stacklevel=2
    )
    return other


def version() -> str:
    """The wheel's version, "" where it is not installed."""
    wheel = _wheel()
    return wheel.version if wheel else ""


def _wheel() -> Distribution | None:
    from importlib import metadata  # takes 5 ms, and few graphs name a kernel that calls OpenBLAS

    try:
        return metadata.distribution(_WHEEL)
    except metadata.PackageNotFoundError:
        return None
