"""A bundle's parameters for readers of parameter files (ir/documents/params.py): its file holds raw
values, and only bundle.json says what they are."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ..base.mapped import open_file
from ..ir.documents.weights import map_values
from .bundles.bundle import Bundle, read_bundle
from .bundles.files import INDEX

__all__ = ["bundle_of", "read_bundle_params"]


def read_bundle_params(path: Path) -> dict[str, np.ndarray] | None:
    """All parameters, by the name of the input that each is of; None where the path names no bundle. Where
    two programs have different ones of a name it is the first program's, and the others' go by their key in
    bundle.json.

    The arrays are read-only views of the mapped file. Raises ParamsError, DocumentError, OSError.
    """
    bundle = bundle_of(path)
    return None if bundle is None else _parameters(bundle)


def bundle_of(path: Path) -> Bundle | None:
    """The bundle that a path names: its folder, its zip, or the parameter file inside of its folder; None
    where it names none of these. Raises DocumentError for a bundle that cannot be read."""
    if path.is_dir() or (path.is_file() and _is_zip(path)):
        return read_bundle(path)
    if not (path.is_file() and (path.parent / INDEX).is_file()):
        return None
    found = read_bundle(path.parent)
    return found if found.params_file == path.name else None


def _is_zip(path: Path) -> bool:
    with open_file(path) as file:
        return file.read(4) == b"PK\x03\x04" and zipfile.is_zipfile(file)


def _parameters(bundle: Bundle) -> dict[str, np.ndarray]:
    names: dict[str, str] = {}
    for program in bundle.programs:
        for name, key in program.params.items():
            if key in bundle.slots:
                names.setdefault(name, key)
    named = set(names.values())
    names |= {key: key for key in bundle.slots if key not in named and key not in names}
    if not names or bundle.params_file is None:
        return {}
    found, _ = map_values(*bundle.member(bundle.params_file), bundle.slots, set(names.values()))
    for array in found.values():
        array.flags.writeable = False
    return {name: found[key] for name, key in names.items()}
