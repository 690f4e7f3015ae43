"""tvm.contrib.cc: the linker of objects."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

__all__ = ["create_shared", "get_cc"]


def get_cc() -> str:
    """The path of the C compiler. Raises CompileError where there is none."""
    from ....codegen.toolchain import find_compiler  # most scripts link nothing

    return find_compiler().command[0]


def create_shared(output: Any, objects: Any, options: Sequence[str] | None = None, cc: Any = None) -> None:
    """Link object files into a shared object. ``cc`` is not looked at: GR_CC and CC choose the compiler.
    Raises CompileError."""
    from ....codegen.toolchain import find_compiler

    files = [objects] if isinstance(objects, (str, Path)) else list(objects)
    out = Path(output).absolute()
    names = [str(Path(one).absolute()) for one in files]
    find_compiler().run(["-shared", "-fPIC", "-o", str(out), *names, *(options or ())], out.parent)
