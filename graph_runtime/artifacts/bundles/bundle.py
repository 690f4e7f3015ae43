"""Bundles: one folder or stored zip with programs, the libraries that have their kernels, and parameters.

    bundle.json     what is in it (schemas/bundle.schema.json), with the sha256 of every other file
    main.json       a graph.json that carries its plan's columns; NAME.json for each of several programs
    flow.json       of a model whose sizes or values a run finds: which program is next (flow_check.py)
    source/         that model itself, for sizes and values that no program has
    main.plan       the same plan, ready to be used (plan/snapshot.py)
    kernels.so      a module library
    params.bin      parameters, raw and aligned (weights.py); bundle.json says what lies where

artifacts/bundles/writer.py writes them. Opening a bundle compares the size of every file; the sha256 of a
file is compared when it is read, of a library before it is judged: nothing of it runs here. The parameter
file is mapped and not read: ``Bundle.verify`` compares that, too, as ``graph-runtime verify`` does.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...base import dtypes
from ...base.errors import DocumentError, InputError, ParamsError, as_path, did_you_mean
from ...base.json_text import parse_json
from ...base.options import Options
from ...base.progress import Count, uncounted
from ...ir.documents.document import check_schema
from ...ir.documents.weights import Slot, check_slots, map_values
from ...ir.graph import TensorType
from ..libraries.judge import LibraryFile, judge_sealed
from ..libraries.sealed import Sealed, seal
from .files import INDEX, MOST_MEMBERS, Member, find_member, zip_members
from .references import check_references

__all__ = [
    "FORMAT",
    "INDEX",
    "KERNELS",
    "VERSION",
    "Bundle",
    "BundleLibrary",
    "BundleProgram",
    "BundleSource",
    "read_bundle",
]

FORMAT, VERSION = "graph_runtime.bundle", 2
# what runs a bundle's programs: its libraries, which must be trusted; the kernels built into this package; a
# library that is compiled here from its graph
KERNELS = ("libraries", "built in", "rebuilt")
_MOST_INDEX = 4 << 20  # 60,000 parameters; 53 MiB would take 35 s


@dataclass(frozen=True, slots=True)
class BundleProgram:
    """One program: ``graph`` is its file in the bundle, ``inputs`` and ``outputs`` names in order
    (parameters are not inputs here), ``params`` {input name: key of the parameter}, ``aliases``
    ((output index, input index), ...). ``plan``: the file of its plan's snapshot (plan/snapshot.py), None
    where there is none. ``const``: equal inputs give equal outputs, which may be kept."""

    name: str
    graph: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    params: Mapping[str, str] = field(default_factory=dict)
    aliases: tuple[tuple[int, int], ...] = ()
    const: bool = False
    plan: str | None = None


@dataclass(frozen=True, slots=True)
class BundleLibrary:
    """One module library: its file in the bundle, the device kinds it serves, its instruction set, and the
    ``signature`` of its hash by its owner's key (artifacts/trust.py), None where there is none."""

    file: str
    kinds: tuple[str, ...]
    isa: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class BundleSource:
    """The model that a flow's programs were made of: its file, and those of its external data."""

    model: str
    data: tuple[str, ...] = ()


class Bundle:
    """An opened bundle. ``devices`` is the list it was compiled for, ``options`` those it was compiled with
    (the defaults where it does not say), ``flow`` the file of what runs of its programs do, if it has one,
    ``source`` the model of which programs for other sizes are made, if it has that, ``files`` {name: sha256
    in hex}, ``sizes`` {name: bytes}, ``slots`` where each parameter lies. ``kernels``: with which its
    programs run, one of KERNELS; loading.open_program reads it. ``verified``: parameters, graphs and plans
    are not mapped, and all that is used is compared."""

    kernels: str
    path: Path
    verified: bool
    programs: tuple[BundleProgram, ...]
    libraries: tuple[BundleLibrary, ...]
    options: Options

    def __init__(
        self, path: Path, index: Mapping[Any, Any], members: Mapping[str, Member], verified: bool = False
    ):
        self.path, self.kernels, self.verified = path, KERNELS[0], verified
        self.devices: tuple[str, ...] = tuple(index["devices"])
        self.programs = tuple(_program(raw) for raw in index["programs"])
        self.libraries = tuple(
            BundleLibrary(raw["file"], tuple(raw["kinds"]), raw["isa"], raw.get("signature"))
            for raw in index["libraries"]
        )
        self.options = _options(path, index.get("options", {}))
        self.flow: str | None = index.get("flow")
        source = index.get("source")
        self.source = source and BundleSource(source["model"], tuple(source["data"]))
        params = index["params"]
        self.params_file: str | None = params and params["file"]
        self.slots: Mapping[str, Slot] = (
            {key: _slot(raw, key) for key, raw in params["tensors"].items()} if params else {}
        )
        self.files: Mapping[str, str] = {name: row["sha256"] for name, row in index["files"].items()}
        self.sizes: Mapping[str, int] = {name: row["bytes"] for name, row in index["files"].items()}
        self.memo: dict[
            str, tuple[Any, ...]
        ] = {}  # program -> layouts of its inputs (runtime/stitching/executable.py)
        self._members = members
        self._views: dict[str, memoryview] = {}
        self._digests: dict[tuple[int, ...], dict[str, bytes]] = {}  # of parameters, by the file's numbers
        self._judged: dict[BundleLibrary, LibraryFile] = {}
        if self.params_file is not None:
            check_slots(self.slots, self.sizes[self.params_file], f"bundle {path}")

    @property
    def rebuilt(self) -> bool:
        """Whether its programs run with kernels that are compiled here."""
        return self.kernels == KERNELS[2]

    def program(self, name: str | None = None) -> BundleProgram:
        """The program of that name, the first without one. Raises DocumentError with "did you mean"."""
        if name is None and self.programs:
            return self.programs[0]
        for program in self.programs:
            if program.name == name:
                return program
        known = [program.name for program in self.programs]
        which = "programs, but the model of which they are made" if name is None else f"program {name!r}"
        raise DocumentError(f"bundle {self.path} has no {which}{did_you_mean(name or '', known)}", got=name)

    def member(self, file: str) -> Member:
        """Where the bytes of one file lie. Raises DocumentError for a name that it has not."""
        if file not in self._members:
            raise DocumentError(
                f"bundle {self.path} has no file {file!r}{did_you_mean(file, self._members)}", got=file
            )
        return self._members[file]

    def read(self, file: str) -> memoryview:
        """The bytes of one file, mapped; its hash is compared the first time. Raises DocumentError."""
        member = self.member(file)
        if file not in self._views:
            view = member.view(mapped=not self.verified)
            _compare(self.path, file, hashlib.sha256(view).hexdigest(), self.files[file])
            self._views[file] = view
        return self._views[file]

    def verify(self, tell: Count = uncounted) -> None:
        """Compare the sha256 of every file with what the index says. ``tell`` is called with (files compared,
        files in all). Raises DocumentError, which names the first that differs."""
        for done, name in enumerate(self.files):
            tell(done, len(self.files))
            got = hashlib.sha256(self._members[name].view()).hexdigest()
            _compare(self.path, name, got, self.files[name])
        tell(len(self.files), len(self.files))

    def sealed(self, library: BundleLibrary) -> Sealed:
        """The bytes of a library, copied to where nothing can change them, their hash compared. Raises
        DocumentError, LibraryError."""
        name = f"{self.path.name}/{library.file}"
        made = seal(name, *self._members[library.file])
        _compare(self.path, library.file, made.sha256, self.files[library.file])
        return made

    def judge(self, library: BundleLibrary) -> LibraryFile:
        """A library, read once and not opened. Raises as sealed and read_library do."""
        if library not in self._judged:
            self._judged[library] = judge_sealed(
                self.path / library.file, self.sealed(library), library.signature
            )
        return self._judged[library]

    def params(self, program: BundleProgram) -> dict[str, np.ndarray]:
        """Parameters of a program by input name, in a mapping of the file that is this call's own: what is
        written to them stays in it. Raises ParamsError, DocumentError."""
        return self.mapped(program).values

    def mapped(self, program: BundleProgram) -> Mapped:
        """params(), with the hashes of them that are known. Raises as params."""
        missing = sorted({key for key in program.params.values() if key not in self.slots})
        if missing:
            raise DocumentError(
                f"bundle {self.path}: program {program.name!r} needs parameter {missing[0]!r}, which is not "
                f"in it{did_you_mean(missing[0], self.slots)}",
                got=missing,
            )
        if not program.params:
            return Mapped({}, {})
        assert self.params_file is not None  # the file of the slots, of which there are some
        found, which = map_values(
            *self._members[self.params_file],
            self.slots,
            set(program.params.values()),
            self.files[self.params_file] if self.verified else None,
        )
        return Mapped(
            {name: found[key] for name, key in program.params.items()}, self._digests.setdefault(which, {})
        )


def _options(path: Path, raw: Mapping[str, Any]) -> Options:
    try:
        return Options.from_json(raw)
    except InputError as error:
        raise DocumentError(f"bundle {path}: $.options: {error}", path="$.options") from None


class Mapped(NamedTuple):
    """Parameters in a mapped file: ``values`` by input name; ``digests`` of these very values, by key: the
    code that makes one adds it, so that programs of one bundle do not hash what they share twice."""

    values: dict[str, np.ndarray]
    digests: dict[str, bytes]


def _slot(raw: Mapping[Any, Any], key: str) -> Slot:
    try:
        dtype = dtypes.canonical(raw["dtype"])
        dtypes.to_numpy(dtype)
    except DocumentError as error:
        raise ParamsError(f"parameter {key!r}: {error}", path=f"$.params.tensors[{key!r}]") from None
    return Slot(TensorType(dtype, tuple(raw["shape"])), raw["offset"])


def _program(raw: Mapping[Any, Any]) -> BundleProgram:
    return BundleProgram(
        raw["name"],
        raw["graph"],
        tuple(raw["inputs"]),
        tuple(raw["outputs"]),
        dict(raw["params"]),
        tuple((out, to) for out, to in raw["aliases"]),
        raw.get("const", False),
        raw.get("plan"),
    )


# **************** reading ****************


def read_bundle(path: str | os.PathLike[str], verify: str = "quick") -> Bundle:
    """Open a bundle. ``verify`` "full": every file that is used is read into memory and its sha256 compared,
    parameters too, so that what changes later changes nothing. Raises InputError for another word,
    DocumentError where it is no bundle, of another version, where a file is
    missing, has another size or hash, or a path that leaves the bundle."""
    if verify not in ("quick", "full"):
        raise InputError(f"verify is 'quick' or 'full', got {verify!r}", got=verify, wanted=("quick", "full"))
    path = as_path(path, "a bundle")
    is_zip = path.is_file()
    if not is_zip and not path.is_dir():
        raise DocumentError(f"there is no bundle at {path}", got=str(path))
    try:
        zipped = zip_members(path) if is_zip else None
        index = _read_index(path, zipped)
        if len(index["files"]) > MOST_MEMBERS:
            raise DocumentError(
                f"bundle {path}: it has {len(index['files'])} files, at most {MOST_MEMBERS} are read",
                got=len(index["files"]),
                wanted=MOST_MEMBERS,
                path="$.files",
            )
        members = {name: find_member(path, name, zipped) for name in index["files"]}
        check_references(path, index)
        _check_sizes(path, index, members)
    except (OSError, NotImplementedError, ValueError) as error:
        raise DocumentError(f"cannot read bundle {path}: {error}", got=str(path)) from None
    return Bundle(path, index, members, verify == "full")


def _check_sizes(path: Path, index: Mapping[Any, Any], members: Mapping[str, Member]) -> None:
    for name, row in index["files"].items():
        if members[name].size != row["bytes"]:
            raise DocumentError(
                f"bundle {path}: file {name} was changed: it has {members[name].size} bytes, "
                f"{INDEX} says {row['bytes']}",
                got=members[name].size,
                wanted=row["bytes"],
                path=f"$.files[{name!r}]",
            )


def _compare(path: Path, name: str, got: str, wanted: str) -> None:
    if got != wanted:
        raise DocumentError(
            f"bundle {path}: file {name} was changed: its sha256 is {got}, {INDEX} says {wanted}",
            got=got,
            wanted=wanted,
            path=f"$.files[{name!r}]",
        )


def _read_index(path: Path, zipped: Mapping[str, Member] | None) -> dict[Any, Any]:
    if not ((path / INDEX).is_file() if zipped is None else INDEX in zipped):
        raise DocumentError(f"{path} is no bundle: it has no {INDEX}", got=str(path))
    member = Member(path / INDEX, 0, (path / INDEX).stat().st_size) if zipped is None else zipped[INDEX]
    if member.size > _MOST_INDEX:
        raise DocumentError(
            f"{path}: {INDEX} has {member.size} bytes, at most {_MOST_INDEX} are allowed", got=member.size
        )
    index = parse_json(bytes(member.view()), f"{path}: {INDEX}", fractions=False)
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
