"""How the exactness of ops here compares with cards: ULP over all bf16 numbers beside a published report's.

    python tests/bench/bench_ulp.py --data DIR [--as bf16]

DIR has eltwise_ulp.csv of tt-eltwise-accuracy-report. A JSON line for each of its ops that can be swept here
with its attributes' defaults, beside Wormhole's row: op, ttnn (its name there), max_ulp of ours and as
published, and both worst points. Then one line in all: ops, how many have an equal max_ulp (to the report's
digits), are better, are worse.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from silicon_tables import read

from graph_runtime.ir.ops import registry
from graph_runtime.testing import Precision, sweep
from graph_runtime.testing.sweeping import sweepable


def published(folder: Path) -> dict[str, dict[str, str]]:
    """{name in ttnn: its row} of forward ops with default parameters, on Wormhole."""
    rows = read(folder / "eltwise_ulp.csv")
    return {
        row["op"]: row
        for row in rows
        if (row["arch"], row["mode"]) == ("wh", "default") and row["kind"] != "bw"
    }


def compared(name: str, row: dict[str, str], precision: Precision) -> dict[str, Any]:
    found = sweep(name, "tt:0", precision)
    theirs = float(row["max_ulp"])
    equal = abs(found.max_ulp - theirs) <= 0.0011 * max(theirs, 1.0)  # it prints three to four digits
    return {
        "op": name,
        "ttnn": row["op"],
        "precision": precision.text,
        "ours": round(found.max_ulp, 4),
        "published": theirs,
        "equal": equal,
        "worst_published": row["worst"].split(";")[0] or None,
        "worst_ours": str(found.worst[0].at) if found.worst else None,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with eltwise_ulp.csv")
    parser.add_argument("--as", dest="precision", default="bf16")
    args = parser.parse_args()
    rows, lines = published(args.data), []
    for name, op in registry.all_ops().items():
        row = next((rows[key] for key in (name, *op.ttnn) if key in rows), None)
        if row is not None and sweepable(op, "tt"):
            lines.append(compared(name, row, Precision.of(args.precision)))
            print(json.dumps(lines[-1]), flush=True)
    differ = [line for line in lines if not line["equal"]]
    better = sum(line["ours"] < line["published"] for line in differ)
    counts = {
        "ops": len(lines),
        "equal": len(lines) - len(differ),
        "better": better,
        "worse": len(differ) - better,
    }
    print(json.dumps({"precision": args.precision, **counts}))


if __name__ == "__main__":
    main()
