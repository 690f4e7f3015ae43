"""tvm.contrib.cc: the compiler as a linker."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ....base.errors import CompileError

__all__ = ["create_executable", "create_shared", "cross_compiler", "get_cc", "get_target_by_dump_machine"]


def get_cc() -> str:
    """The path of the C compiler. Raises CompileError if there is no compiler."""
    return str(_compiler(None).command[0])


def _compiler(cc: Any) -> Any:
    from ....codegen.toolchain import Compiler, find_compiler  # imported here: few scripts link

    if cc is None:
        return find_compiler()
    path = shutil.which(cc)
    if path is None:
        raise CompileError(f"there is no compiler {cc}: install it, or name another", got=str(cc))
    return Compiler((str(Path(path).absolute()),), "")


def _link(output: Any, objects: Any, options: Sequence[str], cc: Any) -> None:
    files = [objects] if isinstance(objects, (str, Path)) else list(objects)
    out = Path(output).absolute()
    names = [str(Path(one).absolute()) for one in files]
    _compiler(cc).run(["-o", str(out), *names, *options], Path.cwd())  # names among the options may be files


def create_shared(output: Any, objects: Any, options: Sequence[str] | None = None, cc: Any = None) -> None:
    """Link object files into a shared object, by the command ``cc``; by default the command in GR_CC or CC.
    Raises CompileError if that fails."""
    _link(output, objects, ["-shared", "-fPIC", *(options or ())], cc)


create_shared.output_format = "so"  # type: ignore[attr-defined]


def create_executable(
    output: Any, objects: Any, options: Sequence[str] | None = None, cc: Any = None
) -> None:
    """Link object files into an executable file. Parameters and errors as for create_shared."""
    _link(output, objects, list(options or ()), cc)


def get_target_by_dump_machine(compiler: str | None) -> Callable[[], str | None]:
    """A function that returns the target triple of a compiler, or None if the compiler does not tell it."""
    import subprocess  # the import takes 5 ms

    def get_target_triple() -> str | None:
        if not compiler:
            return None
        said = subprocess.run([compiler, "-dumpmachine"], capture_output=True, text=True, check=False)
        return said.stdout if said.returncode == 0 else None

    return get_target_triple


def cross_compiler(
    compile_func: str | Callable[..., Any],
    options: Sequence[str] | None = None,
    output_format: str | None = None,
    get_target_triple: Callable[[], str | None] | None = None,
    add_files: Sequence[Any] | None = None,
) -> Callable[..., None]:
    """A function like create_shared that links by ``compile_func`` (a command or function) and adds
    ``options`` and ``add_files`` in every call."""
    link = compile_func
    if isinstance(compile_func, str):
        link = _by(compile_func)
    given, files = list(options or ()), list(add_files or ())

    def compiled(outputs: Any, objects: Any, options: Sequence[str] | None = None) -> None:
        several = [objects] if isinstance(objects, (str, Path)) else objects
        link(outputs, [*several, *files], options=[*given, *(options or ())])  # type: ignore[operator]

    compiled.output_format = output_format or getattr(link, "output_format", "so")  # type: ignore[attr-defined]
    compiled.get_target_triple = get_target_triple or getattr(  # type: ignore[attr-defined]
        link, "get_target_triple", None
    )
    return compiled


def _by(command: str) -> Callable[..., None]:
    def link(output: Any, objects: Any, options: Sequence[str] | None = None) -> None:
        create_shared(output, objects, options, command)

    return link
