"""tvm.contrib.tar: object files packed into one file."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....base.errors import InputError

__all__ = ["normalize_file_list_by_unpacking_tars", "tar", "untar"]


def tar(output: Any, files: Sequence[Any]) -> None:
    """Pack files, without their folders, into a compressed tar. Raises ValueError if two files have the same
    name."""
    names = [os.path.basename(file) for file in files]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"duplicate file name {twice[0]}")
    with tarfile.open(output, "w:gz") as made:
        for file, name in zip(files, names, strict=True):
            made.add(file, name)


tar.output_format = "tar"  # type: ignore[attr-defined]


def untar(tar_file: Any, directory: Any) -> None:
    """Unpack the files of a tar into a folder. Raises InputError for a tar that cannot be read, or whose
    files would be written outside of the folder."""
    try:
        with tarfile.open(tar_file) as packed:
            if hasattr(tarfile, "data_filter"):
                packed.extractall(directory, filter="data")
            else:  # Python before 3.11.4
                packed.extractall(directory, _plain_members(packed, Path(directory).resolve()))
    except (tarfile.TarError, OSError, EOFError) as error:
        raise InputError(f"cannot unpack {tar_file}: {error}", got=str(tar_file)) from error


def _plain_members(packed: tarfile.TarFile, folder: Path) -> list[tarfile.TarInfo]:
    """All members of a tar. Raises TarError for one that is no file or folder, or is outside ``folder``."""
    for member in packed.getmembers():
        if not (member.isfile() or member.isdir()):
            raise tarfile.TarError(f"{member.name!r} is neither a file nor a folder")
        if not (folder / member.name).resolve().is_relative_to(folder):
            raise tarfile.TarError(f"{member.name!r} would be outside the destination")
    return packed.getmembers()


def normalize_file_list_by_unpacking_tars(temp: Any, file_list: Sequence[str]) -> list[str]:
    """The list with each tar replaced by its files, unpacked below ``temp``."""
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
