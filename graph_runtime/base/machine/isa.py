"""Instruction set levels of the CPU and of libraries, and their -march.

An ISA has the name of gcc's -march ("x86-64-v3"). A library built with -march=native has the ISA
"native+avx2+fma+...", which lists the features of the CPU that built it; the CPU that runs it must have all
of them."""

from __future__ import annotations

import platform
import re
from functools import cache
from pathlib import Path

_V2 = ("cx16", "lahf_lm", "popcnt", "pni", "sse4_1", "sse4_2", "ssse3")
_V3 = (*_V2, "abm", "avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "movbe", "xsave")
_V4 = (*_V3, "avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl")

# ISA -> features that the ISA needs, by their names in /proc/cpuinfo; the highest level is first
LEVELS: dict[str, tuple[str, ...]] = {"x86-64-v4": _V4, "x86-64-v3": _V3, "x86-64-v2": _V2, "x86-64": ()}
_AUTO = ("x86-64-v3", "x86-64-v2", "x86-64")  # v4 lowers many CPUs' clock: used only if asked for
# features that -march=native may use; all other names in /proc/cpuinfo describe the kernel and the hypervisor
_USED_BY_COMPILERS = re.compile(
    r"s?sse\w*|pni|avx\w*|amx\w*|v?aes|v?pclmulqdq|gfni|sha\w*|fma4?|f16c|bmi[12]|abm|movbe|popcnt|adx|"
    r"cx16|lahf_lm|xsave\w*|rdrand|rdseed|clflushopt|clwb|xop|tbm|"
    r"asimd\w*|fp|fphp|fcma|jscvt|frint|sve\w*|sme\w*|i8mm|bf16|crc32|atomics|pmull|sm[34]|lrcpc|ilrcpc|dcpop|flagm2?|"
    r"sb|ssbs|paca|bti|rng|mte"  # AArch64 features; aes and sha\w* are above
)


def host_arch() -> str:
    """The architecture of this machine, as manifests name it: platform.machine()."""
    return platform.machine()


@cache
def host_features() -> frozenset[str] | None:
    """The CPU's feature names in Linux's spelling, None if the system does not list them."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return None
    found = re.search(r"^(?:flags|Features)\s*:\s*(.*)$", text, re.MULTILINE)
    return frozenset(found.group(1).split()) if found else None


def best_level() -> str:
    """The ISA for which ``march="auto"`` builds on this machine; "" if no -march is given (not x86-64)."""
    if host_arch() not in ("x86_64", "AMD64"):
        return ""
    features = host_features() or frozenset()
    return next(level for level in _AUTO if features.issuperset(LEVELS[level]))


def native_name() -> str:
    """The ISA name of a library built with -march=native here."""
    used = sorted(f for f in host_features() or () if _USED_BY_COMPILERS.fullmatch(f))
    return "+".join(["native", *used])


def missing_features(isa: str) -> tuple[str, ...] | None:
    """The features that ``isa`` needs and this CPU lacks, sorted: () if the ISA can run here, None for an
    unknown ISA name."""
    name, *features = isa.split("+")
    if name != "native":
        if features or (name and name not in LEVELS):
            return None
        features = list(LEVELS.get(name, ()))
    host = host_features()
    return () if host is None else tuple(sorted(set(features) - host))
