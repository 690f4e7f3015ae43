"""Flags of C that runs only on the machine that compiles it: sanitizers' builds.

Standard library only: the core's build imports this file, and so do the tests that compile C of their own.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence

__all__ = ["only_here"]

# what native/kernels/isa/has.h asks for: the compiler's names of it
_SETS = {
    "GR_HAS_AVX2": {"__AVX2__", "__FMA__"},
    "GR_HAS_AVX512": {"__AVX512F__"},
    "GR_HAS_AVX512BF16": {"__AVX512BF16__"},
    "GR_HAS_AVX512VNNI": {"__AVX512VNNI__", "__AVX512F__"},
}


def only_here(compiler: Sequence[str]) -> list[str]:
    """Flags that say which instruction sets this machine has, so that forms for others are left out. None
    where the compiler cannot tell."""
    asked = [*compiler, "-march=native", "-dM", "-E", "-x", "c", os.devnull]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    defined = {line.split()[1] for line in told.stdout.splitlines()}
    if told.returncode or "__x86_64__" not in defined:
        return []
    return [f"-D{name}={int(needed <= defined)}" for name, needed in _SETS.items()]
