"""The manifest that a module library carries: which kernels it has, for which ABI, ISA and device kinds,
made of what.

In the file it is ``const char gr_manifest[]`` = MAGIC (16 bytes), u64 little-endian length, JSON. It is
found by scanning the mapped file, so a library is judged before it is opened. Its JSON Schema is
schemas/manifest.schema.json.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from ...base import dtypes
from ...base.errors import DocumentError, LibraryError
from ...base.files.mapped import open_file
from ...base.json_text import parse_json
from ...base.machine.descriptors import HOST_KERNELS
from ...ir.documents.document import check_schema

__all__ = [
    "ABI_VERSION",
    "MAGIC",
    "KernelEntry",
    "Manifest",
    "direct_symbol",
    "find_manifest",
    "manifest_in",
    "read_manifest",
]

MAGIC = b"\x93GR-MANIFEST\r\n\x1a\n"  # 16 bytes, as PNG's: survives no text-mode transfer
ABI_VERSION = 1  # GR_ABI_VERSION of native/include/gr_abi.h
_MOST_BYTES = 8 << 20  # 25,000 kernels


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One kernel. ``name`` is the func_name, ``symbol`` the direct entry (int32_t symbol(const gr_call *)),
    ``args`` the (dtype, shape) of inputs then outputs, ``scratch`` host bytes, ``inplace`` inputs that
    output 0 may overwrite, ``packed`` whether ``name`` is exported too, in TVM's packed convention.

    ``op`` is "" for a kernel that was written by hand. Dimensions of its shapes may be names, each of which
    stands for one size in a call; a shape may be a name that begins with "...": any shape, one in a call."""

    name: str
    kind: str
    symbol: str
    op: str
    attrs: dict[str, Any]
    num_inputs: int
    args: tuple[tuple[str, tuple[int | str, ...] | str], ...]
    scratch: int = 0
    inplace: tuple[int, ...] = ()
    packed: bool = False

    def __str__(self) -> str:
        texts = [f"{dtype}[{_shape_text(shape)}]" for dtype, shape in self.args]
        return f"{self.op}({', '.join(texts[: self.num_inputs])}) -> {', '.join(texts[self.num_inputs :])}"

    def takes(self, num_inputs: int, args: Sequence[tuple[str, tuple[int, ...]]]) -> bool:
        """Whether the kernel may be called with ``num_inputs`` inputs and these types, outputs last."""
        if (num_inputs, len(args)) != (self.num_inputs, len(self.args)):
            return False
        sizes: dict[str, int] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        for (wanted, dims), (dtype, shape) in zip(self.args, args, strict=True):
            if dtype != wanted:
                return False
            if isinstance(dims, str):
                if shapes.setdefault(dims, shape) != shape:
                    return False
                continue
            if len(dims) != len(shape):
                return False
            for dim, size in zip(dims, shape, strict=True):
                if size != (sizes.setdefault(dim, size) if isinstance(dim, str) else dim):
                    return False
        return True


@dataclass(frozen=True, slots=True)
class Manifest:
    """``isa`` as in isa.py ("x86-64-v3"; "" where the architecture has one level), ``arch``
    platform.machine(), ``sources`` a sha256 over sources, flags and compiler, ``importable`` whether Python
    can import the library as a cffi module."""

    abi: int
    arch: str
    isa: str
    compiler: str
    flags: tuple[str, ...]
    sources: str
    importable: bool
    kernels: tuple[KernelEntry, ...]

    def to_bytes(self) -> bytes:
        """MAGIC, length, JSON: the manifest's bytes in the library."""
        body = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        return MAGIC + len(body).to_bytes(8, "little") + body


def _shape_text(shape: tuple[int | str, ...] | str) -> str:
    return shape if isinstance(shape, str) else ", ".join(map(str, shape))


def direct_symbol(name: str, kind: str) -> str:
    """The C symbol of a kernel's direct entry."""
    return f"{name}__direct" if kind == HOST_KERNELS else f"{name}__{kind}__direct"


def find_manifest(path: str | os.PathLike[str]) -> Manifest | None:
    """The manifest of a library file, without opening the library; None where there is none (a library that
    others made).

    Raises LibraryError for a file that cannot be read, a malformed manifest, or one of another ABI version.
    """
    path = Path(path)
    try:
        with open_file(path) as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return manifest_in(path, data)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise LibraryError(f"cannot read library {path}: {error}", got=str(path)) from None


def manifest_in(
    path: Path, data: mmap.mmap | memoryview, ranges: Sequence[tuple[int, int]] | None = None
) -> Manifest | None:
    """As find_manifest, for the bytes of a library; ``path`` is what errors call it. ``ranges`` (first byte,
    first behind) in which it may begin: anywhere by default."""
    body = _locate(path, data, ranges or [(0, len(data))])
    return None if body is None else _parse(path, body)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """As find_manifest, with a LibraryError where there is none."""
    manifest = find_manifest(path)
    if manifest is None:
        raise LibraryError(
            f"{path} has no graph_runtime manifest: it is no module library made by `graph-runtime compile`",
            got=str(path),
        )
    return manifest


def _locate(path: Path, data: mmap.mmap | memoryview, ranges: Sequence[tuple[int, int]]) -> bytes | None:
    at = next((at for first, last in ranges if (at := _find(data, MAGIC, first, last)) >= 0), -1)
    if at < 0:
        return None
    start = at + len(MAGIC) + 8
    size = int.from_bytes(data[start - 8 : start], "little")
    if size > _MOST_BYTES or start + size > len(data):
        raise LibraryError(
            f"{path}: the manifest at byte {at} says it has {size} bytes, the file ends before that (at "
            f"{len(data)})",
            got=size,
            wanted=max(0, len(data) - start),
        )
    return bytes(data[start : start + size])


def _find(data: mmap.mmap | memoryview, wanted: bytes, first: int, last: int) -> int:
    """Where bytes stand first in a range, -1 where they do not. A memoryview has no find: a pattern looks for
    them."""
    found = re.compile(re.escape(wanted)).search(data, first, last)
    return found.start() if found else -1


def _parse(path: Path, body: bytes) -> Manifest:
    try:
        raw = parse_json(body, "the manifest")
    except DocumentError as error:
        raise LibraryError(f"{path}: malformed manifest: {error}", path=error.path, got=str(path)) from None
    abi = raw.get("abi") if isinstance(raw, dict) else None
    if (
        isinstance(abi, int) and abi != ABI_VERSION
    ):  # first: another version may look different everywhere else
        raise LibraryError(
            f"{path} was built for kernel ABI {abi}, this runtime has ABI {ABI_VERSION}: compile the graph "
            f"again",
            got=abi,
            wanted=ABI_VERSION,
        )
    try:
        check_schema(raw, "manifest", "gr_manifest")
        return Manifest(
            **{
                **raw,
                "abi": int(raw["abi"]),
                "flags": tuple(raw["flags"]),
                "kernels": tuple(map(_kernel, raw["kernels"])),
            }
        )
    except DocumentError as error:
        raise LibraryError(f"{path}: malformed manifest: {error}", path=error.path, got=str(path)) from None


def _kernel(raw: dict[str, Any]) -> KernelEntry:
    args = tuple((dtypes.canonical(dtype), _shape(shape)) for dtype, shape in raw["args"])
    entry = KernelEntry(
        **{
            **raw,
            "args": args,
            "inplace": tuple(map(int, raw["inplace"])),
            "scratch": int(raw["scratch"]),
            "num_inputs": int(raw["num_inputs"]),
        }
    )
    if entry.num_inputs > len(args) or any(i >= entry.num_inputs for i in entry.inplace):
        raise DocumentError(
            f"kernel {entry.name} says it has {entry.num_inputs} inputs, inplace {list(entry.inplace)} and "
            f"{len(args)} arguments"
        )
    return entry


def _shape(raw: list[Any] | str) -> tuple[int | str, ...] | str:
    return raw if isinstance(raw, str) else tuple(dim if isinstance(dim, str) else int(dim) for dim in raw)
