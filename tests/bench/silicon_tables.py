"""Readers of a folder laid out as the project's silicon data: each table's rows as arguments of
graph_runtime.costs and what was measured. bench_silicon.py and tests/tools/fit_*.py use them.

A row is (arguments, measured). Files that a folder lacks give no rows.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graph_runtime.costs import NonZero

Rows = list[tuple[dict[str, Any], float]]

FORMATS = {
    "Float16_b": "bf16",
    "Float16": "f16",
    "Float32": "f32",
    "Bfp8_b": "bfp8_b",
    "Bfp8": "bfp8_b",
    "Bfp2": "bfp2_b",
    "Bfp2_b": "bfp2_b",
    "Int8": "int8",
    "Int32": "int32",
    "UInt16": "uint16",
}
TTNN = {"BFLOAT16": "bf16", "BFLOAT8_B": "bfp8_b", "BFLOAT4_B": "bfp4_b"}
ARCHES = {"N150": "wormhole_b0", "P150": "blackhole"}
RESHARD_COLUMNS = 8  # pages in a row of the traces' tensors: all their grids divide it
INPUTS = 128  # that a total-runtime is of


def read(path: Path) -> list[dict[str, str]]:
    """Rows of a table by column name, blanks stripped. The first line names the source and is skipped; the
    second may begin with a #."""
    with path.open(encoding="utf-8", newline="") as file:
        next(file)
        return [{k.strip("# "): (v or "").strip() for k, v in row.items()} for row in csv.DictReader(file)]


# ---------------------------------------------------------------- single cores


def core_tables(folder: Path) -> Iterator[tuple[str, Rows]]:
    """(table, rows) of buda_op_perf: arguments of costs.op_cycles, cycles of one input."""
    for path in sorted((folder / "buda_op_perf").glob("*.csv")):
        name = re.sub(r"(-op)?-performance$", "", path.stem)
        yield name, [_core_row(name, row) for row in read(path)]


def _core_row(name: str, row: dict[str, str]) -> tuple[dict[str, Any], float]:
    arch = "grayskull" if name.startswith("grayskull") else "wormhole_b0"
    arguments = {
        "arch": arch,
        "fidelity": row["math_fidelity"],
        **_op(name.removeprefix(f"{arch}_"), row),
        **_blocking(row),
    }
    formats = [row.get(c) for c in ("input0_df", "input1_df", "output_df")]
    formats[0] = formats[0] or row["input0"]
    found = [FORMATS[f] for f in formats if f and f != "N/A"]
    if not formats[2]:  # the short files name no output; it has the inputs' format
        found.append(found[-1])
    total = row.get("total-runtime")
    return {**arguments, "formats": tuple(found)}, float(total) / INPUTS if total else float(row["runtime"])


def _op(name: str, row: dict[str, str]) -> dict[str, Any]:
    base = re.sub(r"-(bfp8|fp16|int8|int32)$", "", name)
    kind = {
        "whb0-reduce-c": {"op": "reduce", "dim": "c"},
        "whb0-reduce-r": {"op": "reduce", "dim": "r"},
        "whb0-splice": {"op": "splice"},
        "reduce-z": {"op": "reduce_z", "z": int(row.get("z") or 1)},
        "matmul-l1-acc": {"op": "matmul", "l1_acc": True},
        "sine": {"op": row.get("Unary-Type")},
    }.get(base)
    if base == "matmul-sparse":
        counts = NonZero(int(row["nz_tiles"]), int(row["nz_ublocks"]), int(row["nz_strips"]))
        kind = {"op": "matmul_sparse", "nonzero": counts}
    if kind is None:
        kind = {"op": base.removesuffix("-approx").replace("-", "_"), "approx": base.endswith("-approx")}
    return kind


def _blocking(row: dict[str, str]) -> dict[str, Any]:
    def first(*names: str) -> int:
        return next((int(row[n]) for n in names if row.get(n)), 1)

    return {
        "t": first("t", "output_t"),
        "mblock": (first("mblock_m", "output_mb_r"), first("mblock_n", "output_mb_c")),
        "ublock": (first("ublock_rt", "output_ub_r"), first("ublock_ct", "output_ub_c")),
        "m_k": first("m_k", "mblock_k"),
        "u_kt": first("u_kt", "ublock_kt"),
    }


# ---------------------------------------------------------------- whole grids


def gemm_rows(folder: Path) -> Rows:
    """Arguments of costs.gemm_cycles; device cycles = tile products * 16 * phases / (cores * utilisation)."""
    found = []
    for row in _optional(folder / "gemm_flops_n150_p150.csv"):
        m, k, n = (int(row[c]) for c in "mkn")
        columns, lines = map(int, row["grid"].split("x"))
        phases = {"LoFi": 1, "HiFi2": 2, "HiFi3": 3, "HiFi4": 4}[row["fidelity"]]
        cycles = m * k * n / 32**3 * 16 * phases / (columns * lines * float(row["device_util_pct"]) / 100)
        found.append(
            (
                {
                    "arch": ARCHES[row["board"]],
                    "m": m,
                    "k": k,
                    "n": n,
                    "format": TTNN[row["dtype"]],
                    "fidelity": row["fidelity"],
                    "grid": (lines, columns),
                    "sharded": row["in_out_sharded"] != "DRAM",
                    "tuned": row["config"] == "tuned",
                },
                cycles,
            )
        )
    return found


def sharded_matmul_rows(folder: Path) -> Rows:
    """Arguments of costs.sharded_matmul_cycles; cycles of the device kernel (ns at 1 GHz)."""
    return [
        (
            {
                "m": int(r["m_size"]),
                "k": int(r["k_size"]),
                "n": int(r["n_size"]),
                "cores": int(r["num_cores"]),
            },
            float(r["duration"]),
        )
        for r in _optional(folder / "ttnn_predictor_matmul_height_sharded.csv")
    ]


def exp_rows(folder: Path) -> Rows:
    """Arguments of costs.grid_unary_cycles; cycles of the device kernel (ns at 1 GHz)."""
    kinds = {
        "bfloat8": "bfp8_b",
        "bfloat16": "bf16",
        "float32": "f32",
        "uint16": "uint16",
        "uint32": "uint32",
    }
    found = []
    for row in _optional(folder / "ttnn_predictor_final_exp_dataset.csv"):
        shape = tuple(int(row[f"input_shape_{i}"]) for i in (1, 2, 3, 4))
        kind = next(kinds[k] for k in kinds if row[k] == "1")
        found.append(
            (
                {
                    "shape": tuple(d for d in shape if d),
                    "format": kind,
                    "memory": "dram" if row["input_DRAM"] == "1" else "l1",
                },
                float(row["kernel_duration"]),
            )
        )
    return found


# ---------------------------------------------------------------- transfers


def noc_rows(folder: Path) -> Rows:
    """Arguments of costs.noc_cycles and latency in cycles."""
    return [
        (
            {
                "arch": r["arch"],
                "direction": "read" if "read" in r["pattern"] else "write",
                "memory": "dram" if r["memory"].startswith("DRAM") else "l1",
                "same_axis": r["axis"] == "same",
                "transactions": int(r["num_transactions"]),
                "nbytes": int(r["transaction_bytes"]),
            },
            float(r["latency_cycles"]),
        )
        for r in _optional(folder / "noc_unicast_latency_cycles.csv")
    ]


def dram_rows(folder: Path) -> Rows:
    """Arguments of costs.dram_bandwidth and bytes per ns."""
    found = []
    for name, channels in (("wormhole_dram_bandwidth_1.csv", 1), ("wormhole_dram_bandwidth_2.csv", 12)):
        for row in _optional(folder / name):
            cores, how = next(v for k, v in row.items() if k.startswith("Tensix")).split(",")
            found.append(
                (
                    {
                        "channels": channels,
                        "cores": int(cores),
                        "placed": "carefully" in how,
                        "direction": "read" if "read" in row["Direction"] else "write",
                        "dynamic": row["VC Allocation"].startswith("Dynamic"),
                        "noc": int(row["NoC"][-1]),
                    },
                    float(row["Measured speed"].split()[0]),
                )
            )
    return found


def pcie_rows(folder: Path) -> Rows:
    """Arguments of costs.pcie_bandwidth and bytes per ns."""
    found = []
    for row in _optional(folder / "wormhole_pcie_bandwidth_1.csv"):
        found += [
            (
                {
                    "operation": row["Operation"],
                    "memory": memory,
                    "ordering": row["TLB Ordering"],
                    "where": "Tensix tile L1 (same row)",
                },
                _number(row["Measured Throughput"]),
            )
            for memory in row["Memory Type"].split(" or ")[:1]
        ]
    for row in _optional(folder / "wormhole_pcie_bandwidth_2.csv"):
        found.append(
            (
                {
                    "operation": row["Operation"],
                    "memory": "WC",
                    "ordering": "Posted writes",
                    "where": row["Device Memory Type"],
                },
                _number(row["Measured Throughput"]),
            )
        )
    return found


def reshard_rows(folder: Path) -> Rows:
    """Arguments of costs.reshard_cycles and cycles from the first to the last event over all cores."""
    found = []
    for row in _optional(folder / "npe_wormhole_reshard_traces.csv"):
        source, target = row["workload"].split("_TO_")
        shape = (int(row["read_transfers"]) // RESHARD_COLUMNS, RESHARD_COLUMNS)
        found.append(
            (
                {
                    "source": _shards(source),
                    "target": _shards(target),
                    "shape": shape,
                    "page_bytes": int(row["bytes_per_transfer"]),
                },
                float(row["span_all_cycles"]),
            )
        )
    return found


def _shards(text: str) -> tuple[str, tuple[int, int]] | None:
    """("block" or "height", grid rows and columns), None for interleaved DRAM."""
    if text == "DRAM":
        return None
    grid, kind = text.split("_")
    lines, columns = map(int, grid.split("x"))
    return kind.lower(), (lines, columns)


def _number(text: str) -> float:
    return float(re.search(r"[0-9.]+", text).group())


def _optional(path: Path) -> list[dict[str, str]]:
    return read(path) if path.exists() else []


# ---------------------------------------------------------------- elementwise ops of ttnn

ELTWISE_ARCHES = {"wh": "wormhole_b0", "bh": "blackhole"}
_ELTWISE_TILES, _STEADY = 4096 * 4096 // 1024, 5.0  # of every row; per cent of spread that its source trusts
_READS = {"unary": 1, "binary": 2, "ternary": 3, "bw": 2}


def eltwise_rows(
    folder: Path, arch: str, dtype: str, *, backward: bool = False, steady: bool = True
) -> list[tuple[dict[str, Any], float]]:
    """Arguments of costs.eltwise_cycles and the least time measured, in device cycles, of ``arch`` "wh" or
    "bh" and ``dtype`` "bf16" or "fp32". ``steady``: rows with a spread within 5 % alone. A table of whole
    microseconds, of another run, has no least time and is left out."""
    path = folder / "eltwise_perf.csv"
    found = []
    for row in read(path) if path.is_file() else ():
        fits = (row["arch"], row["dtype"], row["kind"] == "bw") == (arch, dtype, backward)
        if fits and row["min_us"] and (not steady or float(row["spread_pct"]) <= _STEADY):
            clock = {"wh": 1000, "bh": 1350}[arch]
            arguments = {
                "op": row["op"],
                "arch": ELTWISE_ARCHES[arch],
                "tiles": _ELTWISE_TILES,
                "inputs": _READS[row["kind"]],
                "format": {"bf16": "bf16", "fp32": "f32"}[dtype],
            }
            found.append((arguments, float(row["min_us"]) * clock))
    return found
