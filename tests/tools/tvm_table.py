"""Writes the table of snippets into docs/tvm.md, from tests/compat/snippets.py.

python tests/tools/tvm_table.py [--check]
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "compat"))
from snippets import SNIPPETS, STATES  # noqa: E402  # its folder is added first

PAGE = ROOT / "docs" / "tvm.md"
BEGIN, END = "<!-- snippets -->\n", "<!-- end of snippets -->\n"


def table() -> str:
    """The text between the marks."""
    counts = Counter((one.group, one.state) for one in SNIPPETS)
    groups = list(dict.fromkeys(one.group for one in SNIPPETS))
    lines = [
        "| lines of scripts about | work | name what needs TVM's compiler or another machine | differ |",
        "|---|---|---|---|",
    ]
    for group in groups:
        lines.append(
            f"| {group} | " + " | ".join(str(counts[group, state] or "-") for state in STATES) + " |"
        )
    totals = Counter(one.state for one in SNIPPETS)
    lines.append("| all | " + " | ".join(str(totals[state]) for state in STATES) + " |")
    lines += ["", "| differs | why |", "|---|---|"]
    lines += [f"| `{one.code}` | {one.why} |" for one in SNIPPETS if one.state == "differs"]
    return "\n".join(lines) + "\n"


def page() -> str:
    """The text of docs/tvm.md."""
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return f"{head}{BEGIN}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
