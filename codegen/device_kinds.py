"""C source of another package's device kind -> a shared object that registers the kind, kept in the cache."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import CompileError
from ..base.files.temporary import temporary_folder
from ..base.files.writing import write_whole
from .cache import hash_of, open_cache
from .shared_library import native_folder
from .toolchain import FLAGS, find_compiler

_FLAGS = ("-shared", "-D_GNU_SOURCE", *FLAGS)  # the core's functions are found when the object is opened


def build_kind(source: Path) -> Path:
    """Compile one C file against the headers of native/core and native/include; return the shared object, a
    file that this process deletes when it ends. A file with equal text, compiler and headers is compiled
    once.

    Raises CompileError if there is no compiler, if it refuses the code, or if the file is unreadable;
    WriteError.
    """
    try:
        text = source.read_text("utf-8")
    except (OSError, ValueError) as error:
        raise CompileError(f"cannot read the C of a device kind {source}: {error}", got=str(source)) from None
    compiler, native = find_compiler(), native_folder()
    folders = (native / "core", native / "include")
    headers = [header.read_text() for folder in folders for header in sorted(folder.glob("*.h"))]
    key = hash_of([compiler.version, *compiler.command[1:], *_FLAGS, text, *headers])

    def build(folder: Path) -> bytes:
        (folder / source.name).write_text(text)
        includes = [f"-I{path}" for path in (*folders, source.parent)]
        compiler.run([*_FLAGS, *includes, source.name, "-o", "kind.so"], folder)
        return (folder / "kind.so").read_bytes()

    path = temporary_folder() / f"{key}.so"
    write_whole(path, open_cache().made(key, build), 0o700)
    return path
