"""What a user offers to be served: NAME:VERSION=PATH#PROGRAM, and the bundle that is made of it.

A bundle is served as it was when it was read: its files are linked into a folder of the server's, so that a
new one in its place changes nothing until an update is asked for. Other files are compiled into that folder,
an ONNX file with several sizes of a dimension into a program for each.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..artifacts.door import BUNDLE, kind_of, open_model
from ..base.errors import DocumentError, InputError
from ..base.options import Options
from .runner import ServedSource

__all__ = ["Making", "Offer", "make_source", "parse_offer", "require_used"]

_OFFER = re.compile(
    r"(?:(?P<name>[\w.-]+)(?::(?P<version>[\w.-]+))?=)?(?P<path>[^#]+)(?:#(?P<program>.+))?\Z"
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A model of the command line. ``program``: of a bundle, None for all."""

    name: str
    version: str
    path: Path
    program: str | None


@dataclass(frozen=True, slots=True)
class Making:
    """How bundles are made: in ``folder``, for ``devices`` (None: a bundle's own, else cpu:0), with
    ``options``, ``libraries`` and ``params`` as gr.build_bundle takes them. ``native``: whether libraries of
    bundles run."""

    folder: Path
    devices: tuple[str, ...] | None = None
    options: Options = field(default_factory=Options)
    libraries: tuple[Path, ...] = ()
    params: Path | None = None
    native: bool = True


def parse_offer(text: str) -> Offer:
    """From "net.bundle", "digits=net.bundle", "digits:2=net.bundle#step". Raises InputError."""
    found = _OFFER.match(text)
    if found is None:
        raise InputError(f"a model is given as [NAME[:VERSION]=]PATH[#PROGRAM], got {text!r}", got=text)
    path = Path(found["path"])
    name = found["name"] or re.sub(r"[^\w.-]", "_", path.stem)
    return Offer(name, found["version"] or "1", path, found["program"])


def require_used(offers: Sequence[Offer], making: Making) -> None:
    """Raise InputError where flags say how models are compiled, and all are bundles, which are compiled
    already."""
    words = replace(making.options, threads=None).as_json()
    flags = [*words, *(["library"] if making.libraries else []), *(["params"] if making.params else [])]
    if flags and not any(offer.path.is_file() and kind_of(offer.path) != BUNDLE for offer in offers):
        text = f"{', '.join(flags)}: a bundle runs as it was compiled; give these to graph-runtime compile"
        raise InputError(text, got=flags)


def make_source(offer: Offer, making: Making) -> ServedSource:
    """The bundle of an offer, in a folder of its own. Raises as gr.build_bundle."""
    number = next(n for n in itertools.count(1) if not (making.folder / str(n)).exists())
    into = making.folder / str(number)
    into.mkdir(parents=True)
    path = into / offer.path.name
    if offer.path.is_dir():
        _link(offer.path, path)
    elif not offer.path.is_file():
        raise DocumentError(f"there is no file {offer.path}", got=str(offer.path))
    elif kind_of(offer.path) == BUNDLE:
        _link_file(offer.path, path)
    else:
        path = _compile(offer, making, into / f"{offer.path.stem}.bundle")
    return ServedSource(str(path), offer.program, making.devices, libraries=making.native)


def _link(path: Path, into: Path) -> None:
    for folder, _, files in os.walk(path):
        to = into / Path(folder).relative_to(path)
        to.mkdir()
        for file in files:
            _link_file(Path(folder) / file, to / file)


def _link_file(path: Path, to: Path) -> None:
    """The same bytes under a second name; a copy where the file system has no such."""
    with contextlib.suppress(OSError):
        os.link(path.resolve(), to)
        return
    shutil.copyfile(path, to)


def _compile(offer: Offer, making: Making, out: Path) -> Path:
    from ..artifacts.libraries.judge import read_library
    from ..codegen.build import build_bundle  # bundles need no compiler

    if offer.program is not None:
        raise InputError(
            f"#{offer.program}: {offer.path} is no bundle and has no programs", got=offer.program
        )
    options = making.options
    several = {name: size for name, size in options.dims.items() if isinstance(size, tuple)}
    devices: Sequence[str] = making.devices or ("cpu:0",)
    words: dict[str, Any] = {
        "params": making.params,
        "libraries": [read_library(f) for f in making.libraries],
    }
    programs = {}
    for sizes in itertools.product(*several.values()):
        dims = {**options.dims, **dict(zip(several, sizes, strict=True))}
        name = "_".join(f"{dim}{size}" for dim, size in zip(several, sizes, strict=True)) or "main"
        programs[name] = open_model(offer.path, replace(options, dims=dims))
    return build_bundle(programs, devices, out, replace(options, dims={}, batch=None, values={}), **words)
