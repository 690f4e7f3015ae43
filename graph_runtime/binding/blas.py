"""OpenBLAS as the library behind some kernels of the host: the wheel scipy-openblas32 (extra ``blas``), if
installed.

Kernels that call OpenBLAS (Body.library "openblas") serve the nodes that name them in ``gr.kernel``;
``compile --tune`` sets this attribute where such a kernel is faster on this machine. Without the wheel the
op's default kernel serves such a node."""

from __future__ import annotations

import warnings
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..base.absent import installing
from ..base.errors import LibraryError
from ..ir.ops import registry
from ..ir.ops.rules import Selected, select
from ..ir.ops.targets import kernel_by_rule
from . import core

if TYPE_CHECKING:
    from importlib.metadata import Distribution

_WHEEL = "scipy-openblas32"
_FILE = "libscipy_openblas*.so"
_PREFIX = "scipy_"  # prefix of the wheel's symbols, which no other library's symbols have


@cache
def absent() -> str | None:
    """Text: why OpenBLAS cannot be used. None if it can: it is then open for the rest of the process."""
    wheel = _wheel()
    if wheel is None:
        return f"{_WHEEL} is not installed ({installing('blas')})"
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


def present(
    selected: Selected,
    op: registry.Op,
    attrs: registry.Attrs,
    kind: str,
    inputs: registry.Types,
    outputs: registry.Types,
) -> Selected:
    """``selected``, if its library is there. If the body of ``selected`` calls a library that is absent:
    another selection for the op, with a warning."""
    reason = absent()
    if reason is None:
        return selected
    others = {name: value for name, value in attrs.items() if name != registry.KERNEL}
    if kernel := kernel_by_rule(op, inputs, others):
        others[registry.KERNEL] = kernel
    other = select(op, others, kind, inputs, outputs)
    text = f"{reason}: {other.name} serves nodes that name {selected.name}, which may be slower"
    warnings.warn(text, stacklevel=2)
    return other


def version() -> str:
    """The wheel's version, "" if it is not installed."""
    wheel = _wheel()
    return wheel.version if wheel else ""


def _wheel() -> Distribution | None:
    from importlib import metadata  # the import takes 5 ms, and few graphs name a kernel that calls OpenBLAS

    try:
        return metadata.distribution(_WHEEL)
    except metadata.PackageNotFoundError:
        return None
