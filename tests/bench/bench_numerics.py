"""How far fast numerics are from exact ones on tt:0, as JSON lines, or as the table of docs/numerics.md.

    python tests/bench/bench_numerics.py [--op 'conv*'] [--table]

A line: op, format, fidelity, dst ("" where none is named), kind of operands, and error, equal, disagree as
graph_runtime.testing.operands.Distance has them. --table: one row for an op, format and Dst mode, the
largest error over the fidelities for each kind of operands.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
from dataclasses import asdict

from graph_runtime.testing.operands import CASES, KINDS, Distance, distance

FORMATS = ("bf16", "bfp8_b", "bfp4_b", "f32")
FIDELITIES = ("LoFi", "HiFi2", "HiFi3", "HiFi4")
WAYS = {
    "none named": [("", "")],
    "fp32": [(f, "fp32") for f in FIDELITIES],
    "bf16": [(f, "bf16") for f in FIDELITIES],
}


def cell(found: list[Distance]) -> str:
    """The largest error, "=" where all results have equal bits."""
    return "=" if all(d.equal == 1.0 for d in found) else f"{max(d.error for d in found):.1e}"


def measured(op: str, format: str, way: str, table: bool) -> None:
    """Prints the lines, or the row, of an op, a format and a Dst mode."""
    found: dict[str, list[Distance]] = {kind: [] for kind in KINDS}
    for fidelity, dst in WAYS[way]:
        for kind in KINDS:
            found[kind].append(distance(op, kind, format, fidelity, dst))
            if not table:
                print(
                    json.dumps(
                        {
                            "op": op,
                            "format": format,
                            "fidelity": fidelity,
                            "dst": dst,
                            "kind": kind,
                            **asdict(found[kind][-1]),
                        }
                    ),
                    flush=True,
                )
    if table:
        print(f"| {op} | {format} | {way} | " + " | ".join(map(cell, found.values())) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--op", default="*", help="a glob over op names")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print("| op | format | Dst | " + " | ".join(KINDS) + " |")
        print("|---" * (3 + len(KINDS)) + "|")
    for op in (name for name in CASES if fnmatch.fnmatch(name, options.op)):
        for format in FORMATS:
            for way in WAYS:
                measured(op, format, way, options.table)


if __name__ == "__main__":
    main()
