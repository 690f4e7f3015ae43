"""What this installation can do here, and what it lacks: compiler, instruction set, cores, cache, packages.

examine() -> [Finding]        what `graph-runtime doctor` shows
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata

import numpy as np

from ..base.config import get as setting
from ..base.errors import CompileError, GraphRuntimeError
from ..base.machine import isa
from ..ir.builder import GraphBuilder

__all__ = ["ABSENT", "BROKEN", "OK", "Finding", "examine"]

OK, ABSENT, BROKEN = "ok", "absent", "broken"
_DISTRIBUTION = "graph-runtime"
_OF_DEVELOPERS = ("test", "docs")  # extras
_LEAST_FREE_MB = 256  # of the cache's disk: a large model's kernels take some 10 MiB, and a link as much
_NAMED = re.compile(r"^([A-Za-z0-9._-]+)[^;]*(?:;.*extra *== *['\"]([^'\"]+)['\"])?")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``state``: "ok"; "absent", where something works less without it;
    "broken", where commands fail by their defaults. ``found`` is what is there, ``remedy`` what to do, ""
    where all is well."""

    what: str
    state: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Everything, in the order in which one thing needs the other. Raises nothing: an error is a finding."""
    looks: tuple[tuple[str, Callable[[], Finding | list[Finding]]], ...] = (
        ("package", _package),
        ("cpu", _cpu),
        ("cores", _cores),
        ("compiler", _compiler),
        ("cache", _cache),
        ("kernels", _kernels),
        ("packages", _packages),
        ("torch calls", _torch_calls),
    )
    found: list[Finding] = []
    for what, look in looks:
        try:
            made = look()
        except (GraphRuntimeError, OSError, ImportError) as error:
            made = Finding(what, BROKEN, " ".join(str(error).split()), "mend what the error names")
        found += made if isinstance(made, list) else [made]
    return found


def _package() -> Finding:
    version = f"{metadata.version(_DISTRIBUTION)}, Python {platform.python_version()}, {sys.platform}"
    return Finding("package", OK, version)


def _cpu() -> Finding:
    """The level that kernels are compiled for, and the best that the CPU has."""
    if not isa.best_level():
        return Finding("cpu", OK, isa.host_arch())
    best = next(level for level in isa.LEVELS if not isa.missing_features(level))
    found = f"{best}; kernels are compiled for {isa.best_level()}, inner loops are chosen when they run"
    found += _tiles()
    if best in ("x86-64", "x86-64-v2"):
        return Finding(
            "cpu", ABSENT, found, "products are several times slower without AVX2: use a newer CPU"
        )
    return Finding("cpu", OK, found)


def _tiles() -> str:
    """Of AMX: what products it makes in this process; "" on a CPU without it."""
    from ..binding.tiles import tile_products

    if "amx_tile" not in (isa.host_features() or ()):
        return ""
    if kinds := tile_products():
        return f"; AMX multiplies {' and '.join(kinds)}"
    return "; AMX is off (GR_AMX=0, the system, or this build)"


def _cores() -> Finding:
    from ..binding import core  # a core that does not load is a finding

    usable, threads = len(os.sched_getaffinity(0)), core.pool_threads()
    found = f"{usable} usable, {threads} threads in the pool"
    if threads > usable:
        return Finding("cores", ABSENT, found, f"GR_NUM_THREADS={usable}: more threads than cores are slower")
    return Finding("cores", OK, found)


def _compiler() -> Finding:
    from ..codegen.toolchain import find_compiler

    try:
        compiler = find_compiler()
    except CompileError as error:
        return Finding("compiler", BROKEN, "none", " ".join(str(error).split()))
    return Finding("compiler", OK, f"{' '.join(compiler.command)}: {compiler.version}")


def _cache() -> Finding:
    from ..codegen.cache import open_cache

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        kept = open_cache(make=True)
    free = shutil.disk_usage(kept.folder).free >> 20
    taken = sum(entry.bytes for entry in kept.entries()) >> 20
    found = f"{kept.folder}: {taken:,} of {setting('CACHE_MB'):,} MiB, {free:,} MiB free on the disk"
    if said:
        remedy = "GR_CACHE_DIR names a folder of yours; until then each process compiles anew"
        return Finding("cache", ABSENT, str(said[0].message), remedy)
    if not os.access(kept.folder / "libraries", os.W_OK):
        return Finding("cache", BROKEN, found, "it cannot be written: GR_CACHE_DIR names another folder")
    if free < _LEAST_FREE_MB:
        return Finding("cache", ABSENT, found, "free the disk, or graph-runtime cache prune --days 30")
    return Finding("cache", OK, found)


def _kernels() -> Finding:
    """A product of the wheel's kernels on a host and on a simulated board, beside numpy's."""
    from ..run.factory import create

    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((40, 40)).astype(np.float32) for _ in range(2))
    for device in ("cpu:0", "tt:0"):
        builder = GraphBuilder()
        builder.output(builder.op("matmul", builder.input("a", a.shape), builder.input("b", b.shape)))
        module = create(builder, None, [device])
        module.run(a=a, b=b)
        worst = float(np.abs(module.get_output(0).numpy() - a @ b).max())
        if not worst < 1e-3:
            said = f"a product on {device} is off by {worst:.3g}"
            return Finding(
                "kernels", BROKEN, said, f"install anew: pip install --force-reinstall {_DISTRIBUTION}"
            )
    return Finding("kernels", OK, "a product on cpu:0 and on tt:0 equals numpy's")


def _packages() -> list[Finding]:
    """Each package that this one names, but for those of its developers."""
    return [_one(name, extra) for name, extra in _required().items()]


def _torch_calls() -> list[Finding]:
    """Which way calls of torch's that repeat take; nothing without torch."""
    from ..codegen.torch_calls import find_calls, key_of_calls

    what = "torch calls"
    try:
        key = key_of_calls()
    except metadata.PackageNotFoundError:
        return []
    if setting("TORCH_NATIVE") == "off":
        return [Finding(what, OK, "by Python, as GR_TORCH_NATIVE=off says")]
    if find_calls(key) is not None:
        return [Finding(what, OK, "by C++")]
    remedy = (
        "with a C++ compiler: "
        "python -c 'from graph_runtime.torch import native_calls; native_calls.build()'; "
        "without, each takes some 4 us longer"
    )
    return [Finding(what, ABSENT, "by Python: the C++ is not compiled yet", remedy)]


def _required() -> dict[str, str]:
    """{package: the first extra that has it, "" for what is always needed}."""
    found: dict[str, str] = {}
    for line in metadata.requires(_DISTRIBUTION) or ():
        match = _NAMED.match(line)
        if match and match[2] not in _OF_DEVELOPERS:
            found.setdefault(match[1], match[2] or "")
    return found


def _one(name: str, extra: str) -> Finding:
    what = f"package {name}" + (f" (extra {extra})" if extra else "")
    try:
        return Finding(what, OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        if extra:
            return Finding(what, ABSENT, "not installed", f"pip install '{_DISTRIBUTION}[{extra}]'")
        return Finding(what, BROKEN, "not installed", f"pip install {name}")
