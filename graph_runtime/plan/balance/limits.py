"""Cycles for which an op occupies its epoch for one input: the cycles of its kernel or of its slowest data
movement, whichever are more.

An operand made by another op of the epoch comes over the NoC. All other operands come from DRAM, whose
channels are shared by all cores that use DRAM in the epoch.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .chip import Chip
from .network import Columns, Network
from .op import BalanceOp


@dataclass(frozen=True, slots=True)
class Rates:
    """Bytes per cycle: ``noc`` of a core, ``dram`` of a channel as measured; ``streams``: number of cores
    that the channels serve at full speed."""

    noc: float
    dram: float
    streams: float

    def fork(self, cores: int) -> int:
        """The divisor of DRAM's speed if ``cores`` cores use DRAM; at least 2."""
        return max(2, math.ceil(cores / self.streams))


# Rates as in backend_api/device_config.hpp and policies/policy_utils.cpp of TT-Buda: 16 B/cycle is half of
# the NoC's rate; the number of streams is channels x subchannels / 1.5. TT-Buda has no measurement of
# Blackhole, which has Wormhole's numbers here.
_RATES = {
    "grayskull": Rates(16.0, 11.0, 8 * 1 / 1.5),
    "wormhole_b0": Rates(16.0, 20.4, 6 * 3 / 1.5),
    "blackhole": Rates(16.0, 20.4, 6 * 3 / 1.5),
}


def rates_of(chip: Chip) -> Rates:
    return _RATES[chip.arch]


@dataclass(frozen=True, slots=True, eq=False)
class Load:
    """The load of an op, for each of its models. ``base`` float64 [models]: cycles of kernel and NoC;
    ``dram`` float64 [models]: bytes of the largest single stream from or to DRAM; ``touches``: whether the op
    has a stream from or to DRAM."""

    base: np.ndarray
    dram: np.ndarray
    touches: bool

    def limiter(self, fork: int, rates: Rates) -> np.ndarray:
        """Cycles for one input, int64 [models]."""
        return np.ceil(np.maximum(self.base, self.dram * fork / rates.dram)).astype(np.int64)


class Loads:
    """The loads of a network's ops. Bytes are computed once. For each load the caller says where the operands
    come from."""

    rates: Rates

    def __init__(self, network: Network):
        self.network = network
        self.rates = rates_of(network.chip)
        known: dict[int, tuple[list[_Operand], np.ndarray]] = {}
        self._bytes = []
        for c, columns in zip(network.ops, network.columns, strict=True):
            if id(columns) not in known:
                known[id(columns)] = _traffic(c.op, columns, network.chip)
            self._bytes.append(known[id(columns)])
        self._edge_at = [{network.edges[e].port: e for e in into} for into in network.into]

    def of(self, op: int, resident: Callable[[int], bool]) -> Load:
        """The load of an op. ``resident(edge)``: whether an edge's data goes from core to core."""
        columns, (into, out) = self.network.columns[op], self._bytes[op]
        base, dram = columns.cycles.astype(float), np.zeros(len(columns))
        touches = False
        for port, (count, fixed_in_l1) in enumerate(into):
            if count is None:
                continue
            edge = self._edge_at[op].get(port)
            near = fixed_in_l1 | (edge is not None and resident(edge))
            base = np.maximum(base, np.where(near, count / self.rates.noc, 0.0))
            dram = np.maximum(dram, np.where(near, 0.0, count))
            touches |= not near.all()
        readers = [resident(e) for e in self.network.out_of[op]]
        if any(readers):
            base = np.maximum(base, out / self.rates.noc)
        if self.network.leaves[op] or not all(readers) or not readers:
            dram, touches = np.maximum(dram, out), True
        return Load(base, dram, touches)

    def out_bytes(self, op: int) -> np.ndarray:
        """float64 [models]: bytes that a core sends out for one input."""
        return self._bytes[op][1]


# One operand: its bytes, float64 [models] (None: the operand is a table that is loaded before the epoch
# starts), and bool [models]: whether the operand is a weight that stays in L1.
_Operand = tuple[np.ndarray | None, np.ndarray]


def _traffic(op: BalanceOp, m: Columns, chip: Chip) -> tuple[list[_Operand], np.ndarray]:
    """Pair (bytes of each operand, bytes of the output) for one input."""
    into: list[_Operand] = []
    never = np.zeros(len(m), bool)
    for port, operand in enumerate(op.operands):
        if op.kind == "sparse_matmul" and port != 1:
            into.append((None, never))
            continue
        count = _read(op, port, m) * chip.tile_bytes(operand.format)
        held = [all(b.operand != port for b in model.dram) for model in m.models] if operand.fixed else never
        into.append((count, np.asarray(held)))
    return into, (m.t * m.rows * m.cols * chip.tile_bytes(op.format)).astype(float)


def _read(op: BalanceOp, port: int, m: Columns) -> np.ndarray:
    """Tiles of an operand that a core reads."""
    if op.kind == "matmul" and port == 0:
        return m.t * m.rows * op.k
    if op.kind == "matmul" and port == 1:
        return m.t * m.cols * op.k
    if op.encoding is not None:
        strips = [op.encoding.worst_core(x.grid, x.stream, x.ublock[0], x.u_kt).strips for x in m.models]
        return np.minimum(np.array(strips) * m.u_kt, m.t * op.k) * m.cols
    if op.kind == "reduce":
        return m.t * m.rows * m.cols * op.k
    if op.kind in ("splice", "embedding") or (op.kind == "depthwise" and port == 0):
        z, rt, ct = op.operands[port].shape
        each = op.k if op.kind == "depthwise" else 1
        return -(-z * rt * ct * each // m.cores)
    source = op.operands[port].source_shape
    rows = np.where(source.rt == 1, 1, m.rows)
    return m.t * rows * np.where(source.ct == 1, 1, m.cols)
