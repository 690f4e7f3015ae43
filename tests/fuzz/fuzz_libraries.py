"""Mutated library files, alone and in a bundle: each is judged or refused with a GraphRuntimeError, soon, and
nothing of it runs.

    SEED=1 ITERS=20000 python tests/fuzz/fuzz_libraries.py [SEED [ITERS]]

Words of the ELF header, of the tables of sections, segments and symbols, and the manifest are changed. Prints
what came of each kind of input. A failure prints the command that replays it.
"""

from __future__ import annotations

import hashlib
import os
import random
import struct
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import driver
import orjson
import pytest

from graph_runtime.artifacts.bundles.bundle import BundleLibrary, BundleProgram, read_bundle
from graph_runtime.artifacts.bundles.writer import write_bundle
from graph_runtime.artifacts.libraries.judge import LibraryFile, read_library
from graph_runtime.artifacts.libraries.manifest import ABI_VERSION, MAGIC, KernelEntry, Manifest
from graph_runtime.compat.tvm_files.inspect import describe

SOURCE = r"""
#include <stdlib.h>
__attribute__((constructor)) static void begin(void) { abort(); }
int theirs(void *call) { return call == 0; }
int theirs__direct(const void *call) { return call == 0; }
int data = 3;
"""
WORDS = (
    0,
    1,
    2,
    11,
    24,
    56,
    64,
    0xFF,
    0xFFF8,
    0xFFFF,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**40,
    2**62,
    2**63 - 1,
    2**64 - 1,
)


def libraries() -> list[bytes]:
    """A library with a manifest and one without, whose constructor ends the process."""
    args = (("float32", (2, 3)), ("float32", (2, 3)))
    kernel = KernelEntry("theirs", "cpu", "theirs__direct", "relu", {}, 1, args, 64, (0,), True)
    manifest = Manifest(ABI_VERSION, os.uname().machine, "", "cc", ("-O3",), "0" * 64, True, (kernel,))
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "manifest").write_bytes(manifest.to_bytes())
        carried = f'__asm__(".section .rodata\\n.incbin \\"{folder}/manifest\\"\\n.previous");\n'
        for text in (SOURCE.replace("theirs__direct", "others"), SOURCE + carried):
            (folder / "l.c").write_text(text)
            subprocess.run(
                [
                    "cc",
                    "-shared",
                    "-fPIC",
                    "-Wl,-z,max-page-size=4096",
                    folder / "l.c",
                    "-o",
                    folder / "l.so",
                ],
                check=True,
            )
            found.append((folder / "l.so").read_bytes())
    return found


def tables(data: bytes) -> list[tuple[int, int]]:
    """(offset, bytes) of what says where things lie: the header, segments, sections, dynamic symbols."""
    segments, sections = struct.unpack_from("<QQ", data, 32)
    num_segments, _, num_sections = struct.unpack_from("<HHH", data, 56)
    found = [(0, 64), (segments, 56 * num_segments), (sections, 64 * num_sections)]
    for i in range(num_sections):
        _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", data, sections + 64 * i)
        if kind in (3, 11):  # strings, dynamic symbols
            found.append((offset, size))
    return found


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Words of the tables replaced, bytes flipped, the manifest's JSON changed, the end cut off."""
    found, places = bytearray(data), tables(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        begin, size = rng.choice(places)
        at, how = begin + rng.randrange(max(size, 1)), rng.randrange(8)
        width = rng.choice((1, 2, 4, 8))
        if how <= 3:
            at -= (at - begin) % width
            found[at : at + width] = (rng.choice(WORDS) & (1 << 8 * width) - 1).to_bytes(width, "little")
        elif how == 4 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif how == 5:
            found[at : at + width] = rng.randbytes(width)
        elif how == 6 and MAGIC in found:
            start = found.index(MAGIC) + rng.randrange(24, 400)
            found[start : start + 1] = rng.choice((b'"', b"{", b"[", b"9", b"-", b"\0", b"\xff", b",", b" "))
        elif rng.random() < 0.2:
            del found[rng.randrange(len(found)) :]
    return bytes(found)


def try_file(data: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(data)
        file.flush()
        judged = read_library(file.name)
        describe(Path(file.name))
        return said(judged)


def try_bundle(data: bytes) -> str:
    with tempfile.TemporaryDirectory() as name:
        path = write_bundle(
            Path(name) / "b.zip",
            devices=["cpu:0"],
            params=None,
            programs=[BundleProgram("main", "main.json", (), ())],
            libraries=[BundleLibrary("k.so", ("cpu",))],
            files={"main.json": b"{}", "k.so": data},
        )
        bundle = read_bundle(path)
        judged = bundle.judge(bundle.libraries[0])
        assert judged.sealed.sha256 == hashlib.sha256(data).hexdigest()
        return said(judged)


def said(file: LibraryFile) -> str:
    """Its flavour; all that it says can be asked for."""
    for kind in ("cpu", "tt"):
        assert all(file.has(name, kind) for name in file.names(kind))
    data = file.contents()
    for name in file.shared.objects:
        bytes(file.shared.view(name, data))
    orjson.dumps([str(entry) for entry in file.kernels.values()])
    return file.flavour


TARGETS = {"file": try_file, "bundle": try_bundle}


def fuzz(seed: int, iters: int, seconds: float = float("inf")) -> Counter:
    """What came of ``iters`` mutated inputs, or as many as ``seconds`` allow."""
    seeds = libraries()

    def draw(one: int) -> tuple[str, bytes]:
        rng = random.Random(one)
        return rng.choice(list(TARGETS)), mutate(rng, rng.choice(seeds))

    return driver.fuzz("fuzz_libraries.py", draw, judge, seed, iters, seconds)


def judge(name: str, data: bytes) -> str:
    return TARGETS[name](data)


@pytest.mark.timeout(60)
def test_a_second_of_mutated_libraries():
    counts = fuzz(seed=int(os.environ.get("SEED", "0")), iters=100_000, seconds=1.0)
    assert sum(counts.values()) > 20


def test_the_libraries_that_are_mutated_are_well_formed():
    assert [try_file(data) for data in libraries()] == ["packed", "module"]
    assert [try_bundle(data) for data in libraries()] == ["packed", "module"]


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_full_count_of_libraries(capsys):
    with capsys.disabled():
        driver.run(fuzz, "20000", [])


if __name__ == "__main__":
    driver.run(fuzz, "20000", sys.argv[1:])
