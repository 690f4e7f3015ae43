"""Properties that machines must share to serve one model: this package's version, the ABI of its kernels, the
processor's architecture. Instruction sets are checked with each library, on the machine that runs it."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from ..artifacts.libraries.manifest import ABI_VERSION
from ..base.version import VERSION


@dataclass(frozen=True, slots=True)
class Installation:
    """An installation. ``package``: version of this package; ``abi``: ABI version of its kernels;
    ``processor``: the system's name for the processor's architecture."""

    package: str
    abi: int
    processor: str
    byteorder: str

    def __str__(self) -> str:
        return f"graph_runtime {self.package} (ABI {self.abi}, {self.processor})"


def this_installation() -> Installation:
    """The installation of this process."""
    return Installation(VERSION, ABI_VERSION, platform.machine(), sys.byteorder)
