"""Bundles: one folder or stored zip with programs, libraries with their kernels, and parameters.

A bundle has these files:

    bundle.json     index of the contents (schemas/bundle.schema.json), with the sha256 of every other file
    main.json       a program: a graph.json with the columns of its plan; several programs: NAME.json each
    main.plan       the plan of main.json, ready to be used (plan/snapshot.py)
    flow.json       rules for the next program, if only a run finds sizes or values (flow_check.py)
    source/         the model of the flow, for sizes and values that no program has
    kernels.so      a module library
    params.bin      parameters, raw and aligned (weights.py); bundle.json gives their offsets

artifacts/bundles/writer.py writes bundles. Opening a bundle compares the size of every file; the sha256 of a
file is compared when the file is read, that of a library before the library is judged. No code of a library
runs here. The parameter file is mapped and not read; its sha256 is compared by ``Bundle.verify``, which
``graph-runtime verify`` calls.
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
from ...base.errors import DocumentError, InputError, ParamsError, did_you_mean
from ...base.files.mapped import as_path
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

FORMAT, VERSION = "graph_runtime.bundle", 2
# sources of the kernels for a bundle's programs: the bundle's libraries, which must be trusted; the kernels
# built into this package; a library that is compiled here from the program's graph
KERNELS = ("libraries", "built in", "rebuilt")
_MOST_INDEX = 4 << 20  # bytes: enough for 60,000 parameters; 53 MiB would take 35 s


@dataclass(frozen=True, slots=True)
class BundleProgram:
    """One program: ``graph``: name of the program's file in the bundle. ``inputs`` and ``outputs``: names in
    order, without parameters. ``params`` {input name: key of the parameter}. ``aliases``: pairs (output
    index, input index). ``plan``: name of the file with the snapshot of its plan (plan/snapshot.py), or None.
    ``const``: whether equal inputs give equal outputs, so that outputs may be kept."""

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
    """One module library: the name of its file in the bundle, the device kinds that it serves, and its
    instruction set. ``signature``: signature of the library's hash by the owner's key (artifacts/trust.py),
    or None."""

    file: str
    kinds: tuple[str, ...]
    isa: str = ""
    signature: str | None = None


@dataclass(frozen=True, slots=True)
class BundleSource:
    """The model from which a flow's programs were made: names of the model's file and of the files with its
    external data."""

    model: str
    data: tuple[str, ...] = ()


class Bundle:
    """An opened bundle. ``devices``: names of the devices that the bundle was compiled for; ``options``:
    options of that compilation (defaults if the bundle has none). ``flow``: name of the file with the steps
    of a run, if any; ``source``: the model for programs of other sizes, if any. ``files`` {name: sha256 in
    hex}; ``sizes`` {name: bytes}; ``slots``: the place of each parameter. ``kernels``: source of the kernels
    for its programs, one of KERNELS, used by loading.open_program. ``verified``: whether parameters, graphs
    and plans are read instead of mapped, and the hash of each used file is compared."""

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
        try:
            self.options = Options.from_json(index.get("options", {}))
        except InputError as error:
            raise DocumentError(f"bundle {path}: $.options: {error}", path="$.options") from None
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
        # program -> layouts of the program's inputs (runtime/stitching/executable.py)
        self.memo: dict[str, tuple[Any, ...]] = {}
        self._members = members
        self._views: dict[str, memoryview] = {}
        self._digests: dict[tuple[int, ...], dict[str, bytes]] = {}  # hashes of values, by parameter file
        self._judged: dict[BundleLibrary, LibraryFile] = {}
        if self.params_file is not None:
            check_slots(self.slots, self.sizes[self.params_file], f"bundle {path}")

    @property
    def rebuilt(self) -> bool:
        """Whether the programs run with kernels that are compiled on this machine."""
        return self.kernels == KERNELS[2]

    def program(self, name: str | None = None) -> BundleProgram:
        """The program of that name; without a name, the first program. Raises DocumentError with "did you
        mean"."""
        if name is None and self.programs:
            return self.programs[0]
        for program in self.programs:
            if program.name == name:
                return program
        known = [program.name for program in self.programs]
        which = "programs, but the model of which they are made" if name is None else f"program {name!r}"
        raise DocumentError(f"bundle {self.path} has no {which}{did_you_mean(name or '', known)}", got=name)

    def member(self, file: str) -> Member:
        """The Member with the bytes of the file named ``file``. Raises DocumentError for an unknown name."""
        if file not in self._members:
            text = f"bundle {self.path} has no file {file!r}{did_you_mean(file, self._members)}"
            raise DocumentError(text, got=file)
        return self._members[file]

    def read(self, file: str) -> memoryview:
        """The bytes of the file named ``file``, mapped. The file's hash is compared the first time. Raises
        DocumentError."""
        member = self.member(file)
        if file not in self._views:
            view = member.view(mapped=not self.verified)
            _compare(self.path, file, hashlib.sha256(view).hexdigest(), self.files[file])
            self._views[file] = view
        return self._views[file]

    def verify(self, tell: Count = uncounted) -> None:
        """Compare the sha256 of every file with the index. ``tell``: function that is called with (files
        compared, files in total). Raises DocumentError, which names the first file that differs."""
        for done, name in enumerate(self.files):
            tell(done, len(self.files))
            got = hashlib.sha256(self._members[name].view()).hexdigest()
            _compare(self.path, name, got, self.files[name])
        tell(len(self.files), len(self.files))

    def sealed(self, library: BundleLibrary) -> Sealed:
        """The bytes of a library, copied to memory that cannot be changed, with their hash compared. Raises
        DocumentError, LibraryError."""
        name = f"{self.path.name}/{library.file}"
        made = seal(name, *self._members[library.file])
        _compare(self.path, library.file, made.sha256, self.files[library.file])
        return made

    def judge(self, library: BundleLibrary) -> LibraryFile:
        """A library, read once and not opened. Raises as sealed and read_library do."""
        if library not in self._judged:
            sealed = self.sealed(library)
            self._judged[library] = judge_sealed(self.path / library.file, sealed, library.signature)
        return self._judged[library]

    def params(self, program: BundleProgram) -> dict[str, np.ndarray]:
        """Parameters of a program by input name, in a private mapping of the file: writes to the arrays do
        not reach the file. Raises ParamsError, DocumentError."""
        return self.mapped(program).values

    def mapped(self, program: BundleProgram) -> Mapped:
        """The arrays of params(), with the hashes of these arrays that are known. Raises as params."""
        missing = sorted({key for key in program.params.values() if key not in self.slots})
        if missing:
            raise DocumentError(
                f"bundle {self.path}: program {program.name!r} needs parameter {missing[0]!r}, which is not "
                f"in it{did_you_mean(missing[0], self.slots)}",
                got=missing,
            )
        if not program.params:
            return Mapped({}, {})
        assert self.params_file is not None  # there are slots, so there is a parameter file
        found, which = map_values(
            *self._members[self.params_file],
            self.slots,
            set(program.params.values()),
            self.files[self.params_file] if self.verified else None,
        )
        values = {name: found[key] for name, key in program.params.items()}
        return Mapped(values, self._digests.setdefault(which, {}))


class Mapped(NamedTuple):
    """Parameters in a mapped file. ``values`` {input name: array}. ``digests`` {key of the values: hash of
    the values}: code that computes a hash adds it here, so that programs of one bundle do not hash shared
    values twice.
    """

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
    """Open a bundle. ``verify``: extent of the check. With "full", every used file, also that of the
    parameters, is read into memory and its sha256 is compared, so that later changes of files have no effect.
    Raises InputError for another value of ``verify``, DocumentError for anything but a bundle of this
    version, and for a file that is missing, has another size or hash, or a path outside the bundle."""
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
            text = f"bundle {path}: it has {len(index['files'])} files, at most {MOST_MEMBERS} are read"
            raise DocumentError(text, got=len(index["files"]), wanted=MOST_MEMBERS, path="$.files")
        members = {name: find_member(path, name, zipped) for name in index["files"]}
        check_references(path, index)
        _check_sizes(path, index, members)
    except (OSError, NotImplementedError, ValueError) as error:
        raise DocumentError(f"cannot read bundle {path}: {error}", got=str(path)) from None
    return Bundle(path, index, members, verify == "full")


def _check_sizes(path: Path, index: Mapping[Any, Any], members: Mapping[str, Member]) -> None:
    for name, row in index["files"].items():
        if members[name].size != row["bytes"]:
            text = (
                f"bundle {path}: file {name} was changed: it has {members[name].size} bytes, "
                f"{INDEX} says {row['bytes']}"
            )
            raise DocumentError(text, got=members[name].size, wanted=row["bytes"], path=f"$.files[{name!r}]")


def _compare(path: Path, name: str, got: str, wanted: str) -> None:
    if got != wanted:
        text = f"bundle {path}: file {name} was changed: its sha256 is {got}, {INDEX} says {wanted}"
        raise DocumentError(text, got=got, wanted=wanted, path=f"$.files[{name!r}]")


def _read_index(path: Path, zipped: Mapping[str, Member] | None) -> dict[Any, Any]:
    if not ((path / INDEX).is_file() if zipped is None else INDEX in zipped):
        raise DocumentError(f"{path} is no bundle: it has no {INDEX}", got=str(path))
    member = Member(path / INDEX, 0, (path / INDEX).stat().st_size) if zipped is None else zipped[INDEX]
    if member.size > _MOST_INDEX:
        text = f"{path}: {INDEX} has {member.size} bytes, at most {_MOST_INDEX} are allowed"
        raise DocumentError(text, got=member.size)
    index = parse_json(bytes(member.view()), f"{path}: {INDEX}", fractions=False)
    version = index.get("version") if isinstance(index, dict) else None
    if version != VERSION:
        text = f"{path} is a bundle of version {str(version)[:40]}, this runtime reads version {VERSION}"
        raise DocumentError(text, got=version, wanted=VERSION, path="$.version")
    check_schema(index, "bundle", f"{path}: {INDEX}")
    return index
