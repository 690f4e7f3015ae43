"""Speed of copies as JSON lines: row-major and tilized, in turn with memcpy of the same bytes.

    python tests/bench/bench_copy.py [--mbytes 16] [--threads 0] [--repeat 15]

``ratio`` is memcpy's time over the copy's: 1 is memory-copy speed. memcpy is libc's, with one thread, into
memory that was touched before; copies use the pool, so compare --threads 1.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import time
from collections.abc import Callable

import numpy as np

from graph_runtime.base.machine import devices
from graph_runtime.base.machine.layout import HOST, ROW_MAJOR, TILE, Layout, footprint
from graph_runtime.binding import core
from graph_runtime.run.device_handles import DeviceHandle

CASES = [(ROW_MAJOR, "f32"), (TILE, "f32"), (ROW_MAJOR, "bf16"), (TILE, "bf16"), (TILE, "bfp8_b")]


def race(run: Callable[[], object], reference: Callable[[], object], repeat: int) -> tuple[float, float]:
    """Least seconds of each over ``repeat`` rounds, in turn, as the machine's speed drifts; two warm up."""
    times = []
    for _ in range(repeat + 2):
        start = time.perf_counter()
        run()
        middle = time.perf_counter()
        reference()
        times.append((middle - start, time.perf_counter() - middle))
    mine, its = zip(*times[2:], strict=True)
    return min(mine), min(its)


def device_tensor(handle: DeviceHandle, shape: tuple[int, int], layout: Layout) -> core.Arg:
    addr = handle.alloc(0, footprint(layout, shape, handle.device.main_memory)[0], "bench")
    return core.tensor_arg(addr, "float32", shape, layout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mbytes", type=int, default=16)
    parser.add_argument(
        "--threads", type=int, default=1, help="of the pool; 0: as many as the process may use"
    )
    parser.add_argument("--repeat", type=int, default=15)
    options = parser.parse_args()
    core.pool_set_threads(options.threads or len(os.sched_getaffinity(0)))
    shape = (options.mbytes * 256, 1024)
    array = np.random.default_rng(0).standard_normal(shape, np.float32)
    out = np.ones_like(array)
    copy = ctypes.CDLL(None).memcpy
    copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]

    def memcpy() -> None:
        copy(out.ctypes.data, array.ctypes.data, array.nbytes)

    def report(name: str, run: Callable[[], object]) -> None:
        seconds, reference = race(run, memcpy, options.repeat)
        print(
            json.dumps(
                {
                    "bench": "copy",
                    "case": name,
                    "mbytes": options.mbytes,
                    "threads": core.pool_threads(),
                    "gb_per_s": round(array.nbytes / seconds / 1e9, 2),
                    "memcpy_gb_per_s": round(array.nbytes / reference / 1e9, 2),
                    "ratio": round(reference / seconds, 3),
                }
            )
        )

    source, target = core.host_arg(array), core.host_arg(out)
    report(f"{HOST} -> {HOST}", lambda: core.copy(None, source, None, target))
    with DeviceHandle(devices.tt()) as tt:
        for kind, fmt in CASES:
            layout = Layout("dram", kind, fmt)
            arg = device_tensor(tt, shape, layout)
            report(f"{HOST} -> {layout}", lambda a=arg: core.copy(None, source, tt, a))
            report(f"{layout} -> {HOST}", lambda a=arg: core.copy(tt, a, None, target))
            tt.free(0, arg.pointer.addr)


if __name__ == "__main__":
    main()
