"""What machines must have in common to serve one model: this package's version, the ABI of its kernels, the
architecture of the processor. Instruction sets are judged with each library, on the machine that runs it."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass

from ..artifacts.libraries.manifest import ABI_VERSION
from ..base.version import VERSION

__all__ = ["Installation", "this_installation"]


@dataclass(frozen=True, slots=True)
class Installation:
    """``package``: version of this package; ``abi``: of kernels; ``processor``: as the system names it."""

    package: str
    abi: int
    processor: str
    byteorder: str

    def __str__(self) -> str:
        return f"graph_runtime {self.package} (ABI {self.abi}, {self.processor})"


def this_installation() -> Installation:
    """The one that runs this."""
    return Installation(VERSION, ABI_VERSION, platform.machine(), sys.byteorder)
