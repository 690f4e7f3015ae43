"""Base classes of types that a notebook displays. The code of their methods is in a higher layer, views/.

``graph_runtime/__init__.py``, which may import views/, adds the methods to these classes when the package is
imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from pathlib import Path


class Showable:
    """Base of types that a notebook displays as the last value of a cell."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _repr_html_(self) -> str: ...


class Viewable(Showable):
    """Base of types that also have an HTML page of their own."""

    __slots__ = ()

    if TYPE_CHECKING:

        def view(self, path: str | os.PathLike[str] | None = None) -> Path: ...
