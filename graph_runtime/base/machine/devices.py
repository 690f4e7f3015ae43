"""Devices as data: a kind, an ordinal and a descriptor (board x software stack, descriptors.py).

``parse("tt:0")`` is the default board of the kind, ``parse("tt:0=n150")`` names one, with
``tt:0=wormhole_b0/buda`` its stack and with ``tt:0=n150[rows=7,clock=900]`` harvested rows left and MHz; a
caller's list may name a board by its file, ``tt:0=./mine.json``. ``node1/tt:0`` is a device of another
machine, the node of that name of a cluster (docs/cluster.md); without a node a device is the caller's own
machine's. A Device is a plain value: nothing is allocated before a session opens it
(graph_runtime/run/device_handles.py).
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from operator import index
from typing import Any

from ..errors import DeviceError, did_you_mean
from ..outside import load_entry_points
from .descriptors import HOST_KERNELS, NO_KERNELS, Descriptor, boards, read_board, vary
from .layout import Memory

__all__ = [
    "DLTYPE_CPU",
    "DL_NAMES",
    "HOST_KERNELS",
    "NO_KERNELS",
    "Descriptor",
    "Device",
    "Memory",
    "boards",
    "cpu",
    "dl_kinds",
    "dl_types",
    "find_installed",
    "is_afar",
    "is_file",
    "is_test_only",
    "kernel_kinds",
    "kernels_of",
    "null",
    "of_type",
    "parse",
    "parse_list",
    "require_at_home",
    "tt",
    "type_name",
]

DLTYPE_CPU = 1
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
class Device:
    """A device a user names: "cpu:0", "tt:1", "node1/tt:0". Compared by kind, ordinal, board and node.
    ``node``: the machine that it belongs to, "" for the caller's own."""

    kind: str
    ordinal: int
    descriptor: Descriptor
    node: str = ""

    @property
    def is_callers_host(self) -> bool:
        """Whether it is the processor of the machine that asks, where inputs come from."""
        return self.descriptor.on_host and not self.node

    @property
    def at_home(self) -> Device:
        """The same device as its own machine names it."""
        return replace(self, node="") if self.node else self

    @property
    def dl_type(self) -> int:
        """The DLDeviceType number of its kind, as in device_index."""
        return self.descriptor.dl_type

    @property
    def kernels(self) -> str:
        """The kind whose kernels run here: its own, unless the descriptor names another."""
        return self.descriptor.kernels

    @property
    def main_memory(self) -> Memory:
        """Where tensors live unless their layout says otherwise."""
        return self.descriptor.memories[0]

    @property
    def spelling(self) -> str:
        """What ``parse`` reads as this device: its name, with board, stack and parameters where they are not
        the default."""
        name, file = self.descriptor.name, self.descriptor.file
        made = read_board(file) if file else boards().get(name)
        says = {"rows": self.descriptor.grid[0], "clock": self.descriptor.clock_mhz}
        usual = {"rows": made.grid[0], "clock": made.clock_mhz} if made else says
        varied = ",".join(f"{k}={v}" for k, v in says.items() if v != usual[k])
        board = "" if self.descriptor.default and not varied and not file else f"={name}"
        return f"{self}{board}{f'[{varied}]' if varied else ''}"

    def __str__(self) -> str:
        return f"{self.node}/{self.kind}:{self.ordinal}" if self.node else f"{self.kind}:{self.ordinal}"


@cache
def dl_kinds() -> dict[int, str]:
    """The kind of each DLDeviceType that files may name, cpu first. Raises DeviceError where descriptors give
    one number to two kinds."""
    found: dict[int, str] = {}
    for number, kind in sorted((d.dl_type, d.kind) for d in boards().values() if not d.test_only):
        if found.setdefault(number, kind) != kind:
            raise DeviceError(f"kinds {found[number]} and {kind} both have dl_type {number}", got=number)
    return found


def kernel_kinds() -> tuple[str, ...]:
    """The kinds that kernels are made for: those that the descriptors' kinds run."""
    return tuple(sorted({d.kernels for d in boards().values()} - {NO_KERNELS}))


@cache
def kernels_of(kind: str) -> str:
    """The kind whose kernels a kind runs, "" for a kind that is not known."""
    return next((d.kernels for d in boards().values() if d.kind == kind), "")


def dl_types() -> dict[str, int]:
    """DLDeviceType by name: the kinds of the descriptors, cpu first, then dlpack's and TVM's names."""
    kinds = {kind: number for number, kind in dl_kinds().items()}
    return {**kinds, **{name: number for name, number in DL_NAMES.items() if name not in kinds}}


def type_name(dl_type: int) -> str | None:
    """What a DLDeviceType is called here: the kind that has it ("tt", where dlpack says ext_dev), else
    dlpack's or TVM's name; None for a number that has none."""
    return dl_kinds().get(dl_type) or {n: name for name, n in DL_NAMES.items()}.get(dl_type)


_DEVICE = re.compile(
    r"((?P<node>[A-Za-z0-9_][A-Za-z0-9_.-]{0,62})/)?"
    r"(?P<kind>[a-z][a-z0-9_]*)(:(?P<ordinal>[0-9]{1,9}))?"
    r"(=((?P<file>[^][]+\.json)|(?P<board>[\w.-]+)(/(?P<stack>[\w.-]+))?))?"
    r"(\[(?P<parameters>[^][]*)\])?"
)


def _is_pair(value: Any) -> bool:
    """Whether it is TVM's (type, id), of a DLDeviceType or a kind's name."""
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        return False
    number, ordinal = (hasattr(item, "__index__") and not isinstance(item, bool) for item in value)
    named = isinstance(value[0], str) and ":" not in value[0]
    return ordinal and (number or named)


def parse(text: str | Device | tuple[int | str, int], files: bool = False) -> Device:
    """A Device from "kind", "kind:ordinal" or "kind:ordinal=board", with "node/" first, "/stack" after a
    board and "[rows=7,clock=900]" last; or from (type, id), the type a DLDeviceType: (1, 0) is cpu:0, (12,
    0) is tt:0. ``files``: the board may be the path of a descriptor that ends in .json, which no document
    may name. Raises DeviceError, with "did you mean"."""
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
    """Import what installed packages name under the entry point. One that fails is a warning: its devices
    stay unknown."""
    load_entry_points("graph_runtime.devices", "devices")


def _of_file(kind: str, path: str, files: bool) -> Descriptor:
    """The descriptor of a path, of that kind."""
    if not files:
        raise DeviceError(
            f"board {path} is a file: only a list of devices that the caller gives names one", got=path
        )
    descriptor = read_board(path)
    if descriptor.kind != kind:
        raise DeviceError(
            f"{path} is a board of kind {descriptor.kind}, not {kind}", got=kind, wanted=descriptor.kind
        )
    return descriptor


def _named(kind: str, board: str, stack: str | None, text: str) -> Descriptor:
    """The descriptor of a kind's board, of its default stack where none is said."""
    of_kind = {d.board: d for d in boards().values() if d.kind == kind and d.default_stack}
    if board not in of_kind:
        find_installed()
        of_kind = {d.board: d for d in boards().values() if d.kind == kind and d.default_stack}
    if board not in of_kind:
        raise DeviceError(
            f"unknown {kind} board {board!r}{did_you_mean(board, of_kind)}", got=text, wanted=sorted(of_kind)
        )
    if stack is None:
        return of_kind[board]
    stacks = {d.stack: d for d in boards().values() if d.kind == kind and d.board == board}
    if stack not in stacks:
        raise DeviceError(
            f"{kind} board {board} has no stack {stack!r}{did_you_mean(stack, stacks)}",
            got=text,
            wanted=sorted(stacks),
        )
    return stacks[stack]


def _parameters(text: str, device: str) -> dict[str, str]:
    """{name: value} of "rows=7,clock=900"."""
    found: dict[str, str] = {}
    for item in text.split(","):
        name, equals, value = item.partition("=")
        if not (equals and name and value) or name in found:
            reason = f"{name!r} is said twice" if name in found else f"{item!r} is not NAME=VALUE"
            raise DeviceError(
                f"cannot read device {device!r}: {reason}, as in [rows=7,clock=900]", got=device
            )
        found[name] = value
    return found


def is_test_only(text: str) -> bool:
    """Whether a file names a device that no file may name. A device that is not known here is none."""
    kind = _DEVICE.match(text)
    return kind is not None and any(d.kind == kind["kind"] and d.test_only for d in boards().values())


def is_file(text: str) -> bool:
    """Whether a device's board is a file of this machine, which is no other's."""
    match = _DEVICE.fullmatch(text)
    return match is not None and match["file"] is not None


def parse_list(devices: Any) -> tuple[Device, ...]:
    """A caller's list of devices, or one, each as parse takes it with ``files``; the first is the fallback.
    Raises DeviceError for an empty list, for one named twice, and for two software stacks of one kind."""
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
            raise DeviceError(
                f"{said[0]} and {said[1]} in one plan: their tiles and schedules differ, so give all "
                f"{device.kind} devices boards of one stack",
                got=[d.descriptor.stack for d in devices],
                device=str(device),
            )


def cpu(ordinal: int = 0) -> Device:
    """The host, as device ``cpu:ordinal``."""
    return parse(f"cpu:{ordinal}")


def is_afar(devices: Any) -> bool:
    """Whether a caller's list, as parse_list takes it, has a device of another machine."""
    if isinstance(devices, (str, Device)) or _is_pair(devices):
        devices = [devices]
    return any(
        d.node if isinstance(d, Device) else isinstance(d, str) and "/" in d and parse(d, True).node
        for d in devices
    )


def require_at_home(device: Device) -> Device:
    """The device, of this machine. Raises DeviceError for one of another machine."""
    if device.node:
        raise DeviceError(
            f"{device} belongs to another machine, {device.node}: connect to its cluster with "
            "gr.cluster.connect(), and give gr.create or gr.load the device",
            got=str(device),
            device=str(device),
        )
    return device


def tt(ordinal: int = 0, board: str | None = None) -> Device:
    """A simulated Tenstorrent device."""
    return parse(f"tt:{ordinal}" + (f"={board}" if board else ""))


def of_type(kind: str | int, ordinal: int = 0) -> Device:
    """A device by kind, by TVM's name or by DLDeviceType number: "llvm" is the host, "ext_dev" (12) the
    simulated tt.

    Raises DeviceError for a type that is not here, naming the way out.
    """
    name = kind.split(" ")[0] if isinstance(kind, str) else kind
    found = _kind_of(name)
    if found is None:
        find_installed()
        found = _kind_of(name)
    if found is None:
        raise DeviceError(
            f"there is no {name} device here: a graph that was placed on it runs with "
            f"device_map={{{str(name)!r}: "
            f"'cpu:0'}}",
            got=kind,
            wanted=sorted(dl_kinds().values()),
        )
    return parse(f"{found}:{ordinal}")


def _kind_of(name: str | int) -> str | None:
    """The kind of a DLDeviceType, by number or name."""
    number = (_TARGETS.get(name) or dl_types().get(name)) if isinstance(name, str) else name
    return None if number is None else dl_kinds().get(number)


def null(ordinal: int = 0) -> Device:
    """A device whose kernels do nothing: measures the runtime's own overhead. Test-only, refused in files."""
    return parse(f"null:{ordinal}")
