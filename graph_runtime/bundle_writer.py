"""Writing bundles: one appears whole or not at all, because it is made beside its place and renamed. Equal
contents give equal bytes."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import orjson

from .bundle import FORMAT, INDEX, VERSION, BundleLibrary, BundleProgram, check_name, check_references
from .errors import GraphRuntimeError

__all__ = ["write_bundle"]

_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time a zip can hold


def write_bundle(
    path: str | os.PathLike,
    *,
    devices: Sequence[str],
    programs: Sequence[BundleProgram],
    libraries: Sequence[BundleLibrary],
    files: Mapping[str, bytes | os.PathLike],
    params: str | None = None,
) -> Path:
    """Write a bundle: a stored zip if ``path`` ends in .zip, else a folder. ``files`` {name: bytes, or a
    path to copy} must have every file that programs, libraries and ``params`` name.

    An older bundle at ``path`` is replaced; anything else there is refused. Raises DocumentError, and
    OSError where the disk does.
    """
    path = Path(path)
    _refuse_to_overwrite(path)
    contents = {
        name: data if isinstance(data, bytes) else Path(data).read_bytes()
        for name, data in sorted(files.items())
    }
    index = {
        "format": FORMAT,
        "version": VERSION,
        "devices": list(devices),
        "programs": [_program(p) for p in programs],
        "libraries": [asdict(entry) for entry in libraries],
        "params": params,
        "files": {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()},
    }
    for name in contents:
        check_name(path, name)
    check_references(path, index)
    contents[INDEX] = orjson.dumps(index, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".zip":
        _write_zip(path, contents)
    else:
        _write_folder(path, contents)
    return path


def _program(program: BundleProgram) -> dict:
    """As bundle.json has it: what is only said when it is true is left out otherwise."""
    raw = asdict(program)
    return raw if raw["const"] else {key: value for key, value in raw.items() if key != "const"}


def _refuse_to_overwrite(path: Path) -> None:
    """Raise GraphRuntimeError for what is no bundle: replacing takes away all that stands there."""
    if not os.path.lexists(path) or _is_ours(path):
        return
    kind = "folder" if path.is_dir() else "file" if path.is_file() else "link, device or pipe"
    raise GraphRuntimeError(
        f"{path} is a {kind} that is no bundle: it is not replaced, choose another name (a bundle is a "
        "folder, or a file that ends in .zip)",
        got=str(path),
    )


def _is_ours(path: Path) -> bool:
    """An empty folder, a folder with a bundle's index, or a zip with one."""
    try:
        if path.suffix != ".zip":
            return path.is_dir() and (not any(path.iterdir()) or _is_index((path / INDEX).read_bytes()))
        if not path.is_file():
            return False
        with zipfile.ZipFile(path) as archive:
            return _is_index(archive.read(INDEX))
    except (OSError, KeyError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
        return False


def _is_index(data: bytes) -> bool:
    try:
        index = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(index, dict) and index.get("format") == FORMAT


def _write_zip(path: Path, contents: Mapping[str, bytes]) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for member, data in contents.items():
                archive.writestr(zipfile.ZipInfo(member, _EPOCH), data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _write_folder(path: Path, contents: Mapping[str, bytes]) -> None:
    made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        for name, data in contents.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        made.chmod(0o755)
        if path.exists():
            _swap(made, path)
        else:
            os.rename(made, path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _swap(made: Path, path: Path) -> None:
    """Put ``made`` where another folder is. A folder cannot be renamed onto a full one: the old one steps
    aside between two renames."""
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        os.rename(path, aside / "bundle")
        try:
            os.rename(made, path)
        except BaseException:
            os.rename(aside / "bundle", path)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
