"""Time of a mesh: opening it, and an all_reduce beside numpy's sums of as many elements in the same run.

    python tests/bench/bench_mesh.py

A JSON line each: "open" a Galaxy of 32 chips in seconds; "all_reduce" of 8 buffers of 4 MiB in bfloat16
into 8 results on a line of 8 chips, beside 7 sums of float32 by numpy on one thread, the median of 5 rounds
of each, taken in turns.
"""

from __future__ import annotations

import json
import statistics
import time

import numpy as np

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.devices.mesh_device import use_board

SHAPE = (1, 1, 1024, 2048)  # 4 MiB of bfloat16
ROUNDS = 5


def opening() -> None:
    use_board("galaxy")
    start = time.perf_counter()
    mesh = ttnn.open_mesh_device()
    taken = time.perf_counter() - start
    print(json.dumps({"what": "open", "chips": mesh.get_num_devices(), "seconds": round(taken, 4)}))
    ttnn.close_mesh_device(mesh)


def all_reduce() -> None:
    use_board("t3000")
    ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
    mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 8))
    values = np.random.default_rng(0).standard_normal((8, *SHAPE[1:])).astype(np.float32)
    mapper = ttnn.ShardTensorToMesh(mesh, dim=0)
    x = ttnn.from_torch(values, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=mesh, mesh_mapper=mapper)
    ours, numpys = [], []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        out = ttnn.all_reduce(x, cluster_axis=1)
        ttnn.synchronize_device(mesh)
        ours.append(time.perf_counter() - start)
        out.deallocate()
        start = time.perf_counter()
        total = values[0]
        for one in values[1:]:
            total = total + one
        numpys.append(time.perf_counter() - start)
    a, b = statistics.median(ours[1:]), statistics.median(numpys[1:])
    row = {
        "what": "all_reduce",
        "ms": round(1e3 * a, 2),
        "numpy_ms": round(1e3 * b, 2),
        "ratio": round(a / b, 2),
    }
    print(json.dumps(row))
    ttnn.close_mesh_device(mesh)


if __name__ == "__main__":
    opening()
    all_reduce()
