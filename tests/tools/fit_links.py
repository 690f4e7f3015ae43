"""Fits NoC, DRAM and PCIe models to their tables.

    python tests/tools/fit_links.py --data DIR

Writes graph_runtime/costs/weights/noc.json and links.json. What a turn of TT-Buda's host takes is what is
left of one published row when its simulated run is taken away (models.HOST_TURN): it changes with all other
weights.
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
import bench_models
import models
from silicon_tables import dram_rows, noc_rows, pcie_rows, read, reshard_rows

import graph_runtime as gr
from graph_runtime.costs import links, noc

PLACES = {
    "Tensix tile L1 (same row)": 0.0,
    "Tensix/Ethernet tile L1": 110.0,
    "DRAM tile (same row)": 90.0,
    "DRAM tile (same column)": 105.0,
    "DRAM tile": 200.0,
}  # ns more than the nearest, of all reads alike


def entry(model, weights: dict[str, float], x: Columns, y: np.ndarray) -> dict[str, Any]:
    return {
        "rows": len(y),
        "error_pct": error(model, weights, x, y),
        "cv_row_pct": cross_validate(model, weights, x, y),
        "weights": weights,
    }


def fit_unicast(folder: Path) -> dict[str, Any]:
    cases = defaultdict(list)
    for a, y in noc_rows(folder):
        axis = "same" if a["same_axis"] else "diff"
        cases[f"{a['arch']}/{a['direction']}/{a['memory']}/{axis}"].append(
            (a["transactions"], a["nbytes"], y)
        )
    found = {}
    for key, points in cases.items():
        n, b, y = np.array(points, float).T
        x = {"n": n, "b": b}
        weights = fit(noc.unicast, {"latency": 250, "gap": 20, "bandwidth": 28}, x, y, tries=4)
        found[key] = entry(noc.unicast, weights, x, y)
    return found


def fit_reshard(folder: Path) -> dict[str, Any]:
    found = {}
    for name in ("l1", "dram"):
        rows = [(a, y) for a, y in reshard_rows(folder) if (a["source"] is None) == (name == "dram")]
        nbytes = np.array([a["shape"][0] * a["shape"][1] * a["page_bytes"] for a, _ in rows])
        shares = np.array([noc.loads(a["source"], a["target"], a["shape"]) for a, _ in rows])
        x = {k: shares[:, i] * nbytes for i, k in enumerate(("link", "sent", "received"))}
        y = np.array([y for _, y in rows])
        start = {"start": 500, "link": 30, "sent": 28, "received": 20, "overlap": 4}
        found[name] = entry(noc.reshard, fit(noc.reshard, start, x, y), x, y)
    return found


def fit_dram(folder: Path) -> dict[str, Any]:
    rows = dram_rows(folder)
    x = {k: np.array([a[k] for a, _ in rows]) for k in rows[0][0]}
    y = np.array([y for _, y in rows])

    def model(w: dict[str, float], x: Columns) -> np.ndarray:
        return np.array(
            [
                links.dram({**w, "peak": 24.0}, dict(zip(x, row, strict=True)))
                for row in zip(*x.values(), strict=True)
            ]
        )

    start = {
        "read": 0.92,
        "write": 0.91,
        "read_far_noc0": 0.7,
        "read_far_noc1": 0.3,
        "write_far_noc0": 0.2,
        "write_far_noc1": 0.5,
        "dynamic_far": 1.2,
        "dynamic_shared": 0.33,
    }
    found = entry(model, fit(model, start, x, y, tries=2), x, y)
    found["weights"]["peak"] = 24.0
    return found


def fit_pcie(folder: Path) -> dict[str, Any]:
    """Windows and speeds are means of the rows that show them alone; round trips are the published
    latencies."""
    measured = {(a["operation"], a["memory"], a["ordering"], a["where"]): y for a, y in pcie_rows(folder)}
    near, tile = "Tensix tile L1 (same row)", [p for p in PLACES if p.startswith("DRAM")]
    trip = {"DMA": 1052.0, "_mm_stream_load_si128": 671.0, "memcpy": 671.0}

    def window(operation: str, base: float, memory: str = "WC") -> float:
        seen = [
            y * (base + PLACES[w])
            for (o, m, order, w), y in measured.items()
            if (o, m) == (operation, memory) and order != "Strict AXI"
        ]
        return float(np.mean(seen))

    def posted(operation: str, memory: str) -> dict[str, float]:
        return {o: measured[operation, memory, o, near] for o in ("Posted writes", "Default", "Strict AXI")}

    kinds = {
        "DMA": posted("DMA to device", "WC"),
        "WC": posted("memcpy to device", "WC"),
        "UC": posted("memcpy to device", "UC"),
    }
    read_dma = [
        (PLACES[w], y)
        for (o, _, order, w), y in measured.items()
        if o == "DMA from device" and order == "Posted writes"
    ]
    # speed = window / (round trip + farther): 1 / speed is a line over the distance
    slope, level = np.polyfit([d for d, _ in read_dma], [1 / y for _, y in read_dma], 1)
    far = [measured["DMA to device", "WC", "Posted writes", w] for w in tile]
    far += [measured["memcpy to device", "WC", "Posted writes", w] for w in tile]
    weights = {
        "posted": {k: v["Posted writes"] for k, v in kinds.items()},
        "ordering": {k: {o: v[o] / v["Posted writes"] for o in v} for k, v in kinds.items()},
        "dram_channel": float(np.mean(far)),
        "farther": PLACES,
        "window": {
            "DMA": 1 / slope,
            "_mm_stream_load_si128": window("_mm_stream_load_si128 from device", 671.0),
            "memcpy": window("memcpy from device", 671.0),
            "UC": window("_mm_stream_load_si128 from device", 671.0, "UC"),
        },
        "round_trip": {**trip, "DMA": level / slope},
        "strict_read": measured["DMA from device", "WC", "Strict AXI", near]
        / measured["DMA from device", "WC", "Posted writes", near],
    }
    errors = [links.pcie(weights, a) / y - 1 for a, y in pcie_rows(folder)]
    return {
        "rows": len(errors),
        "error_pct": float(np.abs(errors).mean() * 100),
        "latency_ns": {"DMA to device": 1342.0, "DMA from device": 1252.0},
        "weights": weights,
    }


def add_dram_writes(cases: dict[str, Any], ideal: dict[str, dict[str, str]]) -> None:
    """Writes to DRAM were measured at one size only: their speed, with the start of writes to L1."""
    for arch in ("wormhole_b0", "blackhole"):
        weights = cases[f"{arch}/write/l1/diff"]["weights"] | {"bandwidth": float(ideal["DRAM Write"][arch])}
        cases[f"{arch}/write/dram/diff"] = {"rows": 1, "basis": "extrapolated", "weights": weights}


def multicast(ideal: dict[str, dict[str, str]]) -> dict[str, dict[str, float]]:
    names = {"single": "One To All Multicast", "linked": "One To All Multicast Linked"}
    arches = ("wormhole_b0", "blackhole")
    return {arch: {k: float(ideal[row][arch]) for k, row in names.items()} for arch in arches}


def ethernet(folder: Path) -> dict[str, dict[str, Any]]:
    rates = {
        (r["pattern"], r["packet_bytes"]): float(r["bytes_per_cycle"])
        for r in read(folder / "fabric_edm_bandwidth_wormhole.csv")
    }
    gbps = {r["param"]: r for r in read(folder / "npe_device_params.csv")}["eth_GBps_per_link_per_dir"]
    measured = rates["unicast_Linear", "4096"]
    share = measured / float(gbps["wormhole_b0"])
    return {
        "wormhole_b0": {"bytes_per_ns": measured, "hop_cycles": 600.0, "basis": "measured"},
        "blackhole": {
            "bytes_per_ns": float(gbps["blackhole"]) * share,
            "hop_cycles": 600.0,
            "basis": "assumed",
        },
    }


def host_turn(folder: Path) -> dict[str, Any]:
    row = next(row for row in models.rows(folder) if row.calibrates)
    made, _ = bench_models.planned(gr.load_graph(row.make()()), row.device, *row.settings[:2])
    run = gr.simulate(made, runs=bench_models.RUNS, inputs=["image"])
    left = row.batch * 1e9 / row.published - 1e9 / run.throughput
    return {
        "ns": float(round(left, -5)),
        "basis": "fitted",
        "ground": f"{row.model}'s tokens on an n150, tt-buda-benchmarks README.md@ed27af86, "
        "less their arithmetic",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    ideal = {r["primitive"]: r for r in read(folder / "noc_ideal_bytes_per_cycle.csv")}
    unicasts, reshards, drams, pcies = (f(folder) for f in (fit_unicast, fit_reshard, fit_dram, fit_pcie))
    traced = {f"reshard {k}": v for k, v in reshards.items()}
    for name, found in {**unicasts, **traced, "dram": drams}.items():
        errors = f"fit {found['error_pct']:6.2f}  cv {found['cv_row_pct']:6.2f}"
        print(f"{name:32} {found['rows']:4} rows  {errors}")
    print(f"{'pcie':32} {pcies['rows']:4} rows  fit {pcies['error_pct']:6.2f}")
    add_dram_writes(unicasts, ideal)
    write_weights(
        "noc",
        {
            "source": "fits to tenstorrent/tt-metal@1fc9110 noc_estimator, tt-npe@10216031 traces "
            "(Apache-2.0)",
            "date": date_of(),
            "unicast": unicasts,
            "multicast": multicast(ideal),
            "reshard": reshards,
        },
    )
    write_weights(
        "links",
        {
            "source": "fits to tenstorrent/tt-isa-documentation@39304719 DRAMTile and PCIExpressTile; "
            "tt-metal's fabric report (Apache-2.0)",
            "date": date_of(),
            "dram": drams,
            "pcie": pcies,
            "ethernet": ethernet(folder),
            "host_turn": {"buda": host_turn(folder)},
        },
    )


if __name__ == "__main__":
    main()
