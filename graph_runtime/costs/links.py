"""What lies outside the NoC: DRAM channels, PCIe, ethernet, and the dispatch of ops from the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import PlanError
from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import DRAM
from .rates import pcie_ratio
from .types import Cost
from .weights_file import load

__all__ = [
    "dispatch_ns",
    "dram",
    "dram_bandwidth",
    "dram_cycles",
    "ethernet_ns",
    "pcie",
    "pcie_bandwidth",
    "pcie_ns",
]

# of a channel's peak, where it was measured whole: 10.5 of 12.8 GiB/s; 500.5 of 512 GB/s, best placement
_GEN4_X16 = 31.5  # GB/s of 16 lanes at 16 GT/s, 128 of 130 bits
_MEASURED = {"grayskull": 10.5 / 12.8, "blackhole": 500.5 / 512}


# ---------------------------------------------------------------- DRAM


def dram(w: Mapping[str, float], x: Mapping[str, Any]) -> float:
    """Bytes per ns of ``channels`` Wormhole channels. Each gives ``peak`` times an efficiency of the
    direction; cores that are not chosen beside their channel crowd the links between (a factor a NoC and
    direction); writers that share a channel on dynamic virtual channels wait for each other."""
    direction, noc = x["direction"], x["noc"]
    rate = w["peak"] * x["channels"] * w[direction]
    crowded = x["channels"] > 1 and not x["placed"]
    if crowded:
        rate *= w[f"{direction}_far_noc{noc}"]
    if direction == "write" and x["dynamic"]:
        rate *= w["dynamic_far"] if crowded else 1.0
        rate *= w["dynamic_shared"] if x["cores"] > x["channels"] else 1.0
    return rate


def dram_bandwidth(
    *,
    channels: int = 12,
    cores: int = 12,
    placed: bool = True,
    direction: str = "read",
    dynamic: bool = False,
    noc: int = 0,
) -> Cost:
    """Bytes per ns (in Cost.cycles) between ``cores`` Tensix tiles and ``channels`` Wormhole DRAM channels.

    ``placed``: each core was chosen beside its channel; ``dynamic``: virtual channels are allocated
    dynamically.
    """
    x = {
        "channels": channels,
        "cores": cores,
        "placed": placed,
        "direction": direction,
        "dynamic": dynamic,
        "noc": noc,
    }
    return Cost(dram(load("links")["dram"]["weights"], x), "fitted", "Wormhole DRAM channels")


def dram_cycles(board: Descriptor, nbytes: int, *, direction: str = "read", placed: bool = True) -> Cost:
    """Device cycles of a board to move ``nbytes`` between DRAM and its cores with all channels busy.
    ``placed``: each core beside its channel; else cores take pages of any channel, as interleaved tensors
    have them.

    Raises PlanError for a board without DRAM.
    """
    if board.dram is None:
        raise PlanError(f"board {board.name} has no DRAM", got=board.name)
    peak = board.dram.channel_gb_per_s * board.memory(DRAM).banks
    weights = load("links")["dram"]["weights"]
    share = _MEASURED.get(board.arch, weights[direction])
    if not placed:
        share *= weights["read_far_noc0"]
    measured = placed and board.arch in _MEASURED
    basis = "fitted" if board.arch == "wormhole_b0" else "measured" if measured else "extrapolated"
    return Cost(nbytes / (peak * share) * board.clock_mhz / 1000, basis, f"{share:.0%} of {peak:.0f} GB/s")


# ---------------------------------------------------------------- host


def pcie(w: Mapping[str, Any], x: Mapping[str, str]) -> float:
    """Bytes per ns of a Wormhole's PCIe. To the device a transfer is as fast as its kind of write is posted,
    or as one DRAM channel; from the device a window of bytes is on the way for a round trip, longer the
    farther the tile."""
    operation, ordering, memory = x["operation"], x["ordering"], x["memory"]
    if "to device" in operation:
        kind = "DMA" if operation.startswith("DMA") else memory
        rate = w["posted"][kind] * w["ordering"][kind].get(ordering, 1.0)
        return min(rate, w["dram_channel"]) if x["where"].startswith("DRAM") else rate
    kind = operation.split()[0]
    window = w["window"]["UC" if kind.startswith("_mm") and memory == "UC" else kind]
    strict = w["strict_read"] if kind == "DMA" and ordering == "Strict AXI" else 1.0
    return window / (w["round_trip"][kind] + w["farther"][x["where"]]) * strict


def pcie_bandwidth(
    *,
    operation: str = "DMA to device",
    memory: str = "WC",
    ordering: str = "Posted writes",
    where: str = "DRAM tile",
) -> Cost:
    """Bytes per ns (in Cost.cycles) of a way over PCIe, words as in the published tables. Wormhole."""
    x = {"operation": operation, "memory": memory, "ordering": ordering, "where": where}
    return Cost(pcie(load("links")["pcie"]["weights"], x), "fitted", f"{operation}, {where}")


def pcie_ns(
    nbytes: int, *, to_device: bool, arch: str = "wormhole_b0", board: Descriptor | None = None
) -> Cost:
    """ns for one DMA of ``nbytes`` between the host and device DRAM. ``board``: whose link and DRAM channels
    count, None: those that were measured."""
    facts = load("links")["pcie"]
    name = "DMA to device" if to_device else "DMA from device"
    rate = pcie_bandwidth(operation=name).cycles if board is None else _pcie_rate(board, to_device)
    basis = "fitted" if arch == "wormhole_b0" else "assumed"
    note = f"{name} at {rate:.1f} GB/s, by Wormhole's PCIe gen4"
    return Cost(facts["latency_ns"][name] + nbytes / rate, basis, note)


def _pcie_rate(board: Descriptor, to_device: bool) -> float:
    """Bytes per ns, as pcie() puts them together: into the board the slower of its link and a DRAM channel.
    From it a window of bytes is on the way for a round trip, in which a link of another rate is faster or
    slower in what it takes for the window itself."""
    links = load("links")
    w, ratio = links["pcie"]["weights"], pcie_ratio(board.pcie)
    if to_device:
        channel = board.dram.channel_gb_per_s / links["dram"]["weights"]["peak"] if board.dram else 1.0
        return float(min(w["posted"]["DMA"] * ratio, w["dram_channel"] * channel))
    window = w["window"]["DMA"]
    trip = w["round_trip"]["DMA"] + w["farther"]["DRAM tile"]
    wire = window / _GEN4_X16
    return float(window / max(trip - wire + wire / ratio, wire / ratio))


def ethernet_ns(nbytes: int, *, arch: str = "wormhole_b0", links: int = 1, clock_mhz: float = 1000.0) -> Cost:
    """ns to send ``nbytes`` to the next chip over ``links`` ethernet links, as measured; copies between
    devices take a topology's rates. Grayskull has none: PlanError."""
    rates = load("links")["ethernet"]
    if arch not in rates:
        raise PlanError(f"{arch} boards have no ethernet between chips: copy through the host", got=arch)
    facts = rates[arch]
    hop = facts["hop_cycles"] * 1000 / clock_mhz
    return Cost(hop + nbytes / (facts["bytes_per_ns"] * links), facts["basis"], f"{links} ethernet links")


def dispatch_ns(board: Descriptor, *, traced: bool = True) -> Cost:
    """ns that the host adds to an op of a queue: replayed from a trace, or enqueued by a call. In stack buda
    the ops of an epoch are resident and start each other: 0, as on a host."""
    if board.dispatch_ns is None:
        return Cost(0.0, "assumed", "ops start on their inputs")
    ns = board.dispatch_ns.traced if traced else board.dispatch_ns.untraced
    basis = "fitted" if board.arch == "wormhole_b0" else "assumed"
    return Cost(float(ns), basis, "host time minus device time of GEMMs")


def host_turn_ns(board: Descriptor, *, cards: int = 1) -> Cost:
    """ns of the host's own work between a run and the next: results out, the next inputs made and put in. One
    host serves ``cards`` that work side by side one after another. In stack buda what a published loop took
    beyond its arithmetic (weights/links.json says which); in stack ttnn 0: no figure tells it apart."""
    if board.stack != "buda":
        return Cost(0.0, "assumed", "not known")
    turn = load("links")["host_turn"]["buda"]
    return Cost(turn["ns"] * cards, turn["basis"], turn["ground"])
