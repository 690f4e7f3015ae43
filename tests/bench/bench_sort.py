"""Sorting of long rows beside torch's: topk of all elements, and ttnn.sort.

    python tests/bench/bench_sort.py [--sizes 1000,32000,256000]

A JSON line a device and size: ms, torch_ms (torch.sort on the CPU, stable), and whether the indices are the
same.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from graph_runtime import GraphBuilder, create
from graph_runtime.compat import ttnn


def _best(call: Callable[[], Any], times: int = 3) -> tuple[float, Any]:
    """(the least ms, the result) of calls after a first one."""
    made, least = call(), float("inf")
    for _ in range(times):
        began = time.perf_counter()
        made = call()
        least = min(least, 1e3 * (time.perf_counter() - began))
    return least, made


def _topk(device: str, x: np.ndarray) -> Callable[[], np.ndarray]:
    b = GraphBuilder(device=device)
    b.output(*b.op("topk", b.input("x", x.shape), k=x.shape[-1], largest=False, dtype="int32"))
    session = create(b, devices=[device]).session
    return lambda: session.submit({"x": x}).outputs[1].numpy()


def _ttnn(device: Any, x: np.ndarray) -> Callable[[], np.ndarray]:
    given = ttnn.from_torch(torch.from_numpy(x[None]).bfloat16(), layout=ttnn.TILE_LAYOUT, device=device)
    return lambda: ttnn.sort(given)[1].to_numpy()[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", default="1000,32000,256000")
    card = ttnn.open_device(device_id=0)
    for n in map(int, parser.parse_args().sizes.split(",")):
        x = np.random.default_rng(n).standard_normal(n).astype(np.float32)
        x = torch.from_numpy(x).bfloat16().float().numpy()
        for name, call in (("cpu", _topk("cpu:0", x)), ("tt", _topk("tt:0", x)), ("ttnn", _ttnn(card, x))):
            kind = torch.bfloat16 if name == "ttnn" else torch.float32
            given = torch.from_numpy(x).to(kind)
            theirs, (_, order) = _best(lambda given=given: torch.sort(given, stable=True))
            ours, found = _best(call)
            same = bool((found == order.numpy()).all())
            line = {"device": name, "n": n, "ms": round(ours, 2), "torch_ms": round(theirs, 2), "same": same}
            print(json.dumps(line))


if __name__ == "__main__":
    main()
