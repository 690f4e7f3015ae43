"""Fits the single-core formulas (graph_runtime/costs/formulas.py) to the sweeps of buda_op_perf.

    python tests/tools/fit_core.py --data DIR

Writes graph_runtime/costs/weights/core.json: for each architecture, op and format its formula, weights, the
fidelity it was fitted at, and errors: of the fit, by row and by blocking group on rows that the fit did not
see.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from fit_common import Columns, cross_validate, date_of, error, fit, write_weights

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from silicon_tables import Rows, core_tables

from graph_runtime.costs.buda import phases
from graph_runtime.costs.formulas import FORMULAS, PRODUCT
from graph_runtime.costs.opmodel import columns_of, key_of

STARTS: dict[str, dict[str, float]] = {
    "matmul": {
        "start": 30,
        "issue": 4,
        "k_tile": 10,
        "spill": 200,
        "spill_tile": 10,
        "reload": 20,
        "reload_tile": 20,
        "out": 100,
        "out_tile": 80,
        "strip_tile": 60,
        "input": 100,
    },
    "sparse": {
        "input": 100,
        "strip": 200,
        "tile": 15,
        "tile_column": 20,
        "product": 8,
        "reload_tile": 8,
        "pack_tile": 22,
    },
    "reduce_z": {
        "first": 100,
        "first_tile": 40,
        "step": 80,
        "step_tile": 300,
        "out": 200,
        "out_tile": 60,
        "wait": 130,
        "input": 50,
    },
    "reduce": {"input": 50, "ublock": 20, "column": 10, "tile": 60},
    "depthwise": {"input": 100, "product": 150},
}
FORMULA_OF = {
    "matmul": "matmul",
    "matmul_sparse": "sparse",
    "reduce_z": "reduce_z",
    "reduce": "reduce",
    "depthwise": "depthwise",
}
OVERLAP = 12.0  # output drain and input strips against compute


def columns(rows: Rows) -> tuple[Columns, np.ndarray]:
    """Blocking columns and measured cycles."""
    names = ("t", "mblock", "ublock", "m_k", "u_kt", "z", "nonzero")
    xs = [columns_of(**{k: a[k] for k in names if k in a}, phases=phases(a["fidelity"])) for a, _ in rows]
    return ({k: np.array([x[k] for x in xs], float) for k in xs[0]}, np.array([y for _, y in rows]))


def fixed(op: str, arch: str, key: str) -> dict[str, float]:
    """Weights that are known, not fitted: cycles of a tile product, of unpacking a 2048 B tile at 64 B a
    cycle."""
    if op != "matmul":
        return {}
    return {
        "product": PRODUCT[arch],
        "unpack": 32.0 if key.startswith("fp16") else 0.0,
        "l1_acc": float("l1_acc" in key),
        "overlap": OVERLAP,
    }


def fit_alone(arch: str, op: str, key: str, rows: Rows) -> dict[str, Any]:
    """An op whose weights are its own."""
    x, y = columns(rows)
    formula, known = FORMULAS[FORMULA_OF[op]], fixed(op, arch, key)

    def model(w: dict[str, float], x: Columns) -> np.ndarray:
        return formula({**known, **w}, x)

    weights = fit(model, STARTS[FORMULA_OF[op]], x, y)
    groups = [tuple(x[c][i] for c in ("rt", "ct", "uk", "z")) for i in range(len(y))]
    return record(
        FORMULA_OF[op],
        rows,
        {**known, **weights},
        error(model, weights, x, y),
        cross_validate(model, weights, x, y),
        cross_validate(model, weights, x, y, [hash(g) for g in groups]),
    )


def fit_streamed(members: dict[tuple[str, str], Rows]) -> dict[tuple[str, str], dict[str, Any]]:
    """Ops of one architecture, format and number of inputs together: the floor, which unpacking, packing and
    their handshakes make, is theirs in common; start and math are each op's own."""
    names = list(members)
    parts = [columns(members[n]) for n in names]
    x = {k: np.concatenate([p[0][k] for p in parts]) for k in parts[0][0]}
    x["op"] = np.concatenate([np.full(len(p[1]), i) for i, p in enumerate(parts)])
    y = np.concatenate([p[1] for p in parts])
    start: dict[str, float] = {"floor": 200, "floor_tile": 25}
    for i, (_, cycles) in enumerate(parts):
        tile = float((cycles / (x["mm"] * x["mn"] * x["rt"] * x["ct"])[x["op"] == i]).min())
        start |= {f"input{i}": 50, f"math{i}": 10, f"math_tile{i}": tile}

    def model(w: dict[str, float], x: Columns) -> np.ndarray:
        which = x["op"].astype(int)
        own = {
            n: np.array([w[f"{n}{i}"] for i in range(len(names))])[which]
            for n in ("input", "math", "math_tile")
        }
        return FORMULAS["streamed"]({"floor": w["floor"], "floor_tile": w["floor_tile"], **own}, x)

    weights = fit(model, start, x, y, tries=2)
    floor = {"floor": weights["floor"], "floor_tile": weights["floor_tile"]}
    return {
        name: _one_streamed(
            members[name], floor, {n: weights[f"{n}{i}"] for n in ("input", "math", "math_tile")}
        )
        for i, name in enumerate(names)
    }


def _one_streamed(rows: Rows, floor: dict[str, float], own: dict[str, float]) -> dict[str, Any]:
    """The op with the common floor, unless rows that no fit saw say clearly that it has one of its own."""
    x, y = columns(rows)
    groups = [hash((x["rt"][j], x["ct"][j])) for j in range(len(y))]
    formula = FORMULAS["streamed"]

    def common(w: dict[str, float], x: Columns) -> np.ndarray:
        return formula({**floor, **w}, x)

    by_row = cross_validate(common, own, x, y)
    alone = fit(formula, {**floor, **own}, x, y, tries=2)
    alone_by_row = cross_validate(formula, alone, x, y)
    if alone_by_row < min(0.75 * by_row, by_row - 0.3):
        return record(
            "streamed",
            rows,
            alone,
            error(formula, alone, x, y),
            alone_by_row,
            cross_validate(formula, alone, x, y, groups),
        )
    return record(
        "streamed",
        rows,
        {**floor, **own},
        error(common, own, x, y),
        by_row,
        cross_validate(common, own, x, y, groups),
    )


def record(
    formula: str, rows: Rows, weights: dict[str, float], fitted: float, by_row: float, by_group: float
) -> dict[str, Any]:
    return {
        "formula": formula,
        "fidelity": sorted({a["fidelity"] for a, _ in rows}),
        "rows": len(rows),
        "error_pct": fitted,
        "cv_row_pct": by_row,
        "cv_group_pct": by_group,
        "weights": {k: float(f"{v:.6g}") for k, v in weights.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    tables: dict[tuple[str, str, str], Rows] = defaultdict(list)
    for name, rows in core_tables(parser.parse_args().data):
        for arguments, cycles in rows:
            if name != "wormhole_b0_sine" or arguments["op"] == "sine":  # cosine has a file of its own
                tables[arguments["arch"], arguments["op"], key_of(**arguments)].append((arguments, cycles))
    fits: dict = {}
    together: dict[tuple, dict] = defaultdict(dict)
    for (arch, op, key), rows in tables.items():
        if op in FORMULA_OF:
            fits.setdefault(arch, {}).setdefault(op, {})[key] = fit_alone(arch, op, key, rows)
        else:
            together[arch, key.split("/")[0], len(rows[0][0]["formats"])][op, key] = rows
    for (arch, *_), members in together.items():
        for (op, key), found in fit_streamed(members).items():
            fits.setdefault(arch, {}).setdefault(op, {})[key] = found
    for arch, ops in fits.items():
        for op, keys in ops.items():
            for key, f in keys.items():
                print(
                    f"{arch:12} {op:16} {key:12} {f['rows']:4} rows  fit {f['error_pct']}  "
                    f"cv {f['cv_row_pct']}  by group {f['cv_group_pct']}"
                )
    write_weights(
        "core",
        {
            "source": "refit to tenstorrent/tt-budabackend@98e4252d (Apache-2.0), "
            "perf_lib/op_model/scripts/perf_data",
            "date": date_of(),
            "fits": fits,
        },
    )


if __name__ == "__main__":
    main()
