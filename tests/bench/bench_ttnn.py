"""Each ttnn function that has a golden function beside that function, torch on the CPU, in bfloat16.

    python tests/bench/bench_ttnn.py [--size 512] [--seconds 5] [NAME ...]

A JSON line a function, the slowest last: ms, torch_ms, ratio, and the arguments, where x is a tensor
[1, 1, size, size] in tiles. Each function gets the first list of arguments of ``GIVEN`` that both sides take;
one that takes none of them is listed first, without times. Times are the least of three calls after a first
one, or the first call if it takes longer than ``--seconds``. torch has one thread.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import torch

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.registry import OPERATIONS

GIVEN: tuple[tuple[Any, ...], ...] = (
    ("x",),
    ("x", "x"),
    ("x", "x", "x"),
    ("x", -1),
    ("x", 2.0),
    ("x", 2),
    ("x", "x", -1),
    ("x", -1, "i", "x"),
    ("x", -1, "i"),
    ("x", 0.25, 0.75),
    ("x", (0, 1, 3, 2)),
    ("x", (1, 1, 2, 1)),
    ("x", "x", "x", 2.0),
    ("i",),
    ("i", "i"),
    ("i", 1),
    (["x", "x"], -1),
)


def timed(call: Callable[[], Any], seconds: float) -> float:
    """The least ms of three calls after a first one, or the first one's where it is slow."""
    took = []
    for _ in range(4):
        began = time.perf_counter()
        call()
        took.append(1e3 * (time.perf_counter() - began))
        if took[-1] > 1e3 * seconds:
            break
    return min(took[1:] or took)


class Bench:
    """Operands on a device and in torch."""

    def __init__(self, size: int):
        torch.manual_seed(0)
        self.device = ttnn.open_device(device_id=0)
        draw = {"x": torch.rand(1, 1, size, size).bfloat16(), "i": torch.randint(0, size, (1, 1, size, size))}
        self.theirs = draw
        kinds = {"x": ttnn.bfloat16, "i": ttnn.uint32}
        self.ours = {
            name: ttnn.from_torch(value, kinds[name], layout=ttnn.TILE_LAYOUT, device=self.device)
            for name, value in draw.items()
        }

    def called(self, function: Callable[..., Any], given: Any, operands: dict[str, Any]) -> Callable[[], Any]:
        def taken(value: Any) -> Any:
            if isinstance(value, list):
                return [taken(one) for one in value]
            return operands[value] if isinstance(value, str) else value

        return lambda: function(*map(taken, given))

    def row(self, name: str, seconds: float) -> dict[str, Any]:
        """The line of a function."""
        operation = OPERATIONS[name]
        golden = operation.golden_function
        assert golden is not None
        for given in GIVEN:
            theirs, ours = (
                self.called(golden, given, self.theirs),
                self.called(operation, given, self.ours),
            )

            def waited(ours: Callable[[], Any] = ours) -> None:
                made = ours()  # freed after the wait
                ttnn.synchronize_device(self.device)
                del made

            try:
                theirs()
                ms = timed(waited, seconds)
            except Exception:  # the function takes other arguments
                continue
            torch_ms = timed(theirs, seconds)
            row = {"name": name, "ms": round(ms, 2), "torch_ms": round(torch_ms, 3)}
            return row | {"ratio": round(ms / torch_ms, 1), "arguments": repr(given)}
        return {"name": name, "ratio": None}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--size", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(asked.size)
    names = asked.names or [
        name
        for name, op in sorted(OPERATIONS.items())
        if not op.reason and not name.endswith("_") and op.golden_function is not None
    ]
    rows = [bench.row(name, asked.seconds) for name in names]
    for row in sorted(rows, key=lambda row: row["ratio"] or 0):
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
