"""Descriptors: the facts about a device that plans use, one file for each board and software stack in
schemas/devices.

A descriptor is plain data. Numbers that a board's user may change (harvested rows, the clock) are parameters
of ``vary``; every other change needs a new JSON file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import DeviceError, DocumentError, all_there_are, did_you_mean
from ..files.mapped import data_folder
from ..formats import FORMATS
from ..json_text import parse_json

HOST = "host"
DRAM = "dram"
L1 = "l1"
ROW_MAJOR = "row_major"
TILE = "tile"

HOST_KERNELS = "cpu"  # the kind whose kernels work on host pointers, as TVM's functions do
NO_KERNELS = "null"  # value of a descriptor's ``kernels`` for a device on which every op does nothing
_MOST_CLOCK = 10_000


@dataclass(frozen=True, slots=True)
class Memory:
    """One memory of a device. ``bank_bytes``: capacity of a bank, including the reserved part below the
    address ``base``. ``alignment``: alignment of pages and allocations, in bytes. ``top_down``: whether
    allocations grow down from the bank's end. ``budget``: bytes of a bank that tensors may take, or 0 for all
    usable bytes. ``tile_header``: bytes of the header before each tile."""

    name: str
    banks: int
    bank_bytes: int
    base: int
    alignment: int
    top_down: bool = False
    budget: int = 0
    tile_header: int = 0

    @property
    def usable(self) -> int:
        """Bytes of one bank that can be allocated."""
        return self.bank_bytes - self.base

    @property
    def available(self) -> int:
        """Bytes of one bank that a plan's tensors may take."""
        return self.budget or self.usable

    @property
    def capacity(self) -> int:
        """Bytes of all banks together that can be allocated."""
        return self.usable * self.banks


@dataclass(frozen=True, slots=True)
class Dram:
    """``channel_gb_per_s``: theoretical rate of one DRAM bank (a channel), in 1e9 bytes a second."""

    channel_gb_per_s: float


@dataclass(frozen=True, slots=True)
class Noc:
    """Networks on the chip. ``count``: number of networks; ``flit_bytes``: bytes that a link moves in one
    clock; ``nodes``: (rows, columns) of network nodes."""

    count: int
    flit_bytes: int
    nodes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pcie:
    """The PCIe link to the host."""

    generation: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Host time in ns added to each op: one time for an op that is replayed from a trace, another for an op
    that is enqueued by itself."""

    traced: int
    untraced: int


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A board with a software stack. ``formats``: physical formats that devices of the kind store;
    ``layouts``: layouts of tensors on them; ``grid``: (rows, columns) of cores; ``clock_mhz``: clock of the
    cores, 0 for a host. ``tile_header_bytes``: bytes of the header before each tile in a bank. ``default``:
    whether kind:ordinal without a board means this board; ``default_stack``: whether the board without a
    stack means this stack. ``sources`` {field: source of the field's numbers}. ``test_only``: whether files
    may not name the kind. ``kernels`` is the kind whose kernels run on the device: its own kind unless the
    file names another; with NO_KERNELS every op does nothing. ``file``: the path of a user's descriptor, ""
    for one of the package."""

    kind: str
    board: str
    stack: str
    dl_type: int
    grid: tuple[int, int]
    memories: tuple[Memory, ...]
    layouts: tuple[str, ...]
    formats: tuple[str, ...]
    arch: str = ""
    clock_mhz: int = 0
    tile_header_bytes: int = 0
    dram: Dram | None = None
    noc: Noc | None = None
    pcie: Pcie | None = None
    dispatch_ns: Dispatch | None = None
    default: bool = False
    default_stack: bool = True
    test_only: bool = False
    kernels: str = ""
    file: str = field(default="", compare=False)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        """Raise DeviceError, with the path, for a number that no board can have, and if the number of L1
        banks is not that of the grid's cores."""
        for path, value, least in _numbers(self):
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            whole = path.endswith("channel_gb_per_s") or isinstance(value, int)
            if not (number and whole and (value >= least if least is not None else value > 0)):
                kind = "a number above 0" if least is None else f"a whole number from {least}"
                text = f"descriptor of {self.name}: {path} is {value!r}, must be {kind}"
                raise DeviceError(text, path=path, got=value, wanted=kind)
        (rows, cols), l1 = self.grid, [m.name for m in self.memories].index(L1) if self.l1_budget else -1
        if l1 >= 0 and self.memories[l1].banks != rows * cols:
            raise DeviceError(
                f"descriptor of {self.name}: $.memories[{l1}].banks is {self.memories[l1].banks}, must be "
                f"{rows * cols}: L1 has one bank for each core of the {rows}x{cols} grid",
                path=f"$.memories[{l1}].banks",
                got=self.memories[l1].banks,
                wanted=rows * cols,
            )

    @property
    def name(self) -> str:
        """The device's name in a list of devices: the board, with its stack if that is not the board's
        default, or the path of a user's file."""
        if self.file:
            return self.file
        return self.board if self.default_stack else f"{self.board}/{self.stack}"

    @property
    def on_host(self) -> bool:
        """Whether the device's tensors are host pointers."""
        return self.memories[0].name == HOST

    @property
    def simulated(self) -> bool:
        """Whether the device is a board of an architecture, with predicted times; otherwise it is real
        hardware."""
        return bool(self.arch)

    @property
    def l1_budget(self) -> int:
        """Bytes of one core's L1 for tensors and buffers; 0 for a device without L1."""
        return sum(m.available for m in self.memories if m.name == L1)

    def memory(self, name: str) -> Memory:
        """The memory of this name. Raises DeviceError for a memory that the board does not have."""
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise DeviceError(
            f"{self.kind} board {self.board} has no memory {name!r}"
            f"{did_you_mean(name, [m.name for m in self.memories])}",
            got=name,
        )


def _numbers(board: Descriptor) -> Iterator[tuple[str, Any, int | None]]:
    """(path, value, least allowed value) of every number of a descriptor. A least value of None means that
    the number must be above 0."""
    yield "$.clock_mhz", board.clock_mhz, int(bool(board.arch))
    yield "$.tile_header_bytes", board.tile_header_bytes, 0
    if len(board.grid) != 2:
        yield "$.grid", board.grid, 1
    yield from ((f"$.grid[{i}]", cores, 1) for i, cores in enumerate(board.grid))
    for i, memory in enumerate(board.memories):
        at = f"$.memories[{i}]"
        yield f"{at}.banks", memory.banks, 1
        yield f"{at}.base", memory.base, 0
        yield f"{at}.bank_bytes", memory.bank_bytes, memory.base + 1 if isinstance(memory.base, int) else 1
        yield f"{at}.alignment", memory.alignment, 1
        yield f"{at}.budget", memory.budget, 0
    if board.dram is not None:
        yield "$.dram.channel_gb_per_s", board.dram.channel_gb_per_s, None
    if board.noc is not None:
        yield "$.noc.count", board.noc.count, 1
        yield "$.noc.flit_bytes", board.noc.flit_bytes, 1
        yield from ((f"$.noc.nodes[{i}]", count, 1) for i, count in enumerate(board.noc.nodes))
    if board.pcie is not None:
        yield "$.pcie.generation", board.pcie.generation, 1
        yield "$.pcie.lanes", board.pcie.lanes, 1
    if board.dispatch_ns is not None:
        yield "$.dispatch_ns.traced", board.dispatch_ns.traced, 0
        yield "$.dispatch_ns.untraced", board.dispatch_ns.untraced, 0


outside_code: dict[str, Path] = {}  # kind added by another package (outside_kinds.py) -> its C file


@cache
def boards() -> dict[str, Descriptor]:
    """All descriptors by name ("n150", "wormhole_b0/buda"), read from the package's folder schemas/devices.
    Raises DeviceError if two files describe one board and stack, or two default stacks of a board."""
    found: dict[str, Descriptor] = {}
    for file in sorted((data_folder("graph_runtime.schemas") / "devices").glob("*.json")):
        descriptor = read_descriptor(file.read_bytes())
        if found.setdefault(descriptor.name, descriptor) is not descriptor:
            raise DeviceError(
                f"{file.name} describes {descriptor.name} again: give a board and stack one file, "
                f"and a board one default_stack",
                got=descriptor.name,
            )
    return found


def read_descriptor(data: bytes) -> Descriptor:
    """A Descriptor from its JSON. A cpu's bank_bytes may be null, which means 80 % of the machine's memory.
    Raises DeviceError for a key that is missing or unknown, and for a number that no board can have."""
    raw = parse_json(data, "a device's descriptor")
    kinds: Any = (("dram", Dram), ("noc", Noc), ("pcie", Pcie), ("dispatch_ns", Dispatch))
    raw.pop("$schema", None)
    _require_keys(Descriptor, raw, "$")
    for i, memory in enumerate(raw["memories"]):
        _require_keys(Memory, memory, f"$.memories[{i}]")
    for name, kind in kinds:
        if name in raw:
            _require_keys(kind, raw[name], f"$.{name}")
    header = raw.get("tile_header_bytes", 0)
    for memory in raw["memories"]:
        if memory["bank_bytes"] is None:
            memory["bank_bytes"] = int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8)
    memories = tuple(Memory(**memory, tile_header=header) for memory in raw["memories"])
    facts: dict[str, Any] = {
        name: kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw[name].items()})
        for name, kind in kinds
        if name in raw
    }
    facts |= {name: tuple(raw[name]) for name in ("grid", "layouts", "formats")}
    return Descriptor(**{"kernels": raw["kind"], **raw, **facts, "memories": memories})


def _require_keys(kind: type, raw: Any, path: str) -> None:
    """Raise DeviceError for a key of a descriptor's object, at ``path``, that is unknown or missing."""
    if not isinstance(raw, dict):
        raise DeviceError(f"{path} is {raw!r}, must be an object", path=path, got=raw)
    known = {f.name: f for f in fields(kind) if f.name not in ("file", "tile_header")}
    for key in raw:
        if key not in known:
            text = f"{path} has an unknown key {key!r}{all_there_are(key, known)}"
            raise DeviceError(text, path=path, got=key)
    for key, one in known.items():
        if key not in raw and one.default is MISSING and one.default_factory is MISSING:
            raise DeviceError(f"{path} has no key {key!r}: it is missing", path=path, wanted=key)


def read_file(path: str | Path, what: str) -> Descriptor:
    """The descriptor in a file. ``what``: "board" or "device", for error texts. Raises DeviceError, which
    names the file, if the file cannot be read or is no descriptor."""
    try:
        return read_descriptor(Path(path).read_bytes())
    except (OSError, ValueError, DocumentError) as error:
        raise DeviceError(f"cannot read {what} {path}: {error}", got=str(path)) from None
    except (DeviceError, KeyError, TypeError, AttributeError, IndexError) as error:
        more = error.fields if isinstance(error, DeviceError) else {"got": str(path)}
        text = f"{path} is no descriptor of a {what}: {error}; see schemas/device.schema.json"
        raise DeviceError(text, **more) from None


def read_board(path: str) -> Descriptor:
    """The descriptor in a user's file. Raises DeviceError for a file that cannot be read or is no descriptor,
    and for a kind, its number, an architecture, a layout or a format that the package does not know."""
    made = replace(read_file(path, "board"), file=path)
    here = [d for d in boards().values() if not d.test_only]
    for said, at, names, all_known in (
        ("kind", "$.kind", (made.kind,), [d.kind for d in here]),
        ("dl_type", "$.dl_type", (made.dl_type,), [d.dl_type for d in here if d.kind == made.kind]),
        ("arch", "$.arch", (made.arch,), [d.arch for d in here]),
        ("layout", "$.layouts", made.layouts, (ROW_MAJOR, TILE)),
        ("format", "$.formats", made.formats, FORMATS),
    ):
        known = list(dict.fromkeys(all_known))
        for name in names:
            if name not in known:
                text = (
                    f"{path}: there is no {said} {name!r} here{did_you_mean(str(name), [*map(str, known)])}"
                )
                raise DeviceError(text, path=at, got=name, wanted=known)
    return made


def vary(descriptor: Descriptor, parameters: Mapping[str, str]) -> Descriptor:
    """The descriptor changed by the user's ``rows`` and ``cols`` (of cores left by harvesting) and
    ``clock`` (MHz). Raises DeviceError for another parameter, a value that is no number, and a number that
    the board cannot have."""
    rows, cols = descriptor.grid
    limits = {"rows": rows, "cols": cols, "clock": _MOST_CLOCK} if descriptor.arch else {}
    for name, text in parameters.items():
        most = limits.get(name)
        if most is None:
            said = (
                f"{descriptor.name} has no parameter {name!r}"
                f"{did_you_mean(name, limits) or '; it takes none'}"
            )
            raise DeviceError(said, got=name, wanted=sorted(limits))
        if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= most):
            said = f"{descriptor.name}[{name}={text}]: {name} is a whole number from 1 to {most}"
            raise DeviceError(said, got=text, wanted=most)
    rows, cols = int(parameters.get("rows", rows)), int(parameters.get("cols", cols))
    memories = tuple(replace(m, banks=rows * cols) if m.name == L1 else m for m in descriptor.memories)
    return replace(
        descriptor,
        grid=(rows, cols),
        memories=memories,
        clock_mhz=int(parameters.get("clock", descriptor.clock_mhz)),
    )
