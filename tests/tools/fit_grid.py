"""Fits the whole-grid models (graph_runtime/costs/grid.py) to published ttnn measurements.

    python tests/tools/fit_grid.py --data DIR

Writes graph_runtime/costs/weights/grid.json.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
from fit_common import Columns, Model, cross_validate, date_of, error, fit, write_weights

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from silicon_tables import Rows, exp_rows, gemm_rows, sharded_matmul_rows

from graph_runtime.costs import grid
from graph_runtime.costs.formulas import PRODUCT


def stack(columns: list[dict[str, Any]]) -> Columns:
    return {
        k: np.array([c[k] for c in columns], bool if isinstance(columns[0][k], bool) else float)
        for k in columns[0]
    }


def entry(
    name: str, model: Model, start: dict[str, float], x: Columns, y: np.ndarray, groups: list[int], tries: int
) -> dict[str, Any]:
    weights = fit(model, start, x, y, tries=tries)
    found = {
        "rows": len(y),
        "error_pct": error(model, weights, x, y),
        "median_error_pct": float(np.median(np.abs(model(weights, x) / y - 1)) * 100),
        "cv_row_pct": cross_validate(model, weights, x, y),
        "cv_group_pct": cross_validate(model, weights, x, y, groups),
        "weights": weights,
    }
    print(
        f"{name:24} {len(y):6} rows  fit {found['error_pct']:6.2f}  median {found['median_error_pct']:6.2f}  "
        f"cv {found['cv_row_pct']:6.2f}  by shape {found['cv_group_pct']:6.2f}"
    )
    return found


def fit_gemm(arch: str, rows: Rows) -> dict[str, Any]:
    rows = [(a, y) for a, y in rows if a["arch"] == arch]
    x = stack([grid.gemm_columns(**{k: v for k, v in a.items() if k != "arch"}) for a, _ in rows])
    start = {
        "start": 4000,
        "issue": 4,
        "unpack": 55,
        "gap": 25,
        "multicast": 15,
        "strip": 20,
        "dram": 200,
        "out": 20,
    }
    return entry(
        f"gemm {arch}",
        lambda w, x: grid.gemm({**w, "product": PRODUCT[arch]}, x),
        start,
        x,
        np.array([y for _, y in rows]),
        [hash((a["m"], a["k"], a["n"])) for a, _ in rows],
        20,
    )


def fit_sharded(rows: Rows) -> dict[str, Any]:
    x = stack([grid.sharded_columns(**a) for a, _ in rows])
    start = {
        "start": 1000,
        "core": 8,
        "pass": 150,
        "multicast": 145,
        "product": 36,
        "subblock": 24,
        "pack": 8,
        "pack_subblock": 35,
        "strip": 3,
    }
    return entry(
        "sharded matmul",
        grid.sharded_matmul,
        start,
        x,
        np.array([y for _, y in rows]),
        [hash((a["k"], a["n"])) for a, _ in rows],
        2,
    )


def fit_unary(rows: Rows) -> dict[str, Any]:
    x = stack([grid.unary_columns(**a) for a, _ in rows])
    start = {"start_l1": 1700, "start_dram": 2000, "tile": 1820, "dram": 1.6, "l1": 2.1}
    return entry(
        "unary (exp)",
        grid.unary,
        start,
        x,
        np.array([y for _, y in rows]),
        [hash(a["shape"]) for a, _ in rows],
        2,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    gemms = gemm_rows(folder)
    write_weights(
        "grid",
        {
            "source": "fits to tenstorrent/tt-metal@06bd3735 tech_reports/GEMM_FLOPS and "
            "ttnn-op-runtime-predictor@d9150e56 (Apache-2.0)",
            "date": date_of(),
            "gemm": {arch: fit_gemm(arch, gemms) for arch in ("wormhole_b0", "blackhole")},
            "sharded_matmul": fit_sharded(sharded_matmul_rows(folder)),
            "unary": fit_unary(exp_rows(folder)),
        },
    )


if __name__ == "__main__":
    main()
