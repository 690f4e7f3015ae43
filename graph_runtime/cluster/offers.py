"""Models that a user offers, as NAME:VERSION=PATH#PROGRAM, and the bundle made of each.

A bundle is served in the state in which it was read: its files are linked into a folder of the server, so
that a bundle written over it has no effect until an update is requested. Files that are not bundles are
compiled into that folder; for an ONNX file with several sizes of a dimension, there is one program per size.
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

from ..artifacts.door import BUNDLE, kind_of, open_model
from ..base.errors import DocumentError, InputError
from ..base.options import Options
from .runner import ServedSource

_OFFER = re.compile(
    r"(?:(?P<name>[\w.-]+)(?::(?P<version>[\w.-]+))?=)?(?P<path>[^#]+)(?:#(?P<program>.+))?\Z"
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A model on the command line. ``program``: name of the only program of a bundle to serve; None: all
    programs are served."""

    name: str
    version: str
    path: Path
    program: str | None


@dataclass(frozen=True, slots=True)
class Making:
    """Instructions for making bundles. ``folder``: folder for the bundles; ``devices``: names of devices,
    None: the bundle's devices, or cpu:0 for other files; ``options``, ``libraries`` and ``params``: arguments
    of gr.build_bundle. ``native``: whether libraries of bundles may run."""

    folder: Path
    devices: tuple[str, ...] | None = None
    options: Options = field(default_factory=Options)
    libraries: tuple[Path, ...] = ()
    params: Path | None = None
    native: bool = True


def parse_offer(text: str) -> Offer:
    """The offer that a text such as "net.bundle", "digits=net.bundle" or "digits:2=net.bundle#step"
    describes. Raises InputError."""
    found = _OFFER.match(text)
    if found is None:
        raise InputError(f"write a model as [NAME[:VERSION]=]PATH[#PROGRAM], got {text!r}", got=text)
    path = Path(found["path"])
    name = found["name"] or re.sub(r"[^\w.-]", "_", path.stem)
    return Offer(name, found["version"] or "1", path, found["program"])


def require_used(offers: Sequence[Offer], making: Making) -> None:
    """Raise InputError if flags for compiling are given although all models are bundles, which are compiled
    already."""
    words = replace(making.options, threads=None).as_json()
    flags = [*words, *(["library"] if making.libraries else []), *(["params"] if making.params else [])]
    if flags and not any(offer.path.is_file() and kind_of(offer.path) != BUNDLE for offer in offers):
        text = f"{', '.join(flags)}: a bundle runs as it was compiled; give these to graph-runtime compile"
        raise InputError(text, got=flags)


def make_source(offer: Offer, making: Making) -> ServedSource:
    """The bundle of an offer, put into its own folder. Raises as gr.build_bundle."""
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
    """Give the file a second name, ``to``; copy it if the file system has no hard links."""
    with contextlib.suppress(OSError):
        os.link(path.resolve(), to)
        return
    shutil.copyfile(path, to)


def _compile(offer: Offer, making: Making, out: Path) -> Path:
    from ..artifacts.libraries.judge import read_library
    from ..codegen.build import build_bundle  # bundles need no compiler

    if offer.program is not None:
        text = f"#{offer.program}: {offer.path} is not a bundle and has no programs"
        raise InputError(text, got=offer.program)
    options = making.options
    several = {name: size for name, size in options.dims.items() if isinstance(size, tuple)}
    devices: Sequence[str] = making.devices or ("cpu:0",)
    libraries = [read_library(file) for file in making.libraries]
    programs = {}
    for sizes in itertools.product(*several.values()):
        dims = {**options.dims, **dict(zip(several, sizes, strict=True))}
        name = "_".join(f"{dim}{size}" for dim, size in zip(several, sizes, strict=True)) or "main"
        programs[name] = open_model(offer.path, replace(options, dims=dims))
    plain = replace(options, dims={}, batch=None, values={})
    return build_bundle(programs, devices, out, plain, params=making.params, libraries=libraries)
