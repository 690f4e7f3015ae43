"""Bundles: one folder or stored zip with programs, the libraries that have their kernels, and parameters.

    bundle.json     what is in it (schemas/bundle.schema.json), with the sha256 of every other file
    main.json       a graph.json that carries its plan's columns
    kernels.so      a module library
    params.bin      TVM's parameter binary

bundle_writer.py writes them.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import shutil
import tempfile
import weakref
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import numpy as np

from .document import check_schema, parse_json
from .errors import DocumentError, as_path, did_you_mean
from .params import read_params

__all__ = ["FORMAT", "INDEX", "VERSION", "Bundle", "BundleLibrary", "BundleProgram", "check_name",
           "check_references", "read_bundle"]

FORMAT, VERSION = "graph_runtime.bundle", 1
INDEX = "bundle.json"
_MOST_INDEX = 64 << 20


@dataclass(frozen=True, slots=True)
class BundleProgram:
    """One program: ``graph`` is its file in the bundle, ``inputs`` and ``outputs`` names in order
    (parameters are not inputs here), ``params`` {input name: key in the parameter file}, ``aliases``
    ((output index, input index), ...). ``const``: equal inputs give equal outputs, which may be kept."""

    name: str
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[tuple[int, int], ...] = ()
    const: bool = False


@dataclass(frozen=True, slots=True)
class BundleLibrary:
    """One module library: its file in the bundle, the device kinds it serves, its instruction set."""

    file: str
    kinds: tuple[str, ...]
    isa: str = ""


class Bundle:
    """An opened bundle, hashes checked. ``devices`` is the list it was compiled for. Parameters are views of
    the mapped file; a library in a zip is unpacked into a folder that goes when this object does."""

    def __init__(self, path: Path, index: Mapping, views: Mapping[str, memoryview], is_zip: bool):
        self.path = path
        self.devices: tuple[str, ...] = tuple(index["devices"])
        self.programs = tuple(_program(raw) for raw in index["programs"])
        self.libraries = tuple(
            BundleLibrary(raw["file"], tuple(raw["kinds"]), raw["isa"]) for raw in index["libraries"]
        )
        self.params_file: str | None = index["params"]
        self.files: Mapping[str, str] = index["files"]
        self.memo: dict[str, tuple] = {}          # program -> layouts of its inputs (executable.py)
        self._views = views
        self._unpacked = (
            Path(tempfile.mkdtemp(prefix="graph_runtime_")) if is_zip and self.libraries else None
        )
        if self._unpacked is not None:
            weakref.finalize(self, shutil.rmtree, self._unpacked, ignore_errors=True)

    def program(self, name: str | None = None) -> BundleProgram:
        """The program of that name, the first without one. Raises DocumentError with "did you mean"."""
        if name is None:
            return self.programs[0]
        for program in self.programs:
            if program.name == name:
                return program
        known = [program.name for program in self.programs]
        raise DocumentError(
            f"bundle {self.path} has no program {name!r}{did_you_mean(name, known)}",
            got=name,
        )

    def read(self, file: str) -> memoryview:
        """The bytes of one file, mapped."""
        if file not in self._views:
            raise DocumentError(
                f"bundle {self.path} has no file {file!r}{did_you_mean(file, self._views)}", got=file
            )
        return self._views[file]

    def library_path(self, library: BundleLibrary) -> Path:
        """Where the library lies on disk, to be opened while this object lives."""
        if self._unpacked is None:
            return self.path / library.file
        target = (
            self._unpacked
            / hashlib.sha256(library.file.encode()).hexdigest()[:16]
            / PurePosixPath(library.file).name
        )
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(self.read(library.file))
        return target

    def params(self, program: BundleProgram) -> dict[str, np.ndarray]:
        """Parameters of a program by input name, views of the mapped file. Raises ParamsError,
        DocumentError."""
        if self.params_file is None:
            return {}
        stored = read_params(self.read(self.params_file))
        missing = sorted({key for key in program.params.values() if key not in stored})
        if missing:
            raise DocumentError(
                f"bundle {self.path}: program {program.name!r} needs parameter {missing[0]!r}, "
                f"{self.params_file} does not have it",
                got=missing,
            )
        return {name: stored[key] for name, key in program.params.items()}


def _program(raw: Mapping) -> BundleProgram:
    return BundleProgram(
        raw["name"],
        raw["graph"],
        tuple(raw["inputs"]),
        tuple(raw["outputs"]),
        dict(raw["params"]),
        tuple((out, to) for out, to in raw["aliases"]),
        raw.get("const", False),
    )


# **************** reading ****************


def read_bundle(path: str | os.PathLike) -> Bundle:
    """Open a bundle. Raises DocumentError where it is no bundle, of another version, where a file is
    missing, has another hash, or a path that leaves the bundle."""
    path = as_path(path, "a bundle")
    is_zip = path.is_file()
    if not is_zip and not path.is_dir():
        raise DocumentError(f"there is no bundle at {path}", got=str(path))
    try:
        files = _zip_views(path) if is_zip else None
        index = _read_index(path, files[INDEX] if files and INDEX in files else None, is_zip)
        views = {name: _view(path, name, files) for name in index["files"]}
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise DocumentError(f"cannot read bundle {path}: {error}", got=str(path)) from None
    for name, wanted in index["files"].items():
        got = hashlib.sha256(views[name]).hexdigest()
        if got != wanted:
            raise DocumentError(
                f"bundle {path}: file {name} was changed: its sha256 is {got}, {INDEX} says {wanted}",
                got=got,
                wanted=wanted,
                path=f"$.files[{name!r}]",
            )
    check_references(path, index)
    return Bundle(path, index, views, is_zip)


def _read_index(path: Path, view: memoryview | None, is_zip: bool) -> dict:
    if view is None and (is_zip or not (path / INDEX).is_file()):
        raise DocumentError(f"{path} is no bundle: it has no {INDEX}", got=str(path))
    size = len(view) if view is not None else (path / INDEX).stat().st_size
    if size > _MOST_INDEX:
        raise DocumentError(f"{path}: {INDEX} has {size} bytes, at most {_MOST_INDEX} are allowed", got=size)
    data = bytes(view) if view is not None else (path / INDEX).read_bytes()
    index = parse_json(data, f"{path}: {INDEX}")
    version = index.get("version") if isinstance(index, dict) else None
    if version != VERSION:
        raise DocumentError(
            f"{path} is a bundle of version {str(version)[:40]}, this runtime reads version {VERSION}",
            got=version,
            wanted=VERSION,
            path="$.version",
        )
    check_schema(index, "bundle", f"{path}: {INDEX}")
    return index


def _zip_views(path: Path) -> dict[str, memoryview]:
    """Every member of a stored zip, as a view of the mapped file."""
    with path.open("rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    views = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.compress_type != zipfile.ZIP_STORED:
                raise DocumentError(
                    f"bundle {path}: {info.filename} is compressed; a bundle's zip is stored, so that it "
                    f"can be mapped",
                    got=info.filename,
                )
            # the local header: 30 bytes, then name and extra field, whose lengths stand in its last 4
            at = info.header_offset
            begin = (
                at
                + 30
                + int.from_bytes(data[at + 26 : at + 28], "little")
                + int.from_bytes(data[at + 28 : at + 30], "little")
            )
            if info.file_size != info.compress_size or begin + info.file_size > len(data):
                raise DocumentError(f"bundle {path}: {info.filename} is cut off", got=info.filename)
            views[info.filename] = data[begin : begin + info.file_size]
    return views


def _view(path: Path, name: str, zipped: Mapping[str, memoryview] | None) -> memoryview:
    check_name(path, name)
    if zipped is not None:
        if name not in zipped:
            raise DocumentError(f"bundle {path}: file {name} is missing", got=name)
        return zipped[name]
    file = path / name
    if not file.is_file() or not file.resolve().is_relative_to(path.resolve()):
        raise DocumentError(f"bundle {path}: file {name} is missing, or lies outside of it", got=name)
    with file.open("rb") as opened:
        empty = os.fstat(opened.fileno()).st_size == 0
        return memoryview(b"" if empty else mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ))


def check_name(path: Path, name: str) -> None:
    pure = PurePosixPath(name)
    if (
        pure.is_absolute()
        or ".." in pure.parts
        or "\\" in name
        or "\0" in name
        or not pure.parts
        or name == INDEX
    ):
        raise DocumentError(
            f"bundle {path}: {name!r} is no file name of a bundle: paths are relative and stay inside",
            got=name,
            path=f"$.files[{name!r}]",
        )


def check_references(path: Path, index: Mapping) -> None:
    named = [(f"$.programs[{i}].graph", p["graph"]) for i, p in enumerate(index["programs"])]
    named += [(f"$.libraries[{i}].file", entry["file"]) for i, entry in enumerate(index["libraries"])]
    named += [("$.params", index["params"])] if index["params"] is not None else []
    for where, file in named:
        if file not in index["files"]:
            raise DocumentError(
                f"bundle {path}: {file!r} is not among its files{did_you_mean(file, index['files'])}",
                got=file,
                path=where,
            )
    for i, program in enumerate(index["programs"]):
        if program.get("const") and program["aliases"]:
            raise DocumentError(
                f"bundle {path}: program {program['name']!r} is const and overwrites an input: one excludes "
                "the other",
                got=program["aliases"],
                path=f"$.programs[{i}]",
            )
    names = [p["name"] for p in index["programs"]]
    if len(set(names)) != len(names):
        raise DocumentError(
            f"bundle {path}: two programs have one name: {names}", got=names, path="$.programs"
        )
