"""Write the tables of docs/ttnn.md: each function of ttnn, what serves it or why it is declined, and what it
accepts.

python tests/tools/ttnn_functions.py            writes the table into the page
python tests/tools/ttnn_functions.py --check    exits with 1 if the page is out of date
"""

from __future__ import annotations

import sys
from pathlib import Path

from graph_runtime.compat import ttnn
from graph_runtime.ttnn.accepted.rules import ACCEPTED

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

ACCEPTS = """## What functions accept

The rules of ttnn 0.81.1 that are checked before a function runs, in its own words for types, layouts and
memories; `python -m graph_runtime.ttnn --accepts topk` and `ttnn.ttnn_accepts("topk")` print a function's,
with the file of tt-metal that has them. A call outside of them is a RuntimeError with that check's meaning.
A function that is not here checks its arguments as it runs.

| functions | accept |
|---|---|
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


def accepted() -> list[str]:
    """A row for each set of functions that accept the same."""
    alike: dict[str, list[str]] = {}
    for name, row in sorted(ACCEPTED.items()):
        alike.setdefault("; ".join(rule.says for rule in row.rules), []).append(f"`{name}`")
    return [f"| {' '.join(names)} | {said} |" for said, names in alike.items()]


def page() -> str:
    text = PAGE.read_text()
    before = text[: text.index(START)]
    return before + START + HEAD + "\n".join(rows()) + "\n\n" + ACCEPTS + "\n".join(accepted()) + "\n"


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
