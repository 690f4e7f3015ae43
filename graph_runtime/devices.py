"""Devices as data: a kind, an ordinal and a descriptor (board x software stack) read from
schemas/devices/*.json.

``parse("tt:0")`` is the default board of the kind, ``parse("tt:0=n150")`` names one. A Device is a plain
value: nothing is allocated before a session opens it (graph_runtime/core.py).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

import orjson

from .errors import DeviceError, did_you_mean
from .layout import HOST

__all__ = [
    "DLTYPE_CPU",
    "DL_NAMES",
    "NO_KERNELS",
    "Descriptor",
    "Device",
    "Memory",
    "boards",
    "cpu",
    "dl_kinds",
    "dl_types",
    "null",
    "of_type",
    "parse",
    "parse_list",
    "tt",
    "type_name",
]

DLTYPE_CPU = 1
NO_KERNELS = "null"  # as a descriptor's ``kernels``: every op does nothing
# DLDeviceType names of dlpack.h and TVM's extras; a kind that a descriptor gives such a number comes first
DL_NAMES = {
    "cpu": 1,
    "cuda": 2,
    "cuda_host": 3,
    "opencl": 4,
    "vulkan": 7,
    "metal": 8,
    "vpi": 9,
    "rocm": 10,
    "rocm_host": 11,
    "ext_dev": 12,
    "cuda_managed": 13,
    "oneapi": 14,
    "webgpu": 15,
    "hexagon": 16,
}
_TARGETS = {"llvm": DLTYPE_CPU, "c": DLTYPE_CPU}  # TVM's targets of the host


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of a device. ``bank_bytes`` is a bank's capacity with the reserved part below ``base``;
    ``alignment`` (bytes) is that of pages and allocations; ``top_down`` allocations grow from the bank's
    end."""

    name: str
    banks: int
    bank_bytes: int
    base: int
    alignment: int
    top_down: bool = False

    @property
    def usable(self) -> int:
        """Bytes one bank can hand out."""
        return self.bank_bytes - self.base

    @property
    def capacity(self) -> int:
        """Bytes all banks together can hand out."""
        return self.usable * self.banks


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Board x software stack. ``formats`` are the physical formats the kind stores, ``layouts`` its layouts,
    ``grid`` its cores (rows, columns). ``sources`` says where each number is from. ``test_only`` kinds are
    refused in files. ``kernels`` is the kind whose kernels run there, its own unless the file says another;
    NO_KERNELS: every op does nothing."""

    kind: str
    board: str
    stack: str
    dl_type: int
    grid: tuple[int, int]
    memories: tuple[Memory, ...]
    layouts: tuple[str, ...]
    formats: tuple[str, ...]
    default: bool = False
    test_only: bool = False
    sources: str = ""
    kernels: str = ""

    @property
    def on_host(self) -> bool:
        """Whether its tensors are host pointers."""
        return self.memories[0].name == HOST

    def memory(self, name: str) -> Memory:
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise DeviceError(
            f"{self.kind} board {self.board} has no memory {name!r}"
            f"{did_you_mean(name, [m.name for m in self.memories])}",
            got=name,
        )


@dataclass(frozen=True, slots=True)
class Device:
    """A device a user names: "cpu:0", "tt:1". Compared by kind, ordinal and board."""

    kind: str
    ordinal: int
    descriptor: Descriptor

    @property
    def dl_type(self) -> int:
        return self.descriptor.dl_type

    @property
    def kernels(self) -> str:
        """The kind whose kernels run here: its own, unless the descriptor names another."""
        return self.descriptor.kernels

    @property
    def main_memory(self) -> Memory:
        """Where tensors live unless their layout says otherwise."""
        return self.descriptor.memories[0]

    def __str__(self) -> str:
        return f"{self.kind}:{self.ordinal}"


@cache
def boards() -> dict[str, Descriptor]:
    """All descriptors by board name, from the package's schemas/devices."""
    found = {}
    for file in sorted(
        resources.files("graph_runtime.schemas").joinpath("devices").iterdir(), key=lambda f: f.name
    ):
        if file.name.endswith(".json"):
            descriptor = read_descriptor(file.read_bytes())
            found[descriptor.board] = descriptor
    return found


@cache
def dl_kinds() -> dict[int, str]:
    """The kind of each DLDeviceType that files may name, cpu first. Raises DeviceError where descriptors give
    one number to two kinds."""
    found: dict[int, str] = {}
    for number, kind in sorted((d.dl_type, d.kind) for d in boards().values() if not d.test_only):
        if found.setdefault(number, kind) != kind:
            raise DeviceError(f"kinds {found[number]} and {kind} both have dl_type {number}", got=number)
    return found


def dl_types() -> dict[str, int]:
    """DLDeviceType by name: the kinds of the descriptors, cpu first, then dlpack's and TVM's names."""
    kinds = {kind: number for number, kind in dl_kinds().items()}
    return {**kinds, **{name: number for name, number in DL_NAMES.items() if name not in kinds}}


def type_name(dl_type: int) -> str | None:
    """What a DLDeviceType is called here: the kind that has it ("tt", where dlpack says ext_dev), else
    dlpack's or TVM's name; None for a number that has none."""
    return dl_kinds().get(dl_type) or {n: name for name, n in DL_NAMES.items()}.get(dl_type)


def read_descriptor(data: bytes) -> Descriptor:
    """A Descriptor from its JSON. A cpu's bank_bytes may be null: 80 % of the machine's memory."""
    raw = orjson.loads(data)
    memories = tuple(
        Memory(**{**m, "bank_bytes": m["bank_bytes"] or _host_bytes()}) for m in raw.pop("memories")
    )
    raw.pop("$schema", None)
    return Descriptor(
        **{
            **raw,
            "memories": memories,
            "grid": tuple(raw["grid"]),
            "kernels": raw.get("kernels", raw["kind"]),
            "layouts": tuple(raw["layouts"]),
            "formats": tuple(raw["formats"]),
        }
    )


def _host_bytes() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8)


def parse(text: str | Device) -> Device:
    """A Device from "kind", "kind:ordinal" or "kind:ordinal=board". Raises DeviceError, with "did you
    mean"."""
    if isinstance(text, Device):
        return text
    match = re.fullmatch(r"([a-z][a-z0-9_]*)(?::([0-9]{1,9}))?(?:=([\w.-]+))?", str(text))
    if match is None:
        raise DeviceError(f"cannot read device {text!r}: write kind:ordinal, as cpu:0 or tt:1=n150", got=text)
    kind, ordinal, board = match.groups()
    kinds = {d.kind: d for d in boards().values() if d.default}
    if kind not in kinds:
        raise DeviceError(f"unknown device kind {kind!r}{did_you_mean(kind, kinds)}", got=text)
    descriptor = kinds[kind]
    if board is not None:
        of_kind = {d.board: d for d in boards().values() if d.kind == kind}
        if board not in of_kind:
            raise DeviceError(f"unknown {kind} board {board!r}{did_you_mean(board, of_kind)}", got=text)
        descriptor = of_kind[board]
    return Device(kind, int(ordinal or 0), descriptor)


def parse_list(devices: str | Device | Sequence[str | Device]) -> tuple[Device, ...]:
    """A caller's device list; the first is the fallback. Raises DeviceError for an empty list or one named
    twice."""
    items = [devices] if isinstance(devices, (str, Device)) else list(devices)
    found = tuple(parse(d) for d in items)
    if not found:
        raise DeviceError("the device list is empty: give at least one device, as ['cpu:0']", got=[])
    names = [str(d) for d in found]
    for name, count in Counter(names).items():
        if count > 1:
            raise DeviceError(f"device {name} is listed twice", got=names, device=name)
    return found


def cpu(ordinal: int = 0) -> Device:
    """The host, as device ``cpu:ordinal``."""
    return parse(f"cpu:{ordinal}")


def tt(ordinal: int = 0, board: str | None = None) -> Device:
    """A simulated Tenstorrent device."""
    return parse(f"tt:{ordinal}" + (f"={board}" if board else ""))


def of_type(kind: str | int, ordinal: int = 0) -> Device:
    """A device by kind, by TVM's name or by DLDeviceType number: "llvm" is the host, "ext_dev" (12) the
    simulated tt.

    Raises DeviceError for a type that is not here, naming the way out.
    """
    name = kind.split(" ")[0] if isinstance(kind, str) else kind
    number = _TARGETS.get(name) or dl_types().get(name, name)
    found = dl_kinds().get(number)
    if found is None:
        raise DeviceError(
            f"there is no {name} device here: a graph that was placed on it runs with "
            f"device_map={{{str(name)!r}: "
            f"'cpu:0'}}",
            got=kind,
            wanted=sorted(dl_kinds().values()),
        )
    return parse(f"{found}:{ordinal}")


def null(ordinal: int = 0) -> Device:
    """A device whose kernels do nothing: measures the runtime's own overhead. Test-only, refused in files."""
    return parse(f"null:{ordinal}")
