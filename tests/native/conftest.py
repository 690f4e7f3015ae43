"""What the native tests share: C written in a test and compiled, devices of a test's own, raw bytes."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from graph_runtime.base.machine import devices, isa
from graph_runtime.base.machine.layout import Layout, footprint, pages
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle

NATIVE = Path(__file__).resolve().parents[2] / "native"
spec = importlib.util.spec_from_file_location("this_machine", NATIVE / "this_machine.py")
this_machine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(this_machine)
INCLUDES = [f"-I{NATIVE / folder}" for folder in ("include", "core", "ttsim", "kernels")]
# as the core is built for sanitizers: CHECKED of native/build_native.py
CHECKED = (
    "-O1",
    "-DGR_TILES_ONCE",
    "-fdisable-tree-cunrolli",
    "-fdisable-tree-cunroll",
    "-fdisable-rtl-loop2_unroll",
)
SANITIZE = {
    "asan": [*CHECKED, "-fsanitize=address,undefined"],
    "ubsan": [*CHECKED, "-fsanitize=undefined"],
    "tsan": [*CHECKED, "-fsanitize=thread"],
}


@pytest.fixture(scope="session")
def compile_c(tmp_path_factory) -> Callable[..., Path]:
    """compile_c(source, *flags) -> path of a shared object that sees all headers of native/."""
    folder = tmp_path_factory.mktemp("c")
    compiler = os.environ.get("CC", "gcc")
    sanitize = SANITIZE.get(os.environ.get("GR_BUILD", ""), [])
    if sanitize:
        sanitize = [*sanitize, *this_machine.only_here([compiler])]

    def build(source: str, *flags: str) -> Path:
        out = folder / (hashlib.sha256(repr((source, flags)).encode()).hexdigest()[:16] + ".so")
        if not out.exists():
            text = out.with_suffix(".c")
            text.write_text(source)
            made = subprocess.run(
                [
                    compiler,
                    "-std=gnu11",
                    "-O2",
                    "-Wall",
                    "-Wextra",
                    "-Wno-unused-function",
                    "-shared",
                    "-fPIC",
                    *INCLUDES,
                    str(text),
                    "-o",
                    str(out),
                    *flags,
                    *sanitize,
                ],
                stderr=subprocess.PIPE,
                text=True,
                timeout=100,
            )
            said = [line for line in made.stderr.splitlines() if "note: disable pass" not in line]
            if said:
                print(*said, sep="\n", file=sys.stderr)
            made.check_returncode()
        return out

    return build


@pytest.fixture(scope="session")
def played() -> tuple[str, ...]:
    """What compile_c is told so that a machine without AVX-512 plays it by AVX2 (isa/played.h). With a
    sanitizer it is not: that takes a compiler a minute and more."""
    features = () if os.environ.get("GR_BUILD") else isa.host_features() or ()
    return ("-DGR_PLAY_AVX512=1",) if "avx2" in features and "avx512f" not in features else ()


FORMS = """

/* Whether this machine runs form ``isa`` of a function: 0 any, 1 AVX2 or NEON, 2 AVX-512. */
static int has(int isa)
{
#if defined(__x86_64__)
  if (isa == 1) return GR_HAS_AVX2;
  if (isa == 2) return GR_HAS_AVX512;
#elif defined(__aarch64__)
  if (isa == 1) return GR_NEON;
#endif
  return isa == 0;
}
#if defined(__x86_64__)
#define FORMS(name) {name##_any, name##_avx2, name##_avx512}
#elif defined(__aarch64__)
#define FORMS(name) {name##_any, name##_neon}
#else
#define FORMS(name) {name##_any}
#endif
"""


@pytest.fixture(scope="session")
def compile_forms(compile_c, played) -> Callable[[str, str], ctypes.CDLL]:
    """compile_forms(header, source) -> the library of C that calls FORMS(function)[isa], where has(isa), of
    the header's functions, which it makes for each instruction set; products are rounded before sums."""

    def build(header: str, source: str) -> ctypes.CDLL:
        text = f'#include "{header}"\n{FORMS}{source}'
        return ctypes.CDLL(str(compile_c(text, "-O2", "-ffp-contract=off", "-lm", *played)))

    return build


@pytest.fixture(scope="session")
def load_c(compile_c) -> Callable[..., Callable[[str, str], object]]:
    """load_c(source)("name", "int32_t(*)(int64_t)") -> a callable; without a type the address."""

    def load(source: str):
        handle = core.library_open(compile_c(source))

        def symbol(name: str, ctype: str | None = None):
            address = core.library_symbol(handle, name)
            assert address, name
            return core.ffi.cast(ctype, address) if ctype else address

        return symbol

    return load


@pytest.fixture
def threads() -> Iterator[None]:
    """Puts the pool's size back after a test that changes it."""
    before = core.pool_threads()
    yield
    core.pool_set_threads(before)


class Bench:
    """A tt device of a test's own, with helpers that make tensors and read their raw bytes."""

    def __init__(self, board: str | None = None, **memory_changes):
        device = devices.tt(0, board)
        memories = tuple(dataclasses.replace(m, **memory_changes) for m in device.descriptor.memories)
        grid = (1, memory_changes["banks"]) if "banks" in memory_changes else device.descriptor.grid
        descriptor = dataclasses.replace(device.descriptor, memories=memories, grid=grid)
        self.handle = DeviceHandle(devices.Device("tt", 0, descriptor))
        self.memories = memories

    def tensor(self, dtype: str, shape: tuple[int, ...], layout: Layout, fill: int | None = None) -> core.Arg:
        """A fresh tensor; ``fill``: every byte of its pages."""
        index = [m.name for m in self.memories].index(layout.memory)
        memory, page = self.memories[index], pages(layout, shape)
        addr = self.handle.alloc(index, footprint(layout, shape, memory)[0], "test")
        arg = core.tensor_arg(addr | self.handle.shard_tag(layout, shape), dtype, shape, layout)
        if fill is not None:
            self.write_raw(arg, np.full((page.count, page.nbytes), fill, np.uint8))
        return arg

    def _bytes_of(self, arg: core.Arg) -> tuple[core.Arg, tuple[int, int]]:
        """The same pages as a row-major uint8 tensor, a page a row: how a test sees an image."""
        p = arg.pointer
        shape = (p.num_pages, p.page_bytes)
        return core.tensor_arg(
            p.addr, "uint8", shape, Layout({1: "dram", 2: "l1"}[p.memory], "row_major", "uint8")
        ), shape

    def read_banks(self, arg: core.Arg, nbytes: int) -> np.ndarray:
        """uint8 [banks, nbytes]: what lies at a tensor's bank address in every bank."""
        memory = next(m for m in self.memories if m.name == {1: "dram", 2: "l1"}[arg.pointer.memory])
        assert nbytes % memory.alignment == 0
        layout = Layout(memory.name, "row_major", "uint8")  # page b of one row a bank is bank b's
        view = core.tensor_arg(arg.pointer.addr & (1 << 48) - 1, "uint8", (memory.banks, nbytes), layout)
        out = np.empty((memory.banks, nbytes), np.uint8)
        core.copy(self.handle, view, None, core.host_arg(out))
        return out

    def read_raw(self, arg: core.Arg) -> np.ndarray:
        """uint8 [pages, page bytes]."""
        view, shape = self._bytes_of(arg)
        out = np.empty(shape, np.uint8)
        core.copy(self.handle, view, None, core.host_arg(out))
        return out

    def write_raw(self, arg: core.Arg, data: np.ndarray) -> None:
        view, _ = self._bytes_of(arg)
        core.copy(None, core.host_arg(data), self.handle, view)

    def upload(self, arg: core.Arg, array: np.ndarray) -> None:
        core.copy(None, core.host_arg(array), self.handle, arg)

    def download(self, arg: core.Arg, shape: tuple[int, ...], dtype) -> np.ndarray:
        out = np.zeros(shape, dtype)
        core.copy(self.handle, arg, None, core.host_arg(out))
        return out


@pytest.fixture
def tt() -> Iterator[Bench]:
    bench = Bench()
    with bench.handle:
        yield bench


@pytest.fixture
def make_tt() -> Iterator[Callable[..., Bench]]:
    """make_tt("e150", banks=3, ...) -> a Bench of a board, by default the kind's, with other memories."""
    made: list[Bench] = []

    def make(board: str | None = None, **changes) -> Bench:
        made.append(Bench(board, **changes))
        return made[-1]

    yield make
    for bench in made:
        bench.handle.close()
