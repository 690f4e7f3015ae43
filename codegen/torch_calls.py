"""C++ that repeats calls of PyTorch (native/torch/repeated_calls.cpp) -> a Python extension module, cached
for each version of torch and Python. Only ``compile_calls`` imports torch."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sysconfig
from importlib import metadata
from pathlib import Path

from ..base.errors import CompileError
from .cache import hash_of, open_cache
from .process import CommandPool
from .shared_library import native_folder
from .toolchain import Compiler

NAME = "repeated_calls"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-s", "-fvisibility=hidden")
_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")


def _folder() -> Path:
    return native_folder() / "torch"


def key_of_calls() -> str:
    """Hash of all inputs that determine the module, except the compiler: the version of torch fixes its
    binary interface. Raises PackageNotFoundError without torch."""
    sources = sorted([*(native_folder() / "include").glob("*.h"), *_folder().iterdir()])
    abi = (metadata.version("torch"), str(sysconfig.get_config_var("SOABI")))
    return hash_of([*abi, *_FLAGS, *_LIBRARIES, *(source.read_text() for source in sources)])


def find_calls(key: str) -> bytes | None:
    """The module's bytes; None if the module is not compiled yet. Raises WriteError if no cache is
    possible."""
    return open_cache(make=False).find("libraries", key)


def compile_calls(key: str) -> None:
    """Compile the module into the cache; if several processes ask for it, only one compiles. A compiler that
    still runs when this process ends is killed. Raises CompileError if there is no C++ compiler or if it
    fails; WriteError."""
    cache, running = open_cache(), CommandPool()

    def build(folder: Path) -> bytes:
        _compiler().run(_arguments(), folder, running)
        return (folder / f"{NAME}.so").read_bytes()

    atexit.register(running.stop)
    try:
        with cache.alone("libraries", key, lambda: running.stopped):
            cache.made(key, build)
        cache.prune()
    finally:
        atexit.unregister(running.stop)


def _compiler() -> Compiler:
    from torch.utils.cpp_extension import get_cxx_compiler

    command = shlex.split(get_cxx_compiler())
    path = shutil.which(command[0]) if command else None
    if path is None:
        text = f"no C++ compiler found (tried {shlex.join(command)}): install g++, or set CXX"
        raise CompileError(text, got=command)
    return Compiler((os.path.abspath(path), *command[1:]), "")


def _arguments() -> list[str]:
    from torch.utils.cpp_extension import include_paths, library_paths

    folders = [*include_paths(), sysconfig.get_paths()["include"]]
    return [
        *_FLAGS,
        *(f"-isystem{folder}" for folder in folders),
        f"-I{native_folder() / 'include'}",
        str(_folder() / f"{NAME}.cpp"),
        "-o",
        f"{NAME}.so",
        *(f"-L{folder}" for folder in library_paths()),
        *_LIBRARIES,
    ]
