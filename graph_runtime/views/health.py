"""The state of this installation, and what it lacks: compiler, instruction set, cores, cache, packages.

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

from ..base.absent import installing, requirements
from ..base.config import get as setting
from ..base.errors import CompileError, GraphRuntimeError
from ..base.machine import isa
from ..ir.builder import GraphBuilder

OK, ABSENT, BROKEN = "ok", "absent", "broken"
_DISTRIBUTION = "graph-runtime"
_OF_DEVELOPERS = ("test", "docs")  # names of extras that only developers need
_LEAST_FREE_MB = 256  # MiB free on the cache's disk: kernels of a large model take 10, linking as much


@dataclass(frozen=True, slots=True)
class Finding:
    """One checked item. ``state``: "ok"; "absent", if something works less without the item; "broken", if
    commands fail with their default options. ``found``: the item's version or value; ``remedy``: what the
    user can do, "" if nothing is needed.
    """

    what: str
    state: str
    found: str
    remedy: str = ""


def examine() -> list[Finding]:
    """All findings. Each finding comes after the findings on which it depends. Raises no error: an error is a
    finding."""
    python = f"Python {platform.python_version()}, {sys.platform}"
    looks: tuple[tuple[str, Callable[[], Finding | list[Finding]]], ...] = (
        ("package", lambda: Finding("package", OK, f"{metadata.version(_DISTRIBUTION)}, {python}")),
        ("cpu", _cpu),
        ("cores", _cores),
        ("compiler", _compiler),
        ("cache", _cache),
        ("kernels", _kernels),
        ("packages", lambda: [_one(name, extra) for name, extra in _required().items()]),
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


def _cpu() -> Finding:
    """The CPU level that kernels are compiled for, and the highest that the CPU supports."""
    if not isa.best_level():
        return Finding("cpu", OK, isa.host_arch())
    best = next(level for level in isa.LEVELS if not isa.missing_features(level))
    found = f"{best}; kernels are compiled for {isa.best_level()}, inner loops are chosen when they run"
    found += _tiles()
    if best in ("x86-64", "x86-64-v2"):
        remedy = "products are several times slower without AVX2: use a newer CPU"
        return Finding("cpu", ABSENT, found, remedy)
    return Finding("cpu", OK, found)


def _tiles() -> str:
    """A text about the matrix products that this process can run with AMX; "" on a CPU without AMX."""
    from ..binding.tiles import tile_products

    if "amx_tile" not in (isa.host_features() or ()):
        return ""
    if kinds := tile_products():
        return f"; AMX multiplies {' and '.join(kinds)}"
    return "; AMX is off (GR_AMX=0, the system, or this build)"


def _cores() -> Finding:
    from ..binding import core  # if the core cannot be loaded, the error is the finding

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
    """Whether a product by the wheel's kernels, on a host and on a simulated board, equals numpy's."""
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
            remedy = f"install anew: pip install --force-reinstall {_DISTRIBUTION}"
            return Finding("kernels", BROKEN, said, remedy)
    return Finding("kernels", OK, "a product on cpu:0 and on tt:0 equals numpy's")


def _torch_calls() -> list[Finding]:
    """Whether repeated torch calls go through C++ or Python; no finding without torch."""
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
    """{required package: first extra that requires the package, or "" if it is always required}. The packages
    are from this package's metadata, without extras for developers."""
    found: dict[str, str] = {}
    for requirement, extra in requirements():
        if extra not in _OF_DEVELOPERS:
            found.setdefault(re.split(r"[^A-Za-z0-9._-]", requirement)[0], extra)
    return found


def _one(name: str, extra: str) -> Finding:
    what = f"package {name}" + (f" (extra {extra})" if extra else "")
    try:
        return Finding(what, OK, metadata.version(name))
    except metadata.PackageNotFoundError:
        if extra:
            return Finding(what, ABSENT, "not installed", installing(extra))
        return Finding(what, BROKEN, "not installed", f"pip install {name}")
