"""Fits the times of ttnn's elementwise ops (graph_runtime/costs/eltwise.py) to a published report.

    python tests/tools/fit_eltwise.py --data DIR

DIR has eltwise_perf.csv. Writes graph_runtime/costs/weights/eltwise.json. What is fitted is common to all
ops: a wait and a rate of each board's programs, slots of each block. How many blocks an op has is counted
in its kernel (costs/eltwise.py), not fitted. Each block's slots are held to a count of its instructions by a
row of their own. Backward ops are not fitted to: their error is that of a prediction. A fifth of the ops at
a time is held out to see what the fit is worth for others (cv_op_pct).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from fit_common import Columns, date_of, fit, write_weights

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from silicon_tables import ELTWISE_ARCHES, Rows, eltwise_rows

from graph_runtime.costs.eltwise import BLOCKS, PROGRAMS, eltwise, eltwise_columns

START_NS = 1970.0  # of an interleaved unary op, as grid.json has it
# slots of a tile's 32 vectors: instructions of one, by reading them (exp_21f has 17 to 20), in 16 and 32 bits
SLOTS = {
    "exp": (20, 45),
    "recip": (16, 30),
    "sqrt": (20, 32),
    "log": (30, 50),
    "log1p": (44, 70),
    "poly": (4, 4),
    "range": (30, 44),
    "branch": (3, 3),
    "pass": (6, 6),
}
WAIT, PER_BYTE = (
    {"unary": 60.0, "binary": 300.0, "ternary": 100.0},
    {"unary": 0.7, "binary": 0.9, "ternary": 1.25},
)
DTYPES = ("bf16", "fp32")
NAMES = (
    [f"{width} {block}" for width in ("narrow", "wide") for block in BLOCKS]
    + [
        f"{arch} {kind} {what}"
        for arch in ELTWISE_ARCHES.values()
        for kind in PROGRAMS
        for what in ("wait", "byte")
    ]
    + [f"{arch} {what}" for arch in ELTWISE_ARCHES.values() for what in ("sharp", "pace")]
    + ["in_place"]
)


def tree(flat: dict[str, float]) -> dict[str, Any]:
    """Weights as eltwise() takes them. Wormhole's pace is the measure of the other's."""
    arches = ELTWISE_ARCHES.values()
    return {
        "start": START_NS,
        "blocks": {w: {b: flat[f"{w} {b}"] for b in BLOCKS} for w in ("narrow", "wide")},
        "transport": {
            a: {k: {"wait": flat[f"{a} {k} wait"], "per_byte": flat[f"{a} {k} byte"]} for k in PROGRAMS}
            for a in arches
        },
        "sharp": {a: flat[f"{a} sharp"] for a in arches},
        "pace": {a: flat[f"{a} pace"] for a in arches},
        "in_place": flat["in_place"],
    }


def starts() -> dict[str, float]:
    flat = {f"{w} {b}": 32.0 * SLOTS[b][i] for i, w in enumerate(("narrow", "wide")) for b in BLOCKS}
    for arch in ELTWISE_ARCHES.values():
        flat |= {f"{arch} {kind} wait": WAIT[kind] for kind in PROGRAMS}
        flat |= {f"{arch} {kind} byte": PER_BYTE[kind] for kind in PROGRAMS}
        flat |= {f"{arch} sharp": 4.0, f"{arch} pace": 1.0}
    return {name: flat.get(name, 1.0) for name in NAMES}


PRIOR = starts()
HELD = [f"{w} {b}" for w in ("narrow", "wide") for b in BLOCKS] + [
    f"{a} pace" for a in ELTWISE_ARCHES.values()
]


def model(flat: dict[str, float], x: Columns) -> np.ndarray:
    """ns of each row, and what a block's slots are beside their count, for as many rows."""
    weights = tree(flat)
    rows = [eltwise(weights, one) for one in x["row"]]
    return np.array(rows + [flat[name] / PRIOR[name] for name in HELD])


def fitted(rows: Rows, tries: int) -> dict[str, float]:
    x = {"row": np.array([columns(arguments) for arguments, _ in rows], object)}
    y = np.array([measured(*row) for row in rows] + [1.0] * len(HELD))
    return fit(model, PRIOR, x, y, tries=tries)


def columns(arguments: dict[str, Any]) -> dict[str, Any]:
    return eltwise_columns(
        arguments["op"], arguments["arch"], **{k: v for k, v in arguments.items() if k not in ("op", "arch")}
    )


def measured(arguments: dict[str, Any], cycles: float) -> float:
    return cycles / {"wormhole_b0": 1.0, "blackhole": 1.35}[arguments["arch"]]


def errors(flat: dict[str, float], rows: Rows) -> list[float]:
    weights = tree(flat)
    return [abs(eltwise(weights, columns(a)) / measured(a, y) - 1) * 100 for a, y in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with eltwise_perf.csv")
    folder = parser.parse_args().data
    tables = {(a, d): eltwise_rows(folder, a, d, steady=False) for a in ELTWISE_ARCHES for d in DTYPES}
    every = [row for rows in tables.values() for row in rows]
    steady = {key: eltwise_rows(folder, *key) for key in tables}
    flat = fitted(every, tries=1)
    names = sorted({a["op"].removesuffix("_") for a, _ in every})
    np.random.default_rng(0).shuffle(names)
    unseen: dict[tuple[str, str], list[float]] = {key: [] for key in tables}
    for fold in range(5):
        out = set(names[fold::5])
        seen = [row for row in every if row[0]["op"].removesuffix("_") not in out]
        found = fitted(seen, tries=0)
        for key, rows in steady.items():
            unseen[key] += errors(found, [row for row in rows if row[0]["op"].removesuffix("_") in out])
    scores = {
        f"{arch} {dtype}": {
            "rows": len(steady[arch, dtype]),
            "error_pct": float(np.mean(errors(flat, steady[arch, dtype]))),
            "cv_op_pct": float(np.mean(unseen[arch, dtype])),
            "backward_pct": float(np.mean(errors(flat, eltwise_rows(folder, arch, dtype, backward=True)))),
        }
        for arch, dtype in tables
    }
    for name, score in scores.items():
        print(name, {key: round(value, 2) for key, value in score.items()})
    source = "fits to tenstorrent/tt-eltwise-accuracy-report, runs 20260903 and 20260920 (Apache-2.0)"
    write_weights("eltwise", {"source": source, "date": date_of(), "tables": scores, "weights": tree(flat)})


if __name__ == "__main__":
    main()
