"""Rates of a board relative to the board on which its architecture's weights were fitted. They scale every
time that depends on a number of a board's descriptor. For the fitted board all are 1."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.machine.descriptors import Descriptor, Pcie
from ..base.machine.layout import DRAM


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The measured board of an architecture: its clock, GB/s of all its DRAM channels together, and bytes of
    a flit."""

    clock_mhz: int
    dram_gb_per_s: float
    flit_bytes: int


@dataclass(frozen=True, slots=True)
class BoardRates:
    """Bytes per cycle relative to the fitted board: ``dram`` for its DRAM, ``noc`` for links of its NoC."""

    dram: float = 1.0
    noc: float = 1.0


FITTED = BoardRates()
# measured boards: these numbers belong to the fits and are not read from a board's file, which a user may
# edit
_BOARDS = {
    "wormhole_b0": _Fitted(1000, 12 * 24.0, 32),
    "blackhole": _Fitted(1350, 8 * 64.0, 64),
    "grayskull": _Fitted(1200, 8 * 13.74, 32),
}
_LINK = Pcie(4, 16)  # PCIe link of the host on which transfers were measured


def rates_of(board: Descriptor) -> BoardRates:
    """The rates of a board relative to the fitted board; 1 if the board's file or its architecture lacks a
    number."""
    fitted = _BOARDS.get(board.arch)
    if fitted is None:
        return FITTED
    noc = board.noc.flit_bytes / fitted.flit_bytes if board.noc else 1.0
    if board.dram is None:
        return BoardRates(1.0, noc)
    whole = board.dram.channel_gb_per_s * board.memory(DRAM).banks / fitted.dram_gb_per_s
    return BoardRates(whole * fitted.clock_mhz / board.clock_mhz, noc)  # DRAM has its own clock


def pcie_ratio(link: Pcie | None) -> float:
    """The rate of a PCIe link relative to that of the fitted host, which is also the default link. Each
    generation doubles the rate."""
    return 1.0 if link is None else 2.0 ** (link.generation - _LINK.generation) * link.lanes / _LINK.lanes
