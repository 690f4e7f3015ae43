"""The manifest that a module library carries: which kernels it has, for which ABI, ISA and device kinds, made of what.

In the file it is ``const char gr_manifest[]`` = MAGIC (16 bytes), u64 little-endian length, JSON. It is found by scanning the mapped
file, so a library is judged before it is opened.
"""
from __future__ import annotations

import mmap
import os
import platform
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import orjson

from .errors import LibraryError

__all__ = ["ABI_VERSION", "MAGIC", "KernelEntry", "Manifest", "read_manifest"]

MAGIC = b"\x93GR-MANIFEST\r\n\x1a\n"      # 16 bytes, as PNG's: survives no text-mode transfer
ABI_VERSION = 1                            # GR_ABI_VERSION of native/include/gr_abi.h
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One kernel. ``name`` is the func_name, ``symbol`` the direct entry (int32_t symbol(const gr_call *)), ``args`` the
    (dtype, shape) of inputs then outputs, ``scratch`` host bytes, ``inplace`` inputs that output 0 may overwrite."""

    name: str
    kind: str
    symbol: str
    op: str
    attrs: dict[str, Any]
    num_inputs: int
    args: tuple[tuple[str, tuple[int, ...]], ...]
    scratch: int = 0
    inplace: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest:
    """``isa`` is a -march name ("x86-64-v3"), ``arch`` platform.machine(), ``sources`` a sha256 over sources, flags and compiler."""

    abi: int
    arch: str
    isa: str
    compiler: str
    flags: tuple[str, ...]
    sources: str
    kernels: tuple[KernelEntry, ...]

    def to_bytes(self) -> bytes:
        """MAGIC, length, JSON: what stands in the library."""
        body = orjson.dumps(asdict(self), option=orjson.OPT_SORT_KEYS)
        return MAGIC + len(body).to_bytes(8, "little") + body


def read_manifest(path: str | os.PathLike) -> Manifest:
    """The manifest of a library file, without opening the library.

    Raises LibraryError where there is none, where it is malformed, or of another ABI version.
    """
    path = Path(path)
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _parse(path, _locate(path, data))
    except (OSError, ValueError) as error:
        raise LibraryError(f"cannot read library {path}: {error}", got=str(path)) from None


def _locate(path: Path, data: mmap.mmap) -> bytes:
    at = data.find(MAGIC)
    if at < 0:
        raise LibraryError(f"{path} has no graph_runtime manifest: it is no module library made by `graph-runtime compile`",
                           got=str(path))
    start = at + len(MAGIC) + 8
    size = int.from_bytes(data[start - 8:start], "little")
    if size > _MOST_BYTES or start + size > len(data):
        raise LibraryError(f"{path}: the manifest at byte {at} says it has {size} bytes, the file ends before that",
                           got=size, wanted=len(data) - start)
    return data[start:start + size]


def _parse(path: Path, body: bytes) -> Manifest:
    try:
        raw = orjson.loads(body)
        abi = raw["abi"]
        if abi != ABI_VERSION:
            raise LibraryError(f"{path} was built for kernel ABI {abi}, this runtime has ABI {ABI_VERSION}: compile the graph again",
                               got=abi, wanted=ABI_VERSION)
        kernels = tuple(
            KernelEntry(**{**k, "args": tuple((d, tuple(s)) for d, s in k["args"]), "inplace": tuple(k["inplace"])})
            for k in raw.pop("kernels"))
        return Manifest(**{**raw, "flags": tuple(raw["flags"]), "kernels": kernels})
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise LibraryError(f"{path}: malformed manifest: {type(error).__name__}: {error}", got=str(path)) from None


def host_arch() -> str:
    """platform.machine() of this process, as manifests spell it."""
    return platform.machine()
