"""The files of a bundle, in a folder or in a stored zip: places and views of their bytes."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import NamedTuple

from ...base.errors import DocumentError
from ...base.files.mapped import map_file, open_file
from ...base.files.zip_size import most_members

INDEX = "bundle.json"
MOST_MEMBERS = 4096  # most files: two per program, and libraries; checking 200,000 would take 14 s
_LOCAL_HEADER = 30  # bytes of a header, of which the last 4 are the lengths of the name and the extra field


class Member(NamedTuple):
    """A file's bytes in a bundle: ``size`` bytes of the file at the path ``file``, from byte ``begin`` on."""

    file: Path
    begin: int
    size: int

    def view(self, *, mapped: bool = True) -> memoryview:
        """The bytes, mapped for reading if ``mapped``, else read. Raises DocumentError if the file cannot be
        read."""
        try:
            return map_file(self.file, self.begin, self.size, mapped=mapped)
        except OSError as error:
            text = f"cannot read {self.file}: {error.strerror or error}"
            raise DocumentError(text, got=str(self.file)) from None


def zip_members(path: Path) -> dict[str, Member]:
    """Every member of a stored zip by name. Raises DocumentError for a compressed or truncated member,
    ValueError and NotImplementedError for zips that zipfile cannot read."""
    import zipfile  # the import takes 3 ms, and most bundles are folders

    members = {}
    size = path.stat().st_size
    if (count := most_members(map_file(path))) > MOST_MEMBERS:
        text = f"bundle {path}: its zip has {count} members, at most {MOST_MEMBERS} are read"
        raise DocumentError(text, got=count, wanted=MOST_MEMBERS)
    with open_file(path) as file:
        try:
            infos = zipfile.ZipFile(file).infolist()
        except zipfile.BadZipFile as error:
            raise ValueError(str(error)) from None
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED:
                raise DocumentError(
                    f"bundle {path}: {info.filename} is compressed; a bundle's zip is "
                    "stored, so that it can be mapped",
                    got=info.filename,
                )
            file.seek(info.header_offset)
            head = file.read(_LOCAL_HEADER)
            lengths = int.from_bytes(head[26:28], "little") + int.from_bytes(head[28:30], "little")
            begin = info.header_offset + _LOCAL_HEADER + lengths
            if info.file_size != info.compress_size or begin + info.file_size > size:
                raise DocumentError(f"bundle {path}: {info.filename} is cut off", got=info.filename)
            members[info.filename] = Member(path, begin, info.file_size)
    end = 0
    for name, member in sorted(members.items(), key=lambda item: item[1].begin):
        if member.begin < end:  # if members shared bytes, their sizes could add up to more than the file
            raise DocumentError(f"bundle {path}: {name} overlaps another member", got=name)
        end = member.begin + member.size
    return members


def find_member(path: Path, name: str, zipped: dict[str, Member] | None) -> Member:
    """The Member of the file that the index calls ``name``. Raises DocumentError if the file is missing or
    outside the bundle."""
    check_name(path, name)
    if zipped is not None:
        if name not in zipped:
            raise DocumentError(f"bundle {path}: file {name} is missing", got=name)
        return zipped[name]
    file = path / name
    if not file.is_file() or not file.resolve().is_relative_to(path.resolve()):
        raise DocumentError(f"bundle {path}: file {name} is missing, or lies outside of it", got=name)
    return Member(file, 0, file.stat().st_size)


def check_name(path: Path, name: str) -> None:
    """Raise DocumentError for an invalid name of a file in a bundle."""
    pure = PurePosixPath(name)
    outside = pure.is_absolute() or ".." in pure.parts or "\\" in name or "\0" in name
    if outside or not pure.parts or name == INDEX:
        text = f"bundle {path}: {name!r} is no file name of a bundle: paths are relative and stay inside"
        raise DocumentError(text, got=name, path=f"$.files[{name!r}]")
