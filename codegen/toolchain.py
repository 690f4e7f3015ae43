"""Compilers: choosing one for each language, its flags, and running it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..base.config import get as setting
from ..base.errors import CompileError, did_you_mean
from ..base.machine import isa
from .process import CommandPool, Done, run_alone

# No -ffast-math, because it changes results. No fused multiply-add and no errno, so that the results of
# generic and compiled kernels agree, as a test requires.
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
_NO_OTHER = "no compiler of {language} found ({{tried}}): install {package}, or set {variable}"
# {language: (environment variables that name the compiler, its usual names, advice if there is none)}
_COMPILERS = {
    "C": (("GR_CC", "CC"), ("gcc", "cc"), _NO_COMPILER),
    "C++": (("CXX",), ("g++", "c++"), _NO_OTHER.format(language="C++", package="g++", variable="CXX")),
    "Rust": (("RUSTC",), ("rustc",), _NO_OTHER.format(language="Rust", package="rustc", variable="RUSTC")),
}
_STDERR_LINES = 12
# (pattern of a compiler message that is not about the code, advice)
_LIMITS = (
    ("No space left on device", "the disk is full: free some of it, or GR_CACHE_DIR chooses another"),
    ("[Qq]uota exceeded", "a disk quota is used up: delete files, or GR_CACHE_DIR chooses another place"),
    ("File too large|File size limit", "this process may not write files of this size (ulimit -f)"),
    (
        "out of memory|Cannot allocate memory|memory exhausted|Killed",
        "it needs more memory than there is, or than this process may have (ulimit -v); --jobs 1 needs least",
    ),
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler driver. ``command``: the words that start it; ``version``: the first line of its
    --version."""

    command: tuple[str, ...]
    version: str

    def run(self, arguments: Sequence[str], folder: Path, running: CommandPool | None = None) -> str:
        """Run the compiler in ``folder``, as one of the commands of ``running``, and return its warnings.
        Raises CompileError with the start of the compiler's output."""
        command = [*self.command, *arguments]
        done = running.run(command, folder) if running else run_alone(command, folder)
        if done.status != 0:
            said = "\n".join(done.err.strip().splitlines()[:_STDERR_LINES])
            text = f"{shlex.join(command)} {_how(done)}{_advice(done)}:\n{said}"
            raise CompileError(text, got=done.status, stderr=done.err)
        return done.err


def _how(done: Done) -> str:
    """How the compiler failed, as text."""
    if done.status > 0:
        return f"failed with status {done.status}"
    return f"was ended by {signal.strsignal(-done.status) or 'a signal'} (signal {-done.status})"


def _advice(done: Done) -> str:
    """Advice if the cause of the failure is not the code, else ""."""
    text = f"{signal.strsignal(-done.status) if done.status < 0 else ''} {done.err}"
    return next((f"; {advice}" for pattern, advice in _LIMITS if re.search(pattern, text)), "")


def find_compiler(language: str = "C") -> Compiler:
    """The compiler of a language of ``_COMPILERS``: named by its environment variables, else the first of its
    usual names that exists. Raises CompileError, with what to install, if there is none."""
    variables, usual, missing = _COMPILERS[language]
    named = {name: os.environ.get(name, "") for name in variables} | {"GR_CC": str(setting("CC"))}
    variable, text = next(((name, named[name]) for name in variables if named[name]), ("", ""))
    tried = [text] if text else list(usual)
    for text in tried:
        command = _parsed(variable, text)
        path = shutil.which(command[0])
        if path:
            return _compiler((os.path.abspath(path), *command[1:]))
        if os.path.isdir(command[0]) or os.path.exists(command[0]):
            raise CompileError(
                f"{variable}={text!r} is no compiler: {command[0]} is "
                f"{'a folder' if os.path.isdir(command[0]) else 'not executable'}; name a compiler of "
                f"{language}, as {variable}={usual[0]}",
                got=text,
            )
    raise CompileError(missing.format(tried="tried " + ", ".join(tried)), got=tried)


def _parsed(variable: str, text: str) -> tuple[str, ...]:
    """A command split into words as by the shell. Raises CompileError for a command without words."""
    try:
        command = tuple(shlex.split(text))
    except ValueError as error:
        raise CompileError(
            f"{variable}={text!r} cannot be split into words: {error}; give a "
            f"command as the shell takes it, as {variable}='gcc -m64'",
            got=text,
        ) from None
    if not command or not command[0] or "\0" in text:
        said = f"{variable}={text!r} names no compiler; give a command, as {variable}=gcc, or leave it out"
        raise CompileError(said, got=text)
    return command


@cache
def _compiler(command: tuple[str, ...]) -> Compiler:
    done = run_alone([*command, "--version"])
    if done.status != 0 or not done.out.strip():
        text = f"{shlex.join(command)} --version failed: is it a C compiler? {done.err.strip()[:200]}"
        raise CompileError(text, got=command)
    return Compiler(command, done.out.splitlines()[0])


def target(march: str) -> tuple[str, tuple[str, ...]]:
    """(name of the ISA for the manifest, compiler flags) of ``march``: "auto", "native" or a level such as
    "x86-64-v2".

    Raises CompileError for any other text.
    """
    if march == "native":
        return isa.native_name(), ("-march=native",)
    name = isa.best_level() if march == "auto" else march
    if name and name not in isa.LEVELS:
        known = ["auto", "native", *isa.LEVELS]
        text = f"unknown march {march!r}{did_you_mean(march, known)}: use one of {', '.join(known)}"
        raise CompileError(text, got=march, wanted=known)
    return name, (f"-march={name}",) if name else ()
