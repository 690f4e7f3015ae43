"""tvm.contrib.tar: object files in one file."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....base.errors import InputError

__all__ = ["normalize_file_list_by_unpacking_tars", "tar", "untar"]


def tar(output: Any, files: Sequence[Any]) -> None:
    """Pack files, without their folders, into a compressed tar. Raises ValueError for two of one name."""
    names = [os.path.basename(file) for file in files]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"duplicate file name {twice[0]}")
    with tarfile.open(output, "w:gz") as made:
        for file, name in zip(files, names, strict=True):
            made.add(file, name)


tar.output_format = "tar"  # type: ignore[attr-defined]


def untar(tar_file: Any, directory: Any) -> None:
    """Unpack the files of a tar into a folder. Raises InputError for one that cannot be read, or whose files
    would lie elsewhere."""
    try:
        with tarfile.open(tar_file) as packed:
            packed.extractall(directory, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"cannot unpack {tar_file}: {error}", got=str(tar_file)) from error


def normalize_file_list_by_unpacking_tars(temp: Any, file_list: Sequence[str]) -> list[str]:
    """The list with the files of each tar in the tar's place, unpacked below ``temp``."""
    found: list[str] = []
    for i, file in enumerate(file_list):
        if not file.endswith(".tar"):
            found.append(file)
            continue
        folder = Path(temp.relpath(f"temp{i}"))
        folder.mkdir()
        untar(file, folder)
        found += sorted(str(one) for one in folder.rglob("*") if one.is_file())
    return found
