"""The C++ of PyTorch's calls that repeat (native/torch/repeated_calls.cpp) -> an extension module of
Python, in the cache: one for each version of torch and Python. Only ``compile_calls`` imports torch."""

from __future__ import annotations

import atexit
import os
import shlex
import shutil
import sysconfig
from importlib import metadata
from pathlib import Path

from ..base.errors import CompileError
from ..base.files.writing import told
from .cache import HINT, hash_of, open_cache
from .process import CommandPool
from .shared_library import native_folder
from .toolchain import Compiler

__all__ = ["NAME", "compile_calls", "find_calls", "key_of_calls"]

NAME = "repeated_calls"
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-s", "-fvisibility=hidden")
_LIBRARIES = ("-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python")


def _folder() -> Path:
    return native_folder() / "torch"


def key_of_calls() -> str:
    """Of all that shapes the module, but the compiler: torch's binary interface is that of its version.
    Raises PackageNotFoundError without torch."""
    sources = sorted([*(native_folder() / "include").glob("*.h"), *_folder().iterdir()])
    abi = (metadata.version("torch"), str(sysconfig.get_config_var("SOABI")))
    return hash_of([*abi, *_FLAGS, *_LIBRARIES, *(source.read_text() for source in sources)])


def find_calls(key: str) -> bytes | None:
    """The module's bytes, None where it is not compiled yet. Raises WriteError where no cache can be."""
    return open_cache(make=False).find("libraries", key)


def compile_calls(key: str) -> None:
    """Compile it into the cache; of processes that want it at a time one does. What is not over when this
    process ends is ended. Raises CompileError where there is no C++ compiler, or it fails; WriteError."""
    cache, running = open_cache(), CommandPool()
    atexit.register(running.stop)
    try:
        with cache.alone("libraries", key, lambda: running.stopped):
            if cache.find("libraries", key) is not None:
                return
            with told(cache.folder, HINT), cache.build_folder() as folder:
                _compiler().run(_arguments(), Path(folder), running)
                data = (Path(folder) / f"{NAME}.so").read_bytes()
            cache.keep("libraries", key, data)
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
