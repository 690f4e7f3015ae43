"""Where the files lie that come with the package: schemas, descriptors, weights, C.

importlib.resources knows this, too, but takes 5 ms to import, and each graph needs a schema.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["data_folder"]


def data_folder(package: str) -> Path:
    """The folder of a package."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    # one without an __init__, as native/, has a name in place of a folder, too, in an editable install
    return next(folder for folder in map(Path, spec.submodule_search_locations) if folder.is_dir())
