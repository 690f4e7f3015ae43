"""The user's private folder of trust (GR_TRUST_DIR): trusted libraries, and the key that signs them.
The folder has these files:

    trusted     one line per library: sha256, "compiled" or "added", the day, a name for people
    key         a secret, 64 hexadecimal digits (trust.py says what a key permits)
    lock        a lock, held while ``trusted`` is written

The folder is 0700 and its files are 0600, all owned by the running user: others could write hashes into any
other folder, so such a folder is not used, and ``problem`` gives the reason. ``trusted`` is written next to
its place and renamed, so readers take no lock and see the whole new or old file.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..base import config
from ..base.errors import GraphRuntimeError

_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
_MOST_BYTES = 64 << 20
_LOCK_SECONDS = 30
_KEY_BYTES = 32


class Trusted(NamedTuple):
    """A trusted library: ``how``: "compiled" or "added"; ``day``: the date of trusting, as 2026-01-31."""

    sha256: str
    how: str
    day: str
    name: str


def is_sha256(text: str) -> bool:
    """Whether a text is a hash in this package's form: 64 digits in lower case."""
    return _SHA256.match(text) is not None


def folder() -> Path:
    """The path of the folder: GR_TRUST_DIR, else graph_runtime in the user's data folder."""
    base = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(os.path.expanduser(str(config.get("TRUST_DIR")) or os.path.join(base, "graph_runtime")))


def problem() -> str | None:
    """The reason why the folder or its contents are not used; None if they are, or do not exist yet."""
    return _unsafe_folder() or _read(folder() / "trusted")[1]


def _unsafe_folder() -> str | None:
    path = folder()
    try:
        state = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path} is not used: {error.strerror}"
    if not stat.S_ISDIR(state.st_mode):
        return f"{path} is not used: it is no folder"
    return _unsafe(path, state, "700")


def _unsafe(path: Path, state: os.stat_result, mode: str) -> str | None:
    if state.st_uid != os.geteuid():
        return f"{path} is not used: it belongs to user {state.st_uid}, not to {os.geteuid()}"
    if state.st_mode & 0o077:
        found = f"{stat.S_IMODE(state.st_mode):o}"
        return f"{path} is not used: others may use it, its mode is {found} (chmod {mode})"
    return None


def _read(path: Path) -> tuple[str, str | None]:
    """(text of a private file, None), or ("", the reason why the file is not used); ("", None) if the file
    does not exist."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return "", None
    except OSError as error:
        return "", f"{path} is not used: {error.strerror}"
    with open(fd, "rb") as file:
        state = os.fstat(fd)
        if not stat.S_ISREG(state.st_mode) or state.st_size > _MOST_BYTES:
            return "", f"{path} is not used: it is no regular file, or has {state.st_size} bytes"
        if found := _unsafe(path, state, "600"):
            return "", found
        return file.read().decode(errors="replace"), None


# **************** trusted libraries ****************


def entries() -> dict[str, Trusted]:
    """The trusted libraries, by sha256; empty if the folder is not used."""
    return {} if _unsafe_folder() else _parse(_read(folder() / "trusted")[0])


def _parse(text: str) -> dict[str, Trusted]:
    rows = (line.split(" ", 3) for line in text.split("\n"))
    return {row[0]: Trusted(*row, *[""] * (4 - len(row))) for row in rows if is_sha256(row[0])}


def add(found: Collection[tuple[str, str]], how: str) -> None:
    """Trust libraries from now on. ``found``: pairs (sha256, name) of libraries. Raises GraphRuntimeError if
    the trust cannot be recorded, or the folder is not used."""
    day = time.strftime("%Y-%m-%d")

    def change(text: str) -> str:
        known = _parse(text)
        new = {sha256: name for sha256, name in found if sha256 not in known}
        lines = [f"{sha256} {how} {day} {_plain(name)}\n" for sha256, name in new.items()]
        return text + ("\n" if text and not text.endswith("\n") and lines else "") + "".join(lines)

    if any(sha256 not in entries() for sha256, _ in found):
        _rewrite(change)


def remove(hashes: Collection[str]) -> None:
    """Stop trusting libraries. Raises GraphRuntimeError if the change cannot be recorded."""

    def change(text: str) -> str:
        lines = text.splitlines(keepends=True)
        return "".join(line for line in lines if line.split(" ", 1)[0].strip() not in hashes)

    _rewrite(change)


def _plain(name: str) -> str:
    return "".join(c if c.isprintable() else "?" for c in name)[:200]


def _rewrite(change: Callable[[str], str]) -> None:
    path = folder()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(path):
            if reason := problem():
                raise GraphRuntimeError(f"nothing can be trusted: {reason}", got=str(path))
            text = _read(path / "trusted")[0]
            changed = change(text)
            if changed != text:
                _replace(path / "trusted", changed)
    except OSError as error:
        said = f"cannot write to {path}: {error.strerror or error}; GR_TRUST_DIR chooses another folder"
        raise GraphRuntimeError(said, got=str(path)) from None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    if reason := _unsafe_folder():
        raise GraphRuntimeError(f"nothing can be trusted: {reason}", got=str(path))
    fd = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        end = time.monotonic() + _LOCK_SECONDS
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    text = f"{path / 'lock'} was held by another process for {_LOCK_SECONDS} s"
                    raise GraphRuntimeError(text, got=str(path)) from None
                time.sleep(0.005)
        yield
    finally:
        os.close(fd)


def _replace(path: Path, text: str) -> None:
    import tempfile  # the import takes 1 ms, and queries need no new file

    fd, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # the file has mode 0600
    try:
        with open(fd, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        raise


# **************** the key ****************


def key_path() -> Path:
    """The path of the key: GR_TRUST_KEY, else ``key`` in the folder."""
    given = str(config.get("TRUST_KEY"))
    return Path(os.path.expanduser(given)) if given else folder() / "key"


def key() -> tuple[bytes | None, str | None]:
    """(key, None), or (None, the reason why the key is not used); (None, None) if there is no key."""
    path = key_path()
    text, reason = _read(path)
    if text and path.parent == folder():
        reason = _unsafe_folder()
    if reason is None and not text and str(config.get("TRUST_KEY")):
        reason = f"GR_TRUST_KEY names {path}, where there is no key"
    if reason or not text:
        return None, reason
    if not is_sha256(text.strip()):
        return None, f"{path} is not used: a key is {2 * _KEY_BYTES} hexadecimal digits in lower case"
    return bytes.fromhex(text.strip()), None


def new_key() -> Path:
    """Make a key and return its path. Raises GraphRuntimeError if there is a key already, or if the new one
    cannot be written."""
    path = key_path()
    if reason := _unsafe_folder():
        raise GraphRuntimeError(f"no key is made: {reason}", got=str(path))
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w") as file:
            file.write(os.urandom(_KEY_BYTES).hex() + "\n")
    except OSError as error:
        text = f"cannot write a key to {path}: {error.strerror or error}"
        raise GraphRuntimeError(text, got=str(path)) from None
    return path
