"""The C of a device kind of another package -> a shared object that registers it, kept in the cache."""

from __future__ import annotations

from pathlib import Path

from ..base.errors import CompileError
from ..base.files.temporary import temporary_folder
from ..base.files.writing import told, write_whole
from .cache import HINT, hash_of, open_cache
from .shared_library import native_folder
from .toolchain import FLAGS, find_compiler

__all__ = ["build_kind"]

_FLAGS = ("-shared", "-D_GNU_SOURCE", *FLAGS)  # what it uses of the core is found when it is opened


def build_kind(source: Path) -> Path:
    """Compile one C file against the headers of native/core and native/include; the shared object, a file of
    this process. Equal text, compiler and headers are compiled once.

    Raises CompileError where there is no compiler, it refuses the code, or the file cannot be read;
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
    cache = open_cache()
    data = cache.find("libraries", key)
    if data is None:
        with told(cache.folder, HINT), cache.build_folder() as folder:
            (Path(folder) / source.name).write_text(text)
            includes = [f"-I{path}" for path in (*folders, source.parent)]
            compiler.run([*_FLAGS, *includes, source.name, "-o", "kind.so"], Path(folder))
            data = (Path(folder) / "kind.so").read_bytes()
        cache.keep("libraries", key, data)
    path = temporary_folder() / f"{key}.so"
    write_whole(path, data, 0o700)
    return path
