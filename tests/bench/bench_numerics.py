"""How far fast numerics are from exact ones on tt:0, as JSON lines, or as the table of docs/numerics.md.

    python tests/bench/bench_numerics.py [--op 'conv*'] [--table]

A line: op, format, fidelity, dst ("" where none is named), kind of operands, and error, equal, disagree as
graph_runtime.testing_numerics.Distance has them. --table: one row for an op, format and way to compute, the
largest error of each kind.
"""
from __future__ import annotations

import argparse
import fnmatch
import json
from dataclasses import asdict

from graph_runtime.testing_numerics import CASES, KINDS, Distance, distance

FORMATS = ("bf16", "bfp8_b", "f32")
MODES = (("", ""), ("LoFi", "fp32"), ("HiFi2", "fp32"), ("HiFi3", "fp32"), ("HiFi4", "fp32"),
         ("LoFi", "bf16"), ("HiFi2", "bf16"), ("HiFi4", "bf16"))


def row(op: str, format: str, fidelity: str, dst: str, found: dict[str, Distance]) -> str:
    """A line of the table: the error, "=" where all results have equal bits."""
    cells = [f"{'=' if d.equal == 1.0 else f'{d.error:.1e}'}" for d in found.values()]
    return f"| {op} | {format} | {f'{fidelity} {dst}'.strip() or 'none named'} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--op", default="*", help="a glob over op names")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.table:
        print("| op | format | fidelity, Dst | " + " | ".join(KINDS) + " |")
        print("|---" * (3 + len(KINDS)) + "|")
    for op in (name for name in CASES if fnmatch.fnmatch(name, options.op)):
        for format in FORMATS:
            for fidelity, dst in MODES:
                found = {kind: distance(op, kind, format, fidelity, dst) for kind in KINDS}
                if options.table:
                    print(row(op, format, fidelity, dst, found), flush=True)
                    continue
                for kind, d in found.items():
                    print(json.dumps({"op": op, "format": format, "fidelity": fidelity, "dst": dst,
                                      "kind": kind, **asdict(d)}), flush=True)


if __name__ == "__main__":
    main()
