"""Write the table of docs/ttnn.md: each function of ttnn, and what serves it or why it is declined.

python tests/tools/ttnn_functions.py            writes the table into the page
python tests/tools/ttnn_functions.py --check    exits with 1 if the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from graph_runtime.compat import ttnn

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "ttnn.md"
NAMES = ROOT / "tests" / "ir" / "ttnn_functions.txt"
START = "## Functions\n"
HEAD = """
Made by `python tests/tools/ttnn_functions.py`; do not edit. Served: the ops of [ops.md](ops.md) that compute
it ("-": it moves or makes values). What is declined raises `ttnn.Unsupported` when it is called, so that a
module which mentions it loads.

| function | state | by, or why not |
|---|---|---|
"""


def rows() -> list[str]:
    made = []
    for name, operation in sorted(ttnn.OPERATIONS.items()):
        if not operation.reason and not operation.same_as:
            made.append(f"| `{name}` | served | {operation.served or '-'} |")
    made.append("| `experimental.quasar.NAME` | as NAME | the operation NAME, or `experimental.NAME` |")
    reasons: dict[str, list[str]] = {}
    for name, operation in sorted(ttnn.OPERATIONS.items()):
        if operation.reason and not operation.same_as and not name.endswith("_bw"):
            reasons.setdefault(operation.reason, []).append(f"`{name}`")
    return made + [f"| {' '.join(names)} | declined | {why} |" for why, names in sorted(reasons.items())]


def page() -> str:
    text = PAGE.read_text()
    before = text[: text.index(START)]
    return before + START + HEAD + "\n".join(rows()) + "\n"


def main() -> int:
    wanted = page()
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != wanted:
            print("docs/ttnn.md is out of date: run python tests/tools/ttnn_functions.py")
            return 1
        return 0
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
