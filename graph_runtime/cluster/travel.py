"""Bundles that go to machines which have them not, by content.

    packed = pack("net.bundle", keep)         where it is: {file: (sha256, what keep(bytes) gave)}
    path = unpack(packed, fetch, folder)      where it runs: its files, each compared with its sha256

A bundle is kept in ``folder`` under the hash of its files' hashes, so it travels once. What arrives is
judged there as any bundle is: its native code runs only if that machine trusts it (docs/security.md).
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from ..base.errors import ClusterError, DocumentError

__all__ = ["content_hash", "pack", "unpack"]

Packed = Mapping[str, tuple[str, Any]]


def pack(path: Path, keep: Callable[[bytes], Any]) -> dict[str, tuple[str, Any]]:
    """The files of a bundle by their names in it, "" for one that is a zip; each is in memory once. Raises
    DocumentError."""
    if path.is_file():
        found = {"": path}
    else:
        found = {str(file.relative_to(path)): file for file in sorted(path.rglob("*")) if file.is_file()}
    try:
        read = ((name, file.read_bytes()) for name, file in found.items())
        return {name: (hashlib.sha256(data).hexdigest(), keep(data)) for name, data in read}
    except OSError as error:
        raise DocumentError(f"cannot read bundle {path}: {error}", got=str(path)) from None


def content_hash(packed: Packed) -> str:
    """The hash of the hashes."""
    names = sorted((name, sha256) for name, (sha256, _) in packed.items())
    return hashlib.sha256(orjson.dumps(names)).hexdigest()


def unpack(packed: Packed, fetch: Callable[[Any], bytes], folder: Path) -> Path:
    """The bundle's path in ``folder``, where it is put, whole or not at all, if it is not there yet. Raises
    ClusterError for a file whose bytes are not those of its hash, or whose name leads out of the bundle."""
    path = folder / content_hash(packed)
    if path.exists():
        return path
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as made:
        part = Path(made) / "bundle"
        for name, (sha256, kept) in packed.items():
            data = fetch(kept)
            if (got := hashlib.sha256(data).hexdigest()) != sha256:
                text = f"file {name or 'the bundle'} arrived with sha256 {got}, it was sent with {sha256}"
                raise ClusterError(text, got=got, wanted=sha256)
            file = _inside(part, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        try:
            part.rename(path)
        except OSError:
            if not path.exists():  # another replica was faster
                raise
    return path


def _inside(part: Path, name: str) -> Path:
    file = part / name if name else part
    if os.path.isabs(name) or ".." in Path(name).parts:
        raise ClusterError(f"file {name!r} lies outside of its bundle", got=name)
    return file
