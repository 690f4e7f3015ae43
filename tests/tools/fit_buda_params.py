"""Collects Buda's published op model weights into graph_runtime/costs/weights/buda.json.

    python tests/tools/fit_buda_params.py --data DIR

DIR has buda_op_model_params.csv and buda_sparse_matmul_v2_params.csv. Nothing is fitted here: the newest
version of each architecture is taken as published.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fit_common import date_of, write_weights

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from silicon_tables import read

NEWEST = {"grayskull": "2", "wormhole_b0": "3", "blackhole": "1"}


def params(folder: Path) -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """arch -> op -> attribute key -> weight name -> cycles."""
    found: dict = {}
    for row in read(folder / "buda_op_model_params.csv"):
        if NEWEST[row["arch"]] == row["version"]:
            op = found.setdefault(row["arch"], {}).setdefault(row["op"], {})
            op.setdefault(row["attr_key"], {})[row["param"]] = float(row["value"])
    return found


def sparse(folder: Path) -> dict[str, dict[str, list[float]]]:
    """fidelity -> "u_rt,u_ct,u_kt" -> cycles of [math with decode, reload, pack] per tile."""
    found: dict = {}
    for row in read(folder / "buda_sparse_matmul_v2_params.csv"):
        key = f"{row['ublock_rt']},{row['ublock_ct']},{row['u_kt']}"
        names = ("math_with_decode_per_tile", "reload_per_tile", "pack_per_tile")
        found.setdefault(row["fidelity"], {})[key] = [float(row[n]) for n in names]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    folder = parser.parse_args().data
    write_weights(
        "buda",
        {
            "source": "tenstorrent/tt-budabackend@98e4252d (Apache-2.0): perf_lib/op_model/params",
            "date": date_of(),
            "versions": NEWEST,
            "params": params(folder),
            "sparse": sparse(folder),
        },
    )


if __name__ == "__main__":
    main()
