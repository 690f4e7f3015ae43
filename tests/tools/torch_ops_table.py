"""Where torch's own operations run on the device tt: a line for each entry of torch's database, and the sums.

python tests/tools/torch_ops_table.py [--kind forward|gradient|in_place|out] [--most 40] [NAME...]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "torch"))

import databases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="entries; without them all")
    parser.add_argument("--kind", choices=("forward", "gradient", "in_place", "out"), default="forward")
    parser.add_argument("--most", type=int, default=40, help="samples of an entry")
    given = parser.parse_args()
    where: Counter[str] = Counter()
    failed = 0
    for name in given.names or databases.INFOS:
        info = databases.INFOS[name]
        if not databases.has(info, given.kind):
            continue
        made = getattr(databases, given.kind)(info, databases.dtype_of(info), given.most)
        where[made.where] += 1
        failed += bool(made.failures)
        reasons = "; ".join(f"{op}: {why}" for op, why in list(made.host)[:2])
        print(f"{name:48} {made.where:8} {made.device:6} {'FAILED ' if made.failures else ''}{reasons[:120]}")
    print(f"{sum(where.values())} entries, {failed} with failures: {dict(where.most_common())}")


if __name__ == "__main__":
    main()
