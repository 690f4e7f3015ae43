"""Where the JSON files lie that come with the package: schemas, descriptors, weights.

importlib.resources knows this, too, but takes 5 ms to import, and each graph needs a schema.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

__all__ = ["data_folder"]


def data_folder(package: str) -> Path:
    """The folder of a package that has an __init__."""
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(next(iter(spec.submodule_search_locations)))
