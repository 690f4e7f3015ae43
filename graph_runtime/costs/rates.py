"""How a board's rates compare with those of the board on which its architecture's weights were fitted. A
descriptor's numbers move every time that rests on them; of the fitted board itself all ratios are 1."""

from __future__ import annotations

from dataclasses import dataclass

from ..base.machine.descriptors import Descriptor, Pcie
from ..base.machine.layout import DRAM

__all__ = ["FITTED", "BoardRates", "pcie_ratio", "rates_of"]


@dataclass(frozen=True, slots=True)
class _Fitted:
    """Clock, GB/s of all DRAM channels, bytes of a flit of the measured board."""

    clock_mhz: int
    dram_gb_per_s: float
    flit_bytes: int


@dataclass(frozen=True, slots=True)
class BoardRates:
    """Bytes a cycle over those of the fitted board: of ``dram``, of links of the ``noc``."""

    dram: float = 1.0
    noc: float = 1.0


FITTED = BoardRates()
# these are facts of the fits, not of any board's file: a file that is edited differs from them
_BOARDS = {
    "wormhole_b0": _Fitted(1000, 12 * 24.0, 32),
    "blackhole": _Fitted(1350, 8 * 64.0, 64),
    "grayskull": _Fitted(1200, 8 * 13.74, 32),
}
_LINK = Pcie(4, 16)  # of the host whose transfers were fitted


def rates_of(board: Descriptor) -> BoardRates:
    """The ratios of a board; 1 where its file or its architecture has no number."""
    fitted = _BOARDS.get(board.arch)
    if fitted is None:
        return FITTED
    noc = board.noc.flit_bytes / fitted.flit_bytes if board.noc else 1.0
    if board.dram is None:
        return BoardRates(1.0, noc)
    whole = board.dram.channel_gb_per_s * board.memory(DRAM).banks / fitted.dram_gb_per_s
    return BoardRates(whole * fitted.clock_mhz / board.clock_mhz, noc)  # DRAM has a clock of its own


def pcie_ratio(link: Pcie | None) -> float:
    """The rate of a link over that of the fitted host's, which stands for one that is not said: a generation
    doubles it."""
    return 1.0 if link is None else 2.0 ** (link.generation - _LINK.generation) * link.lanes / _LINK.lanes
