"""The manifest of a module library: its kernels, their ABI, ISA and device kinds, and their sources.

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

MAGIC = b"\x93GR-MANIFEST\r\n\x1a\n"  # 16 bytes; a transfer as text would change some
ABI_VERSION = 1  # the number GR_ABI_VERSION in native/include/gr_abi.h
_MOST_BYTES = 8 << 20  # most bytes of a manifest, enough for 25,000 kernels


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One kernel. ``name``: the func_name; ``symbol``: name of the direct entry (int32_t symbol(const gr_call
    *)); ``args``: (dtype, shape) of each input, then of each output; ``scratch``: bytes of host memory that a
    call needs; ``inplace``: indices of inputs that output 0 may overwrite; ``packed``: whether ``name`` is
    also exported, in TVM's packed convention.

    ``op`` is "" for a handwritten kernel. A dimension in ``args`` may be a name, which means the same size
    throughout a call. A shape may be a name that begins with "...", which means the same shape, of any rank,
    throughout a call."""

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
        """Whether the kernel accepts these operands. ``num_inputs``: number of inputs; ``args``: types of the
        inputs, then of the outputs."""
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
    """The manifest of a library. ``isa``: instruction set as in isa.py ("x86-64-v3"; "" if the architecture
    has one level); ``arch``: architecture as platform.machine() spells it; ``sources``: sha256 of the
    sources, flags and compiler; ``importable``: whether Python can import the library as a cffi module."""

    abi: int
    arch: str
    isa: str
    compiler: str
    flags: tuple[str, ...]
    sources: str
    importable: bool
    kernels: tuple[KernelEntry, ...]

    def to_bytes(self) -> bytes:
        """The manifest's bytes in the library: MAGIC, length, JSON."""
        body = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        return MAGIC + len(body).to_bytes(8, "little") + body


def _shape_text(shape: tuple[int | str, ...] | str) -> str:
    return shape if isinstance(shape, str) else ", ".join(map(str, shape))


def direct_symbol(name: str, kind: str) -> str:
    """The C symbol of a kernel's direct entry."""
    return f"{name}__direct" if kind == HOST_KERNELS else f"{name}__{kind}__direct"


def find_manifest(path: str | os.PathLike[str]) -> Manifest | None:
    """The manifest of a library file, read without opening the library. None if the file has none, as
    libraries of other systems.

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
    """The manifest in the bytes of a library, as by find_manifest; ``path``: name of the library in errors.
    ``ranges``: pairs (first byte, end) of the parts of the file in which the manifest may begin; by default
    the whole file."""
    body = _locate(path, data, ranges or [(0, len(data))])
    return None if body is None else _parse(path, body)


def read_manifest(path: str | os.PathLike[str]) -> Manifest:
    """The manifest of a library file, as by find_manifest, but raises LibraryError if there is none."""
    manifest = find_manifest(path)
    if manifest is None:
        raise LibraryError(
            f"{path} has no graph_runtime manifest: it is no module library made by `graph-runtime compile`",
            got=str(path),
        )
    return manifest


def _locate(path: Path, data: mmap.mmap | memoryview, ranges: Sequence[tuple[int, int]]) -> bytes | None:
    pattern = re.compile(re.escape(MAGIC))  # a memoryview has no method find
    found = next((hit for first, last in ranges if (hit := pattern.search(data, first, last))), None)
    if found is None:
        return None
    at = found.start()
    start = at + len(MAGIC) + 8
    size = int.from_bytes(data[start - 8 : start], "little")
    if size > _MOST_BYTES or start + size > len(data):
        text = (
            f"{path}: the manifest at byte {at} says it has {size} bytes, the file ends before that (at "
            f"{len(data)})"
        )
        raise LibraryError(text, got=size, wanted=max(0, len(data) - start))
    return bytes(data[start : start + size])


def _parse(path: Path, body: bytes) -> Manifest:
    try:
        raw = parse_json(body, "the manifest")
    except DocumentError as error:
        raise LibraryError(f"{path}: malformed manifest: {error}", path=error.path, got=str(path)) from None
    abi = raw.get("abi") if isinstance(raw, dict) else None
    if isinstance(abi, int) and abi != ABI_VERSION:  # checked first: other versions may differ everywhere
        text = (
            f"{path} was built for kernel ABI {abi}, this runtime has ABI {ABI_VERSION}: compile the graph "
            f"again"
        )
        raise LibraryError(text, got=abi, wanted=ABI_VERSION)
    try:
        check_schema(raw, "manifest", "gr_manifest")
        flags, kernels = tuple(raw["flags"]), tuple(map(_kernel, raw["kernels"]))
        return Manifest(**{**raw, "abi": int(raw["abi"]), "flags": flags, "kernels": kernels})
    except DocumentError as error:
        raise LibraryError(f"{path}: malformed manifest: {error}", path=error.path, got=str(path)) from None


def _kernel(raw: dict[str, Any]) -> KernelEntry:
    args = tuple((dtypes.canonical(dtype), _shape(shape)) for dtype, shape in raw["args"])
    sizes = {"scratch": int(raw["scratch"]), "num_inputs": int(raw["num_inputs"])}
    entry = KernelEntry(**{**raw, "args": args, "inplace": tuple(map(int, raw["inplace"])), **sizes})
    if entry.num_inputs > len(args) or any(i >= entry.num_inputs for i in entry.inplace):
        raise DocumentError(
            f"kernel {entry.name} says it has {entry.num_inputs} inputs, inplace {list(entry.inplace)} and "
            f"{len(args)} arguments"
        )
    return entry


def _shape(raw: list[Any] | str) -> tuple[int | str, ...] | str:
    return raw if isinstance(raw, str) else tuple(dim if isinstance(dim, str) else int(dim) for dim in raw)
