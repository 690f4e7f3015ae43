"""Costs outside the NoC: DRAM channels, PCIe, ethernet, and the dispatch of ops from the host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..base.errors import PlanError
from ..base.machine.descriptors import Descriptor
from ..base.machine.layout import DRAM
from .rates import pcie_ratio
from .types import Cost
from .weights_file import load

# share of a channel's peak rate, measured for whole channels in their best placement: 10.5 of 12.8 GiB/s,
# 500.5 of 512 GB/s
_GEN4_X16 = 31.5  # GB/s of 16 lanes at 16 GT/s, of which 128 of 130 bits are data
_MEASURED = {"grayskull": 10.5 / 12.8, "blackhole": 500.5 / 512}


def dram(w: Mapping[str, float], x: Mapping[str, Any]) -> float:
    """Bytes per ns of ``channels`` Wormhole DRAM channels. Each channel gives ``peak`` times an efficiency of
    the direction. Cores that are not next to their channel congest the links to that channel; this costs a
    factor that depends on NoC and direction. Writers that share a channel on dynamic virtual channels wait
    for each other."""
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

    ``placed``: whether each core is next to its channel. ``dynamic``: whether virtual channels are allocated
    dynamically.
    """
    x = dict(channels=channels, cores=cores, placed=placed, direction=direction, dynamic=dynamic, noc=noc)
    return Cost(dram(load("links")["dram"]["weights"], x), "fitted", "Wormhole DRAM channels")


def dram_cycles(board: Descriptor, nbytes: int, *, direction: str = "read", placed: bool = True) -> Cost:
    """Device cycles of a board to move ``nbytes`` between DRAM and its cores with all channels busy.
    ``placed``: whether each core is next to its channel; else cores read pages of all channels, as for
    interleaved tensors.

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


def pcie(w: Mapping[str, Any], x: Mapping[str, str]) -> float:
    """Bytes per ns of a Wormhole's PCIe. To the device, the rate is that at which writes of this kind are
    posted, at most that of one DRAM channel. From the device, a window of bytes is in flight during each
    round trip, which takes longer for farther tiles."""
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
    """Bytes per ns (in Cost.cycles) of a kind of PCIe transfer of a Wormhole. The values of the arguments are
    the words of the published tables."""
    x = {"operation": operation, "memory": memory, "ordering": ordering, "where": where}
    return Cost(pcie(load("links")["pcie"]["weights"], x), "fitted", f"{operation}, {where}")


def pcie_ns(
    nbytes: int, *, to_device: bool, arch: str = "wormhole_b0", board: Descriptor | None = None
) -> Cost:
    """ns for one DMA of ``nbytes`` between the host and device DRAM. ``board``: descriptor with the PCIe link
    and the DRAM channels; None: the link and the channels that were measured."""
    facts = load("links")["pcie"]
    name = "DMA to device" if to_device else "DMA from device"
    rate = pcie_bandwidth(operation=name).cycles if board is None else _pcie_rate(board, to_device)
    basis = "fitted" if arch == "wormhole_b0" else "assumed"
    note = f"{name} at {rate:.1f} GB/s, by Wormhole's PCIe gen4"
    return Cost(facts["latency_ns"][name] + nbytes / rate, basis, note)


def _pcie_rate(board: Descriptor, to_device: bool) -> float:
    """Bytes per ns, as in pcie(). To the board, the rate is that of its link or of a DRAM channel, whichever
    is slower. From the board, a window of bytes is in flight during each round trip; the link's rate changes
    only the time in which the window itself is transferred."""
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
    """ns to send ``nbytes`` to the next chip over ``links`` ethernet links, as measured. Copies between
    devices use a topology's rates instead. Raises PlanError for Grayskull, which has no ethernet."""
    rates = load("links")["ethernet"]
    if arch not in rates:
        raise PlanError(f"{arch} boards have no ethernet between chips: copy through the host", got=arch)
    facts = rates[arch]
    hop = facts["hop_cycles"] * 1000 / clock_mhz
    return Cost(hop + nbytes / (facts["bytes_per_ns"] * links), facts["basis"], f"{links} ethernet links")


def dispatch_ns(board: Descriptor, *, traced: bool = True) -> Cost:
    """ns that the host needs to start an op of a queue, which it replays from a trace (``traced``) or
    enqueues by a call. 0 on a host, and in stack buda, where the ops of an epoch are resident and start each
    other."""
    if board.dispatch_ns is None:
        return Cost(0.0, "assumed", "ops start on their inputs")
    ns = board.dispatch_ns.traced if traced else board.dispatch_ns.untraced
    basis = "fitted" if board.arch == "wormhole_b0" else "assumed"
    return Cost(float(ns), basis, "host time minus device time of GEMMs")


def host_turn_ns(board: Descriptor, *, cards: int = 1) -> Cost:
    """ns of the host's own work between two runs: the host takes results out, makes the next inputs and puts
    them in. One host serves ``cards`` boards one after another; the boards work in parallel. In stack buda
    the result is the time that a published loop (named in weights/links.json) took beyond its arithmetic; in
    stack ttnn the result is 0, because no published figure separates this time."""
    if board.stack != "buda":
        return Cost(0.0, "assumed", "not known")
    turn = load("links")["host_turn"]["buda"]
    return Cost(turn["ns"] * cards, turn["basis"], turn["ground"])
