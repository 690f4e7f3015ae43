"""Values that a higher layer shows: the top of the package gives these types their methods.

``graph_runtime/__init__.py``, which knows views/, attaches them when the package is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from pathlib import Path

__all__ = ["Showable", "Viewable"]


class Showable:
    """Base of what is shown where it is the last value of a cell."""

    __slots__ = ()

    if TYPE_CHECKING:

        def _repr_html_(self) -> str: ...


class Viewable(Showable):
    """Base of what has a page of its own, too."""

    __slots__ = ()

    if TYPE_CHECKING:

        def view(self, path: str | os.PathLike[str] | None = None) -> Path: ...
