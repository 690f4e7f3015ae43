"""Objects of the core's build, kept between builds: each under the hash of everything that shapes its bytes.

They lie beside the objects of compiled kernels, as codegen/cache.py has those (GR_CACHE_DIR/objects, with
the sha256 of their bytes), and go as those do. The key is made of the compiler's version and flags, the
source, the text of each header of this project that it reads, and Python's version; not of paths, so builds
in other folders find the object. A folder that others may write to is not used. Standard library only: the
wheel's build imports this file, when the package is not importable yet.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

__all__ = ["KeptObjects"]

_INCLUDE = re.compile(rb'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.M)


class KeptObjects:
    """Objects that the compiler ``command`` made with ``flags``, of sources that read headers of ``folders``.
    ``make_private``: that of graph_runtime/base/files/folders.py."""

    def __init__(
        self,
        command: Sequence[str],
        flags: Sequence[str],
        folders: Sequence[str],
        make_private: Callable[[Path], str],
    ):
        self.folder = _private_folder(make_private)
        self.folders = [Path(folder) for folder in folders]
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False).stdout
        self._common = [said, sys.version, *command[1:], *_without_paths(flags)]
        self._read: dict[Path, bytes] = {}

    def object(self, source: str, own: Sequence[str], path: str, compile_it: Callable[[], object]) -> None:
        """Put the source's object at ``path``: kept, or compiled now with its ``own`` flags and kept."""
        if self.folder is None:
            compile_it()
            return
        kept = self.folder / f"{self._key(source, own)}.o"
        if (data := _verified(kept)) is not None:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(data)
            return
        compile_it()
        data = Path(path).read_bytes()
        with contextlib.suppress(OSError):  # a full disk loses nothing but time
            _replace(kept, data)
            _replace(_sum_of(kept), _line(kept, data))

    def _key(self, source: str, own: Sequence[str]) -> str:
        digest = hashlib.sha256()
        texts = [part.encode() for part in (*self._common, *own)]
        for path in self._closure(Path(source)):
            texts += [path.name.encode(), self._text(path)]
        for text in texts:
            digest.update(b"%d:%b" % (len(text), text))
        return digest.hexdigest()

    def _closure(self, source: Path) -> list[Path]:
        """The source and the project's headers that it reads, in the order in which they are met."""
        found = {source: None}
        for path in (waiting := [source]):
            for name in _INCLUDE.findall(self._text(path)):
                near = [folder / name.decode() for folder in (path.parent, *self.folders)]
                header = next((at for at in near if at.is_file()), None)
                if header is not None and header not in found:
                    found[header] = None
                    waiting.append(header)
        return list(found)

    def _text(self, path: Path) -> bytes:
        if path not in self._read:
            self._read[path] = path.read_bytes()
        return self._read[path]


def _without_paths(flags: Sequence[str]) -> list[str]:
    return [flag for flag in flags if not flag.startswith(("-I", "-ffile-prefix-map="))]


def _private_folder(make_private: Callable[[Path], str]) -> Path | None:
    """The folder of kept objects, the user's alone; None where there cannot be one."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
        named = os.environ.get("GR_CACHE_DIR") or Path(base) / "graph_runtime"
        folder = Path(named).absolute() / "objects"
        return None if make_private(folder) else folder
    except (OSError, RuntimeError):  # RuntimeError: a user without a home
        return None


def _sum_of(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _line(path: Path, data: bytes) -> bytes:
    return f"{hashlib.sha256(data).hexdigest()}  {path.name}\n".encode()


def _verified(path: Path) -> bytes | None:
    """The bytes of a kept object, None where they are not there or not whole."""
    with contextlib.suppress(OSError):
        data = path.read_bytes()
        if _sum_of(path).read_bytes().strip() == _line(path, data).strip():
            os.utime(path)
            return data
    return None


def _replace(path: Path, data: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    os.replace(name, path)
