"""Under a limit of addresses (ulimit -v) every board opens and runs, and what is beyond the limit is a typed
error after which the session still runs. A subprocess each, because a limit is for good."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from graph_runtime.base.machine.devices import boards

GIB = 1 << 30
TT = [name for name, described in boards().items() if described.kind == "tt"]
limited = pytest.mark.skipif(bool(os.environ.get("GR_BUILD")), reason="sanitizers take terabytes")
START = """
import resource, sys
import numpy as np
import graph_runtime as gr

def limit(bytes):
    resource.setrlimit(resource.RLIMIT_AS, (bytes, bytes))

def size(key):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(key))

def module(n, *devices):
    builder = gr.GraphBuilder()
    x = builder.input("x", (n, n), "float32")
    builder.output(builder.op("relu", builder.op("matmul", x, x)))
    return gr.create(builder, None, list(devices))
"""


def run(source: str, *args: str) -> str:
    # a thread's first malloc reserves 64 MiB of addresses for a heap of its own, all that some limits leave
    # by default ASan's malloc ends the process instead of returning NULL
    asan = f"{os.environ.get('ASAN_OPTIONS', '')}:allocator_may_return_null=1"
    env = {**os.environ, "MALLOC_ARENA_MAX": "1", "ASAN_OPTIONS": asan}
    command = [sys.executable, "-P", "-c", START + source, *args]
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@limited
@pytest.mark.parametrize("board", [TT[0], *(pytest.param(name, marks=pytest.mark.slow) for name in TT[1:])])
def test_each_board_runs_under_four_gib(board):
    out = run(
        """
limit(4 << 30)
here = module(64, "cpu:0", "tt:0=" + sys.argv[1]), module(64, "tt:0=" + sys.argv[1])
for each in here:
    each.run(x=np.ones((64, 64), np.float32))
    assert (each.get_output(0).numpy() == 64).all()
print(size("VmPeak"))
""",
        board,
    )
    assert int(out) < GIB  # not even for a moment what the board's memory has


@limited
def test_what_is_beyond_the_limit_is_an_error_with_text_and_the_session_still_runs():
    run("""
def relu(n, device):
    builder = gr.GraphBuilder()
    builder.output(builder.op("relu", builder.input("x", (n, n), "float32")))
    return gr.create(builder, None, device)

small = module(64, "tt:0")
small.run(x=np.ones((64, 64), np.float32))
limit(size("VmSize") + (64 << 20))
for device, start in (("tt:0", relu), ("cpu:0", relu), ("tt:0", module), ("cpu:0", module)):
    try:
        start(8192, device).run(x=np.broadcast_to(np.float32(1), (8192, 8192)))
        raise SystemExit("256 MiB fit into 64")
    except gr.DeviceMemoryError as error:
        assert "ulimit -v" in str(error) and device in str(error), error
    small.run(x=np.full((64, 64), 2, np.float32))
    assert (small.get_output(0).numpy() == 256).all()
""")


@pytest.mark.skipif(
    os.environ.get("GR_BUILD") == "tsan", reason="TSan ends a process that gives it no memory"
)
def test_no_limit_however_small_ends_the_process():
    """Each step of opening a device and running fails by a typed error, or not at all. ASan ends a process
    that has no memory for ASan's own records of stacks and threads: such a room is not judged."""
    run("""
import os, re, tempfile, traceback
module(8, "cpu:0").run(x=np.ones((8, 8), np.float32))      # modules that are imported at first use
rooms, judged = range(0, 24 << 20, 512 << 10), 0
for room in rooms:
    with tempfile.TemporaryFile() as said:
        child = os.fork()
        if child == 0:
            code = 1
            os.dup2(said.fileno(), 2)
            try:
                limit(size("VmSize") + room)
                session = module(128, "tt:0")
                session.run(x=np.ones((128, 128), np.float32))
                code = 0 if (session.get_output(0).numpy() == 128).all() else 2
            except (gr.GraphRuntimeError, MemoryError):
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        said.seek(0)
        text = said.read().decode(errors="replace")
    asan = os.environ.get("GR_BUILD") == "asan"
    if code and asan and re.search("AddressSanitizer.* failed to allocate", text):
        continue
    assert code == 0, (room, code, text)
    judged += 1
assert judged > len(rooms) // 2
""")


@pytest.mark.slow
@limited
def test_freed_memory_gives_its_addresses_back():
    run("""
import gc
sizes = []
for _ in range(5):
    held = module(2048, "tt:0")
    held.run(x=np.ones((2048, 2048), np.float32))
    del held
    gc.collect()
    sizes.append(size("VmSize"))
assert sizes[-1] - sizes[1] < 4 << 20, sizes
""")
