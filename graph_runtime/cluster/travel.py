"""Sending of bundles to machines that lack them, identified by their contents.

    packed = pack("net.bundle", keep)         at the source: {file: (sha256, result of keep(bytes))}
    path = unpack(packed, fetch, folder)      at the target: checks the sha256 of each file

A bundle is kept in ``folder`` under the hash of its files' hashes, so it is sent to a machine only once. At
the target it is judged like any bundle: its native code runs only if that machine trusts it
(docs/security.md).
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

Packed = Mapping[str, tuple[str, Any]]


def pack(path: Path, keep: Callable[[bytes], Any]) -> dict[str, tuple[str, Any]]:
    """{name of a file in the bundle: (sha256, result of ``keep``)}; for a zip, the only name is "". ``keep``:
    function of a file's bytes; each file is read once. Raises DocumentError."""
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
    """The hash of a bundle's contents, computed from the names and hashes of its files."""
    names = sorted((name, sha256) for name, (sha256, _) in packed.items())
    return hashlib.sha256(orjson.dumps(names)).hexdigest()


def unpack(packed: Packed, fetch: Callable[[Any], bytes], folder: Path) -> Path:
    """The path of the bundle in ``folder``. A bundle that is not there yet appears whole or not at all.
    Raises ClusterError for a file whose bytes do not match its hash, or whose name leads out of the bundle.
    """
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
            if os.path.isabs(name) or ".." in Path(name).parts:
                raise ClusterError(f"file {name!r} lies outside of its bundle", got=name)
            file = part / name if name else part
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        try:
            part.rename(path)
        except OSError:
            if not path.exists():  # another replica has already put the bundle there
                raise
    return path
