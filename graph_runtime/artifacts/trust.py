"""Which native code that came with a bundle may run: only what the user asked for.

    compiled here    ``compile`` and build_bundle record the sha256 of each library that goes into a bundle
    added            ``gr.trust``, ``graph-runtime trust add``: a bundle, a library file, a sha256
    signed           the bundle says an HMAC-SHA256 of the library's sha256, made with a key that is here too

A hash names bytes, not a place: a trusted library is trusted in every bundle. A key is shared by the machines
of one owner: each of them runs what ``compile`` made on any of them. Anyone with the key can sign anything,
for all of them, for good; making another key ends it. docs/security.md has the rules, and what they do
not give.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

from ..base.errors import GraphRuntimeError, InputError, UntrustedLibraryError, as_path
from ..base.files.mapped import open_file
from . import trust_store
from .bundles.bundle import read_bundle
from .libraries.judge import LibraryFile
from .libraries.sealed import seal
from .trust_store import Trusted

__all__ = ["file_sha256", "is_trusted", "remember", "require_trust", "sign", "trust", "trusted", "untrust"]

_WHAT = b"graph_runtime library\0"  # what a signature is of, so that none of another purpose fits
_SHOWN = 8


def trust(*what: str | os.PathLike[str]) -> list[str]:
    """Let libraries run from now on, for this user: of bundles (folders and zips), library files, or by their
    sha256. Returns the hashes.

    Raises InputError for what is none of these, DocumentError for a bundle whose bytes are not those that it
    says, GraphRuntimeError where it cannot be written down.
    """
    found = [pair for item in what for pair in _hashes(item)]
    trust_store.add(found, "added")
    return list(dict.fromkeys(sha256 for sha256, _ in found))


def untrust(*what: str | os.PathLike[str]) -> list[str]:
    """Let them run no more, also those that were compiled here; as trust. Returns the hashes that were
    trusted. A signed library stays trusted while its key is there."""
    known = trust_store.entries()
    found = [sha256 for item in what for sha256, _ in _hashes(item) if sha256 in known]
    trust_store.remove(found)
    return list(dict.fromkeys(found))


def trusted() -> list[Trusted]:
    """What is trusted, in the order in which it was added."""
    return list(trust_store.entries().values())


def _hashes(item: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(sha256, name) of the libraries that it names."""
    if isinstance(item, str) and trust_store.is_sha256(item):
        return [(item, "")]
    path = as_path(item, "what is trusted")
    if path.is_file() and _begins_as_elf(path):
        return [(seal(str(path), path, 0, path.stat().st_size).sha256, str(path))]
    if not path.exists():
        raise InputError(
            f"there is no file {path}: a bundle, a library file or a sha256 (64 digits in lower "
            "case) is trusted",
            got=str(path),
        )
    bundle = read_bundle(path)
    return [(bundle.sealed(library).sha256, f"{path}/{library.file}") for library in bundle.libraries]


def _begins_as_elf(path: Path) -> bool:
    with open_file(path) as file:
        return file.read(4) == b"\x7fELF"


# **************** what is compiled ****************


def remember(found: Collection[tuple[str, str]]) -> None:
    """Write down (sha256, name) of libraries that were compiled here. Where that cannot be done it warns: the
    bundle is whole, but this user will have to trust it before it runs."""
    try:
        trust_store.add(found, "compiled")
    except GraphRuntimeError as error:
        warnings.warn(
            f"the bundle will be refused until it is trusted, because it could not be written down "
            f"that its libraries were compiled here: {error}",
            stacklevel=3,
        )


def file_sha256(path: Path) -> str:
    """Of a file, in hex. Raises OSError."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sign(sha256: str) -> str | None:
    """What a bundle says of a library where there is a key; None where there is none. A key that is not used
    is warned of."""
    key, reason = trust_store.key()
    if reason:
        warnings.warn(f"libraries are not signed: {reason}", stacklevel=3)
    return None if key is None else _signature(key, sha256)


def _signature(key: bytes, sha256: str) -> str:
    return hmac.new(key, _WHAT + bytes.fromhex(sha256), "sha256").hexdigest()


# **************** what may run ****************


def is_trusted(sha256: str, signature: str | None = None) -> bool:
    """Whether the library of that hash may run, with what its bundle says of it."""
    if sha256 in trust_store.entries():
        return True
    if signature is None:
        return False
    key = trust_store.key()[0]
    return key is not None and hmac.compare_digest(_signature(key, sha256), signature)


def require_trust(files: Sequence[LibraryFile]) -> None:
    """Raise UntrustedLibraryError, with the hashes and what can be done, where libraries that came with a
    bundle may not run."""
    refused = [file for file in files if not is_trusted(file.sha256, file.signature)]
    if not refused:
        return
    several = len(refused) > 1
    named = ", ".join(f"{file.path} (sha256 {file.sha256})" for file in refused[:_SHOWN])
    reasons = [trust_store.problem(), *([trust_store.key()[1]] if any(f.signature for f in refused) else [])]
    because = "".join(f" [{reason}]" for reason in reasons if reason)
    raise UntrustedLibraryError(
        f"{named}{' and more' if len(refused) > _SHOWN else ''}: native code that was not compiled "
        f"here by you, nor trusted, so it is not run.{because} Trust {'them' if several else 'it'} "
        "(graph-runtime trust add with the bundle or the sha256; gr.trust), run on the kernels built in "
        "(--no-native; libraries=False), or compile the graph anew (--rebuild; rebuild=True)",
        sha256=tuple(file.sha256 for file in refused),
        got=refused[0].sha256,
    )
