"""Mutated import blobs, parameters and library files: each gives a value or a GraphRuntimeError, soon.

    SEED=1 ITERS=50000 python tests/fuzz/fuzz_tvm.py [SEED [ITERS]]

Libraries are read as inspect reads them: a file's code is never run. Prints what came of each kind of input.
A failure prints the command that replays it.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import driver
import numpy as np
import pytest

import graph_runtime as gr
from graph_runtime.artifacts.prepare import read_params
from graph_runtime.compat.tvm_files.blob import ConstLoader, Factory, parse_blob
from graph_runtime.compat.tvm_files.inspect import describe
from graph_runtime.ir.documents.params import save_params

TESTS = Path(__file__).resolve().parents[1]
SOURCE = r"""
void *__TVMFuncCall;
int tvmgen_f(void) { return 0; }
__asm__(".section .rodata\n.globl __tvm_dev_mblob\n.type __tvm_dev_mblob,@object\n"
        "__tvm_dev_mblob: .incbin \"BLOB\"\n.size __tvm_dev_mblob, .-__tvm_dev_mblob\n.previous");
"""
WORDS = (
    0,
    1,
    2,
    3,
    7,
    8,
    40,
    2**16,
    2**31 - 1,
    2**31,
    2**32,
    2**40,
    2**48,
    2**62,
    2**63 - 1,
    2**63,
    2**64 - 8,
    2**64 - 1,
)


def _blob_writer():
    spec = importlib.util.spec_from_file_location("tvm_conftest", TESTS / "compat" / "conftest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.BlobWriter()


def arrays() -> dict[str, np.ndarray]:
    return {
        "a": np.arange(6, dtype="f4").reshape(2, 3),
        "b": np.array(True),
        "c": np.zeros((0, 2), "i1"),
        "long name": np.arange(4, dtype="u8"),
    }


def blobs() -> list[bytes]:
    """Every kind of record, with and without a tree."""
    w, data = _blob_writer(), arrays()
    constants = w.const_loader(data, {"f": ["a", "b"], "g": []})
    return [
        w.blob(w.factory("{}", data), w.lib(), w.tree([0, 1, 1], [1])),
        w.blob(
            w.factory("{}", data, "GraphRuntimeFactory"), constants, w.lib(), w.tree([0, 2, 2, 2], [1, 2])
        ),
        w.blob(constants, w.lib()),
        w.blob(w.lib(), w.text("cuda") + bytes(40)),
        w.blob(w.lib()),
    ]


def parameters() -> list[bytes]:
    return [save_params(arrays()), save_params({}), save_params({"a": np.float32(1)})]


def libraries() -> list[bytes]:
    """A small shared object with a blob."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "blob").write_bytes(blobs()[0])
        (folder / "l.c").write_text(SOURCE.replace("BLOB", str(folder / "blob")))
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                "-nostdlib",
                "-Wl,-z,max-page-size=4096",
                folder / "l.c",
                "-o",
                folder / "l.so",
            ],
            check=True,
        )
        return [(folder / "l.so").read_bytes()]


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Words replaced, bytes flipped, cut out, repeated or put in."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 8))):
        at, size = rng.randrange(len(found) + 1), rng.choice((1, 2, 4, 8, 8, 24))
        how = rng.randrange(6)
        if how == 0 and at < len(found):
            found[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del found[at : at + size]
        elif how == 2:
            found[at:at] = found[at : at + size]
        elif how == 3:
            found[at : at + size] = rng.randbytes(size)
        elif how == 4:
            found[at : at + 8] = rng.choice(WORDS).to_bytes(8, "little")
        elif rng.random() < 0.2:
            del found[at:]
    return bytes(found)


def try_blob(data: bytes) -> str:
    blob = parse_blob(data, "blob")
    for module in blob.modules:
        held = (
            module.params
            if isinstance(module, Factory)
            else module.arrays
            if isinstance(module, ConstLoader)
            else {}
        )
        for array in held.values():
            array.tobytes()  # every byte is there
    return f"{len(blob.modules)} modules"


def try_params(data: bytes) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f"{sum(array.tobytes() is not None for array in read_params(data).values())} arrays"


def try_library(data: bytes) -> str:
    with tempfile.NamedTemporaryFile(suffix=".so") as file:
        file.write(data)
        file.flush()
        return "described" if describe(Path(file.name))["problem"] is None else "described, not loadable"


TARGETS = {"blob": (blobs, try_blob), "params": (parameters, try_params), "library": (libraries, try_library)}


def fuzz(seed: int, iters: int, seconds: float = float("inf")) -> Counter:
    """What came of ``iters`` mutated inputs, or as many as ``seconds`` allow."""
    seeds = {name: make() for name, (make, _) in TARGETS.items()}

    def draw(one: int) -> tuple[str, bytes]:
        rng = random.Random(one)
        name = rng.choices(list(TARGETS), (5, 4, 1))[0]
        return name, mutate(rng, rng.choice(seeds[name]))

    return driver.fuzz("fuzz_tvm.py", draw, judge, seed, iters, seconds)


def judge(name: str, data: bytes) -> str:
    try:
        return TARGETS[name][1](data)
    except gr.GraphRuntimeError as error:
        if name == "blob" and error.fields.get("offset") is None and error.got is None:
            raise AssertionError(f"an error without a place: {error}") from error
        raise


@pytest.mark.timeout(60)
def test_a_second_of_mutated_tvm_files():
    counts = fuzz(seed=int(os.environ.get("SEED", "0")), iters=100_000, seconds=1.0)
    assert sum(counts.values()) > 20


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_full_count_of_tvm_files(capsys):
    with capsys.disabled():
        driver.run(fuzz, "50000", [])


if __name__ == "__main__":
    driver.run(fuzz, "50000", sys.argv[1:])
