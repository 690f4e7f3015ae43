"""Planted leaks are found and judged ours: LeakSanitizer, the hook at exit and the judge together."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).resolve().parents[1] / "tools" / "leaks.py"
pytestmark = pytest.mark.skipif(not os.environ.get("GR_LEAKS"), reason="tests/tools/sanitize.sh asan runs it")

KERNEL = r"""
#include <stdlib.h>
#include "gr_abi.h"
void *volatile kept;
int32_t loses(const gr_call *call) { (void)call; kept = malloc(100); kept = 0; return 0; }
int32_t keeps(const gr_call *call) { (void)call; kept = malloc(100); return 0; }
"""
CALL = """
import sys
from graph_runtime.binding import core
library = core.library_open(sys.argv[1])
call = core.ffi.cast("int32_t (*)(void *)", core.library_symbol(library, sys.argv[2]))
for _ in range(int(sys.argv[3])):
    call(core.ffi.NULL)
"""
# a program of no instructions whose handle is dropped, and one that is freed
PROGRAM = """
from graph_runtime.binding import core
def make():
    out = core.ffi.new("gr_program **")
    core.lib.gr_program_create(core.ffi.NULL, 0, out)
    return out[0]
lost = [make() for _ in range(20)]
freed = make()
core.lib.gr_program_destroy(freed)
del lost, freed
"""


@pytest.fixture
def judged(tmp_path):
    """judged(program, argument...) -> (exit code of the judge, what it prints)."""

    def judge(program: str, *arguments: object) -> tuple[int, str]:
        subprocess.run(
            [sys.executable, "-P", "-c", program, *map(str, arguments)],
            timeout=100,
            check=True,
            env=os.environ | {"GR_LEAKS": str(tmp_path)},
        )
        done = subprocess.run([sys.executable, TOOL, tmp_path], text=True, capture_output=True, timeout=100)
        return done.returncode, done.stdout

    return judge


def lost(out: str) -> int:
    return int(re.search(r" of ours lost (\d+) bytes", out)[1])


def test_a_kernel_library_that_loses_memory_is_found(judged, compile_c):
    code, out = judged(CALL, compile_c(KERNEL), "loses", 20)
    assert code == 1, out
    # a pointer that is left in a register or on the stack hides its block
    assert 10 * 100 <= lost(out) <= 20 * 100
    assert " in loses " in out


def test_memory_that_a_library_keeps_is_none(judged, compile_c):
    code, out = judged(CALL, compile_c(KERNEL), "keeps", 1)
    assert code == 0, out
    assert "1 processes looked for leaks" in out


def test_an_object_of_the_core_that_is_dropped_is_found(judged):
    code, out = judged(PROGRAM)
    assert code == 1, out
    assert lost(out) >= 10 * 16
    assert int(re.search(r"in (\d+) object", out)[1]) in range(10, 21)  # not the one that was freed
    assert " in gr_program_create " in out


def test_a_process_that_cannot_be_stopped_is_no_pass(tmp_path):
    """A process that is traced already is the simplest that LeakSanitizer cannot trace."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", "import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)"],
        timeout=100,
        env=os.environ | {"GR_LEAKS": str(tmp_path)},
    )
    assert done.returncode
    done = subprocess.run([sys.executable, TOOL, tmp_path], text=True, capture_output=True, timeout=100)
    assert done.returncode == 2
    assert "ptrace" in done.stdout
