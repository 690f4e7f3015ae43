"""Descriptors: what a plan may count on, one file for each board and software stack in schemas/devices.

A descriptor is plain data. Numbers that a board's user may change (harvested rows, the clock) are parameters
of ``vary``; everything else is a new JSON file.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import DeviceError, DocumentError, did_you_mean
from ..formats import FORMATS
from ..json_text import parse_json
from ..packaged import data_folder
from .layout import HOST, L1, ROW_MAJOR, TILE, Memory

__all__ = [
    "HOST_KERNELS",
    "NO_KERNELS",
    "Descriptor",
    "Dispatch",
    "Dram",
    "Noc",
    "Pcie",
    "boards",
    "read_board",
    "read_descriptor",
    "vary",
]

HOST_KERNELS = "cpu"  # the kind whose kernels work on host pointers: functions of TVM's are such
NO_KERNELS = "null"  # as a descriptor's ``kernels``: every op does nothing
_MOST_CLOCK = 10_000


@dataclass(frozen=True, slots=True)
class Dram:
    """``channel_gb_per_s``: theoretical rate of one DRAM bank (a channel), 1e9 bytes a second."""

    channel_gb_per_s: float


@dataclass(frozen=True, slots=True)
class Noc:
    """``count`` networks on the chip, ``flit_bytes`` moved a clock by a link, ``nodes`` (rows, columns)."""

    count: int
    flit_bytes: int
    nodes: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pcie:
    """The host's link."""

    generation: int
    lanes: int


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Nanoseconds that the host adds to an op: replayed from a trace, and enqueued one by one."""

    traced: int
    untraced: int


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Board x software stack. ``formats`` are the physical formats the kind stores, ``layouts`` its layouts,
    ``grid`` its cores (rows, columns), ``clock_mhz`` theirs (0: a host). ``tile_header_bytes`` stand before
    each tile in a bank. ``default``: what kind:ordinal means; ``default_stack``: what the board means without
    a stack. ``sources`` {field: where its numbers are from}. ``test_only`` kinds are refused in files.
    ``kernels`` is the kind whose kernels run there, its own unless the file says another; NO_KERNELS: every
    op does nothing. ``file``: the path of one that is not the package's, "" else."""

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
        """Raises DeviceError for a number that no board can have, with its path."""
        for path, value, least in _numbers(self):
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            whole = path.endswith("channel_gb_per_s") or isinstance(value, int)
            if not (number and whole and (value >= least if least is not None else value > 0)):
                kind = "a number above 0" if least is None else f"a whole number from {least}"
                raise DeviceError(
                    f"descriptor of {self.name}: {path} is {value!r}: {kind}",
                    path=path,
                    got=value,
                    wanted=kind,
                )

    @property
    def name(self) -> str:
        """How a device is given it: the board, with its stack where that is not the board's default; the path
        of a file that is not the package's."""
        if self.file:
            return self.file
        return self.board if self.default_stack else f"{self.board}/{self.stack}"

    @property
    def on_host(self) -> bool:
        """Whether its tensors are host pointers."""
        return self.memories[0].name == HOST

    @property
    def simulated(self) -> bool:
        """Whether it is a board of an architecture, whose times are predicted; else it is what it runs on."""
        return bool(self.arch)

    @property
    def l1_budget(self) -> int:
        """Bytes of one core's L1 that tensors and buffers may take; 0 for a device without L1."""
        return sum(m.available for m in self.memories if m.name == L1)

    def memory(self, name: str) -> Memory:
        """Raises DeviceError for a memory that the board has not."""
        for memory in self.memories:
            if memory.name == name:
                return memory
        raise DeviceError(
            f"{self.kind} board {self.board} has no memory {name!r}"
            f"{did_you_mean(name, [m.name for m in self.memories])}",
            got=name,
        )


def _numbers(board: Descriptor) -> Iterator[tuple[str, Any, int | None]]:
    """Path, value and the least that it may be (None: above 0) of every number of a descriptor."""
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


@cache
def boards() -> dict[str, Descriptor]:
    """All descriptors by name ("n150", "wormhole_b0/buda"), from the package's schemas/devices. Raises
    DeviceError where two files say the same one."""
    found: dict[str, Descriptor] = {}
    for file in sorted((data_folder("graph_runtime.schemas") / "devices").glob("*.json")):
        descriptor = read_descriptor(file.read_bytes())
        if found.setdefault(descriptor.name, descriptor) is not descriptor:
            raise DeviceError(
                f"{file.name} says {descriptor.name} again: one file a board and stack, "
                f"one default_stack a board",
                got=descriptor.name,
            )
    return found


def read_descriptor(data: bytes) -> Descriptor:
    """A Descriptor from its JSON. A cpu's bank_bytes may be null: 80 % of the machine's memory. Raises
    DeviceError for a number that no board can have."""
    raw = parse_json(data, "a device's descriptor")
    raw.pop("$schema", None)
    header = raw.get("tile_header_bytes", 0)
    memories = tuple(
        Memory(
            **{
                **m,
                "bank_bytes": _host_bytes() if m["bank_bytes"] is None else m["bank_bytes"],
                "tile_header": header,
            }
        )
        for m in raw.pop("memories")
    )
    kinds: Any = (("dram", Dram), ("noc", Noc), ("pcie", Pcie), ("dispatch_ns", Dispatch))
    facts: dict[str, Any] = {
        name: kind(**{k: tuple(v) if isinstance(v, list) else v for k, v in raw[name].items()})
        for name, kind in kinds
        if name in raw
    }
    return Descriptor(
        **{
            **raw,
            **facts,
            "memories": memories,
            "grid": tuple(raw["grid"]),
            "kernels": raw.get("kernels", raw["kind"]),
            "layouts": tuple(raw["layouts"]),
            "formats": tuple(raw["formats"]),
        }
    )


def read_board(path: str) -> Descriptor:
    """The descriptor of a user's file. Raises DeviceError for one that cannot be read or is none, and for a
    kind, its number, an architecture, a layout or a format that the package knows nothing of."""
    try:
        made = replace(read_descriptor(Path(path).read_bytes()), file=path)
    except (OSError, ValueError, DocumentError) as error:
        raise DeviceError(f"cannot read board {path}: {error}", got=path) from None
    except (KeyError, TypeError, AttributeError, IndexError) as error:
        raise DeviceError(
            f"{path} is no descriptor of a board: {error}; schemas/device.schema.json says what is", got=path
        ) from None
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
                raise DeviceError(
                    f"{path}: there is no {said} {name!r} here{did_you_mean(str(name), [*map(str, known)])}",
                    path=at,
                    got=name,
                    wanted=known,
                )
    return made


def _host_bytes() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 0.8)


def vary(descriptor: Descriptor, parameters: Mapping[str, str]) -> Descriptor:
    """The descriptor with ``rows`` (rows of cores left by harvesting) and ``clock`` (MHz) as the user says.

    Raises DeviceError for another parameter, a value that is no number, and one that the board cannot have.
    """
    limits = {"rows": descriptor.grid[0], "clock": _MOST_CLOCK} if descriptor.arch else {}
    for name, text in parameters.items():
        most = limits.get(name)
        if most is None:
            raise DeviceError(
                f"{descriptor.name} has no parameter {name!r}"
                f"{did_you_mean(name, limits) or '; it takes none'}",
                got=name,
                wanted=sorted(limits),
            )
        if not (text.isascii() and text.isdigit() and len(text) < 9 and 1 <= int(text) <= most):
            raise DeviceError(
                f"{descriptor.name}[{name}={text}]: {name} is a whole number from 1 to {most}",
                got=text,
                wanted=most,
            )
    rows = int(parameters.get("rows", descriptor.grid[0]))
    memories = tuple(
        replace(m, banks=rows * descriptor.grid[1]) if m.name == L1 else m for m in descriptor.memories
    )
    return replace(
        descriptor,
        grid=(rows, descriptor.grid[1]),
        memories=memories,
        clock_mhz=int(parameters.get("clock", descriptor.clock_mhz)),
    )
