"""The C compiler: which one, which flags, and running it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from graph_runtime.config import get as setting
from graph_runtime.errors import CompileError, did_you_mean
from graph_runtime.libraries import isa

__all__ = ["FLAGS", "Compiler", "find_compiler", "target"]

# No -ffast-math: it changes results. No fused multiply-add and no errno: both sides of the generic ==
# compiled test agree then.
FLAGS = (
    "-std=gnu11",
    "-O3",
    "-fno-math-errno",
    "-ffp-contract=off",
    "-fPIC",
    "-fvisibility=hidden",
    "-Wno-unused-function",
)
_NO_COMPILER = (
    "no C compiler found ({tried}): building new kernels needs one. Install gcc (`apt install gcc`, `dnf "
    "install gcc`) or set GR_CC. Everything else works without: graphs run with libraries that are built, "
    "and with the kernels of the wheel"
)
_STDERR_LINES = 12


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler driver: ``command`` to start it with, ``version`` the first line of --version."""

    command: tuple[str, ...]
    version: str

    def run(self, arguments: Sequence[str], folder: Path) -> None:
        """Run it in ``folder``. Raises CompileError with the start of what it said."""
        done = _run([*self.command, *arguments], folder)
        if done.returncode != 0:
            said = "\n".join(done.stderr.strip().splitlines()[:_STDERR_LINES])
            raise CompileError(
                f"{shlex.join([*self.command, *arguments])} failed with status {done.returncode}:\n{said}",
                got=done.returncode,
                stderr=done.stderr,
            )


def _run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    # LC_ALL: messages and --version must not depend on the user's language; SOURCE_DATE_EPOCH: nor __DATE__
    # on the time
    env = {**os.environ, "LC_ALL": "C", "SOURCE_DATE_EPOCH": "0"}
    return subprocess.run(
        command,
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
    )


def find_compiler() -> Compiler:
    """GR_CC, else $CC, else gcc, else cc. Raises CompileError, which says what to install, where there is
    none."""
    named = str(setting("CC")) or os.environ.get("CC", "")
    tried = [named] if named else ["gcc", "cc"]
    for text in tried:
        command = tuple(shlex.split(text))
        path = shutil.which(command[0]) if command else None
        if path:
            return _compiler((path, *command[1:]))
    raise CompileError(_NO_COMPILER.format(tried="tried " + ", ".join(tried)), got=tried)


@cache
def _compiler(command: tuple[str, ...]) -> Compiler:
    try:
        done = _run([*command, "--version"])
    except OSError as error:
        raise CompileError(
            f"cannot start the C compiler {shlex.join(command)}: {error}", got=command
        ) from None
    if done.returncode != 0 or not done.stdout.strip():
        raise CompileError(
            f"{shlex.join(command)} --version failed: is it a C compiler? {done.stderr.strip()[:200]}",
            got=command,
        )
    return Compiler(command, done.stdout.splitlines()[0])


def target(march: str) -> tuple[str, tuple[str, ...]]:
    """(ISA name for the manifest, flags) of ``march``: "auto", "native" or a level as "x86-64-v2".

    Raises CompileError for a name that is none of these.
    """
    if march == "native":
        return isa.native_name(), ("-march=native",)
    name = isa.best_level() if march == "auto" else march
    if name and name not in isa.LEVELS:
        known = ["auto", "native", *isa.LEVELS]
        raise CompileError(
            f"unknown march {march!r}{did_you_mean(march, known)}: use one of {', '.join(known)}",
            got=march,
            wanted=known,
        )
    return name, (f"-march={name}",) if name else ()
