"""Library files made to be slow or large: each is judged, or refused with a typed error, within 2 seconds and
20 times its size and 64 MiB."""

import os
import struct
import time
import tracemalloc

import numpy as np
import pytest

from graph_runtime.artifacts.libraries.judge import LibraryFile, read_library
from graph_runtime.artifacts.libraries.manifest import MAGIC
from graph_runtime.base.errors import LibraryError
from graph_runtime.base.machine.isa import host_arch

SECONDS, TIMES, SPARE = 2, 20, 64 << 20
MOST_TRACED = 8 << 20  # larger files are judged in the same steps, which tracing makes slow
MACHINES = {"x86_64": 62, "aarch64": 183}
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


def elf(names: bytes, symbols: np.ndarray, tables: int = 1, segments: int = 1) -> bytes:
    """A shared object with these names and dynamic symbols, in ``tables`` tables that share them."""
    segment = struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 64, 64, 4096) * segments
    at = 64 + len(segment)
    body = names + symbols.tobytes()
    rows = [struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, at, len(names), 0, 0, 1, 0)]
    rows += [struct.pack("<IIQQQQIIQQ", 0, 11, 0, 0, at + len(names), symbols.nbytes, 0, 0, 8, 24)] * tables
    head = struct.pack(
        "<16sHHIQQQIHHHHHH",
        b"\x7fELF\x02\x01\x01",
        3,
        MACHINES[host_arch()],
        1,
        0,
        64,
        at + len(body),
        0,
        64,
        56,
        segments,
        64,
        len(rows),
        0,
    )
    return head + segment + body + b"".join(rows)


def symbols(count: int, step: int = 0, kind: int = 2) -> np.ndarray:
    found = np.zeros(count, SYMBOL)
    found["name"], found["info"], found["section"] = np.arange(count) * step, 0x10 | kind, 1
    return found


CASES = {
    "symbols of one name": lambda: elf(b"f\0", symbols(1 << 16)),
    "as many symbols as are read": lambda: elf(b"f\0", symbols(1 << 19)),
    "two million symbols": lambda: elf(b"f\0", symbols(1 << 21)),
    "names that never end": lambda: elf(b"x" * (1 << 22), symbols(1 << 17)),
    "names within names": lambda: elf(b"x" * (1 << 22) + b"\0", symbols(1 << 17, 1)),
    "long names that are no text": lambda: elf(b"\xff" * (1 << 16) + b"\0", symbols(1 << 15, 2)),
    "many tables": lambda: elf(b"f\0", symbols(1 << 16), tables=1000),
    "many segments and objects": lambda: elf(b"abcdefg\0" * 4096, symbols(1 << 12, 8, 1), segments=60000),
    "a manifest of empty lists": lambda: (
        elf(b"f\0", symbols(1)) + _manifest(b"[" + b"[]," * (1 << 21) + b"0]")
    ),
    "a manifest of kernels": lambda: (
        elf(b"f\0", symbols(1)) + _manifest(b'{"abi":1,"kernels":[' + b"{}," * (1 << 21) + b"{}]}")
    ),
    "a deep manifest": lambda: elf(b"f\0", symbols(1)) + _manifest(b"[" * (1 << 22)),
    "manifests that are none": lambda: elf(b"f\0", symbols(1)) + MAGIC * (1 << 17),
}


def _manifest(body: bytes) -> bytes:
    return MAGIC + len(body).to_bytes(8, "little") + body


@pytest.mark.parametrize("case", CASES)
def test_hostile_libraries_are_judged_or_refused_soon(tmp_path, case):
    data = CASES[case]()
    (tmp_path / "hostile.so").write_bytes(data)
    begin = time.process_time()
    judged(tmp_path / "hostile.so")
    assert time.process_time() - begin < SECONDS
    if len(data) > MOST_TRACED:
        return
    tracemalloc.start()
    try:
        judged(tmp_path / "hostile.so")
        assert tracemalloc.get_traced_memory()[1] < TIMES * len(data) + SPARE
    finally:
        tracemalloc.stop()


def judged(path) -> LibraryFile | None:
    try:
        return read_library(path)
    except LibraryError:
        return None


def test_an_honest_file_of_that_kind_is_judged(tmp_path):
    names = b"\0first\0second\0"
    rows = symbols(2)
    rows["name"] = 1, 7
    (tmp_path / "a.so").write_bytes(elf(names, rows))
    assert read_library(tmp_path / "a.so").functions == {"first", "second"}


def test_a_sparse_file_is_refused_before_it_is_copied(tmp_path):
    from graph_runtime.artifacts.libraries.sealed import seal

    with (tmp_path / "sparse.so").open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)
    begin = time.process_time()
    with pytest.raises(LibraryError, match="at most"):
        seal("sparse.so", tmp_path / "sparse.so", 0, 1 << 40)
    assert time.process_time() - begin < SECONDS
