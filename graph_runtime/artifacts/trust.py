"""Rules for native code that came with a bundle: only code that the user approved may run.
A library is approved in one of three ways:

    compiled here    ``compile`` and build_bundle record the sha256 of each library that goes into a bundle
    added            the user names a bundle, library file or sha256 (gr.trust, ``graph-runtime trust add``)
    signed           the bundle has an HMAC-SHA256 of the library's sha256, made with a key of this user

A hash identifies bytes, not a place: a trusted library is trusted in every bundle. A key is shared by the
machines of one owner: each of them runs libraries that ``compile`` made on any of them. Anyone with the key
can sign anything for all of them, until another key is made. docs/security.md has the rules, and their
limits.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import warnings
from collections.abc import Collection, Sequence
from pathlib import Path

from ..base.errors import GraphRuntimeError, InputError, UntrustedLibraryError
from ..base.files.mapped import as_path, open_file
from . import trust_store
from .bundles.bundle import read_bundle
from .libraries.judge import LibraryFile
from .libraries.sealed import seal
from .trust_store import Trusted

_WHAT = b"graph_runtime library\0"  # prefix of signed bytes: a signature made for another purpose is invalid
_SHOWN = 8


def trust(*what: str | os.PathLike[str]) -> list[str]:
    """Trust libraries from now on, for this user: those of bundles (folders and zips), library files, or
    given by sha256. Returns the hashes.

    Raises InputError for anything else, DocumentError for a bundle whose bytes do not match its hashes,
    GraphRuntimeError if the trust cannot be recorded.
    """
    found = [pair for item in what for pair in _hashes(item)]
    trust_store.add(found, "added")
    return list(dict.fromkeys(sha256 for sha256, _ in found))


def untrust(*what: str | os.PathLike[str]) -> list[str]:
    """Stop trusting libraries, also those compiled here; arguments as for trust. Returns the hashes that were
    trusted. A signed library stays trusted while its key is present."""
    known = trust_store.entries()
    found = [sha256 for item in what for sha256, _ in _hashes(item) if sha256 in known]
    trust_store.remove(found)
    return list(dict.fromkeys(found))


def trusted() -> list[Trusted]:
    """The trusted libraries, in the order in which they were added."""
    return list(trust_store.entries().values())


def _hashes(item: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """(sha256, name) of each library that the item names."""
    if isinstance(item, str) and trust_store.is_sha256(item):
        return [(item, "")]
    path = as_path(item, "what is trusted")
    if path.is_file() and _begins_as_elf(path):
        return [(seal(str(path), path, 0, path.stat().st_size).sha256, str(path))]
    if not path.exists():
        raise InputError(
            f"there is no file {path}: give a bundle, a library file or a sha256 (64 digits in lower case)",
            got=str(path),
        )
    bundle = read_bundle(path)
    return [(bundle.sealed(library).sha256, f"{path}/{library.file}") for library in bundle.libraries]


def _begins_as_elf(path: Path) -> bool:
    with open_file(path) as file:
        return file.read(4) == b"\x7fELF"


# **************** compiled libraries ****************


def remember(found: Collection[tuple[str, str]]) -> None:
    """Record (sha256, name) of libraries that were compiled here. Warns if that fails: the bundle is
    complete, but this user must trust it before it runs."""
    try:
        trust_store.add(found, "compiled")
    except GraphRuntimeError as error:
        why = f"it could not be recorded that its libraries were compiled here: {error}"
        text = f"the bundle will be refused until it is trusted, because {why}"
        warnings.warn(text, stacklevel=3)


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hex. Raises OSError."""
    with open_file(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sign(sha256: str) -> str | None:
    """The signature of a library by the key; None without a key. Warns if a key exists but is not used."""
    key, reason = trust_store.key()
    if reason:
        warnings.warn(f"libraries are not signed: {reason}", stacklevel=3)
    return None if key is None else _signature(key, sha256)


def _signature(key: bytes, sha256: str) -> str:
    return hmac.new(key, _WHAT + bytes.fromhex(sha256), "sha256").hexdigest()


# **************** checks ****************


def is_trusted(sha256: str, signature: str | None = None) -> bool:
    """Whether the library of that hash may run, given the signature in its bundle."""
    if sha256 in trust_store.entries():
        return True
    if signature is None:
        return False
    key = trust_store.key()[0]
    return key is not None and hmac.compare_digest(_signature(key, sha256), signature)


def require_trust(files: Sequence[LibraryFile]) -> None:
    """Raise UntrustedLibraryError, with the hashes and the remedy, if libraries that came with a bundle may
    not run."""
    refused = [file for file in files if not is_trusted(file.sha256, file.signature)]
    if not refused:
        return
    several = len(refused) > 1
    named = ", ".join(f"{file.path} (sha256 {file.sha256})" for file in refused[:_SHOWN])
    reasons = [trust_store.problem(), *([trust_store.key()[1]] if any(f.signature for f in refused) else [])]
    because = "".join(f" [{reason}]" for reason in reasons if reason)
    text = (
        f"{named}{' and more' if len(refused) > _SHOWN else ''}: native code that was not compiled "
        f"here by you, nor trusted, so it is not run.{because} Trust {'them' if several else 'it'} "
        "(graph-runtime trust add with the bundle or the sha256; gr.trust), run on the kernels built in "
        "(--no-native; libraries=False), or compile the graph anew (--rebuild; rebuild=True)"
    )
    raise UntrustedLibraryError(text, sha256=tuple(file.sha256 for file in refused), got=refused[0].sha256)
