"""ns of a copy: between layouts of a device, between host and device, between devices."""

from __future__ import annotations

import math

from ..base.machine.descriptors import Descriptor
from ..base.machine.devices import Device
from ..base.machine.interconnect import Interconnect
from ..base.machine.layout import DRAM, TILE, Layout, matrix, pages
from ..base.machine.topology import Topology
from ..ir.graph import TensorType
from .cpu import Machine, host_copy_ns
from .formulas import pnorm
from .links import dram_cycles, pcie_ns
from .noc import noc_cycles, reshard_cycles
from .opmodel import tile_cycles
from .rates import rates_of
from .types import Cost, worst
from .weights_file import load


def copy_cost(
    source: Device,
    source_layout: Layout,
    target: Device,
    target_layout: Layout,
    type: TensorType,
    host: Machine | None = None,
    topology: Topology | None = None,
    interconnect: Interconnect | None = None,
) -> Cost:
    """ns to copy a tensor of logical ``type`` from ``source`` to ``target``; if both are one device, the copy
    is a relayout.

    Over PCIe the host converts (tilizes, packs) and sends pages. Relayouts of a tt device run on its cores. A
    copy from one tt device to another goes over ethernet if the ``topology`` has a path, else through the
    host's memory. A copy between machines, whose links are in ``interconnect``, goes through the memory of
    both hosts. Raises PlanError for an unknown format, InputError for a device that the topology lacks.
    """
    if source.node != target.node:
        ends = (source, source_layout), (target, target_layout)
        return _between_machines(*ends, type, host, topology, interconnect or Interconnect())
    if source.descriptor.on_host and target.descriptor.on_host:
        return Cost(host_copy_ns(type.nbytes, host), "assumed", "copy on the host")
    if source.descriptor.on_host or target.descriptor.on_host:
        to_device = source.descriptor.on_host
        device, layout = (target, target_layout) if to_device else (source, source_layout)
        return _over_pcie(device, layout, type, to_device, host, topology)
    if source == target:
        return _relayout(source.descriptor, source_layout, target_layout, type)
    return _between(source, source_layout, target, target_layout, type, host, topology)


def _over_pcie(
    device: Device,
    layout: Layout,
    type: TensorType,
    to_device: bool,
    host: Machine | None,
    topology: Topology | None,
) -> Cost:
    board, nbytes = device.descriptor, _nbytes(layout, type)
    wire = pcie_ns(nbytes, to_device=to_device, arch=board.arch, board=board)
    convert = host_copy_ns(max(nbytes, type.nbytes), host)
    basis = worst(wire.basis, "assumed") if convert > wire.cycles else wire.basis
    note = f"{wire.note}, and the host's conversion"
    chip = -1 if topology is None else topology.chip(device)
    if topology is None or chip < 0:
        return Cost(wire.cycles + convert, basis, note)
    way = topology.way(-1, chip)
    # ethernet sends data on as it arrives, so the slower of the two rates counts
    slower = max(
        0.0, nbytes / way.gb_per_s - (wire.cycles - pcie_ns(0, to_device=to_device, board=board).cycles)
    )
    ns = wire.cycles + convert + way.hops * topology.hop_ns + slower
    return Cost(
        ns, worst(basis, "assumed") if way.hops else basis, f"{note}, {way.hops} hops" if way.hops else note
    )


def _between(
    source: Device,
    source_layout: Layout,
    target: Device,
    target_layout: Layout,
    type: TensorType,
    host: Machine | None,
    topology: Topology | None,
) -> Cost:
    if topology is not None:
        chips = topology.chip(source), topology.chip(target)
        way = topology.way(*chips)
        if min(chips) >= 0 and not way.by_host:
            ns = way.hops * topology.hop_ns + _nbytes(source_layout, type) / way.gb_per_s
            basis = "measured" if way.hops == 1 else "extrapolated"
            return Cost(ns, basis, f"{way.hops} hops at {way.gb_per_s:.1f} GB/s")
    down = _over_pcie(source, source_layout, type, False, host, topology)
    up = _over_pcie(target, target_layout, type, True, host, topology)
    return Cost(down.cycles + up.cycles, worst(down.basis, up.basis), "through the host's memory")


def _between_machines(
    source: tuple[Device, Layout],
    target: tuple[Device, Layout],
    type: TensorType,
    host: Machine | None,
    topology: Topology | None,
    interconnect: Interconnect,
) -> Cost:
    """Cost of a copy in three parts: to the memory of the source's host, over the link (in the tensor's own
    type), and from the memory of the target's host to the target."""
    link = interconnect.link(source[0].node, target[0].node)
    ns, basis = link.ns(type.nbytes), link.basis
    for (device, layout), to_device in ((source, False), (target, True)):
        if not device.descriptor.on_host:
            part = _over_pcie(device, layout, type, to_device, host, topology)
            ns, basis = ns + part.cycles, worst(basis, part.basis)
    way = Interconnect.name(source[0].node, target[0].node)
    return Cost(ns, basis, f"{way} at {link.gb_per_s:.2f} GB/s after {link.latency_ns / 1e3:.0f} us")


def _relayout(board: Descriptor, source: Layout, target: Layout, type: TensorType) -> Cost:
    moves = _reshard(board, source, target, type) or _streams(board, source, target, type)
    cycles, basis = moves.cycles, moves.basis
    if (source.layout, source.format) != (target.layout, target.format):
        tiles = math.prod(matrix(target, type.shape)) / 1024
        convert = tile_cycles("nop", board.arch, (target.format,) * 2)
        busiest = max(1, math.ceil(tiles / (board.grid[0] * board.grid[1])))
        cycles, basis = pnorm(8.0, cycles, convert.cycles * busiest), worst(basis, "extrapolated")
    start = load("grid")["unary"]["weights"]["start_l1"]
    return Cost((start + cycles) * 1000 / board.clock_mhz, basis, moves.note)


def _reshard(board: Descriptor, source: Layout, target: Layout, type: TensorType) -> Cost | None:
    """Cost of a reshard into shards of tiles, from shards or DRAM, by the model fitted to traced Wormhole
    kernels. Boards of other architectures count as if they had Wormhole's coordinates. None for other
    relayouts."""
    if target.shard is None or target.layout != TILE or (source.shard is None and source.memory != DRAM):
        return None
    rows, columns = matrix(target, type.shape)
    came = None if source.shard is None else (source.shard.kind, source.shard.extent)
    found = reshard_cycles(
        source=came,
        target=(target.shard.kind, target.shard.extent),
        shape=(rows // 32, columns // 32),
        page_bytes=pages(target, type.shape).nbytes,
        rates=rates_of(board),
    )
    if board.arch == "wormhole_b0":
        return found
    return Cost(found.cycles, "assumed", f"{found.note}, Wormhole's")


def _streams(board: Descriptor, source: Layout, target: Layout, type: TensorType) -> Cost:
    """Cost of a relayout in which all cores read and all cores write."""
    cores = board.grid[0] * board.grid[1]
    parts = []
    for layout, direction in ((source, "read"), (target, "write")):
        if layout.memory == DRAM:
            parts.append(dram_cycles(board, _nbytes(layout, type), direction=direction, placed=False))
        elif layout.shard is None:
            page = pages(layout, type.shape)
            busiest = max(1, math.ceil(page.count / cores))
            nbytes = max(1, page.nbytes)
            parts.append(
                noc_cycles(
                    board.arch,
                    nbytes=nbytes,
                    transactions=busiest,
                    direction=direction,
                    rates=rates_of(board),
                )
            )
    if not parts:
        return Cost(0.0, "assumed", "shards stay on their cores")
    basis = worst(*(p.basis for p in parts))
    return Cost(sum(p.cycles for p in parts), basis, "read and written by all cores")


def _nbytes(layout: Layout, type: TensorType) -> int:
    page = pages(layout, type.shape)
    return page.count * page.nbytes
