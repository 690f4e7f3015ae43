"""Parameters of files and of bundles. A bundle's file holds raw values, and only bundle.json says what they
are; all other files are ir/documents/params.py's."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..base.errors import as_path
from ..base.files.mapped import open_file
from ..ir.documents import params

if TYPE_CHECKING:
    from .bundles.bundle import Bundle

__all__ = ["bundle_of", "load_params", "read_params"]


def read_params(
    source: bytes | bytearray | memoryview | str | os.PathLike[str] | Mapping[str, Any],
) -> dict[str, np.ndarray]:
    """Parameters by name, from TVM's binary (bytes or a path), ``.npz``, ``.safetensors``, a bundle or the
    parameter file in its folder (paths), or a mapping, which is taken as it is.

    Of a bundle they go by the name of the input that each is of; where two programs have different ones of a
    name it is the first program's, and the others' go by their key in bundle.json.

    Arrays of a file are read-only views of the mapped file (compressed ``.npz`` members: copies). Raises
    ParamsError, with ``offset`` in bytes, for what is truncated, malformed or of a dtype that has no array
    form; DocumentError for a bundle that cannot be read.
    """
    if not isinstance(source, Mapping | bytes | bytearray | memoryview):
        path = as_path(source, "a parameter file")
        bundle = bundle_of(path) if _may_be_raw(path) else None
        if bundle is not None:
            return _parameters(bundle)
    return params.read_params(source)


load_params = read_params  # TVM's word for it


def _may_be_raw(path: Path) -> bool:
    """Whether neither its name nor its first bytes say what it is."""
    if path.suffix in params.MARKED or path.is_dir():
        return path.suffix not in params.MARKED
    try:
        with open_file(path) as file:
            return file.read(len(params.MAGIC)) != params.MAGIC
    except (OSError, ValueError):  # told by the reader of files
        return False


def bundle_of(path: Path) -> Bundle | None:
    """The bundle that a path names: its folder, its zip, or the parameter file inside of its folder; None
    where it names none of these. Raises DocumentError for a bundle that cannot be read."""
    from .bundles.bundle import read_bundle  # most parameters are in files of their own
    from .bundles.files import INDEX

    if path.is_dir() or (path.is_file() and _is_zip(path)):
        return read_bundle(path)
    if not (path.is_file() and (path.parent / INDEX).is_file()):
        return None
    found = read_bundle(path.parent)
    return found if found.params_file == path.name else None


def _is_zip(path: Path) -> bool:
    from zipfile import is_zipfile  # as above

    with open_file(path) as file:
        return file.read(4) == b"PK\x03\x04" and is_zipfile(file)


def _parameters(bundle: Bundle) -> dict[str, np.ndarray]:
    from ..ir.documents.weights import map_values  # as above

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
