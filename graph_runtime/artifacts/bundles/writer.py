"""Writer of bundles. A bundle appears whole or not at all: it is written beside its final path and then
renamed. Equal contents give equal bytes. Parameters are streamed: only one is in memory at a time."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

import orjson

from ...base.errors import DocumentError, GraphRuntimeError
from ...base.files.mapped import open_file, read_file
from ...base.files.writing import told, writing
from ...base.options import Options
from ...base.progress import Count, uncounted
from ...ir.documents.weights import Slot, lay_out, type_of, write_values
from .bundle import FORMAT, VERSION, BundleLibrary, BundleProgram, BundleSource
from .files import INDEX, check_name, zip_members
from .references import check_references

PARAMS, FLOW = "params.bin", "flow.json"
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest time that a zip can store
_PAGE = 4096  # bytes; members of a zip begin at multiples of this size
_PADDING_ID = b"\x35\xd9"  # id of an extra field used as padding, as in other tools that align zips
_ZIP64 = 1 << 31  # bytes from which on a member needs a longer header
_CHUNK = 1 << 20


def write_bundle(
    path: str | os.PathLike[str],
    *,
    devices: Sequence[str],
    programs: Sequence[BundleProgram],
    libraries: Sequence[BundleLibrary],
    files: Mapping[str, bytes | memoryview | os.PathLike[str]],
    params: Mapping[str, Any] | None = None,
    options: Options | None = None,
    flow: bytes | None = None,
    source: BundleSource | None = None,
    tell: Count = uncounted,
) -> Path:
    """Write a bundle: a stored zip if ``path`` ends in .zip, else a folder. ``files`` {name: bytes, or the
    path of a file to copy}: contains every file that programs and libraries name. ``params`` {key: an array
    or a Constant}. ``options``: options of the compilation. ``flow``: contents of flow.json, if the bundle
    has a flow; ``source``: the flow's model, if ``files`` has it. ``tell``: function that is called with
    (parameters written, parameters in total).

    An older bundle at ``path`` is replaced; anything else there is refused. Raises DocumentError, what
    reading a Constant raises, and WriteError.
    """
    path = Path(path)
    _refuse_to_overwrite(path)
    params = params or {}
    slots, size = lay_out({key: type_of(value) for key, value in params.items()})
    if flow is not None:
        files = {**files, FLOW: flow}
    names = sorted([*files, *([PARAMS] if slots else [])])
    kept: dict[str, Any] = dict.fromkeys(names)
    index: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "devices": list(devices),
        **({} if options is None else {"options": options.as_json()}),
        "programs": [_program(p) for p in programs],
        **({} if flow is None else {"flow": FLOW}),
        **({} if source is None else {"source": {"model": source.model, "data": list(source.data)}}),
        "libraries": [_library(entry) for entry in libraries],
        "params": {"file": PARAMS, "tensors": {key: _slot(slot) for key, slot in slots.items()}}
        if slots
        else None,
        "files": kept,
    }
    for name in names:
        check_name(path, name)
    check_references(path, index)
    with told(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _zip(path) if path.suffix == ".zip" else _folder(path) as target:
        for name in names:
            if name == PARAMS and slots:
                with target.member(name, size) as sink:
                    write_values(sink, slots, params, tell)
            else:
                with _opened(files[name]) as (stream, length), target.member(name, length) as sink:
                    shutil.copyfileobj(stream, sink, _CHUNK)
            kept[name] = {"bytes": sink.count, "sha256": sink.digest.hexdigest()}
        text = orjson.dumps(index, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
        with target.member(INDEX, len(text)) as sink:
            sink.write(text)
    return path


def _slot(slot: Slot) -> dict[str, Any]:
    return {"dtype": slot.type.dtype, "shape": list(slot.type.shape), "offset": slot.offset}


def _program(program: BundleProgram) -> dict[Any, Any]:
    """The entry of a program in bundle.json. The fields ``const`` and ``plan`` are left out if they are not
    set."""
    raw = asdict(program)
    return {key: value for key, value in raw.items() if key not in ("const", "plan") or value}


def _library(library: BundleLibrary) -> dict[Any, Any]:
    raw = asdict(library)
    return {key: value for key, value in raw.items() if key != "signature" or value is not None}


@contextmanager
def _opened(data: bytes | memoryview | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int]]:
    """A stream of a file's contents, and its size in bytes."""
    if isinstance(data, (bytes, memoryview)):
        yield io.BufferedReader(_Viewed(data)), len(data)
        return
    try:
        with open_file(data):
            pass
    except OSError as error:
        text = f"cannot read {data}, which the bundle takes along: {error.strerror}"
        raise DocumentError(text, got=str(data)) from None
    with open_file(data) as file:
        yield file, os.fstat(file.fileno()).st_size


class _Viewed(io.RawIOBase):
    """A stream over bytes. No bytes are copied before they are read, because a mapped model may be large."""

    def __init__(self, data: bytes | memoryview):
        self._data, self._at = memoryview(data), 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any) -> int:
        part = self._data[self._at : self._at + len(target)]
        target[: len(part)] = part
        self._at += len(part)
        return len(part)


# **************** replacing a bundle ****************


def _refuse_to_overwrite(path: Path) -> None:
    """Raise GraphRuntimeError if anything but a bundle is at ``path``, because replacing it deletes all of
    it."""
    if not os.path.lexists(path) or _is_ours(path):
        return
    kind = "folder" if path.is_dir() else "file" if path.is_file() else "link, device or pipe"
    raise GraphRuntimeError(
        f"{path} is a {kind} that is no bundle: it is not replaced, choose another name (a bundle is a "
        "folder, or a file that ends in .zip)",
        got=str(path),
    )


def _is_ours(path: Path) -> bool:
    """Whether the path is an empty folder, or a folder or zip with a bundle's index."""
    try:
        if path.suffix != ".zip":
            return path.is_dir() and (not any(path.iterdir()) or _is_index(read_file(path / INDEX)))
        if not path.is_file():
            return False
        return _is_index(bytes(zip_members(path)[INDEX].view()))
    except (DocumentError, OSError, LookupError, ValueError, NotImplementedError, RuntimeError):
        return False


def _is_index(data: bytes) -> bool:
    try:
        index = orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return isinstance(index, dict) and index.get("format") == FORMAT


# **************** sinks ****************


class _Hashed:
    """A sink that counts and hashes the bytes that it passes on."""

    def __init__(self, file: IO[bytes], path: Path):
        self._file, self._path, self.count, self.digest = file, path, 0, hashlib.sha256()

    def write(self, data: Any) -> int:
        self.digest.update(data)
        self.count += len(data)
        with told(self._path):
            return self._file.write(data)


@contextmanager
def _sink(file: IO[bytes], path: Path) -> Iterator[_Hashed]:
    """A sink into a file, which is flushed and closed at the end of the block. An error raised in the block
    itself is not reported as a write error."""
    try:
        yield _Hashed(file, path)
    finally:
        with told(path):
            file.close()


class _Folder:
    def __init__(self, path: Path):
        self.path = path

    @contextmanager
    def member(self, name: str, size: int) -> Iterator[_Hashed]:
        """A sink for a file of ``size`` bytes."""
        with told(self.path / name):
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            file = (self.path / name).open("wb")
        with _sink(file, self.path / name) as sink:
            yield sink


class _Zip:
    def __init__(self, archive: zipfile.ZipFile, path: Path):
        self.archive, self.path = archive, path

    @contextmanager
    def member(self, name: str, size: int) -> Iterator[_Hashed]:
        """A sink for a member of ``size`` bytes, which begins at a multiple of _PAGE, so that it can be
        mapped."""
        info = zipfile.ZipInfo(name, _EPOCH)
        info.file_size = size
        long = size > _ZIP64 - (_ZIP64 >> 3)
        assert self.archive.fp is not None  # the file of the archive is open
        before = self.archive.fp.tell() + 30 + len(name.encode()) + (20 if long else 0) + 4
        info.extra = _PADDING_ID + (-before % _PAGE).to_bytes(2, "little") + bytes(-before % _PAGE)
        with told(self.path):
            file = self.archive.open(info, "w", force_zip64=long)
        with _sink(file, self.path) as sink:
            yield sink


@contextmanager
def _zip(path: Path) -> Iterator[_Zip]:
    with writing(path) as part, part.open("wb") as file, zipfile.ZipFile(file, "w") as archive:
        yield _Zip(archive, path)


@contextmanager
def _folder(path: Path) -> Iterator[_Folder]:
    with told(path):
        made = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        yield _Folder(made)
        with told(path):
            made.chmod(0o755)
            if path.exists():
                _swap(made, path)
            else:
                os.rename(made, path)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _swap(made: Path, path: Path) -> None:
    """Move the folder ``made`` to ``path``. A folder cannot be renamed onto a non-empty folder, so the old
    folder is first moved aside."""
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.old.", dir=path.parent))
    try:
        os.rename(path, aside / "bundle")
        try:
            os.rename(made, path)
        except BaseException:
            os.rename(aside / "bundle", path)
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
