"""Write the table of systems into README.md and docs/comparison.md, between its two markers.

python tests/tools/systems_table.py            writes both files
python tests/tools/systems_table.py --check    exits with 1 if one is out of date
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "README.md", ROOT / "docs" / "comparison.md"
SYSTEMS = ("graph-runtime", "TVM", "ONNX Runtime 1.32", "ttsim 1.10", "IREE 3.13")
ROWS = {
    "TVM's `graph.json`, `.so`, `.params`": ("runs", "up to 0.19", "no", "no", "no"),
    "ONNX files": ("runs", "compiles", "runs", "no", "compiles"),
    "PyTorch": ("device, `compile`, training", "compiles", "exported models", "through ttnn", "`compile`"),
    "`import ttnn` without a card": ("values, L1, refusals", "no", "no", "runs the card's firmware", "no"),
    "device of each node": (
        "chosen by time, with its reason",
        "annotated",
        "first provider",
        "-",
        "annotated",
    ),
    "time on a board that is not here": ("predicted", "no", "no", "no", "no"),
    "GPUs, NPUs, real cards": ("no", "yes", "yes", "no", "yes"),
    "deployment without Python": ("no", "C++", "C, C++ and others", "C++", "C"),
}
_BETWEEN = re.compile(r"(<!-- systems -->\n).*?(<!-- end -->)", re.S)


def table() -> str:
    """Markdown table of ROWS."""
    lines = [("", *SYSTEMS), ("---",) * (len(SYSTEMS) + 1), *((what, *said) for what, said in ROWS.items())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def main() -> None:
    """Write the files, or check them."""
    stale = False
    for file in FILES:
        old = file.read_text(encoding="utf-8")
        new, count = _BETWEEN.subn(lambda found: found[1] + table() + found[2], old)
        if count != 1:
            sys.exit(f"{file.name} has {count} places for the table of systems, not one")
        stale |= new != old
        if "--check" not in sys.argv:
            file.write_text(new, encoding="utf-8")
    if stale and "--check" in sys.argv:
        sys.exit("the table of systems is out of date: run python tests/tools/systems_table.py")


if __name__ == "__main__":
    main()
