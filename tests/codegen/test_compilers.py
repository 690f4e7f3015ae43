"""Compilers that hang, are interrupted, are none, or run into limits."""

from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from graph_runtime.codegen import toolchain
from graph_runtime.codegen.cache import open_cache
from graph_runtime.codegen.process import CommandPool, run_alone

from graph_runtime.base.config import config
from graph_runtime.base.errors import CompileError, GraphRuntimeError

# a compiler that knows its version, and hangs over any work, with a child that will not end by being asked to
_HANGS = """#!/bin/sh
[ "$1" = --version ] && { echo hangs 1.0; exit; }
echo half > "$TMPDIR/half.s"
sh -c 'trap "" TERM INT HUP; echo $$ > PIDS/child.$$; while :; do sleep 1; done' &
echo $$ > PIDS/self.$$
wait
"""


@pytest.fixture
def hanging(tmp_path):
    """(the compiler, the folder in which its processes write down their numbers)"""
    script, pids = tmp_path / "hangs", tmp_path / "pids"
    pids.mkdir()
    script.write_text(_HANGS.replace("PIDS", str(pids)))
    script.chmod(0o755)
    return script, pids


def alive(pids: Path) -> list[str]:
    """Those of the processes that are there, dead ones that nothing has waited for left out."""
    found = []
    for file in pids.iterdir():
        number = file.read_text().strip() or "none"  # ended before it wrote it: /proc//stat is there
        try:
            state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        found += [file.name] if state != "Z" else []
    return found


def ended(pids: Path) -> bool:
    """Whether all are over, soon: a kill takes its time."""
    end = time.monotonic() + 20
    while alive(pids) and time.monotonic() < end:
        time.sleep(0.01)
    return not alive(pids)


@pytest.mark.slow  # waits for two seconds
def test_a_compiler_that_hangs_is_ended_with_all_that_it_started(toy, tmp_path, hanging):
    script, pids = hanging
    with config(CC=str(script), CC_TIMEOUT=2):
        start = time.monotonic()
        with pytest.raises(CompileError, match=r"did not end within 2 s.*GR_CC_TIMEOUT") as caught:
            toy.compile(tmp_path / "kernels.so", toy.kernel("a"), toy.kernel("b", kind="tt"))
        assert time.monotonic() - start < 30
    assert caught.value.got == 2
    assert len(list(pids.iterdir())) >= 2
    assert ended(pids)
    assert [p for p in tmp_path.rglob("*") if p.suffix in (".so", ".s", ".o") or ".build" in p.name] == []


def test_one_that_hangs_over_its_version_is_ended_too(tmp_path):
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\nsleep 1000\n")
    script.chmod(0o755)
    with config(CC=str(script), CC_TIMEOUT=1), pytest.raises(CompileError, match="did not end within 1 s"):
        toolchain.find_compiler()


def test_what_a_compiler_leaves_behind_holds_nothing_up(tmp_path):
    """A child that keeps its parent's pipes open and goes on is ended with it."""
    start = time.monotonic()
    done = run_alone(["sh", "-c", "sleep 1000 & echo $! > pid; echo said; exit 3"], tmp_path)
    assert (done.status, done.out) == (3, "said\n")
    assert time.monotonic() - start < 60
    (tmp_path / "pids").mkdir()
    (tmp_path / "pid").rename(tmp_path / "pids" / "pid")
    assert ended(tmp_path / "pids")


@pytest.mark.slow  # as long
def test_one_that_talks_without_end_takes_no_memory(tmp_path):
    with config(CC_TIMEOUT=2), pytest.raises(CompileError, match="did not end"):
        run_alone(["yes"], tmp_path)
    done = run_alone(["sh", "-c", "yes | head -c 5000000 >&2; exit 1"], tmp_path)
    assert done.err.startswith("y\n")
    assert len(done.err) < 1 << 20


_INTERRUPTED = """
import sys
from graph_runtime.codegen import shared_library
from graph_runtime.codegen.render import Rendered
from graph_runtime.artifacts.libraries.manifest import KernelEntry
entry = KernelEntry("a", "cpu", "a__direct", "none", {}, 0, ())
units = {f"k{i}.c": f"int a{i};" for i in range(3)}
try:
    shared_library.compile_library(Rendered(units, (entry,)), sys.argv[1])
except KeyboardInterrupt:
    sys.exit(77)
"""


def test_ctrl_c_that_only_python_gets_ends_the_compilers(tmp_path, hanging):
    script, pids = hanging
    (tmp_path / "temporary").mkdir()
    env = {
        **os.environ,
        "GR_CC": str(script),
        "GR_CACHE_DIR": str(tmp_path / "cache"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    python = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED, str(tmp_path / "out.so")], env=env, start_new_session=True
    )
    end = time.monotonic() + 60
    while not any(p.name.startswith("child") for p in pids.iterdir()) and time.monotonic() < end:
        time.sleep(0.02)
    python.send_signal(signal.SIGINT)
    assert python.wait(timeout=30) == 77  # KeyboardInterrupt, and at once
    assert ended(pids)
    files = [p for folder in ("cache", "temporary") for p in (tmp_path / folder).rglob("*") if p.is_file()]
    assert [p for p in files if p.parent.name != "locks"] == []
    assert list((tmp_path / "cache" / "libraries").iterdir()) == []
    assert not (tmp_path / "out.so").exists()


def test_ctrl_c_that_wakes_no_wait_ends_it():
    """A signal between Python's last look and the wait itself sets a flag, no more."""
    over, start = threading.Event(), time.monotonic()

    def work() -> None:
        time.sleep(0.3)  # the main thread waits
        _thread.interrupt_main()
        over.wait(30)

    def build() -> None:
        with CommandPool() as running:
            try:
                running.result(running.submit(work))
            finally:
                over.set()

    with pytest.raises(KeyboardInterrupt):
        build()
    assert time.monotonic() - start < 20


def test_the_first_error_ends_the_others(tmp_path):
    start = time.monotonic()
    steps = []

    def build() -> None:
        with CommandPool(2) as running:
            steps.extend(running.submit(running.run, ["sleep", "1000"], tmp_path) for _ in range(2))
            time.sleep(0.2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        build()
    assert time.monotonic() - start < 60
    for step in steps:
        with pytest.raises(CompileError, match="was ended, because another step"):
            step.result()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("gcc 'half", "GR_CC=.*cannot be split into words: No closing quotation.*GR_CC='gcc -m64'"),
        ("   ", "GR_CC='   ' names no compiler"),
        ("''", "names no compiler"),
        ("gcc\0", "names no compiler"),
        ("FOLDER", "is no compiler: .* is a folder"),
        ("FOLDER/text", "is no compiler: .* is not executable"),
        ("FOLDER/none", r"no C compiler found \(tried .*none\)"),
        ("FOLDER/empty", "cannot start the C compiler|--version failed: is it a C compiler"),
        ("FOLDER/binary", "cannot start the C compiler|--version failed: is it a C compiler"),
    ],
)
def test_what_is_no_compiler_is_an_error_that_names_the_setting(tmp_path, text, says):
    for name, data, mode in (
        ("text", b"#!/bin/sh\n", 0o644),
        ("empty", b"", 0o755),
        ("binary", b"\x7fELF\0\1", 0o755),
    ):
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(mode)
    with config(CC=text.replace("FOLDER", str(tmp_path))), pytest.raises(CompileError, match=says) as caught:
        toolchain.find_compiler()
    assert caught.value.got is not None


def test_a_compiler_that_goes_away_is_an_error(toy, tmp_path):
    script = tmp_path / "cc"
    script.write_text('#!/bin/sh\nexec gcc "$@"\n')
    script.chmod(0o755)
    with config(CC=str(script)):
        toy.compile(tmp_path / "a.so", toy.kernel("a"))
        script.unlink()
        with pytest.raises(CompileError, match=r"not executable|no C compiler|cannot start"):
            toy.compile(tmp_path / "b.so", toy.kernel("a", times=2))
        assert list((open_cache().folder / "libraries").glob(".*")) == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("kill -XFSZ $$", r"File size limit exceeded.*ulimit -f"),
        ("kill -KILL $$", r"Killed \(signal 9\).*more memory"),
        ("echo 'as: x.s: No space left on device' >&2; exit 1", "status 1; the disk is full.*GR_CACHE_DIR"),
        (
            "echo 'cc1: out of memory allocating 8 bytes' >&2; exit 1",
            "status 1; it needs more memory.*--jobs 1",
        ),
    ],
)
def test_limits_that_a_compiler_meets_are_said(toy, tmp_path, body, says):
    script = tmp_path / "cc"
    script.write_text(f'#!/bin/sh\n[ "$1" = --version ] && {{ echo {says!r} 1; exit; }}\n{body}\n')
    script.chmod(0o755)
    with config(CC=str(script)), pytest.raises(CompileError, match=says):
        toy.compile(tmp_path / "kernels.so", toy.kernel("a"))


_NO_ROOM = """
import resource, sys
from graph_runtime.codegen.toolchain import find_compiler
from graph_runtime.codegen import shared_library
from graph_runtime.codegen.render import Rendered
from graph_runtime.artifacts.libraries.manifest import KernelEntry
from graph_runtime.base.errors import GraphRuntimeError
find_compiler()
entry = KernelEntry("a", "cpu", "a__direct", "none", {}, 0, ())
with open("/proc/self/status") as file:
    size = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (size + int(sys.argv[2]),) * 2)
try:
    shared_library.compile_library(Rendered({"k.c": "int a;"}, (entry,)), sys.argv[1])
except (GraphRuntimeError, MemoryError) as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize("room", [0, 1 << 20, 9 << 20, 20 << 20, 60 << 20])
def test_without_memory_to_compile_the_error_is_ours(tmp_path, room):
    env = {**os.environ, "GR_CACHE_DIR": str(tmp_path / "cache"), "GR_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", _NO_ROOM, str(tmp_path / "a.so"), str(room)],
        env=env,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert (tmp_path / "a.so").exists() == (done.stdout == "")
    assert list(tmp_path.rglob(".*")) == []


def test_the_setting_takes_numbers_only(tmp_path):
    with pytest.raises(GraphRuntimeError, match="GR_CC_TIMEOUT must be an integer"):
        config(CC_TIMEOUT="soon").__enter__()
    with config(CC_TIMEOUT=0):  # 0: as long as it likes
        assert run_alone(["true"], tmp_path).status == 0
