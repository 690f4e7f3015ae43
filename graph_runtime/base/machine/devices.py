"""Devices as data: a kind, an ordinal and a descriptor (board x software stack, descriptors.py).

``parse("tt:0")`` is the default board of the kind, and ``parse("tt:0=n150")`` the board n150.
``tt:0=wormhole_b0/buda`` also names the software stack. ``tt:0=n150[rows=7,clock=900]`` also gives the number
of rows of cores left by harvesting and the clock in MHz. A caller's list may name a board by its file:
``tt:0=./mine.json``. ``node1/tt:0`` is a device of another machine, the cluster's node of that name
(docs/cluster.md); without a node the device belongs to the caller's machine. A Device is a plain value:
nothing is allocated before a session opens it (graph_runtime/run/device_handles.py)."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from operator import index
from typing import Any

from ..errors import DeviceError, did_you_mean
from ..outside import load_entry_points
from .descriptors import NO_KERNELS, Descriptor, Memory, boards, read_board, vary
from .layout import L1

DLTYPE_CPU = 1
# DLDeviceType names of dlpack.h, and the further names of TVM. If the descriptor of a kind has one of these
# numbers, the number means that kind.
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
_TARGETS = {"llvm": DLTYPE_CPU, "c": DLTYPE_CPU}  # TVM's names of the host as a target


@dataclass(frozen=True, slots=True)
class Device:
    """A device that a user names: "cpu:0", "tt:1", "node1/tt:0". Devices are equal if kind, ordinal, board
    and node are. ``node``: the device's machine, "" for the caller's own."""

    kind: str
    ordinal: int
    descriptor: Descriptor
    node: str = ""

    @property
    def is_callers_host(self) -> bool:
        """Whether the device is the processor of the caller's machine, where inputs come from."""
        return self.descriptor.on_host and not self.node

    @property
    def at_home(self) -> Device:
        """The same device, as named on its own machine."""
        return replace(self, node="") if self.node else self

    @property
    def dl_type(self) -> int:
        """The DLDeviceType number of the device's kind, as in device_index."""
        return self.descriptor.dl_type

    @property
    def kernels(self) -> str:
        """The kind whose kernels run on this device: its own kind, unless the descriptor names another."""
        return self.descriptor.kernels

    @property
    def has_l1(self) -> bool:
        return any(memory.name == L1 for memory in self.descriptor.memories)

    @property
    def circular_cores(self) -> int:
        """Number of cores that open circular buffers; 0 for a device without L1, or without kernels."""
        rows, cols = self.descriptor.grid
        return rows * cols if self.has_l1 and self.kernels != NO_KERNELS else 0

    @property
    def main_memory(self) -> Memory:
        """The memory of tensors whose layout does not name a memory."""
        return self.descriptor.memories[0]

    @property
    def spelling(self) -> str:
        """The text that ``parse`` reads as this device: its name, and the board, stack and parameters that
        are not the default."""
        name, file = self.descriptor.name, self.descriptor.file
        made = read_board(file) if file else boards().get(name)
        says, usual = (
            {"rows": d.grid[0], "cols": d.grid[1], "clock": d.clock_mhz}
            for d in (self.descriptor, made or self.descriptor)
        )
        varied = ",".join(f"{k}={v}" for k, v in says.items() if v != usual[k])
        board = "" if self.descriptor.default and not varied and not file else f"={name}"
        return f"{self}{board}{f'[{varied}]' if varied else ''}"

    def __str__(self) -> str:
        return f"{self.node}/{self.kind}:{self.ordinal}" if self.node else f"{self.kind}:{self.ordinal}"


@cache
def dl_kinds() -> dict[int, str]:
    """The kind of each DLDeviceType that files may name, cpu first. Raises DeviceError if descriptors give
    one number to two kinds."""
    found: dict[int, str] = {}
    for number, kind in sorted((d.dl_type, d.kind) for d in boards().values() if not d.test_only):
        if found.setdefault(number, kind) != kind:
            raise DeviceError(f"kinds {found[number]} and {kind} both have dl_type {number}", got=number)
    return found


def kernel_kinds() -> tuple[str, ...]:
    """The kinds for which kernels are made: those whose kernels the kinds of all descriptors run."""
    return tuple(sorted({d.kernels for d in boards().values()} - {NO_KERNELS}))


@cache
def kernels_of(kind: str) -> str:
    """The kind whose kernels run on devices of ``kind``; "" for an unknown kind."""
    return next((d.kernels for d in boards().values() if d.kind == kind), "")


def dl_types() -> dict[str, int]:
    """{name: DLDeviceType}: the kinds of the descriptors, cpu first, then the names of dlpack and TVM."""
    kinds = {kind: number for number, kind in dl_kinds().items()}
    return {**kinds, **{name: number for name, number in DL_NAMES.items() if name not in kinds}}


def type_name(dl_type: int) -> str | None:
    """The name of a DLDeviceType number: the kind with this number ("tt" for the number that dlpack calls
    ext_dev), else dlpack's or TVM's name. None for an unknown number."""
    return dl_kinds().get(dl_type) or {n: name for name, n in DL_NAMES.items()}.get(dl_type)


_DEVICE = re.compile(
    r"((?P<node>[A-Za-z0-9_][A-Za-z0-9_.-]{0,62})/)?"
    r"(?P<kind>[a-z][a-z0-9_]*)(:(?P<ordinal>[0-9]{1,9}))?"
    r"(=((?P<file>[^][]+\.json)|(?P<board>[\w.-]+)(/(?P<stack>[\w.-]+))?))?"
    r"(\[(?P<parameters>[^][]*)\])?"
)


def _is_pair(value: Any) -> bool:
    """Whether a value is TVM's pair (type, id); the type is a DLDeviceType or the name of a kind."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    number, ordinal = (hasattr(item, "__index__") and not isinstance(item, bool) for item in value)
    named = isinstance(value[0], str) and ":" not in value[0]
    return ordinal and (number or named)


def parse(text: str | Device | tuple[int | str, int], files: bool = False) -> Device:
    """A Device from a text, or from a pair. The text is "kind", "kind:ordinal" or "kind:ordinal=board", with
    "node/" before it, "/stack" after a board and "[rows=7,clock=900]" at the end if wanted. The pair is
    (type, id), whose type is a DLDeviceType: (1, 0) is cpu:0, (12, 0) is tt:0. ``files``: whether the board
    may be the path of a descriptor, which ends in .json; documents may not name such paths. Raises
    DeviceError, with "did you mean"."""
    if isinstance(text, Device):
        return text
    if not isinstance(text, str) and _is_pair(text):
        type_, ordinal = text
        return of_type(type_ if isinstance(type_, str) else index(type_), index(ordinal))
    match = _DEVICE.fullmatch(str(text))
    if match is None:
        raise DeviceError(
            f"cannot read device {text!r}: write kind:ordinal, as cpu:0, tt:1=n150, node1/tt:0 or "
            f"tt:0=wormhole_b0/buda[rows=9,clock=900]",
            got=text,
        )
    kind, board = match["kind"], match["board"]
    kinds = _default_boards()
    if kind not in kinds:
        find_installed()
        kinds = _default_boards()
    if kind not in kinds:
        raise DeviceError(f"unknown device kind {kind!r}{did_you_mean(kind, kinds)}", got=text)
    descriptor = kinds[kind]
    if match["file"] is not None:
        descriptor = _of_file(kind, match["file"], files)
    elif board is not None:
        descriptor = _named(kind, board, match["stack"], str(text))
    if match["parameters"] is not None:
        descriptor = vary(descriptor, _parameters(match["parameters"], str(text)))
    return Device(kind, int(match["ordinal"] or 0), descriptor, match["node"] or "")


def _default_boards() -> dict[str, Descriptor]:
    return {d.kind: d for d in boards().values() if d.default}


@cache
def find_installed() -> None:
    """Import the modules that installed packages name under the entry point. A module that fails gives a
    warning: its devices stay unknown."""
    load_entry_points("graph_runtime.devices", "devices")


def _of_file(kind: str, path: str, files: bool) -> Descriptor:
    """The descriptor in the file ``path``, which must be of ``kind``."""
    if not files:
        text = f"board {path} is a file: only a list of devices that the caller gives names one"
        raise DeviceError(text, got=path)
    descriptor = read_board(path)
    if descriptor.kind != kind:
        text = f"{path} is a board of kind {descriptor.kind}, not {kind}"
        raise DeviceError(text, got=kind, wanted=descriptor.kind)
    return descriptor


def _named(kind: str, board: str, stack: str | None, text: str) -> Descriptor:
    """The descriptor of a kind's board, with the board's default stack unless ``stack`` names one."""
    of_kind = {d.board: d for d in boards().values() if d.kind == kind and d.default_stack}
    if board not in of_kind:
        find_installed()
        of_kind = {d.board: d for d in boards().values() if d.kind == kind and d.default_stack}
    if board not in of_kind:
        said = f"unknown {kind} board {board!r}{did_you_mean(board, of_kind)}"
        raise DeviceError(said, got=text, wanted=sorted(of_kind))
    if stack is None:
        return of_kind[board]
    stacks = {d.stack: d for d in boards().values() if d.kind == kind and d.board == board}
    if stack not in stacks:
        said = f"{kind} board {board} has no stack {stack!r}{did_you_mean(stack, stacks)}"
        raise DeviceError(said, got=text, wanted=sorted(stacks))
    return stacks[stack]


def _parameters(text: str, device: str) -> dict[str, str]:
    """{name: value} of "rows=7,clock=900"."""
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not (equals and name and value) or name in found:
            reason = f"{name!r} is said twice" if name in found else f"{item!r} is not NAME=VALUE"
            said = f"cannot read device {device!r}: {reason}, as in [rows=7,clock=900]"
            raise DeviceError(said, got=device)
        found[name] = value
    return found


def is_test_only(text: str) -> bool:
    """Whether a text names a device that no file may name; False for an unknown device."""
    kind = _DEVICE.match(text)
    return kind is not None and any(d.kind == kind["kind"] and d.test_only for d in boards().values())


def is_file(text: str) -> bool:
    """Whether a device's board is named by a file, which exists on this machine only."""
    match = _DEVICE.fullmatch(text)
    return match is not None and match["file"] is not None


def parse_list(devices: Any) -> tuple[Device, ...]:
    """The Devices of a caller's device or list of devices, each as in parse with ``files``; the first is the
    fallback. Raises DeviceError for an empty list, a device named twice, and two software stacks of one kind.
    """
    items = [devices] if isinstance(devices, (str, Device)) or _is_pair(devices) else list(devices)
    found = tuple(parse(d, files=True) for d in items)
    if not found:
        raise DeviceError("the device list is empty: give at least one device, as ['cpu:0']", got=[])
    names = [str(d) for d in found]
    for name, count in Counter(names).items():
        if count > 1:
            raise DeviceError(f"device {name} is listed twice", got=names, device=name)
    _one_stack_a_kind(found)
    return found


def _one_stack_a_kind(devices: tuple[Device, ...]) -> None:
    first: dict[str, Device] = {}
    for device in devices:
        other = first.setdefault(device.kind, device)
        if other.descriptor.stack != device.descriptor.stack:
            said = [f"{d}={d.descriptor.name} (stack {d.descriptor.stack})" for d in (other, device)]
            text = (
                f"{said[0]} and {said[1]} in one plan: their tiles and schedules differ, so give all "
                f"{device.kind} devices boards of one stack"
            )
            raise DeviceError(text, got=[d.descriptor.stack for d in devices], device=str(device))


def cpu(ordinal: int = 0) -> Device:
    """The host, as device ``cpu:ordinal``."""
    return parse(f"cpu:{ordinal}")


def is_afar(devices: Any) -> bool:
    """Whether a caller's list of devices, as in parse_list, has a device of another machine."""
    if isinstance(devices, (str, Device)) or _is_pair(devices):
        devices = [devices]
    return any(
        d.node if isinstance(d, Device) else isinstance(d, str) and "/" in d and parse(d, True).node
        for d in devices
    )


def require_at_home(device: Device) -> Device:
    """The device, if it belongs to this machine. Raises DeviceError for a device of another machine."""
    if device.node:
        text = (
            f"{device} belongs to another machine, {device.node}: connect to its cluster with "
            "gr.cluster.connect(), and give gr.create or gr.load the device"
        )
        raise DeviceError(text, got=str(device), device=str(device))
    return device


def tt(ordinal: int = 0, board: str | None = None) -> Device:
    """A simulated Tenstorrent device."""
    return parse(f"tt:{ordinal}" + (f"={board}" if board else ""))


def of_type(kind: str | int, ordinal: int = 0) -> Device:
    """A device by kind, TVM's name or DLDeviceType number: "llvm" is the host, "ext_dev" (12) the simulated
    tt. Raises DeviceError, with the remedy, for a type that no kind has."""
    name = kind.split(" ")[0] if isinstance(kind, str) else kind
    found = _kind_of(name)
    if found is None:
        find_installed()
        found = _kind_of(name)
    if found is None:
        text = (
            f"there is no {name} device here: a graph that was placed on it runs with "
            f"device_map={{{str(name)!r}: "
            f"'cpu:0'}}"
        )
        raise DeviceError(text, got=kind, wanted=sorted(dl_kinds().values()))
    return parse(f"{found}:{ordinal}")


def _kind_of(name: str | int) -> str | None:
    """The kind of a DLDeviceType; ``name``: number or name of the DLDeviceType. None if no kind has it."""
    number = (_TARGETS.get(name) or dl_types().get(name)) if isinstance(name, str) else name
    return None if number is None else dl_kinds().get(number)


def null(ordinal: int = 0) -> Device:
    """A device whose kernels do nothing, for tests that measure the runtime's own overhead. Files may not
    name it."""
    return parse(f"null:{ordinal}")
